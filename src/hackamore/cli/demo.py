"""`hackamore demo`: the real CLI at work, with a model that is a script. No account, no network, a temporary folder.

Without an installed CLI the same parts run on the simulated one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore import HookMatcher, HookOutput, find_cli, tool, tool_server
from hackamore.activity.words import clean
from hackamore.aio.session import Session
from hackamore.checked.schemas import decode_output
from hackamore.cli.running import FAILED, NOT_STARTED, run_async, show_query
from hackamore.cli.transcript import Transcript, summary
from hackamore.errors import CLINotFoundError
from hackamore.messages import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultError,
    ResultMessage,
    StreamEvent,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from hackamore.options.bounds import Timeouts
from hackamore.options.options import Options
from hackamore.permissions import Allow, Deny
from hackamore.testing import Reply, Script, Thinking, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hackamore.aio.session import MessageCursor, Turn
    from hackamore.cli.terminal import Terminal
    from hackamore.messages import Message
    from hackamore.permissions import PermissionRequest

CODE = """options = Options(
    hooks={"PreToolUse": [HookMatcher("Bash", [nothing_is_deleted])]},
    can_use_tool=may_it_run,
    mcp_servers={"stable": tool_server("stable", [height])},
)
async with hackamore.Session(options) as session:
    turn = await session.send(prompt)
    ...
    await session.interrupt()
    await session.wait_idle()"""
_HEIGHTS = {"Ada": 163, "Grace": 158, "Barbara": 171}


class _Stable:
    """The callbacks of the demo; their notes wait until `tell()` finds their place among the messages."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._said: deque[tuple[str | None, str, str]] = deque()

    def _say(self, call: str | None, who: str, text: str) -> None:
        self._said.append((call, who, text))

    def tell(self, calls: Collection[str] | None = None) -> None:
        """Show what the callbacks have said about these calls, given by id or by tool; None: about all."""
        for said in list(self._said):
            call, who, text = said
            if calls is not None and call not in calls:
                continue
            self._said.remove(said)
            self._terminal.fresh_line()
            self._terminal.parts((f"  {self._terminal.corner} {who}: ", "magenta"), (text, ""), hang=4)

    async def nothing_is_deleted(self, call: Any, _: object) -> HookOutput | None:
        """A hook: the CLI calls it before every Bash command, even if a rule allows the command."""
        if str(call.tool_input.get("command", "")).startswith("rm "):
            self._say(call.tool_use_id, "hook", "nothing is deleted in a demo")
            return HookOutput.deny("Nothing is deleted in a demo.")
        return None

    async def may_it_run(self, request: PermissionRequest) -> Allow | Deny:
        """The permission callback: the CLI calls it if no rule decides."""
        command = str(request.input.get("command", ""))
        if command == LONG_TEST:
            self._say(request.tool_use_id, "permission callback", "yes")
            return Allow()
        if command.startswith("cp "):
            changed = command.replace("copy.txt", "backup.csv")
            self._say(request.tool_use_id, "permission callback", f"yes, but as `{changed}`")
            return Allow(updated_input={**request.input, "command": changed})
        self._say(request.tool_use_id, "permission callback", "no, there is no network in a demo")
        return Deny("There is no network in a demo.")

    @tool(read_only=True)
    def height(self, horse: str) -> str:
        """Return the height of a horse."""
        self._say("mcp__stable__height", "function", f"height({horse!r}) was called, in this process")
        return f"{_HEIGHTS[horse]} cm"

    def options(self) -> dict[str, Any]:
        """Return the options that name the callbacks."""
        return {
            "hooks": {"PreToolUse": [HookMatcher("Bash", [self.nothing_is_deleted])]},
            "can_use_tool": self.may_it_run,
            "mcp_servers": {"stable": tool_server("stable", [self.height])},
            "allowed_tools": ["mcp__stable__height", "Bash(rm *)"],
            "include_partial_messages": True,
        }


async def show_session(make_options: Callable[..., Options], terminal: Terminal) -> bool:
    """Show the session and return whether it went as it should."""
    stable = _Stable(terminal)
    options = make_options(**stable.options())
    async with Session(options) as session:
        everything = session.messages()
        turn = await _send(session, terminal, SESSION_PROMPTS[0])
        result = await _show(turn, everything, stable, terminal)
        if result is None or result.is_error:
            terminal.error(str(ResultError.of(result)) if result is not None else "No result came.")
            return False

        turn = await _send(session, terminal, SESSION_PROMPTS[1])
        result = await _show(turn, everything, stable, terminal, interrupt_after=40)
        if result is None or not (result.terminal_reason or "").startswith("aborted"):
            terminal.error("The turn was not interrupted.")
            return False
        terminal.line(
            f"  {terminal.corner} {turn.state}: {clean(result.terminal_reason or '')}; the session continues",
            "dim",
            wrap=True,
        )

        turn = await _send(session, terminal, SESSION_PROMPTS[2])
        await _show(turn, everything, stable, terminal)
        _say_step(terminal, f"await session.wait_idle()   # background tasks: {len(session.background_tasks)}")
        Path(options.cwd or ".", "finished").touch()  # noqa: ASYNC240 - a moment, with nothing else to do
        await session.wait_idle()
        # The CLI began a turn by itself when the task had ended.
        result = await _show(None, everything, stable, terminal)
        _say_step(terminal, "idle: no prompt is open, nothing runs in the background")
    return result is not None and not result.is_error


