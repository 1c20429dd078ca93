"""Names of `claude-agent-sdk` that `hackamore` does not have: their names here, of official.toml. Loaded when one is imported."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = "docs/guides/migrate.md"

_ROOMS = ("messages", "hooks", "permissions", "dialogs", "transports.base", "messages.results", "options.kinds")


@cache
def official() -> dict[str, Any]:
    """Return the tables of official.toml."""
    return tomllib.loads(Path(__file__).with_name("official.toml").read_text(encoding="utf-8"))


def advice(name: str) -> str:
    """Return where Hackamore has the name, or its counterpart; "" if it is not a name of the official package."""
    known = official()
    if (here := known["advice"].get(name)) is not None:
        return f"{here} See {PAGE}."
    plain = name in known["plain"].split()
    for room in _ROOMS:
        module = import_module(f"hackamore.{room}")
        if name in getattr(module, "__all__", ()) or (plain and hasattr(module, name)):
            return f"Write `from hackamore.{room} import {name}`. See {PAGE}."
    for ending, text in known["endings"].items():
        if name.endswith(ending):
            return f"{text} See {PAGE}."
    if plain:
        return (
            f"Hackamore has no class of this name: the value is a str, an object or a field of its message. See {PAGE}."
        )
    return ""
