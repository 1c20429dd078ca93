"""Lines that are edited with prompt_toolkit: history, completion of commands. Where a terminal cannot do it, `Lines` reads plain lines.

A line is edited only while the chat waits for one. Output suspends it: the line is erased, the output is written, and the next question
of the chat shows the line again. So everything stays in the scrollback, and nothing is drawn over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from bridle.cli.questions import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent

    from bridle.cli.terminal import Terminal

_MOST_HISTORY = 1024 * 1024
_SUSPENDED = "\0suspended"
"""A result that no line can be: prompt_toolkit has no other way to end an edit early."""


class EditedLines(Lines):
    """Lines of a terminal, edited.

    Args:
        terminal: the terminal; its questions begin an edit.
        prompts: the questions whose lines are prompts: they have history and completion, and survive a suspension.
        commands: returns the commands to complete, each with the words that may follow it.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        prompts: Iterable[str],
        commands: Callable[[], Mapping[str, Iterable[str]]],
    ) -> None:
        super().__init__()
        self._terminal = terminal
        self._prompts = frozenset(prompts)
        self._message: str | None = None
        self._kept = ""
        self._asked = asyncio.Event()
        self._before: Any = None
        output = Vt100_Output.from_pty(sys.stdout, enable_bell=False)
        output.enable_cpr = False  # not all terminals answer
        depth = ColorDepth.DEPTH_4_BIT if terminal.styled else ColorDepth.DEPTH_1_BIT
        common: dict[str, Any] = {
            "output": output,
            "color_depth": depth,
            "key_bindings": _keys(),
            "complete_style": CompleteStyle.READLINE_LIKE,
            "complete_while_typing": False,
            "enable_suspend": True,
        }
        self._prompt: PromptSession[str] = PromptSession(history=_history(), completer=_Commands(commands), **common)
        self._answer: PromptSession[str] = PromptSession(history=InMemoryHistory(), **common)
        self._running: PromptSession[str] | None = None
        terminal.asker, terminal.edited = self._ask, self._suspend
        self._echo(on=False)

    def close(self) -> None:
        """Give the terminal back as it was."""
        self._terminal.asker = self._terminal.edited = None
        self._echo(on=True)

    async def next(self) -> str | None:
        """Return the next line; None at the end of the input."""
        while True:
            if self._message is not None:
                line = await self._edit(self._message)
                if line != _SUSPENDED:
                    return line
            elif (line := await self._plain()) != _SUSPENDED:
                return line

    async def _plain(self) -> str | None:
        """Return a line that is typed outside an edit, or `_SUSPENDED` when an edit begins."""
        reading = asyncio.ensure_future(super().next())
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait((reading, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not reading.done():
                reading.cancel()
            await asyncio.gather(reading, asked, return_exceptions=True)
        if reading.cancelled():
            return _SUSPENDED
        line = reading.result()
        if line is not None:
            self._terminal.line(f"> {line}", "dim")  # the terminal shows nothing of it
        return line

    async def _edit(self, message: str) -> str | None:
        is_prompt = message in self._prompts
        session = self._prompt if is_prompt else self._answer
        app = session.app
        app.erase_when_done = False
        self._running = session

        def began() -> None:
            if self._message is not message and app.future is not None and not app.future.done():
                app.erase_when_done = True
                app.exit(result=_SUSPENDED)

        try:
            line = await session.prompt_async(
                FormattedText([("bold", message)]),
                default=self._kept if is_prompt else "",
                handle_sigint=False,
                pre_run=began,
            )
        except EOFError:
            self._message = None
            return None
        finally:
            self._running = None
        if line != _SUSPENDED:
            self._asked.clear()
            self._message = None
            if is_prompt:
                self._kept = ""
        return line

    def _ask(self, message: str) -> None:
        self._suspend()
        self._message = message
        self._asked.set()

    def _suspend(self) -> None:
        """Erase the line that is being edited, before something else is written."""
        self._asked.clear()
        message, self._message = self._message, None
        session = self._running
        if session is None or not session.app.is_running or session.app.future is None or session.app.future.done():
            return
        if message in self._prompts:
            self._kept = session.default_buffer.text
        session.app.renderer.erase()
        session.app.erase_when_done = True
        session.app.exit(result=_SUSPENDED)

    def _echo(self, *, on: bool) -> None:
        """Switch the terminal's echo: between two edits, typed characters would mix with the output."""
        with suppress(OSError, termios.error):
            if on:
                if self._before is not None:
                    termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
                return
            self._before = termios.tcgetattr(self._descriptor)
            quiet = termios.tcgetattr(self._descriptor)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, quiet)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-c")
    def _interrupt(event: KeyPressEvent) -> None:
        event.current_buffer.reset()
        os.kill(os.getpid(), signal.SIGINT)

    @keys.add("escape", "enter")
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class _Commands(Completer):
    """Completes commands, and the words that may follow them."""

    def __init__(self, commands: Callable[[], Mapping[str, Iterable[str]]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        word, space, argument = text.partition(" ")
        known = self._commands()
        if not space:
            for name in sorted(known):
                if name.startswith(word):
                    yield Completion(name, -len(word))
        elif word in known:
            for choice in known[word]:
                if choice.startswith(argument):
                    yield Completion(choice, -len(argument))


class _PrivateHistory(FileHistory):
    """A history in a file that only the user can read; a file that fails is ignored."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return ()

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def _history() -> History:
    folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):
        home = os.path.expanduser("~")
        folder = os.path.join(home, ".local", "state") if os.path.isabs(home) else ""
    if not folder:
        return InMemoryHistory()
    file = os.path.join(folder, "bridle", "chat_history")
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            if os.fstat(descriptor).st_size > _MOST_HISTORY:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return _PrivateHistory(file)
