"""`hackamore chat`: a conversation at a terminal, or with prompts from a pipe.

Three tasks: one shows messages, one reads lines, one executes them, a prompt after the other. The chat ends with the first of them, and
the session is stopped before the command returns.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hackamore import SessionActivity, TurnState
from hackamore.aio.session import Session
from hackamore.cli.flags import build_options
from hackamore.cli.questions import Lines, Questions
from hackamore.cli.running import FAILED, expected_warnings, signals, wait_for_no_reader
from hackamore.cli.transcript import Transcript
from hackamore.errors import HackamoreError, TurnTimeoutError
from hackamore.messages import (
    AssistantMessage,
    AuthenticationError,
    ResultMessage,
    TextBlock,
    ToolUseBlock,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal
    from hackamore.messages import Message
    from hackamore.options.options import Options

_PROMPT = "> "
_MORE = ". "
_PASTE_SECONDS = 0.02
"""Lines that come within this time were not typed one after the other: they are one prompt."""
_WRITE_SECONDS = 0.5
"""Seconds that a write may take after a signal, before its reader counts as gone."""
_CATCH_UP_SECONDS = 0.5
"""Seconds that a question waits until its tool call is shown."""
_WORKS = (SessionActivity.RUNNING, SessionActivity.REQUIRES_ACTION)


def chat(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Hold the conversation and return the exit code; a session that cannot be started or is lost raises its `HackamoreError`."""
    options = build_options(given, partial=terminal.interactive)
    terminal.separate()
    conversation = Chat(options, terminal, prompt=given.get("prompt"), say_yes=bool(given.get("yes")))
    code = 0
    try:
        with signals.handed_to(conversation.heard), expected_warnings():
            code = asyncio.run(conversation.run())
    except HackamoreError:
        conversation.say_how_to_go_on()
        raise
    finally:
        terminal.muted = False
    if conversation.signal in (None, signal.SIGINT):
        conversation.say_how_to_go_on()
    if conversation.signal is not None:
        signals.end(conversation.signal)
    return code


