"""Writes docs/options.md from the rows of `Options`: `python docs/make_options.py` (`--check` only compares)."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from bridle.checked.fields import Checked, Field
from bridle.launch.table import ROWS_BY_NAME
from bridle.options import options as rows
from bridle.options.bounds import Limits, Timeouts
from bridle.options.options import Options

TARGET = Path(__file__).with_name("options.md")

INTRODUCTION = """# Options

<!-- Made by docs/make_options.py from src/bridle/options/options.py. Do not edit. -->

`Options` is frozen and keyword-only, and is checked when it is built: a name, a type or a value that is wrong raises
`OptionsError`, whose `field` says where (`agents.reviewer.model`). Nothing has been started by then.

```python
from bridle import Options

options = Options(model="sonnet", allowed_tools=["Read", "Grep"], max_turns=5)
careful = options.replace(permission_mode="plan")
```

- Names are those of the official Python package; what only the TypeScript package has is here in snake_case.
- `None` says nothing to the CLI, which then does what it does by default.
- Nested configuration is a class in snake_case (`AgentDefinition(max_turns=3)`), or a dict with the CLI's own names
  (`{"maxTurns": 3}`). Keys of such a dict that Bridle does not know are passed on; one that is nearly a known one brings a warning.
- Options compare, copy and pickle (functions in them have to be ones that pickle can find). Their `repr` shows no
  secret.
- *Kind*: **argv** becomes flags of the CLI, **environment** variables of its process, **initialize** a field of the
  first control request, **host** stays in this process.
- Options marked with † need the bidirectional protocol for some or all of their values. A `Session` speaks it always;
  `query` and `run` change over to it by themselves when such a value is set.
"""

CONFLICTS = """## When options contradict each other

| together | what happens |
|---|---|
| `resume` and `continue_conversation` | `resume` wins, warning `OPTION_CONFLICT` |
| `system_prompt` and `append_system_prompt` | `system_prompt` wins, warning `OPTION_CONFLICT` |
| `thinking` and `max_thinking_tokens` | `thinking` wins, warning `OPTION_CONFLICT` |
| `allowed_tools` and `disallowed_tools` | both are sent: a deny list never vanishes |
| `can_use_tool` and `permission_prompt_tool_name` | `OptionsError` |
| `can_use_tool` and what allows before it is asked | warning `PERMISSION_CALLBACK_SHADOWED` |
| `session_id` and `resume` without `fork_session` | `OptionsError` |
| `settings` and `sandbox` | merged into one `--settings` |

## Long values

Linux takes at most 128 KiB in one argument, and what is on the command line is visible to every user of the machine.
So the prompt goes through stdin, and options that can be long or secret have another way:
`system_prompt={"type": "file", "path": ...}`, `settings` and `mcp_servers` as the path of a file. What is too long is
refused with an `OptionsError` that names the option and the way out, before anything is started.

## What a prompt may start with

The CLI reads the prompt from stdin as it is: spaces around it are kept, and a first `-`, `!` or `#` means nothing to it.
A prompt that begins with the name of a command (`/compact`) runs that command; an unknown `/word` is plain text. A file
that is named with `@path` is attached by the CLI, so a prompt made from strangers' text can pull in files.
`verbatim_prompts=True` switches all of this off. (Seen with 2.1.328.)
"""

LOADING = """## Options from variables and files

`Options.load(file=None, *, trust_file=False, **explicit)` layers sources; the first that has a field wins:

1. explicit arguments,
2. variables named `BRIDLE_<FIELD>` (`BRIDLE_MAX_TURNS=5`): JSON, except that plain text is taken as it is,
3. a TOML file with field names as keys, only if it is named: no file is ever looked for,
4. defaults.

`env` and `settings` are merged deeply; `add_dirs` and `extra_args` are put together, lowest priority first. Of every
other field the highest source wins whole.

A file may come from a checkout that somebody else wrote. These are refused from it unless `trust_file=True`:

{refused}
- `permission_mode`: `bypassPermissions` and `auto`, also inside of `agents`
- `agents`: `mcpServers`, and keys that Bridle does not know
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
                since = Options.__fields__[name].row.since
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
            "| option | type | default | kind | becomes | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for name, text in texts.items():
            field = Options.__fields__[name]
            mark = " †" if needs_session(name) else ""
            cells = [
                f"`{name}`{mark}",
                f"`{field.annotation}`",
                shown_default(field),
                field.row.kind,
                field.row.becomes,
                text,
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
        bounds(Timeouts, "`Timeouts`: every deadline", "s"),
        bounds(Limits, "`Limits`: every bound", "bytes or a count"),
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
