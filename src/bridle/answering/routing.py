"""What the CLI asks of us, and which callback of the user answers: hooks, permissions, dialogs. Servers are in `session_mcp`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from bridle import dialogs
from bridle.answering.jobs import Job
from bridle.answering.mcp_calls import McpCalls
from bridle.checked.functions import is_async
from bridle.errors import printable
from bridle.hooks import HookContext
from bridle.hooks.decode import decode_hook_input, decode_hook_request
from bridle.hooks.encode import encode_hook_output, fail_output
from bridle.permissions.requests import decode_permission_request
from bridle.permissions.results import deny, encode_permission_result

if TYPE_CHECKING:
    from bridle.hooks.matchers import Registration
    from bridle.options.options import Options
    from bridle.protocol.connection import Connection
    from bridle.protocol.events import RequestReceived

__all__ = ["Callbacks", "Job"]

logger = logging.getLogger("bridle")


class Callbacks(McpCalls):
    """All callbacks of a session."""

    def __init__(
        self,
        options: Options,
        hooks: Registration,
        servers: dict[str, Any],
        connection: Connection,
        **shell: Any,
    ) -> None:
        """Take what the session was made with; `shell` is as `Exchanges` says."""
        super().__init__(servers, options, connection, **shell)
        self._hooks = hooks.callbacks

    def _prepare(self, job: Job, event: RequestReceived) -> float | None:
        match job.kind:
            case "hook":
                return self._hook(job, event)
            case "permission":
                return self._permission(job, event)
            case "mcp":
                return self._mcp(job, event)
            case _:
                return self._dialog(job, event)

    def _hook(self, job: Job, event: RequestReceived) -> float | None:
        asked = decode_hook_request(event.frame.request_raw)
        hook = self._hooks.get(asked.callback_id)
        if hook is None:
            logger.warning("the CLI calls hook %r, which was never registered", printable(asked.callback_id, 100))
            self._answer(job, {})
            return None
        job.name = f"{hook.event} hook `{_name(hook.callback)}`"
        job.is_async = hook.is_async
        job.fail = lambda reason: fail_output(hook.on_failure, hook.event, reason)
        context = HookContext(asked.tool_use_id, self._session, lambda: job.cancelled)
        # Here and not in the callback's thread: a warning belongs to the session.
        value = decode_hook_input(hook.event, asked.input_raw, self._warn)

        def finish(outcome: Any) -> dict[str, Any]:
            encoded = encode_hook_output(outcome, hook.event)
            for warning in encoded.warnings:
                self._warn(warning)
            return encoded.wire

        job.call = lambda: hook.callback(value, context)
        job.finish = finish
        return hook.timeout

    def _permission(self, job: Job, event: RequestReceived) -> float | None:
        callback = self._options.can_use_tool
        if callback is None:
            self._answer(job, deny("Nobody is there to be asked: no `can_use_tool` was set."))
            return None
        job.fail = deny
        request = decode_permission_request(
            event.frame.request_raw,
            request_id=event.request_id,
            session=self._session,
            cancelled=lambda: job.cancelled,
            warn=self._warn,
        )
        job.name = f"`can_use_tool` ({_name(callback)})"
        job.is_async = is_async(callback)
        job.call = lambda: callback(request)
        job.finish = lambda outcome: encode_permission_result(outcome, request)
        return self._options.timeouts.permission

    def _dialog(self, job: Job, event: RequestReceived) -> float | None:
        elicitation = event.subtype == "elicitation"
        callback = self._options.on_elicitation if elicitation else self._options.on_user_dialog
        default = dialogs.DECLINED if elicitation else dialogs.CANCELLED
        job.name = f"`{'on_elicitation' if elicitation else 'on_user_dialog'}`"
        job.fail = lambda reason: dict(default)
        if callback is None:
            self._answer(job, dict(default))
            return None
        decode = dialogs.decode_elicitation if elicitation else dialogs.decode_user_dialog
        request = decode(
            event.frame.request_raw,
            request_id=event.request_id,
            session=self._session,
            cancelled=lambda: job.cancelled,
            warn=self._warn,
        )
        job.name += f" ({_name(callback)})"
        job.is_async = is_async(callback)
        job.call = lambda: callback(request)
        job.finish = dialogs.encode_elicitation if elicitation else dialogs.encode_user_dialog
        return self._options.timeouts.permission


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
