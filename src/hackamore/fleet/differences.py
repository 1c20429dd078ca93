"""The difference between a task and what the journal has under its id, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.checked.fields import brief

if TYPE_CHECKING:
    from hackamore.fleet.task import Spec

_SHOWN = 3


def difference(before: Spec, now: Spec) -> str:
    """Return what differs between the task in the journal and the task of the caller, in words; empty if nothing does."""
    left, right = (_flat(msgspec.to_builtins(each)) for each in (before, now))
    # The policy after a failed attempt is not part of the task, and tags are for finding it.
    names = [
        name
        for name in {**left, **right}
        if left.get(name) != right.get(name) and name.split(".")[0] not in ("resume", "tags")
    ]
    shown = [
        f"`{name}` was {brief(left.get(name), 80)}, and is {brief(right.get(name), 80)}" for name in names[:_SHOWN]
    ]
    more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "; ".join(shown) + more


def _flat(spec: dict[str, Any]) -> dict[str, Any]:
    options = spec.pop("options", {})
    return {**spec, **{f"options.{name}": value for name, value in options.items()}}
