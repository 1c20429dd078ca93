"""From options to a `LaunchPlan`: arguments, environment, the CLI's place and version.

Starts nothing and waits for nothing.
"""

from __future__ import annotations

from bridle.launch import discovery, plan, versions
from bridle.launch.discovery import *
from bridle.launch.plan import *
from bridle.launch.versions import *

__all__ = []
__all__ += discovery.__all__
__all__ += plan.__all__
__all__ += versions.__all__
