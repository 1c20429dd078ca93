"""Typed messages: one frozen class for each frame that the CLI writes, and for each block of content.

Every message keeps the exact bytes it came from in `raw`, and everything it says, known or not, in `data`.
"""

from __future__ import annotations

from hackamore.messages import base, content, control, conversation, stream, system
from hackamore.messages.base import *
from hackamore.messages.content import *
from hackamore.messages.control import *
from hackamore.messages.conversation import *
from hackamore.messages.decode import CONTROL_TYPES, MESSAGE_TYPES, decode, from_data
from hackamore.messages.stream import *
from hackamore.messages.system import *

__all__ = ["CONTROL_TYPES", "MESSAGE_TYPES", "decode", "from_data"]
__all__ += base.__all__
__all__ += content.__all__
__all__ += control.__all__
__all__ += conversation.__all__
__all__ += stream.__all__
__all__ += system.__all__
