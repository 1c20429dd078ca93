"""From options to a `LaunchPlan`: arguments, environment, the CLI's place and version.

Starts nothing and waits for nothing.
"""

from __future__ import annotations

from bridle.launch.discovery import Found, find_cli
from bridle.launch.plan import LaunchPlan, build_plan, in_process_servers, needs_session
from bridle.launch.versions import (
    MINIMUM_ONE_SHOT,
    MINIMUM_SESSION,
    VersionCache,
    VersionFailure,
    check,
    parse_version,
)

__all__ = [
    "MINIMUM_ONE_SHOT",
    "MINIMUM_SESSION",
    "Found",
    "LaunchPlan",
    "VersionCache",
    "VersionFailure",
    "build_plan",
    "check",
    "find_cli",
    "in_process_servers",
    "needs_session",
    "parse_version",
]
