"""What users of the official clients do: a script for each feature, played by the simulated CLI and by the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hackamore.testing import Script

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS = ("python", "typescript")
SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'


@dataclass(frozen=True)
class Feature:
    """Something that a program uses.

    Attributes:
        name: the name of the function in `programs/`.
        title: for people.
        write: returns the script.
        shell: what a shell script with `claude -p` sees; see `test_shell.py`.
        wire: further paths of frames with other values, with reasons.
        lacks: further paths, or kinds of frames, that only the real CLI has, with reasons.
    """

    name: str
    title: str
    write: Callable[[], Script]
    shell: str = "no callbacks"
    wire: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, str] = field(default_factory=dict)


def _tools() -> Script:
    return (
        Script()
        .user("go")
        .calls("mcp__shop__price", {"article": "tea"})
        .calls("mcp__shop__price", {"article": "gold"})
        .calls("mcp__shop__broken", {})
        .says("2.5")
    )


def _permissions() -> Script:
    return (
        Script()
        .user("go")
        .calls("Bash", {"command": "touch one"})
        .calls("Bash", {"command": "touch two"})
        .calls("Bash", {"command": "touch three"})
        .says("Done.")
    )


def _hooks() -> Script:
    return (
        Script()
        .user("go")
        .calls("Bash", {"command": "touch made"})
        .calls("Bash", {"command": "exit 3"}, error="Exit code 3")
        .subagent("look", "Seen.")
        .says("Done.")
        .user("more")
        .says("More.")
    )


FEATURES = (
    Feature(
        "query",
        "query",
        lambda: Script().user("go").thinks("hm").says("Four."),
        shell="same",
    ),
    Feature(
        "session",
        "session",
        lambda: Script().user("one").says("One.").user("two").says("Two."),
        shell="same",
    ),
    Feature("hooks", "hooks (33)", _hooks),
    Feature(
        "misnamed",
        "a hook whose output names another event",
        lambda: Script().user("go").calls("Bash", {"command": "touch made"}).says("Done."),
    ),
    Feature("permissions", "permissions", _permissions),
    Feature("tools", "in-process tools", _tools),
    Feature(
        "partial",
        "partial messages",
        lambda: Script().user("go").thinks("hm").says("Four and more.", chunk=4),
        shell="same",
    ),
    Feature(
        "structured",
        "structured output",
        lambda: Script().user("go").calls("StructuredOutput", {"n": 4}),
        shell="same",
    ),
    Feature(
        "interrupt", "interrupt", lambda: Script().user("go").interrupted(after="I begin").user("again").says("Again.")
    ),
    Feature("control", "control operations", lambda: Script().user("one").says("One.").user("two").says("Two.")),
    Feature(
        "subagents",
        "subagents",
        lambda: (
            Script()
            .user("go")
            .subagent("look", Script().calls("Bash", {"command": "echo in"}, result="in").says("Seen."))
            .says("Done.")
        ),
        shell="not compared",
    ),
    Feature(
        "resume",
        "resume and fork",
        lambda: Script().user("one").says("1").user("two").says("2").user("three").says("3"),
        shell="same",
    ),
    Feature(
        "errors",
        "errors",
        lambda: Script().user("go").api_error(402).user("on").calls("Bash", {"command": "true"}),
        shell="same",
    ),
)
"""The features of the table."""
