"""From options to a `LaunchPlan`: arguments, environment, the CLI's place and version.

Starts nothing and waits for nothing.
"""

from __future__ import annotations

from hackamore._engine.launch import discovery, plan, versions
from hackamore._engine.launch.discovery import *
from hackamore._engine.launch.plan import *
from hackamore._engine.launch.versions import *

__all__ = []
__all__ += discovery.__all__
__all__ += plan.__all__
__all__ += versions.__all__
