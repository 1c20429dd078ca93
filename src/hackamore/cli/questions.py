"""Questions for the user at a terminal: permissions for tools.

Lines are read without a thread, so that no thread is left waiting in a read.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hackamore.activity.words import clean, one_line
from hackamore.dialogs import ElicitationResult
from hackamore.errors import DecodeError, OptionsError
from hackamore.permissions import (
    AddRules,
    Allow,
    Deny,
    PermissionRule,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hackamore.cli.terminal import Terminal
    from hackamore.dialogs import ElicitationRequest
    from hackamore.permissions import PermissionRequest

_LONGEST = 16 * 1024 * 1024
_PIECE = 65536


class Lines:
    """Lines of an input (None: standard input). A terminal stays as it is: it edits lines, and turns Ctrl-C into a signal."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = -1 if descriptor is None else descriptor
        if descriptor is None:
            with suppress(OSError, ValueError, AttributeError):
                self._descriptor = sys.stdin.fileno()
        self.interactive: Any | bool = self._descriptor >= 0 and os.isatty(self._descriptor)
        self._unread = bytearray()
        self._looked_at = 0
        self._ended = self._descriptor < 0

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of the input."""
        while (end := self._unread.find(b"\n", self._looked_at)) < 0 and not self._ended:
            self._looked_at = len(self._unread)
            if self._looked_at > _LONGEST:
                raise OptionsError(f"A line on standard input is longer than {_LONGEST:,} bytes.", field="prompt")
            await self._read()
        self._looked_at = 0
        if end < 0:
            line, self._unread = bytes(self._unread), bytearray()
            return self._text(line) if line else None
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return self._text(line)

    def forget(self) -> None:
        """Drop typed text that was not read yet: it does not answer the next question."""
        if self.interactive:
            with suppress(OSError, termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
            self._unread.clear()
            self._looked_at = 0

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig").removesuffix("\r")
        except UnicodeDecodeError as error:
            if self.interactive:
                return line.decode("utf-8", "replace")
            raise OptionsError(
                f"A line on standard input is not valid UTF-8 (byte {error.start}). Convert it with `iconv`.",
                field="prompt",
            ) from None

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()

        def tell() -> None:
            if not readable.done():
                readable.set_result(None)

        try:
            loop.add_reader(self._descriptor, tell)
        except PermissionError:
            pass  # a file: it cannot be waited for, and never has to be
        else:
            try:
                await readable
            finally:
                loop.remove_reader(self._descriptor)
            if not select.select([self._descriptor], [], [], 0)[0]:
                return  # `forget` dropped it meanwhile: a read would block the event loop until the user types
        try:
            data = os.read(self._descriptor, _PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            if not self.interactive:
                raise OptionsError(f"Standard input cannot be read: {error.strerror}.", field="prompt") from None
            data = b""  # the terminal is gone
        self._unread += data
        # On a terminal, Ctrl-D after some text returns that text and does not end the input.
        self._ended = not data


_SHOWN_LINES = 30
_SHOWN_CHARACTERS = 3_000
_ANSWER = re.compile(r"\s*((?:yes|no|always|y|n|a)\b|\?)[\s,:;.]*(.*)", re.IGNORECASE | re.DOTALL)
_MODEL_ASKS = "AskUserQuestion"


class Questions:
    """Asks one question at a time, on a terminal; `asked` is the open one, or empty. `called` waits until its call was shown."""

    def __init__(
        self, terminal: Terminal, lines: Lines, *, say_yes: bool, called: Callable[[str], Awaitable[None]]
    ) -> None:
        self._terminal = terminal
        self._lines = lines
        self._say_yes = say_yes
        self._called = called
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.asked: str = ""

    def give(self, line: str) -> bool:
        """Use a line as the answer; return False if no question is open."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(line)
        self.asked = ""  # a message that comes before `_ask` continues must not show the question again
        return True

    # -- may a tool run ------------------------------------------------------------------------------------------------

    async def may_run(self, request: PermissionRequest) -> Allow | Deny:
        await self._called(request.tool_use_id)
        async with self._turn:
            name = one_line(request.tool_name)  # labels are what others call it
            by_person = bool(request.requires_user_interaction) or request.classifier_approvable is False
            if not self._lines.interactive and (not self._say_yes or by_person):
                if by_person:
                    way = "Only a person at a terminal may allow it."
                else:
                    way = f"Allow it with --allow {name}, or everything with --yes."
                self._terminal.note(f"{name} was denied: there is no terminal to ask at. {way}", "yellow")
                return Deny("There is no terminal to ask for permission at.", decision_classification="user_reject")
            if request.tool_name == _MODEL_ASKS:
                return Deny("Ask in your answer: the user replies with the next prompt.")
            if self._say_yes and not by_person:
                self._terminal.note(f"{name} was allowed: --yes.", "dim")
                return Allow()
            return await self._ask_whether(request, name, by_person)

    async def _ask_whether(self, request: PermissionRequest, name: str, in_full: bool) -> Allow | Deny:
        terminal = self._terminal
        always = None if request.suppress_always_allow_rule else _always(request)
        aside = terminal.aside
        aside.line()
        aside.line(f"{name} wants to run:", "bold yellow")
        self._explain(request)
        self._show_input(request, _SHOWN_LINES, _SHOWN_CHARACTERS)
        if always is not None:
            rules = ", ".join(
                rule.tool_name if rule.rule_content is None else f"{rule.tool_name}({rule.rule_content})"
                for rule in always.rules
            )
            aside.line(f"  always: allow {one_line(rules)} (in this session)", "dim", wrap=True)
        choices = f"{'yes' if in_full else '[y]es'}, [n]o{', [a]lways' if always is not None else ''}"
        while True:
            answer = await self._ask(f"Allow {name}? {choices} ")
            found = _ANSWER.fullmatch(answer)
            word, reason = (found[1].lower(), found[2].strip()) if found else ("", "")
            if word == "?":
                self._show_input(request, None, None)
            elif word in ("n", "no"):
                text = reason or "The user does not want this. Ask for an alternative, or do something else."
                return Deny(text, decision_classification="user_reject")
            elif reason:
                terminal.note("To give a reason, type `n REASON`.", "yellow")
            elif word == "yes" or (word == "y" and not in_full):
                return Allow(decision_classification="user_temporary")
            elif word in ("a", "always") and always is not None:
                return Allow(updated_permissions=(always,), decision_classification="user_permanent")
            else:
                text = f"Type {choices}. `n REASON` sends the reason to the model; ? shows the whole input."
                terminal.note(text, "yellow")

    def _explain(self, request: PermissionRequest) -> None:
        server = request.mcp_server
        said = (
            ("it says", request.title),
            ("from a server of", server.source if server is not None else None),
            ("for the subagent", request.agent_id),
            ("because", request.decision_reason),
            ("path", request.blocked_path),
        )
        for label, text in said:
            if text:
                self._terminal.aside.line(f"  {label}: {one_line(text)}", "dim")

    def _show_input(self, request: PermissionRequest, most_lines: int | None, most_characters: int | None) -> None:
        try:
            text = clean(_readable(request.input))
        except DecodeError:
            text = clean(bytes(request.input_raw).decode("utf-8", "replace"))
        # Omitted text is reported: the user must not allow text that was not shown.
        shown = text[:most_characters].split("\n")[:most_lines]
        for line in shown:
            self._terminal.aside.line(f"  {line}")
        left = len(text) - len("\n".join(shown))
        if left > 0:
            self._terminal.aside.line(f"  {self._terminal.ellipsis} {left:,} more characters: ? shows all", "yellow")

    async def server_asks(self, request: ElicitationRequest) -> ElicitationResult:
        """Decline a question of an MCP server, with a note."""
        server = one_line(request.mcp_server_name)
        self._terminal.note(
            f"The MCP server {server} asked a question and was declined: a chat has no forms.", "yellow"
        )
        return ElicitationResult.decline()

    async def _ask(self, text: str) -> str:
        # Text typed before the question does not answer it.
        self._lines.forget()
        self._answer = asyncio.get_running_loop().create_future()
        self.asked = text
        self._terminal.ask(text)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._terminal.fresh_line()
            raise
        finally:
            self._answer, self.asked = None, ""


def _always(request: PermissionRequest) -> AddRules:
    """Return the rules that the CLI suggests, for this session; without any, a rule for the tool."""
    suggested = Allow.always(request).updated_permissions
    rules = [rule for update in suggested if isinstance(update, AddRules) for rule in update.rules]
    return AddRules(rules=rules or [PermissionRule(request.tool_name)], behavior="allow", destination="session")


def _readable(given: Mapping[str, Any]) -> str:
    parts = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name}: {text}" if "\n" not in text else f"{name}:\n{text}")
    return "\n".join(parts)
