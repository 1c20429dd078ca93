"""Mistakes of the first hour: each error says what happened (with the value), why, and what to do, and shows few frames of the library.

A row is a mistake and the parts of its text. Mistakes with a session that runs are in tests/session/test_first_contact.py.
"""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import hackamore
import hackamore.sync
from hackamore import HookMatcher, Options, tool
from hackamore._engine.launch import build_plan
from hackamore._engine.launch.discovery import find_cli
from hackamore._engine.launch.plan import conflicts
from hackamore._engine.protocol.control import encode_request
from hackamore.hooks import HookContext, PreToolUseHookInput
from hackamore.messages import ResultMessage

if TYPE_CHECKING:
    from collections.abc import Callable

anything: Any = None
number: Any = 5


@tool
def price(article: str) -> float:
    """Return a price."""
    return 4.5


@tool
def silent(article: str) -> float:
    return 4.5


def unannotated(article): ...  # type: ignore[no-untyped-def]
async def official_hook(input_data: Any, tool_use_id: Any, context: Any) -> None: ...
async def official_permission(tool_name: Any, input_data: Any, context: Any) -> Any: ...
def guard(call: PreToolUseHookInput, context: HookContext) -> None: ...
def yes(request: Any) -> bool:
    return True


def options(**given: Any) -> Callable[[], object]:
    return lambda: Options(**given)


def plan_of(**given: Any) -> Callable[[], object]:
    return lambda: build_plan(
        Options(**given), prompt="Hi", session=False, base_environment={"PATH": "/bin"}, child_id="x", cli_path="claude"
    )


def imported(name: str) -> Callable[[], object]:
    return lambda: exec(f"from hackamore import {name}", {})


def ended(**fields: Any) -> Callable[[], object]:
    """Return the reading of a result that says that the turn failed."""

    def read() -> None:
        ResultMessage(is_error=True, session_id="5e551011", **fields).raise_for_error()

    return read


class Row(NamedTuple):
    mistake: Callable[[], object]
    says: tuple[str, ...]
    """What happened with the value, why, and what to do: each is a part of the text."""


