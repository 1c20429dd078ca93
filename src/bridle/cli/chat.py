"""`bridle chat`: a conversation at a terminal, or with prompts from a pipe.

Three tasks: one shows messages, one reads lines, one executes them. The chat ends with the first of them, and the session is stopped
before the command returns.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from bridle.aio.session import Session
from bridle.checked.fields import suggestion
from bridle.cli.flags import MODES, build_options
from bridle.cli.questions import Lines, Questions
from bridle.cli.running import FAILED, expected_warnings, signals, wait_for_no_reader
from bridle.cli.terminal import clean, one_line
from bridle.cli.transcript import Transcript
from bridle.errors import BridleError, OptionsError, TurnTimeoutError
from bridle.messages import (
    AssistantMessage,
    AuthenticationError,
    CommandLifecycleMessage,
    ResultMessage,
    TextBlock,
    ToolUseBlock,
    UserMessage,
)
from bridle.protocol.states.session import SessionActivity, TurnState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bridle.aio.session import MessageCursor, Turn
    from bridle.cli.terminal import Terminal
    from bridle.messages import Message
    from bridle.options.kinds import PermissionMode
    from bridle.options.options import Options

_PROMPT = "> "
_MORE = ". "
_PASTE_SECONDS = 0.02
"""Lines that come within this time were not typed one after the other: they are one prompt."""
_WRITE_SECONDS = 0.5
"""Seconds that a write may take after a signal, before its reader counts as gone."""
_CATCH_UP_SECONDS = 0.5
"""Seconds that a question waits until its tool call is shown."""


def chat(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Hold the conversation and return the exit code; a session that cannot be started or is lost raises its `BridleError`."""
    options = build_options(given, partial=terminal.interactive)
    terminal.separate()
    conversation = Chat(options, terminal, prompt=given.get("prompt"), say_yes=bool(given.get("yes")))
    code = 0
    try:
        with signals.handed_to(conversation.heard), expected_warnings():
            code = asyncio.run(conversation.run())
    except BridleError:
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
        self._turns: set[Turn] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._presses = self._sending = self._undone = 0
        self._spoken = False
        self._failed = False
        self._stuck = False
        self._finishing = False
        self._pasting = False
        self._ended = False
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
            # It may be that nobody reads what is written, and that the event loop stands still for ever.
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
        if self._busy:
            self._terminal.note("Interrupting; Ctrl-C again quits.", "yellow")
            self._spawn(self.interrupt())
        else:
            self._terminal.note("Ctrl-C again quits, as do Ctrl-D and /quit.", "yellow")
            self.offer()

    # -- life ----------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Hold the conversation and return the exit code."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._lines = Lines()
        self._lines.hide()
        self._shown_calls: dict[str, asyncio.Event] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._entered: asyncio.Queue[str] = asyncio.Queue()
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
        finally:
            self._lines.restore()

    @property
    def _live(self) -> Session:
        assert self._session is not None  # noqa: S101 - for the type checker
        return self._session

    @property
    def _over(self) -> bool:
        """True if the session is over, which `_show` reports."""
        return self._live.state in ("stopped", "failed")

    def _went_wrong(self, error: BridleError) -> None:
        self._failed = self._failed or not self._lines.interactive
        self._terminal.error(str(error))

    def _asking(self, options: Options) -> Options:
        more: dict[str, Any] = {}
        if options.permission_prompt_tool_name is None:
            more["can_use_tool"] = self._questions.may_run
        return options.replace(on_elicitation=self._questions.server_asks, **more)

    def say_how_to_go_on(self) -> None:
        """Print the command that resumes the conversation."""
        if self._spoken and self._session is not None and self._session.session_id:
            wait_for_no_reader()
            self._terminal.note(f"Resume with: bridle chat --resume {self._session.session_id}", "dim")

    async def _talk(self, session: Session) -> int:
        self._messages = session.messages()
        tasks = {
            asyncio.create_task(self._show(self._messages)),
            asyncio.create_task(self._listen(session)),
            asyncio.create_task(self._work()),
        }
        try:
            if self._lines.interactive:
                self._terminal.aside.line("/help lists the commands, Ctrl-D quits.", "dim")
            if self._prompt:
                self._terminal.aside.line(f"{_PROMPT}{self._prompt}", "bold")
                await self.send(self._prompt)
            self.offer()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # What was lost says more than that nothing is left to be read.
            return max((task.result() for task in done), default=0)
        finally:
            for task in (*tasks, *self._tasks):
                task.cancel()
            await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what comes ----------------------------------------------------------------------------------------------------

    async def _show(self, messages: MessageCursor) -> int:
        async for message in messages:
            self._show_one(message)
            self._offer_if_quiet()
            if self._questions.asked and not self._terminal.asking:
                self._terminal.ask(self._questions.asked + self._lines.show())
        self._transcript.finish(None)
        if not self._finishing:
            self._terminal.note(f"The CLI exited without a request (exit code {self._live.exit_code}).", "yellow")
        return FAILED if self._failed else 0

    def _show_one(self, message: Message) -> None:
        self._lines.hide()
        match message:
            case ResultMessage():
                self._show_result(message)
                self._settle()
            case CommandLifecycleMessage():
                self._settle()
            case UserMessage(is_replay=True):
                pass  # the output of a command of the chat, which was shown
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

    @property
    def _busy(self) -> bool:
        session = self._session
        running = session is not None and session.activity in (SessionActivity.RUNNING, SessionActivity.REQUIRES_ACTION)
        return running or bool(self._questions.asked) or any(not turn.state.over for turn in self._turns)

    def _settle(self) -> None:
        """Record that a turn or command ended."""
        self._ended = True
        self._offer_if_quiet()

    def _offer_if_quiet(self) -> None:
        """Offer the next prompt if a turn ended, no prompt is open, and all messages are shown."""
        if self._sending or self._messages.unread or not self._ended:
            return
        if all(turn.state.over for turn in self._turns):
            self._ended = False
            self._quiet.set()
            self.offer()

    def offer(self) -> None:
        """Show the prompt, if no turn runs, no question is open, and all input is processed."""
        if not self._lines.interactive or self._undone or self._questions.asked or self._terminal.asking:
            return
        if self._quiet.is_set():
            self._terminal.aside.line()
            self._terminal.ask((_MORE if self._begun else _PROMPT) + self._lines.show())

    # -- what is typed -------------------------------------------------------------------------------------------------

    async def _listen(self, session: Session) -> int:
        if not self._lines.interactive:
            await self._quiet.wait()
        while (line := await self._lines.next()) is not None:
            self._presses = 0
            if self._lines.interactive:
                self._line_ended(line)
            if self._questions.give(line):
                continue
            if self._lines.interactive:
                self._undone += 1  # a message that comes meanwhile does not offer a prompt, as if this line were done
                await asyncio.sleep(_PASTE_SECONDS)
                self._undone -= 1
                if self._lines.waiting:
                    self._begun.append(line)
                    self._pasting = True
                    continue
            if line.endswith("\\") or self._pasting:
                self._begun.append(line if self._pasting else line[:-1])
                if self._pasting:
                    self._pasting = False
                    self._terminal.disturbed()  # the beginning of its last line may be shown already
                if self._lines.interactive:
                    self._terminal.ask(_MORE + self._lines.show())
                continue
            text = "\n".join([*self._begun, line] if line else self._begun)
            self._begun.clear()
            if text.strip() in ("/quit", "/exit"):
                break
            self._enter(text)
            if not self._lines.interactive:
                await self._entered.join()
                await self._quiet.wait()
        else:
            if self._begun and not self._lines.interactive:
                self._enter("\n".join(self._begun))
                await self._entered.join()
        if not self._lines.interactive:
            await self._quiet.wait()
            # What still runs in the background comes to its end, as after `bridle run`.
            self._finishing = True
            await session.finish(timeout=self._options.timeouts.background)
            return FAILED if self._failed else 0
        self._terminal.fresh_line()
        return 0

    def _line_ended(self, line: str) -> None:
        if not self._lines.hidden:
            self._terminal.answered()
            self._lines.hide()
        elif not self._pasting:  # the terminal has shown what was pasted at a prompt
            self._terminal.aside.line(f"{_PROMPT}{line}", "bold")

    def _enter(self, text: str) -> None:
        self._undone += 1
        self._entered.put_nowait(text)

    async def _work(self) -> int:
        while True:
            text = await self._entered.get()
            try:
                await self._do(text)
            finally:
                self._undone -= 1
                self._entered.task_done()
            if not self._over:
                self.offer()

    async def _do(self, text: str) -> None:
        if not text.strip():
            return
        if not self._lines.interactive:
            if self._spoken:
                self._terminal.aside.line()
            self._terminal.aside.line(f"{_PROMPT}{text}", "bold")
        word, _, argument = text.strip().partition(" ")
        if word not in COMMANDS:
            await self.send(text)
            return
        try:
            await run_command(word, argument.strip(), self._live, self._terminal, self.interrupt)
        except BridleError as error:
            if not self._over:
                self._went_wrong(error)

    async def send(self, text: str) -> None:
        """Send a prompt."""
        self._spoken = True
        self._sending += 1
        self._quiet.clear()
        try:
            turn = await self._live.send(text)
            self._turns.add(turn)
        finally:
            self._sending -= 1
        self._spawn(self._watch(turn))

    async def _watch(self, turn: Turn) -> None:
        try:
            await turn.result()
        except (AuthenticationError, TurnTimeoutError) as error:
            self._went_wrong(error)
        except BridleError:
            return  # the session is over; `_show` reports it
        if turn.state is TurnState.FAILED:
            self._failed = True
        self._turns.discard(turn)
        self._settle()

    async def interrupt(self) -> None:
        """Stop the running turn and cancel waiting prompts."""
        try:
            receipt = await self._live.interrupt(cancel_queued=True)
        except BridleError as error:
            if not self._over:
                self._terminal.error(str(error))
            return
        if receipt.cancelled:
            self._terminal.note(f"Cancelled prompts: {len(receipt.cancelled)}.", "yellow")
        self._settle()


