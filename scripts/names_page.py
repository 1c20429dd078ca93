"""Bring the tables of `docs/reference/names.md` up to date with the public names (`--write`), or fail if they are not."""

from __future__ import annotations

import sys
from types import ModuleType

import generated_parts

import hackamore
import hackamore.testing
from hackamore.checked.fields import Checked
from hackamore.errors import Diagnostic, HackamoreError, StreamWarning

ALIASES = {
    "ContentBlock": "Any content block: one of the known classes, or `UnknownBlock`.",
    "MINIMUM_ONE_SHOT": "The lowest version of the CLI for one-shot queries.",
    "MINIMUM_SESSION": "The lowest version of the CLI for sessions.",
    "Prompt": "One prompt: a text, or a list of content blocks.",
    "__version__": "The version of Hackamore.",
}
TESTING_ALIASES = {
    "Block": "A content block of a reply: one of the classes, a string (text), or a dict in the API's own form.",
    "RequestKind": "The sender of a request: the main loop, a subagent, a compaction, a helper of the CLI, a token count, other.",
    "Step": "One step of the script of a `ScriptedModel`.",
}
GROUPS = (
    "asking",
    "sessions",
    "hooks",
    "permissions",
    "tools",
    "configuration",
    "messages",
    "errors",
    "testing",
    "modules",
)
MESSAGES = frozenset({"ContentBlock", "RateLimitEvent", "StreamEvent"})
PACKAGES = {
    "hackamore.activity": "configuration",
    "hackamore.aio.session": "sessions",
    "hackamore.approvals": "permissions",
    "hackamore.budgets": "configuration",
    "hackamore.dialogs": "permissions",
    "hackamore.hooks": "hooks",
    "hackamore.permissions": "permissions",
    "hackamore.policy": "configuration",
    "hackamore._engine.protocol.states.session": "sessions",
    "hackamore._engine.session.events": "sessions",
    "hackamore.serving": "tools",
    "hackamore.tools": "tools",
}


def group(name: str, value: object) -> str:
    """Return the table that a name belongs to."""
    if isinstance(value, ModuleType) or name == "__version__":
        return "modules"
    for package, table in PACKAGES.items():
        if f"{hackamore.PLACES.get(name, '')}.".startswith(f"{package}."):
            return table
    if isinstance(value, type) and issubclass(value, HackamoreError | StreamWarning | Diagnostic):
        return "errors"
    if isinstance(value, type) and issubclass(value, Checked):
        return "configuration"
    if name in MESSAGES or name.endswith(("Message", "Block")):
        return "messages"
    return "asking"


def tables() -> dict[str, list[str]]:
    """Return the tables, by group."""
    found = {name: [f"| {'module' if name == 'modules' else 'name'} | meaning |", "|---|---|"] for name in GROUPS}
    for name in sorted(hackamore.__all__, key=str.lower):
        value = getattr(hackamore, name)
        meaning = ALIASES.get(name) or (value.__doc__ or "").partition("\n")[0]
        found[group(name, value)].append(f"| `{'' if name == '__version__' else 'hackamore.'}{name}` | {meaning} |")
    for name in sorted(hackamore.testing.__all__, key=str.lower):
        meaning = TESTING_ALIASES.get(name) or (getattr(hackamore.testing, name).__doc__ or "").partition("\n")[0]
        found["testing"].append(f"| `hackamore.testing.{name}` | {meaning} |")
    return found


if __name__ == "__main__":
    sys.exit(generated_parts.main("reference/names.md", tables()))
