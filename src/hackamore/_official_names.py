"""Names of `claude-agent-sdk` that `hackamore` does not have: their names here, from the file beside this. Loaded when one is imported."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

PAGE = "docs/guides/migrate.md"

_ROOMS = ("messages", "hooks", "permissions", "dialogs", "transports.base", "messages.results", "options.kinds")


def advice(name: str) -> str:
    """Return where Hackamore has the name, or its counterpart; "" if it is not a name of the official package."""
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    endings = known["endings"]
    if (text := known["here"].get(name, "")) == "":
        for room in _ROOMS:
            module = import_module(f"hackamore.{room}")
            if name in getattr(module, "__all__", ()) or (name in known["plain"] and hasattr(module, name)):
                return f"Write `from hackamore.{room} import {name}`. See {PAGE}."
        text = next((endings[ending] for ending in endings if name.endswith(ending)), "")
    if not text and name in known["plain"]:
        text = "Hackamore has no class of this name: the value is a str, an object or a field of its message."
    return text and f"{text} See {PAGE}."