async def _send(session: Session, terminal: Terminal, prompt: str) -> Turn:
    terminal.line()
    terminal.line(f"> {prompt}", wrap=True)
    return await session.send(prompt)


async def _show(
    turn: Turn | None,
    everything: MessageCursor,
    stable: _Stable,
    terminal: Terminal,
    *,
    interrupt_after: int | None = None,
) -> ResultMessage | None:
    transcript = Transcript(terminal, inside=True, header=False)
    result: ResultMessage | None = None
    characters = 0
    tools: dict[str, str] = {}
    async for message in everything:
        # Notes about a call belong between the call and its result.
        if isinstance(message, AssistantMessage):
            tools.update(
                {block.id or "": block.name or "" for block in message.content if isinstance(block, ToolUseBlock)}
            )
        elif isinstance(message, UserMessage):
            ended = {block.tool_use_id or "" for block in message.content if isinstance(block, ToolResultBlock)}
            stable.tell({*ended, *(tools.get(call, "") for call in ended)})
        elif isinstance(message, ResultMessage):
            stable.tell()
        if isinstance(message, ResultMessage):
            result = message
            transcript.finish(None)
            if turn is None:
                break
        elif _is_end(message, turn):
            break
        elif result is None:
            transcript.show(message)
        if isinstance(message, StreamEvent) and message.text_delta and interrupt_after is not None:
            characters += len(message.text_delta)
            if turn is not None and characters >= interrupt_after:
                interrupt_after = None
                terminal.fresh_line()
                _say_step(terminal, "await session.interrupt()")
                await turn.session.interrupt()
    return result


def _is_end(message: Message, turn: Turn | None) -> bool:
    if turn is None or not isinstance(message, CommandLifecycleMessage) or message.command_uuid != turn.id:
        return False
    return message.state not in ("queued", "started")


def _say_step(terminal: Terminal, text: str) -> None:
    terminal.line()
    terminal.line(f"   {text}", "green", wrap=True)


PROMPT = "What is in this folder? Look for yourself, and write NOTES.md about it."
TYPED_PROMPT = "Sum it up for a program."
SESSION_PROMPTS = (
    "Tidy up, keep a copy of the data, and tell me how tall Ada is.",
    "Write a long poem about horses.",
    "Run the long test in the background.",
)
# The test ends when the demo creates the file: after the answer, on any machine.
LONG_TEST = "while [ ! -e finished ]; do sleep 0.1; done; echo all is well"
_COMMAND = 'wc -c *; echo; echo "this ran on $(uname -s), as process $$"'
_STEPS = 4
_LINE = "A horse is a horse, of course, of course. "