class Chat:
    """A conversation; `signal` is the signal that ended it."""

    def __init__(self, options: Options, terminal: Terminal, *, prompt: str | None, say_yes: bool) -> None:
        self.signal: int | None = None
        self._terminal = terminal
        self._options = options
        self._prompt = prompt
        self._say_yes = say_yes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[int] | None = None
        self._session: Session | None = None
        self._begun_channels = {terminal.aside}
        self._transcript = Transcript(terminal, inside=True, begun=self._begun_channels)
        self._interrupting: asyncio.Task[None] | None = None
        self._presses = 0
        self._failed = self._finishing = self._stuck = self._spoken = False
        self._at_prompt = False
        self._begun: list[str] = []

    # -- signals: called between any two steps of the main thread ------------------------------------------------------

    def heard(self, number: int) -> bool:
        """Handle a signal; return True to raise it immediately."""
        if self.signal is not None:
            return self._stuck and self._terminal.writing
        self._presses += number == signal.SIGINT
        if number == signal.SIGINT and self._terminal.interactive:
            self._terminal.disturbed()
        if number == signal.SIGINT and self._presses == 1 and self._session is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)
            return False
        self.signal = number
        self._terminal.muted = True
        if self._loop is None or self._main is None:
            return True  # nothing was started yet
        self._loop.call_soon_threadsafe(self._main.cancel)
        if self._terminal.writing:
            # The output may have no reader, which would block the event loop for ever.
            timer = threading.Timer(_WRITE_SECONDS, self._look_again, (number,))
            timer.daemon = True
            timer.start()
        return False

    def _look_again(self, number: int) -> None:
        if self._terminal.writing:
            self._stuck = True
            main = threading.main_thread().ident
            if main is not None:
                signal.pthread_kill(main, number)

    def _interrupt(self) -> None:
        self._begun.clear()
        self._lines.forget()
        while not self._typed.empty():
            self._typed.get_nowait()
        if not self._at_prompt or self._questions.asked or self._live.activity in _WORKS:
            self._terminal.note("Interrupting; Ctrl-C again quits.", "yellow")
            self._interrupting = asyncio.create_task(self._stop_turn())
        else:
            self._terminal.note("Ctrl-C again quits, as do Ctrl-D and /quit.", "yellow")
            self._offer()

    async def _stop_turn(self) -> None:
        try:
            await self._live.interrupt(cancel_queued=True)
        except HackamoreError as error:
            if not self._over:
                self._terminal.error(str(error))
        self._offer()  # the CLI had become idle by itself

    # -- life ----------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Hold the conversation and return the exit code."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._lines = Lines()
        # A pipe is read as fast as its prompts are answered; a person may type ahead.
        self._typed: asyncio.Queue[str | None] = asyncio.Queue(0 if self._lines.interactive else 1)
        self._shown_calls: dict[str, asyncio.Event] = {}
        self._all_shown = asyncio.Event()
        self._questions = Questions(self._terminal, self._lines, say_yes=self._say_yes, called=self._call_shown)
        try:
            with self._terminal.spinning("Starting Claude Code"):
                async with Session(self._asking(self._options)) as session:
                    self._session = session
                    self._terminal.working("Working")
                    return await self._talk(session)
        except asyncio.CancelledError:
            if self.signal is None:
                raise
            return 128 + self.signal

    @property
    def _live(self) -> Session:
        assert self._session is not None  # noqa: S101 - for the type checker
        return self._session

    @property
    def _over(self) -> bool:
        """True if the session is over, which `_show` reports."""
        return self._live.state in ("stopped", "failed")

    def _asking(self, options: Options) -> Options:
        more: dict[str, Any] = {}
        if options.permission_prompt_tool_name is None:
            more["can_use_tool"] = self._questions.may_run
        return options.replace(on_elicitation=self._questions.server_asks, **more)

    def say_how_to_go_on(self) -> None:
        """Print the command that resumes the conversation."""
        if self._spoken and self._session is not None and self._session.session_id:
            wait_for_no_reader()
            self._terminal.note(f"Resume with: hackamore chat --resume {self._session.session_id}", "dim")

    async def _talk(self, session: Session) -> int:
        self._messages = session.messages()
        tasks = {asyncio.create_task(work) for work in (self._show(), self._listen(), self._work(session))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # The code of a lost session takes precedence over that of an input at its end.
            return max((task.result() for task in done), default=0)
        finally:
            if self._interrupting is not None:
                self._interrupting.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- what comes ----------------------------------------------------------------------------------------------------

    async def _show(self) -> int:
        async for message in self._messages:
            self._show_one(message)
            if self._questions.asked and not self._terminal.asking:
                self._terminal.ask(self._questions.asked)
            if not self._messages.unread:
                self._all_shown.set()
        self._transcript.finish(None)
        if not self._finishing:
            self._terminal.note(f"The CLI exited without a request (exit code {self._live.exit_code}).", "yellow")
        return FAILED if self._failed else 0

    def _show_one(self, message: Message) -> None:
        match message:
            case ResultMessage():
                self._show_result(message)
                self._offer()
            case UserMessage(is_replay=True):
                pass  # the output of a command of the CLI, which was shown
            case UserMessage(content=[TextBlock(text=text)]) if text.startswith("[Request interrupted"):
                pass  # the result says it
            case _:
                self._transcript.show(message)
                if isinstance(message, AssistantMessage):
                    for block in message.content:
                        if isinstance(block, ToolUseBlock):
                            self._shown_calls.setdefault(block.id, asyncio.Event()).set()

    def _show_result(self, result: ResultMessage) -> None:
        if result.is_error and (result.terminal_reason or "").startswith("aborted"):
            self._transcript.finish(None)
            self._terminal.note("Interrupted.", "yellow")
        else:
            self._failed = self._failed or (result.is_error and not self._lines.interactive)
            self._transcript.finish(result)
        self._transcript = Transcript(self._terminal, inside=True, header=False, begun=self._begun_channels)
        self._shown_calls.clear()

    async def _call_shown(self, tool_use_id: str) -> None:
        shown = self._shown_calls.setdefault(tool_use_id, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(shown.wait(), _CATCH_UP_SECONDS)

    # -- what is typed -------------------------------------------------------------------------------------------------

    async def _listen(self) -> int:
        while (line := await self._lines.next()) is not None:
            self._presses = 0
            if self._terminal.asking and self._lines.interactive:
                self._terminal.answered()
            if not self._questions.give(line):
                await self._typed.put(line)
        if not self._lines.interactive:
            await self._typed.put(None)
            await asyncio.Future()  # until the prompts are answered
        self._terminal.fresh_line()
        return 0

    def _offer(self) -> None:
        """Show the prompt, if one is read and no question is open."""
        if self._at_prompt and self._lines.interactive and not (self._questions.asked or self._terminal.asking):
            self._terminal.aside.line()
            self._terminal.ask(_MORE if self._begun else _PROMPT)

    async def _next_prompt(self) -> str | None:
        """Return what was typed, or came out of the pipe; None at its end. Pasted lines are one prompt, a backslash continues a line."""
        while (line := await self._typed.get()) is not None:
            pasted = False
            if self._lines.interactive:
                await asyncio.sleep(_PASTE_SECONDS)
                while not self._typed.empty():
                    self._begun.append(line)
                    line, pasted = self._typed.get_nowait() or "", True
            if pasted:
                self._begun.append(line)
            elif line.endswith("\\"):
                self._begun.append(line[:-1])
            else:
                return self._whole(line)
            if pasted:
                self._terminal.disturbed()  # the beginning of its last line is shown already
            if self._lines.interactive:
                self._terminal.ask(_MORE)
        return self._whole("") if self._begun else None

    def _whole(self, line: str) -> str:
        text = "\n".join([*self._begun, line] if line else self._begun)
        self._begun.clear()
        return text

    async def _work(self, session: Session) -> int:
        if self._lines.interactive:
            self._terminal.aside.line("Ctrl-C stops a turn, Ctrl-D quits.", "dim")
        text: str | None = self._prompt or ""
        if text:
            self._terminal.aside.line(f"{_PROMPT}{text}", "bold")
            await self._send(text)
        while True:
            self._at_prompt = True
            self._offer()
            text = await self._next_prompt()
            self._at_prompt = False
            if text is None or text.strip() in ("/quit", "/exit"):
                break
            if text.strip():
                if not self._lines.interactive:
                    if self._spoken:
                        self._terminal.aside.line()
                    self._terminal.aside.line(f"{_PROMPT}{text}", "bold")
                await self._send(text)
        if self._lines.interactive:
            return 0
        self._finishing = True
        await session.finish(timeout=self._options.timeouts.background)
        return FAILED if self._failed else 0

    async def _send(self, text: str) -> None:
        self._spoken = True
        turn = await self._live.send(text)
        try:
            await turn.result()
        except HackamoreError as error:
            if self._over:
                await asyncio.Future()  # `_show` reports it, and ends the chat
            if isinstance(error, (AuthenticationError, TurnTimeoutError)):
                self._failed = self._failed or not self._lines.interactive
                self._terminal.error(str(error))
        self._failed = self._failed or turn.state is TurnState.FAILED
        while self._messages.unread:
            self._all_shown.clear()
            await self._all_shown.wait()
