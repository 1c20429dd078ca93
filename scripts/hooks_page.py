"""Bring the tables of `docs/reference/hooks.md` up to date with the classes (`--write`), or fail if they are not."""

from __future__ import annotations

import sys

import generated_parts
import msgspec

from hackamore.hooks import HOOK_EVENTS, HookInput
from hackamore.hooks.outputs import SPECIFIC_FIELDS

_SHARED = {field.name for field in msgspec.structs.fields(HookInput)}
_NAMES = {"suggestions_raw": "permission_suggestions"}


def own_fields(kind: type[HookInput]) -> str:
    """Return the fields that only this event has."""
    own = [field.name for field in msgspec.structs.fields(kind) if field.name not in _SHARED]
    return ", ".join(f"`{_NAMES.get(name, name.removesuffix('_raw'))}`" for name in own) or "-"


def event_rows() -> list[str]:
    """Return one row for each event."""
    rows = ["| event | when | fields of its input | fields of `HookOutput` |", "|---|---|---|---|"]
    for event, kind in sorted(HOOK_EVENTS.items()):
        when = (kind.__doc__ or "").partition("\n")[0]
        answer = ", ".join(f"`{name}`" for name in SPECIFIC_FIELDS.get(event, {})) or "-"
        rows.append(f"| `{event}` | {when} | {own_fields(kind)} | {answer} |")
    return rows


if __name__ == "__main__":
    sys.exit(generated_parts.main("reference/hooks.md", {"events": event_rows()}))
