"""Texts for people: the explanation of a verdict; and the cases of a file, read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.checked.fields import shown, suggestion
from hackamore.errors import PolicyError
from hackamore.policy.rules import READERS, WRITERS
from hackamore.policy.verdict import STRICTNESS

if TYPE_CHECKING:
    from hackamore.policy.verdict import Decision, Part, Verdict

_KEYS = ("name", "decision", "command", "tool", "input", "agent", "spent", "tags", "annotations", "cwd", "person")


def explanation(tool: str, verdict: Verdict) -> str:
    """Return the explanation of a verdict."""
    rule = f" by the rule {verdict.rule!r}" if verdict.rule else ""
    lines = [f"{verdict.decision}{rule}: {verdict.reason}"]
    for part in verdict.parts:
        name = repr(part.rule) if part.rule else "no rule"
        lines.append(f"  {part.decision:5}  {part.kind:8}  {part.text}  ({name}: {part.reason})")
    lines += [f"  not understood: {place}" for place in verdict.cannot_tell]
    if verdict.decision != "allow":
        worst = STRICTNESS[verdict.decision]
        blocking = [part for part in verdict.parts if STRICTNESS[part.decision] == worst]
        lines += [f"  to change this: {_change(tool, part)}" for part in blocking]
        if verdict.cannot_tell:
            lines.append(
                "  to change this: write the command in a simpler form, as several commands without expansions"
            )
    return "\n".join(lines)


def _change(tool: str, part: Part) -> str:
    if part.rule:
        return f"narrow the rule {part.rule!r}; the strictest rule wins, so that a rule that allows changes nothing"
    if part.kind == "program":
        name = part.text.split(maxsplit=1)[0]
        return f'add a rule with `program = "{name}"` that allows it; `effect = "any"` accepts every argument, harmful ones too'
    if part.kind in ("path", "redirect"):
        if part.reason.startswith("No rule allows writing"):
            return f'add a rule with `tool = ["Edit", "Write"]` and a `path` that covers `{part.text}`'
        return "write the path itself, without expansions, or narrow the rule on paths"
    return (
        f'add a rule with `tool = "{tool}"` that allows it{", with a `path`" if tool in (*READERS, *WRITERS) else ""}'
    )


def case(row: dict[str, Any], number: int, file: str) -> tuple[str, Decision, dict[str, Any]]:
    """Return the name of a case, the decision that it expects, and the arguments of `decide`."""
    title = str(row.get("name") or row.get("command") or row.get("tool") or f"case {number}")
    for key in row:
        if key not in _KEYS:
            raise PolicyError(f"Case {title!r} has no key `{key}`.{suggestion(key, _KEYS)}", file=file, field=key)
    expected = row.get("decision")
    if expected not in STRICTNESS:
        raise PolicyError(
            f"Case {title!r}: `decision` must be `allow`, `ask` or `deny`, got {shown(expected)}.",
            file=file,
            field="decision",
        )
    if ("command" in row) == ("tool" in row):
        raise PolicyError(f"Case {title!r} needs either `command` or `tool`, with `input`.", file=file, field="command")
    given: dict[str, Any] = {
        key: row[key] for key in ("agent", "spent", "tags", "annotations", "cwd", "person") if key in row
    }
    given["tool_name"] = row.get("tool", "Bash")
    given["tool_input"] = {"command": row["command"]} if "command" in row else row.get("input", {})
    if not isinstance(given["tool_input"], dict):
        raise PolicyError(f"Case {title!r}: `input` must be a table.", file=file, field="input")
    return title, expected, given
