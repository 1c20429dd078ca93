"""Typed messages: one frozen class for each frame that the CLI writes, and for each block of content.

Every message keeps the exact bytes it came from in `raw`, and everything it says, known or not, in `data`.
"""

from __future__ import annotations

from bridle.messages import base, content, control, conversation, stream, system
from bridle.messages.base import *
from bridle.messages.content import *
from bridle.messages.control import *
from bridle.messages.conversation import *
from bridle.messages.decode import CONTROL_TYPES, MESSAGE_TYPES, decode, from_data
from bridle.messages.stream import *
from bridle.messages.system import *

__all__ = ["CONTROL_TYPES", "MESSAGE_TYPES", "decode", "from_data"]
__all__ += base.__all__
__all__ += content.__all__
__all__ += control.__all__
__all__ += conversation.__all__
__all__ += stream.__all__
__all__ += system.__all__
