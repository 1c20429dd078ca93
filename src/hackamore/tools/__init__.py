"""In-process tools: Python functions that the model can call.

::

    from hackamore.tools import tool, tool_server

    @tool(read_only=True)
    async def price(article: str, amount: int = 1) -> float:
        "Return the price of an article in euros."
        return PRICES[article] * amount

    shop = tool_server("shop", [price])

The schema comes from the signature, arguments are checked and converted before the function is called, and what it returns becomes
a result. No package is needed for it. This package is pure: it says what to call and how to answer; running is for the shells.
"""

from __future__ import annotations

from hackamore.tools import arguments, content, declared, server
from hackamore.tools.arguments import *
from hackamore.tools.content import *
from hackamore.tools.declared import *
from hackamore.tools.server import *

__all__ = []
__all__ += arguments.__all__
__all__ += content.__all__
__all__ += declared.__all__
__all__ += server.__all__
