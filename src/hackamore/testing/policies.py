"""Tests of policies: shell commands of shapes that pass filters of text (`shell_shapes.toml`), and the verdicts during a test."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from hackamore.options.deciding import Decider, Ruling

__all__ = ["PolicyVerdicts", "Shape", "shapes", "shell_commands"]


class Shape(NamedTuple):
    """A way to run a command by another one."""

    kind: str  # `list`, `substitution`, `wrapper`, ...
    text: str  # the command, with places for the one that it runs
    needs: str = ""  # a program that not all machines have; `-` for shapes that reach other machines or users

    def around(self, payload: str) -> str:
        """Return the command that runs `payload`, a command of at least two words."""
        program, _, arguments = payload.partition(" ")
        return self.text.format(payload=payload, program=program, arguments=arguments, quoted=shlex.quote(payload))


@cache
def shapes() -> tuple[Shape, ...]:
    """Return all shapes."""
    import tomllib
    from importlib.resources import files

    rows = tomllib.loads(files(__package__).joinpath("shell_shapes.toml").read_text(encoding="utf-8"))["shape"]
    return tuple(Shape(**row) for row in rows)


def shell_commands(payload: str = "touch canary", *, nested: int = 2) -> SearchStrategy[str]:
    """Return a Hypothesis strategy of shell commands that run `payload`, or write to what its last word names.

    A policy that does not allow the payload must not allow any of them. Needs the package `hypothesis`.

    Args:
        payload: a program and one word.
        nested: the number of shapes around each other, at most.

    Returns:
        The strategy; each value is a command.

    Raises:
        ValueError: the payload is not two words.

    Example:
        ::

            @given(shell_commands("rm important"))
            def test_nothing_is_removed(command: str) -> None:
                assert policy.decide("Bash", {"command": command}).decision != "allow"
    """
    from hypothesis import strategies

    if len(payload.split()) != 2 or shlex.quote(payload.replace(" ", "")) != payload.replace(" ", ""):
        raise ValueError(f"`payload` must be a program and one word without special characters, not {payload!r}")
    found = innermost = strategies.sampled_from(shapes()).map(lambda shape: shape.around(payload))
    # Only shapes that take any command as it is: others have quotes of their own.
    outer = [
        shape for shape in shapes() if shape.kind in ("list", "flow", "substitution") and "{payload}" in shape.text
    ]
    outer = [shape for shape in outer if not set("'\"<") & set(shape.text)]

    for _ in range(nested - 1):
        around = strategies.builds(Shape.around, strategies.sampled_from(outer), found)
        found = strategies.one_of(innermost, around)
    return found


class PolicyVerdicts:
    """A policy that keeps its verdicts, for `Options(policy=...)`: `calls` has the tool, the input and the verdict of each call."""

    def __init__(self, policy: Decider) -> None:
        self._policy = policy
        self.calls: list[tuple[str, Mapping[str, Any], Ruling]] = []

    def decide(self, tool_name: str, tool_input: Mapping[str, Any], **around: Any) -> Ruling:
        """Return the decision of the policy, and keep it; the arguments are those of `Policy.decide`."""
        verdict = self._policy.decide(tool_name, tool_input, **around)
        self.calls.append((tool_name, tool_input, verdict))
        return verdict

    def denied(self, rule: str | None = None) -> list[Mapping[str, Any]]:
        """Return the inputs of the calls that were denied; with `rule`, of those that this rule denied."""
        return [
            given for _, given, verdict in self.calls if verdict.decision == "deny" and rule in (None, verdict.rule)
        ]
