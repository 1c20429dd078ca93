"""Write docs/reference/options.md from the rows of `Options`, or compare it (`--check`)."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from hackamore._engine.launch.encode import ROWS_BY_NAME
from hackamore._engine.launch.versions import FLAGS
from hackamore.checked.fields import Checked, Field
from hackamore.options import options as rows
from hackamore.options.bounds import Limits, Timeouts
from hackamore.options.options import Options

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"

INTRODUCTION = """# Options

<!-- Made by scripts/options_page.py from src/hackamore/options/options.py. Do not edit. -->

`Options` configures queries and sessions. Use this page to look up an option, its default, and the flag or variable
that it becomes.

```python
from hackamore import Options

options = Options(model="sonnet", allowed_tools=["Read", "Grep"], max_turns=5)
careful = options.replace(permission_mode="plan")
```

- `Options` is frozen and keyword-only. A wrong name, type or value raises `OptionsError`, whose `field` names it
  (`agents.reviewer.model`), before the CLI starts.
- Names are those of the official Python package, and those of the TypeScript package in snake_case.
- `None` sends nothing, so the default of the CLI applies.
- Nested configuration is a class in snake_case (`AgentDefinition(max_turns=3)`), or a dict with the names of the CLI
  (`{"maxTurns": 3}`). Hackamore passes unknown keys of such a dict, and warns about a key that is similar to a known
  one.
- You can compare, copy and pickle options, if pickle finds the functions in them. Their `repr` shows no secret.
- In the column *becomes*, **argv** is a flag of the CLI, **environment** a variable of its process, **initialize** a
  field of the first control request, and **host** stays in your process.
- Options marked with † need the bidirectional protocol for some or all values. A `Session` always uses it; `query`
  and `run` use it if such a value is set.
"""

CONFLICTS = """## Conflicting options

| options | result |
|---|---|
| `resume` and `continue_conversation` | `resume` wins, warning `OPTION_CONFLICT` |
| `system_prompt` and `append_system_prompt` | `system_prompt` wins, warning `OPTION_CONFLICT` |
| `thinking` and `max_thinking_tokens` | `thinking` wins, warning `OPTION_CONFLICT` |
| `allowed_tools` and `disallowed_tools` | Hackamore sends both |
| `can_use_tool` and `permission_prompt_tool_name` | `OptionsError` |
| `can_use_tool` and options that allow all calls | warning `PERMISSION_CALLBACK_SHADOWED` |
| `session_id` and `resume` without `fork_session` | `OptionsError` |
| `settings` and `sandbox` | merged into one `--settings` |

## Long values

Linux limits one argument to 128 KiB, and all users of the machine can see command lines. Hackamore therefore sends the
prompt through stdin. Use files for long or secret options: `system_prompt={"type": "file", "path": ...}`, and the
path of a file for `settings` and `mcp_servers`. A value that is too long raises `OptionsError` with the name of the
option and the alternative, before the CLI starts.

## Commands and files in prompts

The CLI reads the prompt from stdin unchanged. Spaces around it stay, and a first `-`, `!` or `#` has no meaning.
These parts have one:

- A prompt that begins with the name of a command (`/compact`) runs that command; an unknown `/word` is plain text.
- The CLI attaches a file that is named with `@path`, so untrusted text in a prompt can read files.

`verbatim_prompts=True` switches both off.
"""

LOADING = """## Load options from variables and files

`Options.load(file=None, *, trust_file=False, **explicit)` combines these sources; the first source with a field wins:

1. explicit arguments,
2. variables named `HACKAMORE_<FIELD>` (`HACKAMORE_MAX_TURNS=5`) with JSON or plain text,
3. a TOML file with field names as keys, if you name one; Hackamore does not search for files,
4. defaults.

Hackamore merges `env` and `settings` deeply, and concatenates `add_dirs` and `extra_args`, lowest priority first. For
all other fields one source counts.

A file may come from a checkout of another author. Hackamore refuses these fields from a file, unless `trust_file=True`:

{refused}
- `permission_mode`: all modes but `default` and `plan`, also inside `agents`
- `agents`: `mcpServers`, and unknown keys
- `system_prompt`: the path of a file
"""


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|")


def shown_default(field: Field) -> str:
    """Return the default for people."""
    default: Any = field.default
    if isinstance(default, Checked):
        return f"`{type(default).__name__}()`"
    if not isinstance(default, (str, tuple)) and hasattr(default, "keys"):
        return "`{}`"
    return f"`{default!r}`"


def needs_session(name: str) -> bool:
    """Return True if some value of this option needs the bidirectional protocol."""
    option = ROWS_BY_NAME[name]
    return option.row.session or option.initialize is not None


def first_version(becomes: str) -> str:
    """Return the oldest version that is known to accept the only flag of an option; empty if 1.0.33 accepts it."""
    flags = set(re.findall(r"--[a-z][a-z-]*", becomes))
    seen = FLAGS.get(flags.pop()) if len(flags) == 1 else None
    return str(seen.known) if seen else ""


def meanings() -> dict[str, dict[str, str]]:
    """Return the documentation of each option, by heading: the string below the field."""
    source = inspect.getsource(rows)
    lines = source.splitlines()
    kind = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Options")
    found: dict[str, dict[str, str]] = {}
    group = ""
    for node, following in zip(kind.body, kind.body[1:], strict=False):
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                if heading := re.match("    # -- (.*)", lines[node.lineno - 3]):
                    group = heading[1]
                row = Options.__fields__[name].row
                since = row.since or first_version(row.becomes)
                text = f"{text[:-1]} (CLI {since} and newer)." if since else text
                found.setdefault(group, {})[name] = text
    return found


def tables() -> list[str]:
    """Return one table per heading."""
    parts = []
    for group, texts in meanings().items():
        lines = [
            f"## {group}",
            "",
            "| option | meaning | type and default | becomes |",
            "|---|---|---|---|",
        ]
        for name, text in texts.items():
            field = Options.__fields__[name]
            mark = " †" if needs_session(name) else ""
            cells = [
                f"`{name}`{mark}",
                text,
                f"`{field.annotation}`, default {shown_default(field)}",
                f"{field.row.kind}: {field.row.becomes}" if field.row.becomes != "-" else field.row.kind,
            ]
            lines.append("| " + " | ".join(cell(part) for part in cells) + " |")
        parts.append("\n".join(lines) + "\n")
    return parts


def bounds(kind: type[Checked], title: str, unit: str) -> str:
    """Return the table of `Timeouts` or `Limits`, with the texts of its docstring."""
    texts: dict[str, str] = {}
    current = ""
    for line in (kind.__doc__ or "").partition("Attributes:")[2].splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and name in kind.__fields__:
            current = name
            texts[name] = text
        elif current and line.strip():
            texts[current] += f" {line.strip()}"
    lines = [f"## {title}", "", f"| field | default ({unit}) | meaning |", "|---|---|---|"]
    for name, field in kind.__fields__.items():
        default = "none" if field.default is None else f"{field.default:,g}" if unit == "s" else f"{field.default:,}"
        lines.append(f"| `{name}` | {default} | {cell(texts[name])} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page."""
    reasons = {name: field.row.refused for name, field in Options.__fields__.items()}
    refused = "\n".join(f"- `{name}`: {reason}" for name, reason in reasons.items() if reason and not callable(reason))
    parts = [
        INTRODUCTION,
        *tables(),
        CONFLICTS,
        LOADING.format(refused=refused),
        bounds(Timeouts, "`Timeouts`", "s"),
        bounds(Limits, "`Limits`", "bytes or a count"),
    ]
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == page() else 1
    TARGET.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