MISTAKES: dict[str, Row] = {
    "positional": Row(
        lambda: anything or Options("sonnet"),  # type: ignore[call-arg]
        ("keyword arguments only", "'sonnet' (str)", "`Options(model='sonnet')`"),
    ),
    "misspelt option": Row(options(modle="x"), ("no field `modle`", "Did you mean `model`?")),
    "text for a number": Row(
        options(max_turns="five"), ("`max_turns`", "must be an int", "got 'five' (str)", "without quotes, such as 5")
    ),
    "too small": Row(options(max_turns=-1), ("`max_turns`", "0 or more", "got -1")),
    "unknown mode": Row(options(permission_mode="yolo"), ("`permission_mode` must be one of 'default'", "got 'yolo'")),
    "misspelt mode": Row(options(permission_mode="acceptedits"), ("got 'acceptedits'", "Did you mean `acceptEdits`?")),
    "bare string": Row(
        options(disallowed_tools="Bash"), ("must be a list", "got 'Bash' (str)", '`disallowed_tools=["Bash"]`')
    ),
    "own function as a built-in tool": Row(
        options(tools=[price]), ("names of built-in tools", "mcp_servers={'tools': [price]}")
    ),
    "misspelt key of a server": Row(
        options(mcp_servers={"a": {"comand": "x"}}), ("`mcp_servers.a`", "key `comand`", "Did you mean `command`?")
    ),
    "url without a type": Row(
        options(mcp_servers={"a": {"url": "http://x"}}), ("`mcp_servers.a`", "write `'type': 'http'`")
    ),
    "hook without arguments": Row(
        options(hooks={"Stop": lambda: None}),
        ("`hooks.Stop`", "cannot be called with (input, context)", "Write `lambda input, context: ...`"),
    ),
    "hook of the official package": Row(
        options(hooks={"PreToolUse": [official_hook]}),
        ("(input_data, tool_use_id, context)", "Write `def official_hook(input, context)`", "docs/guides/migrate.md"),
    ),
    "permission callback of the official package": Row(
        options(can_use_tool=official_permission),
        ("Write `def official_permission(request)`", "docs/guides/migrate.md"),
    ),
    "hook of another event": Row(
        options(hooks={"Stop": guard}), ("`guard` takes PreToolUseHookInput", "called with StopHookInput")
    ),
    "permission callback returns bool": Row(options(can_use_tool=yes), ("`yes` returns bool", "Allow, Deny")),
    "matcher is a function": Row(lambda: HookMatcher(anything or guard), ("`matcher` must be a str", "hooks=")),  # type: ignore[arg-type]
    "empty prompt": Row(lambda: hackamore.sync.query(""), ("prompt is empty",)),
    "prompt that is none": Row(lambda: hackamore.sync.run(anything), ("`prompt` must be a str", "got None")),
    "prompt of another type": Row(lambda: hackamore.query(number), ("`prompt` must be a str", "got 5 (int)")),
    "parameter of a tool without annotation": Row(
        lambda: tool(anything or unannotated), ("parameter `article` has no annotation", "Write `article: str`")
    ),
    "`cli_path` does not exist": Row(
        lambda: hackamore.sync.run("Hi", Options(cli_path="/no/such/claude")),
        ("`cli_path` is '/no/such/claude', which does not exist", "Correct the path, or leave `cli_path` unset"),
    ),
    "no CLI": Row(
        lambda: find_cli(None, {}, ""), ("not found", "`hackamore install-cli`", "`cli_path=`", "Looked at:")
    ),
    "`output_type` is no type": Row(
        lambda: hackamore.sync.run("Hi", output_type=anything or object()),
        ("`output_type` has no JSON schema", "Use a dataclass"),
    ),
    "not logged in": Row(
        ended(subtype="success", result="Not logged in · Please run /login"),
        ("`hackamore doctor`", "`/login`", "ANTHROPIC_API_KEY"),
    ),
    "wrong key": Row(
        ended(subtype="success", result="API Error: 401 invalid x-api-key"),
        ("401", "Check ANTHROPIC_API_KEY", "`hackamore doctor`"),
    ),
    "budget": Row(
        ended(subtype="error_max_budget_usd", errors=["Reached maximum budget ($0.1)"]),
        ("Reached maximum budget", "`Options.max_budget_usd`", "`Options(resume='5e551011')`"),
    ),
    "turns": Row(
        ended(subtype="error_max_turns", errors=["Reached maximum number of turns (1)"]),
        ("maximum number of turns", "`Options.max_turns`", "`Options(resume='5e551011')`"),
    ),
    "no event loop": Row(
        lambda: hackamore.run("Hi").send(None),
        ("No asyncio or trio event loop", "asyncio.run(main())", "`hackamore.sync`"),
    ),
    "cwd does not exist": Row(
        plan_of(cwd="no/such"), ("`cwd` does not exist", "relative to the working directory", "Create")
    ),
    "wrong type of a control field": Row(
        lambda: encode_request("set_model", {"model": 5}),
        ("`set_model`: `model` must be a str or None, got 5 (int)", 'Write `await session.set_model("sonnet")`'),
    ),
    "a name of the official package": Row(
        imported("ClaudeAgentOptions"), ("no 'ClaudeAgentOptions'", "`Options`", "docs/guides/migrate.md")
    ),
    "a misspelt name": Row(imported("Sesion"), ("no 'Sesion'", "Did you mean `Session`?")),
    "changing frozen options": Row(
        lambda: setattr(Options(), "model", "x"),
        ("frozen", "`.replace(model=...)`"),
    ),
}

FRAMES = 3
"""The most frames of the library that a traceback may show."""


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_says_what_why_and_what_to_do(name: str) -> None:
    row = MISTAKES[name]
    with pytest.raises(Exception) as caught:
        row.mistake()
    text = str(caught.value)
    assert [part for part in row.says if part not in text] == [], text
    assert not any(word in text for word in ("nobody", "Checked", "string?", "NoneType"))
    library = str(Path(hackamore.__file__).parent)
    frames = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename.startswith(library)]
    assert len(frames) <= FRAMES


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"hooks": {"PreToolUs": guard}}, "UNKNOWN_HOOK_EVENT", ("'PreToolUs'", "Did you mean `PreToolUse`?")),
        (
            {"mcp_servers": {"shop": [price, silent]}},
            "TOOL_WITHOUT_DESCRIPTION",
            ("`silent` in `mcp_servers.shop`", "docstring"),
        ),
    ],
)
def test_a_warning_names_the_place_and_the_remedy(given: dict[str, Any], code: str, says: tuple[str, ...]) -> None:
    [warning] = conflicts(Options(**given))
    assert warning.code == code
    assert [part for part in says if part not in str(warning)] == []


def test_a_warning_before_the_start_is_printed_once_and_at_the_line_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import hackamore.sync\n"
        "from hackamore import Options\n"
        "from hackamore.testing import Script, SimulatedCLI\n"
        "with SimulatedCLI(Script().user().says('4')) as cli:\n"
        "    hackamore.sync.run('Hi', Options(hooks={'PreToolUs': lambda call, context: None}), transport=cli)\n"
    )
    printed = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stderr
    assert printed.count("Did you mean `PreToolUse`?") == 1, printed
    assert f"{program}:5: StreamWarning" in printed
