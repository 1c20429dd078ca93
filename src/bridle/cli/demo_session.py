"""The part of `bridle demo` that shows a session: a hook, permission questions, an in-process tool, an interrupt, a background task."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.aio.session import Session
from bridle.cli.demo_script import LONG_TEST, SESSION_PROMPTS
from bridle.cli.terminal import clean
from bridle.cli.transcript import Transcript
from bridle.hooks import HookMatcher, HookOutput
from bridle.messages import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultError,
    ResultMessage,
    StreamEvent,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from bridle.permissions import Allow, Deny
from bridle.tools import tool, tool_server

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bridle.aio.session import MessageCursor, Turn
    from bridle.cli.terminal import Terminal
    from bridle.messages import Message
    from bridle.options.options import Options
    from bridle.permissions import PermissionRequest

__all__ = ["CODE", "show_session"]

CODE = """options = Options(
    hooks={"PreToolUse": [HookMatcher("Bash", [nothing_is_deleted])]},
    can_use_tool=may_it_run,
    mcp_servers={"stable": tool_server("stable", [height])},
)
async with bridle.Session(options) as session:
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
            self._terminal.parts((f"  {self._terminal.corner} {who}: ", "magenta"), (text, ""))

    async def nothing_is_deleted(self, call: Any, _: object) -> HookOutput | None:
        """A hook: it is asked before every Bash command, whatever the rules allow."""
        if str(call.tool_input.get("command", "")).startswith("rm "):
            self._say(call.tool_use_id, "our hook", "nothing is deleted in a demo")
            return HookOutput.deny("Nothing is deleted in a demo.")
        return None

    async def may_it_run(self, request: PermissionRequest) -> Allow | Deny:
        """The permission callback: it is asked where no rule has decided."""
        command = str(request.input.get("command", ""))
        if command == LONG_TEST:
            self._say(request.tool_use_id, "our permission callback", "yes")
            return Allow()
        if command.startswith("cp "):
            changed = command.replace("copy.txt", "backup.csv")
            self._say(request.tool_use_id, "our permission callback", f"yes, but as `{changed}`")
            return Allow(updated_input={**request.input, "command": changed})
        self._say(request.tool_use_id, "our permission callback", "no, there is no network in a demo")
        return Deny("There is no network in a demo.")

    @tool(read_only=True)
    def height(self, horse: str) -> str:
        """Return the height of a horse."""
        self._say("mcp__stable__height", "our function", f"height({horse!r}) was called, in this process")
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
            terminal.error(str(ResultError(result)) if result is not None else "No result came.")
            return False

        turn = await _send(session, terminal, SESSION_PROMPTS[1])
        result = await _show(turn, everything, stable, terminal, interrupt_after=40)
        if result is None or not (result.terminal_reason or "").startswith("aborted"):
            terminal.error("The turn was not interrupted.")
            return False
        terminal.line(
            f"  {terminal.corner} {turn.state.name}: {clean(result.terminal_reason or '')}; the session goes on", "dim"
        )

        turn = await _send(session, terminal, SESSION_PROMPTS[2])
        await _show(turn, everything, stable, terminal)
        _say_step(terminal, f"await session.wait_idle()   # {len(session.background_tasks)} task runs")
        Path(options.cwd or ".", "finished").touch()  # noqa: ASYNC240 - a moment, with nothing else to do
        await session.wait_idle()
        # The model took the floor by itself when the task had ended.
        result = await _show(None, everything, stable, terminal)
        _say_step(terminal, "idle: no prompt is open, nothing runs in the background")
    return result is not None and not result.is_error


async def _send(session: Session, terminal: Terminal, prompt: str) -> Turn:
    terminal.line()
    terminal.line(f"> {prompt}")
    return await session.send(prompt)


async def _show(
    turn: Turn | None,
    everything: MessageCursor,
    stable: _Stable,
    terminal: Terminal,
    *,
    interrupt_after: int | None = None,
) -> ResultMessage | None:
    """Show messages up to the end of the turn; of any turn if None."""
    transcript = Transcript(terminal, inside=True, header=False)
    result: ResultMessage | None = None
    characters = 0
    tools: dict[str, str] = {}
    async for message in everything:
        # What was said about a call belongs between the call and what came of it.
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
    terminal.line(f"   {text}", "green")