COMMANDS = {
    "/help": "show this list",
    "/quit": "end the chat, like Ctrl-D",
    "/model": "NAME: change the model; without NAME: list the models",
    "/mode": "MODE: change the permission mode",
    "/interrupt": "stop the turn and cancel waiting prompts, like Ctrl-C",
    "/cost": "show the cost",
    "/context": "show the use of the context window",
}
_MODES = tuple(sorted(MODES))


async def run_command(
    word: str, argument: str, session: Session, terminal: Terminal, interrupt: Callable[[], Awaitable[None]]
) -> None:
    """Run a command; raises the `BridleError` of a refusal."""
    match word:
        case "/help":
            for name, text in COMMANDS.items():
                terminal.line(f"  {name:<11} {text}")
            terminal.line("  /...        sent to the CLI, such as /compact")
            terminal.line(
                "A line that ends with a backslash continues in the next line. After lines that you paste, press Enter."
            )
            terminal.line("Ctrl-C stops the turn; a second one quits. You can type the next prompt while a turn runs.")
        case "/model":
            await _model(argument, session, terminal)
        case "/mode":
            if argument not in _MODES:
                hint = suggestion(argument, _MODES) if argument else ""
                raise OptionsError(f"/mode needs one of {', '.join(_MODES)}.{hint}", field="permission_mode")
            await session.set_permission_mode(cast("PermissionMode", argument))
            terminal.note(f"Permission mode: {argument}.", "dim")
        case "/interrupt":
            await interrupt()
        case "/cost":
            terminal.line((await session.get_session_cost()).text)
        case "/context":
            await _context(session, terminal)


async def _model(name: str, session: Session, terminal: Terminal) -> None:
    if name:
        await session.set_model(name)
        terminal.note(f"Model: {name}.", "dim")
        return
    for model in (await session.list_models()).models:
        about = one_line(model.description)
        terminal.line(f"  {clean(model.value):<24} {terminal.shorten(about, max(20, terminal.width - 28))}")


async def _context(session: Session, terminal: Terminal) -> None:
    usage = await session.get_context_usage()
    for part in usage.categories:
        terminal.line(f"  {part.tokens:>10,.0f}  {clean(part.name)}")
    terminal.line(f"  {usage.total_tokens:>10,.0f}  of {usage.max_tokens:,.0f} tokens ({usage.percentage:.0f} %)")
