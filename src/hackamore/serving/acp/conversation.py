"""One conversation of a client: its settings, its prompts in order, and what was chosen in the editor."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import anyio
from acp import schema
from acp.helpers import update_current_mode

from hackamore.errors import HackamoreError
from hackamore.messages import InitMessage, ResultMessage, StatusMessage
from hackamore.options.kinds import PermissionMode
from hackamore.runtime.log import logger
from hackamore.serving.acp.asking import CANCELLED
from hackamore.serving.acp.prompts import invalid
from hackamore.serving.acp.shown import Shown, commands_update, described, usage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp import Client

    from hackamore.aio.pool import SessionPool
    from hackamore.aio.session import Session, Turn
    from hackamore.dialogs import ElicitationRequest, ElicitationResult
    from hackamore.messages import SlashCommand
    from hackamore.messages.results import ModelInfo
    from hackamore.permissions import Allow, Deny, PermissionRequest
    from hackamore.serving.acp.asking import Asker

_MODES = {
    "default": ("Default", "Ask before tools that change something"),
    "acceptEdits": ("Accept edits", "Change files without asking"),
    "plan": ("Plan", "Read and plan, change nothing"),
    "dontAsk": ("Do not ask", "Deny what is not allowed already"),
    "auto": ("Auto", "A classifier decides about requests"),
    "bypassPermissions": ("Bypass permissions", "Run every tool without asking"),
}
_OFFERED = ("default", "acceptEdits", "plan", "dontAsk")
_DEFAULT = "default"
_STOPS: dict[str | None, Any] = {"max_tokens": "max_tokens", "refusal": "refusal"}
_MOST = "error_max_turns"
_CATCH_UP_SECONDS = 0.5
"""Seconds that a permission request waits until its call is shown."""


class Run:
    """A prompt, from its arrival to its answer."""

    def __init__(self) -> None:
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.cancelled: bool = False
        self.turn: Turn | None = None


class Conversation:
    """A conversation that a client opened.

    Args:
        client: the client.
        pool: the pool that runs it.
        key: its key in the pool, and its id for the client.
        settings: options that differ from those of the pool.
        asker: asks the user.
    """

    def __init__(self, client: Client, pool: SessionPool, key: str, settings: dict[str, Any], asker: Asker) -> None:
        self.key: str = key
        self._client, self._pool, self._asker = client, pool, asker
        self._settings = settings
        self._cwd = str(settings["cwd"])
        self._shown = Shown(self._cwd)
        self._mode = pool.options.permission_mode or _DEFAULT
        self._models: list[ModelInfo] = []
        self._model = settings.get("model") or pool.options.model or ""
        self._effort: str = pool.options.effort or _DEFAULT
        self._lock = asyncio.Lock()  # first come, first served
        self._runs: list[Run] = []
        self._running: Run | None = None
        self._session: Session | None = None
        self._commands: Sequence[SlashCommand] = ()
        self._news = asyncio.Event()

    # -- life ----------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the CLI of the conversation, and learn what it offers."""
        async with self._lock, self._checked_out() as session:
            self._learn(session)

    def _checked_out(self) -> Any:
        return self._pool.conversation(self.key, caller=self, timeout=float("inf"), **self._settings)

    def _learn(self, session: Session) -> None:
        info = session.server_info
        if info is not None:
            self._models = info.models
            self._commands = info.commands
            self._mode = self._settings.get("permission_mode") or info.current_permission_mode or self._mode

    async def announce(self) -> None:
        """Send the slash commands."""
        await self._update(commands_update(self._commands))

    async def show(self, messages: Any) -> None:
        """Show an old conversation.

        Args:
            messages: an async iterator of its messages.
        """
        shown = Shown(self._cwd, replay=True)
        async for message in messages:
            for update in shown.of(message):
                await self._update(update)
        for update in shown.close():
            await self._update(update)

    async def close(self) -> None:
        """Stop the prompts of the conversation and its process."""
        await self.cancel()
        async with self._lock:
            states = {each.key: each.state for each in await self._pool.conversations()}
            if states.get(self.key) == "live":
                async with self._checked_out() as session:
                    await session.stop()

    async def _update(self, update: Any) -> None:
        await self._client.session_update(self.key, update)

    # -- prompts -------------------------------------------------------------------------------------------------------

    async def prompt(self, content: str | list[dict[str, Any]]) -> schema.PromptResponse:
        """Send a prompt when those before it are over; return its end."""
        run = Run()
        self._runs.append(run)
        result: ResultMessage | None = None
        try:
            with run.scope:
                async with self._lock, self._checked_out() as session:
                    self._session = session
                    try:
                        result = await self._answer(session, run, content)
                    finally:
                        self._session = None
        finally:
            self._runs.remove(run)
        if run.cancelled or result is None:
            return schema.PromptResponse(stop_reason="cancelled")
        stop: Any = "max_turn_requests" if result.subtype == _MOST else _STOPS.get(result.stop_reason, "end_turn")
        if stop == "end_turn":
            result.raise_for_error()
        return schema.PromptResponse(stop_reason=stop, usage=usage_of(result))

    async def _answer(self, session: Session, run: Run, content: Any) -> ResultMessage | None:
        turn = run.turn = await session.send(content)
        self._running = run
        try:
            async for message in turn:
                await self._show(message)
            return await turn.result()
        except HackamoreError:
            if run.cancelled:
                return None
            raise
        finally:
            self._running = None
            with suppress(ConnectionError):
                for update in self._shown.close():
                    await self._update(update)

    async def _show(self, message: Any) -> None:
        mode = getattr(message, "permission_mode", None) if isinstance(message, (InitMessage, StatusMessage)) else None
        if mode is not None and mode != self._mode and mode in get_args(PermissionMode):
            self._mode = mode
            self._settings["permission_mode"] = mode
            await self._report_mode()
        for update in self._shown.of(message):
            await self._update(update)
        self._news.set()

    async def cancel(self) -> None:
        """Stop the prompt that runs, and those that wait."""
        for run in tuple(self._runs):
            if run.cancelled:
                continue
            run.cancelled = True
            if run.turn is None:
                run.scope.cancel()
                continue
            try:
                await run.turn.interrupt()
            except HackamoreError as error:
                logger.warning("a turn could not be interrupted: %s", error)
                run.scope.cancel()

    # -- questions -----------------------------------------------------------------------------------------------------

    async def permit(self, request: PermissionRequest) -> Allow | Deny:
        """Ask the user for permission, after the call was shown."""
        with suppress(ConnectionError):
            await self._shown_first(request.tool_use_id)
            for update in self._shown.begin(request.tool_use_id, request.tool_name, request.input):
                await self._update(update)
        answer = await self._asker.permit(request, described(request.tool_name, request.input, self._cwd))
        if answer is CANCELLED and self._running is not None:
            self._running.cancelled = True  # the answer interrupts the turn
        return answer

    async def _shown_first(self, call_id: str) -> None:
        """Wait until the messages before a call were shown: its request overtakes them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                while call_id not in self._shown:
                    self._news.clear()
                    await self._news.wait()

    async def elicit(self, request: ElicitationRequest) -> ElicitationResult:
        """Ask the user for what an MCP server needs."""
        return await self._asker.elicit(request)

    # -- settings ------------------------------------------------------------------------------------------------------

    @property
    def modes(self) -> schema.SessionModeState:
        """The permission modes, and the one in force."""
        return schema.SessionModeState(
            current_mode_id=self._mode,
            available_modes=[
                schema.SessionMode(id=mode, name=name, description=text)
                for mode, (name, text) in self._offered().items()
            ],
        )

    def _offered(self) -> dict[str, tuple[str, str]]:
        bypass = self._pool.options.allow_dangerously_skip_permissions
        names = (*_OFFERED, *(("bypassPermissions",) if bypass else ()))
        return {mode: _MODES.get(mode, (mode, "")) for mode in dict.fromkeys((*names, self._mode))}

    @property
    def config(self) -> list[Any]:
        """The settings that the client may change."""
        found = [_select("mode", "Mode", "mode", self._mode, self._offered())]
        models = {
            each.value: (each.display_name or each.value, each.description) for each in self._models if each.value
        }
        if models:
            current = self._model or next(iter(models))
            models.setdefault(current, (current, ""))
            found.append(_select("model", "Model", "model", current, models))
            levels = next((each.supported_effort_levels for each in self._models if each.value == current), [])
            if levels:
                efforts = {_DEFAULT: ("Default", ""), **{level: (level.capitalize(), "") for level in levels}}
                efforts.setdefault(self._effort, (self._effort, ""))
                found.append(_select("effort", "Effort", "thought_level", self._effort, efforts))
        return found

    async def set_mode(self, mode: str) -> None:
        """Change the permission mode, also during a turn."""
        if mode not in self._offered():
            raise invalid(f"There is no mode {mode[:100]!r}: use one of {', '.join(self._offered())}.")
        if self._session is not None:
            await self._session.set_permission_mode(mode)  # type: ignore[arg-type]
        changed, self._mode = mode != self._mode, mode
        self._settings["permission_mode"] = mode
        if changed:
            await self._report_mode()

    async def _report_mode(self) -> None:
        await self._update(update_current_mode(self._mode))
        await self._update(schema.ConfigOptionUpdate(session_update="config_option_update", config_options=self.config))

    async def set_config(self, name: str, value: str | bool) -> None:
        """Change a setting: the mode and the model during a turn, the effort with the next prompt."""
        known = {each.id: {option.value for option in each.options} for each in self.config}
        if name not in known:
            raise invalid(f"There is no option {name[:100]!r}: use one of {', '.join(known)}.")
        if not isinstance(value, str) or value not in known[name]:
            raise invalid(f"`{name}` has no value {str(value)[:100]!r}.")
        if name == "mode":
            await self.set_mode(value)
        elif name == "model":
            if self._session is not None:
                await self._session.set_model(value)
            self._model = self._settings["model"] = value
        else:
            self._effort = value
            self._settings["effort"] = None if value == _DEFAULT else value


def _select(name: str, label: str, category: Any, current: str, values: dict[str, tuple[str, str]]) -> Any:
    return schema.SessionConfigOptionSelect(
        id=name,
        name=label,
        category=category,
        type="select",
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=title, description=text or None)
            for value, (title, text) in values.items()
        ],
    )