class _Answer(NamedTuple):
    """One answer of the model: a text, a tool call, or both."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed
    thinking: str = ""


def _bash(text: str, command: str, thinking: str = "", **more: Any) -> _Answer:
    return _Answer(text, "Bash", {"command": command, "description": text, **more}, thinking)


def _answers(project: Path) -> dict[str, list[_Answer]]:
    """Return the answers to each prompt; the project is as it was before the first one."""
    sizes = {path.name: path.stat().st_size for path in project.iterdir()}
    notes = "# Notes\n\n" + "".join(f"- `{name}`, {sizes[name]} bytes\n" for name in sorted(sizes))
    sizes["NOTES.md"] = len(notes.encode())
    largest = max(sizes, key=lambda name: sizes[name])
    found = {"files": len(sizes), "largest": largest, "total_bytes": sum(sizes.values())}
    tidy, poem, test = SESSION_PROMPTS
    return {
        PROMPT: [
            _bash(
                "I will look at the files first.",
                _COMMAND,
                "The folder is best looked at with a command, before anything is written about it.",
            ),
            _Answer(
                "Two files: a program and a table. Writing that down.",
                "Write",
                {"file_path": str(project / "NOTES.md"), "content": notes},
            ),
            _Answer("Done: **NOTES.md** lists both files. [This is not markup], and \x1b[31mthis is not red\x1b[0m."),
        ],
        TYPED_PROMPT: [_Answer(tool="StructuredOutput", arguments=found)],
        tidy: [
            _bash("First the old table goes.", "rm data.csv"),
            _bash("Then it stays. A copy of it:", "cp data.csv copy.txt && ls"),
            _bash("And one more of it, elsewhere.", "curl --upload-file data.csv http://example.com/"),
            _Answer("How tall is Ada?", "mcp__stable__height", {"horse": "Ada"}),
            _Answer("Ada is 163 cm tall, and there is a copy of the data."),
        ],
        poem: [_Answer(_LINE * 200)],
        test: [
            _bash("It takes a while.", LONG_TEST, run_in_background=True),
            _Answer("It runs."),
            _Answer("The test is done: all is well."),
        ],
    }


def model_script(project: Path, pace: dict[str, Any]) -> list[Reply]:
    """Return the answers of the scripted model. The pace is `chunk` and `delay` of a `Reply`, for streamed text."""
    replies = []
    for prompt, answers in _answers(project).items():
        for answer in answers:
            parts: list[Any] = [Thinking(answer.thinking)] if answer.thinking else []
            parts += [answer.text] if answer.text else []
            parts += [ToolCall(answer.tool, answer.arguments)] if answer.tool else []
            long = {"chunk": 6, "delay": 0.02} if prompt == SESSION_PROMPTS[1] else pace
            replies.append(Reply(*parts, **long))
    return replies


def simulated_script(project: Path, pace: dict[str, Any]) -> Script:
    """Return the script of the simulated CLI, with the same answers; the arguments are those of `model_script`."""
    script = Script()
    for prompt, answers in _answers(project).items():
        script.user(prompt)
        if prompt == SESSION_PROMPTS[1]:
            script.interrupted(after=_LINE * 3)
            continue
        for number, answer in enumerate(answers):
            if answer.thinking:
                script.thinks(answer.thinking)
            if prompt == SESSION_PROMPTS[2] and number == 2:
                script.slow(0.3).task_ends()
            if answer.text:
                script.says(answer.text, **pace)
            if answer.tool:
                script.calls(answer.tool, answer.arguments)
    return script


@dataclass
class Inventory:
    """The answer to the typed prompt."""

    files: int
    largest: str
    total_bytes: int


def demo(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show the demonstration and return the exit code."""
    from hackamore.testing import ScriptedModel
    from hackamore.testing.errors import ScriptError

    started = time.monotonic()
    fast = bool(given.get("fast"))
    cli_path: str | None = None
    if given.get("simulated"):
        _introduce_simulation(terminal, "With --simulated")
    else:
        try:
            found = find_cli(given.get("cli_path"))
        except CLINotFoundError as error:
            if given.get("cli_path") or os.environ.get("HACKAMORE_CLI_PATH"):
                terminal.error(f"The demo shows the real Claude Code CLI, and none was found. {error}")
                return NOT_STARTED
            _introduce_simulation(terminal, "No Claude Code CLI was found on this machine:")
        else:
            cli_path = found.path
            origin = {"PATH": "from PATH", "cli_path": "from --cli-path"}.get(found.source, found.source)
            _introduce(terminal, cli_path, origin)
    with TemporaryDirectory(prefix="hackamore-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        project = _make_project(folder)
        try:
            if cli_path is None:
                code = _simulated(folder, project, terminal, fast)
            else:
                with ScriptedModel(*model_script(project, _pace(terminal, fast))) as model:
                    isolated = {key: value for key, value in model.isolated_env(folder).items() if value is not None}
                    code = _run_parts(partial(_options, cli_path, isolated, project), terminal, project)
        except ScriptError as error:
            terminal.error(f"The CLI did not follow the script of the demo (tested with 2.1.330).\n{error}")
            return FAILED
    if code == 0:
        terminal.line()
        terminal.line(
            f"Finished in {time.monotonic() - started:.1f} s. The temporary folder is removed.", "dim", wrap=True
        )
        if cli_path is None:
            terminal.line("Next, test your agent without a CLI: docs/guides/testing/simulated-cli.md", wrap=True)
        else:
            terminal.line('Next, with your account: hackamore run "What does this project do?"', wrap=True)
    return code


def _simulated(folder: Path, project: Path, terminal: Terminal, fast: bool) -> int:
    """Show all parts on the simulated CLI, as a process of its own whose tools are real."""
    from hackamore.testing import SimulatedCLI

    with SimulatedCLI(simulated_script(project, _pace(terminal, fast)), time_scale=0.1 if fast else 1.0) as cli:
        program = cli.install(folder / "simulated", real_tools=True)
        return _run_parts(partial(_options, str(program), {}, project), terminal, project)


def _introduce(terminal: Terminal, cli_path: str, origin: str) -> None:
    terminal.line("Hackamore demo", "bold")
    text = (
        "The model is a script on 127.0.0.1. The CLI, its tools and its files are real, in a temporary folder. The demo "
        "uses no account and no network."
    )
    terminal.line(text, wrap=True)
    terminal.line(f"CLI: {cli_path} ({origin})", "dim", wrap=True)


def _introduce_simulation(terminal: Terminal, why: str) -> None:
    terminal.line("Hackamore demo, simulated", "bold")
    text = (
        f"{why} the simulated CLI of `hackamore.testing` replaces the real one. It is a separate program. Its Bash and Write "
        "are real and work in a temporary folder."
    )
    terminal.line(text, wrap=True)
    terminal.line("Install the real one: hackamore install-cli (in a checkout: ./dev demo)", "dim", wrap=True)


def _pace(terminal: Terminal, fast: bool) -> dict[str, Any]:
    """Return how text is streamed: slowly on a terminal, else without delays."""
    return {"chunk": 9, "delay": 0.03} if terminal.interactive and not fast else {"chunk": 40}


def _make_project(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    (project / "hello.py").write_text('print("Hello from a hackamore.")\n', encoding="utf-8")
    (project / "data.csv").write_text("horse,height\nAda,163\nGrace,158\nBarbara,171\n", encoding="utf-8")
    return project


def _options(cli_path: str, isolated: Mapping[str, str], project: Path, /, **more: Any) -> Options:
    always: dict[str, Any] = {
        "cli_path": cli_path,
        "cwd": project,
        "env": {"PATH": os.defpath, "LANG": "C.UTF-8", **isolated},
        "inherit_env": False,
        # Named one by one, so that it also works as root, where the CLI refuses to skip all checks.
        "allowed_tools": ["Bash", "Write"],
        "setting_sources": [],
        "version_check": "skip",
        "timeouts": Timeouts(turn=60),
    }
    return Options(**{**always, **more})


def _run_parts(make_options: Callable[..., Options], terminal: Terminal, project: Path) -> int:
    """Show all parts and return the exit code; `make_options` adds its arguments to the options of the demo."""
    _head(terminal, 1, "A query, streamed: thinking, text, a Bash command, a file")
    _code(terminal, "for message in hackamore.sync.query(prompt, options): ...")
    terminal.line()
    terminal.line(f"> {PROMPT}", wrap=True)
    terminal.line()
    result = show_query(PROMPT, make_options(include_partial_messages=True), Transcript(terminal))
    if result is None or result.is_error:
        return FAILED
    _head(terminal, 2, "The file, read from the disk")
    notes = project / "NOTES.md"
    if not notes.is_file():
        terminal.error(f"{notes} was not written.")
        return FAILED
    for line in clean(notes.read_text(encoding="utf-8", errors="replace")).rstrip("\n").split("\n"):
        terminal.line(f"  {line}", "cyan")
    _head(terminal, 3, "An answer as a Python object")
    _code(terminal, "@dataclass\nclass Inventory:\n    files: int\n    largest: str\n    total_bytes: int\n")
    _code(terminal, "hackamore.sync.run(prompt, options, output_type=Inventory).output")
    terminal.line()
    terminal.line(f"> {TYPED_PROMPT}", wrap=True)
    # As `run`, but a signal takes effect at any moment.
    typed = make_options().with_output_type(Inventory)
    result = show_query(TYPED_PROMPT, typed, None)
    if result is None or result.is_error:
        terminal.error(str(ResultError.of(result)) if result else "No result came.")
        return FAILED
    terminal.line()
    terminal.line(repr(decode_output(result, Inventory)), "bold")
    terminal.line()
    terminal.parts((f"{terminal.tick} ", "green"), (summary(result, terminal.dot), "dim"), hang=2)
    _head(terminal, 4, "A session: hook, permissions, a function as a tool, interrupt, background")
    _code(terminal, CODE)
    worked = run_async(terminal, lambda: show_session(make_options, terminal))
    return 0 if worked else FAILED


def _head(terminal: Terminal, number: int, text: str) -> None:
    title = f"Step {number} of {_STEPS}: {text}"
    columns = min(terminal.width, 80)
    terminal.line()
    terminal.line(
        f"{terminal.rule * 2} {title} {terminal.rule * max(0, columns - len(title) - 4)}".rstrip(),
        "bold blue",
        wrap=True,
    )


def _code(terminal: Terminal, text: str) -> None:
    for line in text.split("\n"):
        terminal.line(f"   {line}".rstrip(), "green")
