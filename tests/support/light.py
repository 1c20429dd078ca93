"""The light stand-in as options: `light(folder)` makes the program, and returns a function that gives options for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hackamore import Options
from tests.support import light_cli
from tests.support.programs import program

__all__ = ["Light", "light", "resident"]

Light = Callable[..., Options]


def light(folder: Path) -> Light:
    """Return a function of steps for the time before `initialize` is answered, and of options."""
    path = program(folder / "light-claude", light_cli)

    def options(*steps: list[Any], name: str = "light", **more: Any) -> Options:
        environment = {"LIGHT_START": json.dumps(steps), "LIGHT_NAME": name, **more.pop("env", {})}
        return Options(**{"cli_path": str(path), "env": environment, "version_check": "skip", **more})

    return options


def resident() -> int:
    """How many bytes of memory this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
