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
    from collections.abc import AsyncIterator

    from acp import Client

    from hackamore.aio.pool import SessionPool
    from hackamore.aio.session import Turn
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
_STOPS = {"error_max_turns": "max_turn_requests", "max_tokens": "max_tokens", "refusal": "refusal", None: None}
_CATCH_UP_SECONDS = 0.5
"""Seconds that a permission request waits until its call is shown."""


class Run:
    """A prompt, from its arrival to its answer."""

    def __init__(self) -> None:
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.cancelled: bool = False
        self.turn: Turn | None = None


class Conversation:
    """A conversation that a client opened; `settings` are the options that differ from those of the pool."""

    def __init__(self, client: Client, pool: SessionPool, key: str, settings: dict[str, Any], asker: Asker) -> None:
        self.key: str = key
        self.elicit: Any = asker.elicit
        self._client, self._pool, self._asker, self._settings = client, pool, asker, settings
        self._shown = Shown(settings["cwd"])
        self._mode = pool.options.permission_mode or _DEFAULT
        self._models: list[ModelInfo] = []
        self._model = pool.options.model or ""
        self._effort: str = pool.options.effort or _DEFAULT
        self._lock = asyncio.Lock()  # first come, first served
        self._runs: list[Run] = []
        self._news = asyncio.Event()
        self._announcing: asyncio.Task[None] | None = None

    async def open(self, old: AsyncIterator[Any] | None) -> None:
        """Start the CLI of the conversation, and learn what it offers; show the messages of an old one before."""
        shown = Shown(self._settings["cwd"], replay=True)
        if old is not None:
            async for message in old:
                await self._update(*shown.of(message))
            await self._update(*shown.close())
        async with self._lock, self._checked_out() as session:
            if (info := session.server_info) is not None:
                self._models = info.models
                self._mode = info.current_permission_mode or self._mode
                self._announcing = asyncio.create_task(self._announce(info.commands))

    async def _announce(self, commands: Any) -> None:
        with suppress(ConnectionError):  # a task, which runs after the answer with the id
            await self._update(commands_update(commands))

    def _checked_out(self) -> Any:
        return self._pool.conversation(self.key, caller=self, timeout=float("inf"), **self._settings)

    async def close(self) -> None:
        """Stop the prompts of the conversation and its process."""
        await self.cancel()
        async with self._lock:
            states = {each.key: each.state for each in await self._pool.conversations()}
            if states.get(self.key) == "live":
                async with self._checked_out() as session:
                    await session.stop()

    async def _update(self, *updates: Any) -> None:
        for update in updates:
            await self._client.session_update(self.key, update)

    async def prompt(self, content: str | list[dict[str, Any]]) -> schema.PromptResponse:
        """Send a prompt when those before it are over; return its end."""
        run = Run()
        self._runs.append(run)
        result: ResultMessage | None = None
        try:
            with run.scope:
                async with self._lock, self._checked_out() as session:
                    run.turn = await session.send(content)
                    result = await self._result(run.turn)
        except HackamoreError:
            if not run.cancelled:
                raise
        finally:
            self._runs.remove(run)
        if run.cancelled or result is None:
            return schema.PromptResponse(stop_reason="cancelled")
        stop: Any = _STOPS.get(result.subtype) or _STOPS.get(result.stop_reason)
        if stop is None:
            result.raise_for_error()
        return schema.PromptResponse(stop_reason=stop or "end_turn", usage=usage_of(result.usage))

    async def _result(self, turn: Turn) -> ResultMessage:
        try:
            async for message in turn:
                mode = message.permission_mode if isinstance(message, (InitMessage, StatusMessage)) else None
                if mode in get_args(PermissionMode):
                    await self._use_mode(str(mode))
                await self._update(*self._shown.of(message))
                self._news.set()
            return await turn.result()
        finally:
            with suppress(ConnectionError):
                await self._update(*self._shown.close())

    @property
    def _turn(self) -> Turn | None:
        return next((run.turn for run in self._runs if run.turn is not None), None)

    async def cancel(self) -> None:
        """Stop the prompt that runs, and those that wait."""
        for run in [each for each in self._runs if not each.cancelled]:
            run.cancelled = True
            try:
                if run.turn is not None:
                    await run.turn.interrupt()
                    continue
            except HackamoreError as error:
                logger.warning("a turn could not be interrupted: %s", error)
            run.scope.cancel()

    async def permit(self, request: PermissionRequest) -> Allow | Deny:
        """Ask the user for permission, after the call was shown."""
        with suppress(ConnectionError):
            with suppress(TimeoutError):
                async with asyncio.timeout(_CATCH_UP_SECONDS):
                    while request.tool_use_id not in self._shown:  # the request overtakes messages
                        self._news.clear()
                        await self._news.wait()
            await self._update(*self._shown.begin(request.tool_use_id, request.tool_name, request.input))
        answer = await self._asker.permit(request, described(request.tool_name, request.input, self._settings["cwd"]))
        for run in self._runs if answer is CANCELLED else ():
            run.cancelled = run.cancelled or run.turn is not None  # the answer interrupts the turn
        return answer

    @property
    def offers(self) -> dict[str, Any]:
        """The permission modes and the settings, as the answers about a conversation have them."""
        named = [schema.SessionMode(id=mode, name=name, description=text) for mode, (name, text) in self._modes.items()]
        modes = schema.SessionModeState(current_mode_id=self._mode, available_modes=named)
        return {"modes": modes, "config_options": self.config}

    @property
    def _modes(self) -> dict[str, tuple[str, str]]:
        bypass = self._pool.options.allow_dangerously_skip_permissions
        offered = (*_OFFERED, "bypassPermissions") if bypass else _OFFERED
        return {mode: _MODES.get(mode, (mode, "")) for mode in dict.fromkeys((*offered, self._mode))}

    @property
    def config(self) -> list[Any]:
        """The settings that the client may change."""
        models = {each.value: (each.display_name or each.value, each.description) for each in self._models}
        model = self._model or next(iter(models), "")
        levels = next((each.supported_effort_levels for each in self._models if each.value == model), [])
        efforts = {level: (level.capitalize(), "") for level in (_DEFAULT, *levels, self._effort)} if levels else {}
        return [
            _select("mode", "mode", self._mode, self._modes),
            *([_select("model", "model", model, {model: (model, ""), **models})] if model else ()),
            *([_select("effort", "thought_level", self._effort, efforts)] if efforts else ()),
        ]

    async def set_mode(self, mode: str) -> None:
        """Change the permission mode, also during a turn."""
        if mode not in self._modes:
            raise invalid(f"There is no mode {mode[:100]!r}: use one of {', '.join(self._modes)}.")
        if self._turn is not None:
            await self._turn.session.set_permission_mode(mode)  # type: ignore[arg-type]
        await self._use_mode(mode)

    async def _use_mode(self, mode: str) -> None:
        changed, self._mode = mode != self._mode, mode
        self._settings["permission_mode"] = mode
        if changed:
            report = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=self.config)
            await self._update(update_current_mode(mode), report)

    async def set_config(self, name: str, value: str | bool) -> None:
        """Change a setting: the mode and the model also during a turn, the effort with the next prompt."""
        known = {each.id: [option.value for option in each.options] for each in self.config}
        if value not in known.get(name, ()):
            raise invalid(f"There is no option {name[:100]!r} with the value {str(value)[:100]!r}: there are {known}.")
        if name == "mode":
            await self.set_mode(str(value))
        elif name == "model":
            if self._turn is not None:
                await self._turn.session.set_model(str(value))
            self._model = self._settings["model"] = str(value)
        else:
            self._effort = str(value)
            self._settings["effort"] = None if value == _DEFAULT else value


def _select(name: str, category: Any, current: str, values: dict[str, tuple[str, str]]) -> Any:
    options = [
        schema.SessionConfigSelectOption(value=value, name=title, description=text or None)
        for value, (title, text) in values.items()
    ]
    return schema.SessionConfigOptionSelect(
        id=name, name=name.capitalize(), category=category, type="select", current_value=current, options=options
    )
