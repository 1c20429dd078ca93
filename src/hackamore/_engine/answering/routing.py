"""Which callback of the user answers a request: hooks, permissions and dialogs here, servers in `mcp_calls`.

A part prepares a job for each request of its kind: what is called, and what becomes of the outcome. It answers directly where nothing
is to be called, and returns the timeout of the callback otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore import dialogs
from hackamore._engine.answering.jobs import Job, Jobs
from hackamore._engine.answering.mcp_calls import McpCalls
from hackamore._engine.protocol.log import one_line
from hackamore.checked.functions import is_async
from hackamore.errors import DecodeError, escape_terminal, text_of
from hackamore.hooks import HookContext
from hackamore.hooks.inputs import decode_hook_input, decode_hook_request
from hackamore.hooks.outputs import encode_hook_output, fail_output
from hackamore.permissions import (
    PermissionRequestError,
    decode_permission_request,
    deny,
    encode_permission_result,
)

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Mapping

    from hackamore._engine.answering.jobs import SessionParts
    from hackamore._engine.answering.servers import Servers
    from hackamore._engine.protocol.events import RequestReceived
    from hackamore.hooks.matchers import RegisteredHook, Registration
    from hackamore.options.options import Options

__all__ = ["Callbacks", "Job"]


class Callbacks:
    """All callbacks of a session: takes each request of the CLI and ends it exactly once.

    Attributes:
        to_run: jobs for the shell to start; `take` yields them.
        to_stop: jobs whose callbacks the shell is to stop; `take` does.
    """

    def __init__(self, options: Options, hooks: Registration, servers: dict[str, Any], parts: SessionParts) -> None:
        self._log = parts.log
        self._reach = parts.reach
        self._observers = parts.observers
        self._jobs = jobs = Jobs(options.limits.inflight_callbacks, parts)
        self.to_run: deque[Job] = jobs.to_run
        self.to_stop: deque[Job] = jobs.to_stop
        self.take: Callable[[], Iterator[Job]] = jobs.take
        self.finish: Callable[[Job, object, BaseException | None], None] = jobs.finish
        self.expire: Callable[[str, float], None] = jobs.expire
        self.cancelled: Callable[[str], None] = jobs.cancelled
        self.mcp: McpCalls = McpCalls(servers, options.timeouts.mcp, jobs, parts)
        self.servers: Servers = self.mcp.servers
        user = _UserCallbacks(options, hooks.callbacks, jobs, parts)
        self._prepare: dict[str, Callable[[Job, RequestReceived], float | None]] = {
            "hook": user.hook,
            "permission": user.permission,
            "dialog": user.dialog,
            "mcp": self.mcp.prepare,
        }

    def begin(self, event: RequestReceived) -> None:
        """Answer a request, or open a job for it."""
        job = Job(event.request_id, event.row.deadline)
        job.context = self._reach().context
        try:
            timeout = self._prepare[job.kind](job, event)
        except Exception as error:
            if isinstance(error, (PermissionRequestError, DecodeError)):
                self._log.debug("a request cannot be read: %s", one_line(error))
            else:
                self._log.exception("preparing a callback failed")
            self._jobs.crash(job, f"{type(error).__name__}: {text_of(error)}")
            return
        if job.over:
            return
        if self._observers is not None:
            self._observers.callback_started(job)
        self._jobs.open(job, timeout)

    def end(self) -> None:
        """End the servers: the session is over."""
        self.mcp.end()


class _Dialog(NamedTuple):
    """A kind of dialog: the option that answers it, the answer without one, and the codec."""

    option: str
    default: Mapping[str, Any]
    decode: Callable[..., Any]
    encode: Callable[[object], dict[str, Any]]


_DIALOGS = {
    "elicitation": _Dialog("on_elicitation", dialogs.DECLINED, dialogs.decode_elicitation, dialogs.encode_elicitation),
    "request_user_dialog": _Dialog(
        "on_user_dialog", dialogs.CANCELLED, dialogs.decode_user_dialog, dialogs.encode_user_dialog
    ),
}


class _UserCallbacks:
    """The callbacks of the options, and the hooks."""

    def __init__(self, options: Options, hooks: Mapping[str, RegisteredHook], jobs: Jobs, parts: SessionParts) -> None:
        self._options = options
        self._hooks = hooks
        self._jobs = jobs
        self._parts = parts

    def hook(self, job: Job, event: RequestReceived) -> float | None:
        asked = decode_hook_request(event.frame.request_raw)
        hook = self._hooks.get(asked.callback_id)
        if hook is None:
            name = escape_terminal(asked.callback_id, 100)
            self._parts.log.warning("the CLI calls hook %r, which was not registered", name)
            self._jobs.answer(job, {})
            return None
        job.name = f"{hook.event} hook `{_name(hook.callback)}`"
        job.function = hook.callback
        job.is_async = hook.is_async
        job.fail = lambda reason: fail_output(hook.on_failure, hook.event, reason)
        job.tool_use_id = asked.tool_use_id
        context = HookContext(asked.tool_use_id, self._parts.reach(), lambda: job.cancelled)
        # Here and not in the callback's thread: a warning belongs to the session.
        value = job.request = decode_hook_input(hook.event, asked.input_raw, self._parts.warn)
        job.event, job.tool, job.on_failure = hook.event, getattr(value, "tool_name", ""), hook.on_failure

        def finish(outcome: Any) -> dict[str, Any]:
            encoded = encode_hook_output(outcome, hook.event)
            for warning in encoded.warnings:
                self._parts.warn(warning)
            return encoded.wire

        job.call = lambda: hook.callback(value, context)
        job.finish = finish
        return hook.timeout

    def permission(self, job: Job, event: RequestReceived) -> float | None:
        """Prepare the call of `can_use_tool`."""
        callback = self._options.can_use_tool
        if callback is None:
            self._jobs.answer(job, deny("No permission callback: `can_use_tool` was not set."))
            return None
        job.fail = deny
        request = self._question(job, event, decode_permission_request, "can_use_tool", callback)
        job.tool, job.tool_use_id = request.tool_name, request.tool_use_id
        job.finish = lambda outcome: encode_permission_result(outcome, request)
        return self._options.timeouts.permission

    def dialog(self, job: Job, event: RequestReceived) -> float | None:
        """Prepare the call of the option that answers this kind of dialog."""
        kind = _DIALOGS[event.subtype]
        callback = getattr(self._options, kind.option)
        job.name = f"`{kind.option}`"
        job.fail = lambda reason: dict(kind.default)
        if callback is None:
            self._jobs.answer(job, dict(kind.default))
            return None
        self._question(job, event, kind.decode, kind.option, callback)
        job.finish = kind.encode
        return self._options.timeouts.permission

    def _question(
        self, job: Job, event: RequestReceived, decode: Callable[..., Any], option: str, callback: Callable[[Any], Any]
    ) -> Any:
        request = decode(
            event.frame.request_raw,
            request_id=event.request_id,
            session=self._parts.reach(),
            cancelled=lambda: job.cancelled,
            warn=self._parts.warn,
        )
        job.name = f"`{option}` ({_name(callback)})"
        job.is_async = is_async(callback)
        job.function = callback
        job.request = request
        job.call = lambda: callback(request)
        return request


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
