"""Tool calls of recorded runs, decided again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import hackamore  # the readers of runs, `hackamore.traces`, stand above policies
from hackamore.errors import escape_terminal
from hackamore.policy.verdict import Verdict  # noqa: TC001 - fields of structs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Replayed(msgspec.Struct, frozen=True):
    """A tool call of a recorded run, with the decision of a policy."""

    line: int
    """The line of the call in the file, counted from 1 without empty lines."""
    agent: str
    """The type of the subagent; `main` for the agent of the conversation."""
    tool: str
    """The name of the tool."""
    text: str
    """The beginning of the input."""
    recorded: Literal["allow", "ask", "deny"] | None
    """The decision in the recording: `ask` if a permission request was sent; None if the call has no result."""
    verdict: Verdict
    """The decision of the policy."""

    @property
    def changed(self) -> bool:
        """Whether the policy decides otherwise."""
        return self.recorded is not None and self.recorded != self.verdict.decision


def replayed(
    decide: Callable[..., Verdict], source: str | os.PathLike[str], cwd: str, tags: Mapping[str, str] | None
) -> tuple[Replayed, ...]:
    """Return the tool calls of a run with their decisions."""
    trace = hackamore.traces.read(source)
    items, found = trace.items, []
    places = {name: value for name, value in trace.reader.vault.values.items() if value.startswith("/")}
    places |= {"<hackamore-cwd>": cwd, "<hackamore-home>": os.path.expanduser("~")}

    def call_of(number: int) -> tuple[int, str, dict[str, Any]]:
        refs = [ref[1:] for ref in items[number].refs if number >= 0 and ref[0] == "call"]
        line, place = refs[0] if refs else (-1, -1)
        block = hackamore.traces.compare.block_at(trace, line, place) if refs else {}
        given = block.get("input")
        texts = given.items() if isinstance(given, dict) else ()
        return line, str(block.get("name")), {key: mended(value) for key, value in texts}

    def mended(value: Any) -> Any:
        # Readers redact places; secrets stay redacted, because reasons quote calls.
        for name, place in places.items() if isinstance(value, str) else ():
            value = value.replace(name, place)
        return value

    asked = {item.parent for item in items if item.kind == "permission"}
    for number, item in enumerate(items):
        line, tool, given = call_of(number)
        if line < 0:
            continue
        kind = str(call_of(item.parent)[2].get("subagent_type", "general-purpose")) if item.parent >= 0 else "main"
        folder = dict(trace.builder.sessions[item.session].info.facts).get("folder", cwd)
        costs = [each.cost for each in trace.builder.samples if each.cost is not None and each.item < number]
        verdict = decide(tool, given, agent=kind, spent=costs[-1] if costs else 0.0, tags=tags, cwd=mended(folder))
        ended = "allow" if any(ref[0] == "result" for ref in item.refs) else None
        recorded: Any = "ask" if number in asked else "deny" if item.status == "denied" else ended
        text = str(given.get("command") or given.get("file_path") or json.dumps(given, ensure_ascii=False))
        found.append(Replayed(line + 1, kind, tool, escape_terminal(text, 100), recorded, verdict))
    return tuple(found)
