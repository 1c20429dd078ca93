"""Which callback of the user answers a request: hooks, permissions and dialogs here, servers in `mcp_calls`.

A part finds the callee of each request of its kind, and then reads the request: it becomes a job, or is answered directly where nothing
is to be called. The answer for a failure is known before anything of the request can fail.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore._engine.answering.jobs import Callee, Job, Jobs, JobState
from hackamore._engine.answering.mcp_calls import McpCalls
from hackamore._engine.protocol.log import one_line
from hackamore.checked.functions import Answer, is_async
from hackamore.dialogs import (
    CANCELLED,
    DECLINED,
    decode_elicitation,
    decode_user_dialog,
    encode_elicitation,
    encode_user_dialog,
)
from hackamore.errors import DecodeError, escape_terminal, text_of
from hackamore.hooks import HookContext
from hackamore.hooks.inputs import decode_hook_input, decode_hook_request
from hackamore.hooks.outputs import encode_hook_output, fail_output
from hackamore.options.observing import CallbackCall
from hackamore.permissions import PermissionRequestError, decode_permission_request, deny, encode_permission_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hackamore._engine.answering.guarding import PolicyGuard
    from hackamore._engine.answering.jobs import Found, SessionParts
    from hackamore._engine.answering.servers import Servers
    from hackamore._engine.protocol.events import RequestReceived
    from hackamore.checked.functions import Reach
    from hackamore.hooks.matchers import RegisteredHook, Registration
    from hackamore.options.options import Options


class Callbacks(Jobs):
    """All callbacks of a session: takes each request of the CLI and ends it exactly once."""

    def __init__(
        self,
        options: Options,
        hooks: Registration,
        servers: dict[str, Any],
        parts: SessionParts,
        guard: PolicyGuard | None = None,
    ) -> None:
        super().__init__(options.limits.inflight_callbacks, parts)
        self._reach = parts.reach
        self.mcp: McpCalls = McpCalls(servers, options.timeouts.mcp, self, parts)
        self.servers: Servers = self.mcp.servers
        user = _UserCallbacks(options, hooks.callbacks, parts, guard)
        self._find: dict[str, Callable[[RequestReceived], Found]] = {
            "hook": user.hook,
            "permission": user.question,
            "dialog": user.question,
            "mcp": self.mcp.find,
        }

    def begin(self, event: RequestReceived) -> None:
        """Answer a request, or open a job for it."""
        kind, reach = event.row.deadline, self._reach()
        state = JobState(self._parts.deadlines.now, reach.context)
        callee = Callee(kind)  # until it is found: then only the row of the request says what a failure is answered
        try:
            callee, prepare = self._find[kind](event)
            made = prepare(reach, state)
        except Exception as error:
            if isinstance(error, (PermissionRequestError, DecodeError)):
                self._parts.log.debug("a request cannot be read: %s", one_line(error))
            else:
                self._parts.log.exception("preparing a callback failed")
            # The function was not called: the warning must not point to its file and line.
            job = Job(CallbackCall(event.request_id, kind), callee._replace(function=None), state)
            self.crash(job, f"{type(error).__name__}: {text_of(error)}")
            return
        if isinstance(made, Answer):
            self.answer(Job(CallbackCall(event.request_id, kind), callee, state), made)
            return
        observers = self._parts.observers
        self.open(made if observers is None else observers.callback_started(made))

    def end(self) -> None:
        """End the servers: the session is over."""
        self.mcp.end()


class _Question(NamedTuple):
    """A kind of question to the user: the option that answers it, the codec, and the answer for a failure."""

    option: str
    decode: Callable[..., Any]
    encode: Callable[[object, Any], Answer]
    fail: Callable[[str], Answer]


_QUESTIONS = {
    "can_use_tool": _Question("can_use_tool", decode_permission_request, encode_permission_result, deny),
    "elicitation": _Question("on_elicitation", decode_elicitation, encode_elicitation, lambda _: DECLINED),
    "request_user_dialog": _Question("on_user_dialog", decode_user_dialog, encode_user_dialog, lambda _: CANCELLED),
}


class _UserCallbacks:
    """The callbacks of the options, and the hooks."""

    def __init__(
        self, options: Options, hooks: Mapping[str, RegisteredHook], parts: SessionParts, guard: PolicyGuard | None
    ) -> None:
        self._parts = parts
        self._guard = guard
        self._hooks = {name: (hook, _callee_of_hook(hook)) for name, hook in hooks.items()}
        # A broker ends its waits itself: people need longer than functions.
        seconds = options.timeouts.permission if options.approvals is None else None
        self._callees = {
            subtype: _callee_of_question(question, options.questions[question.option], seconds)
            for subtype, question in _QUESTIONS.items()
        }

    def hook(self, event: RequestReceived) -> Found:
        """Return the hook that a request calls."""
        asked = decode_hook_request(event.frame.request_raw)
        found = self._hooks.get(asked.callback_id)
        if found is None:
            name = escape_terminal(asked.callback_id, 100)
            self._parts.log.warning("the CLI calls hook %r, which was not registered", name)
            return Callee("hook"), lambda *_: Answer({})  # not known to be a guard, so it fails open like other hooks
        hook, callee = found
        encode: Callable[[object, Any], Answer] = lambda outcome, _: encode_hook_output(outcome, hook.event)  # noqa: E731
        if self._guard is not None and hook.event in ("PreToolUse", "PermissionRequest"):
            encode = self._guard.hook_answer

        def prepare(reach: Reach, state: JobState) -> Job:
            context = HookContext(asked.tool_use_id, reach, lambda: state.cancelled)
            # Here and not in the callback's thread: a warning belongs to the session.
            value = decode_hook_input(hook.event, asked.input_raw, self._parts.warn)
            if (problem := getattr(value, "problem", None)) is not None:  # a guard that sees no tool would allow it
                raise DecodeError(value.raw, "not-an-object", problem)
            tool = getattr(value, "tool_name", "")
            use = asked.tool_use_id
            return Job(
                CallbackCall(event.request_id, "hook", callee.name, hook.event, tool, use, value, hook.on_failure),
                callee,
                state,
                lambda: hook.callback(value, context),
                lambda outcome: encode(outcome, value),
            )

        return callee, prepare

    def question(self, event: RequestReceived) -> Found:
        """Return the option that answers a permission request or a dialog."""
        question, callee = _QUESTIONS[event.subtype], self._callees[event.subtype]
        callback = callee.function
        if callback is None:
            return callee, lambda *_: question.fail("No permission callback: `can_use_tool` was not set.")

        def prepare(reach: Reach, state: JobState) -> Job:
            request = question.decode(
                event.frame.request_raw,
                request_id=event.request_id,
                session=reach,
                cancelled=lambda: state.cancelled,
                warn=self._parts.warn,
            )
            tool, use = getattr(request, "tool_name", ""), getattr(request, "tool_use_id", None)
            return Job(
                CallbackCall(event.request_id, event.row.deadline, callee.name, "", tool, use, request),
                callee,
                state,
                lambda: callback(request),
                lambda outcome: self._encode(question, outcome, request),
            )

        return callee, prepare

    def _encode(self, question: _Question, outcome: object, request: Any) -> Answer:
        if pending := getattr(outcome, "pending", ""):
            conversation = self._parts.connection.conversation
            conversation.pending_approvals += (pending,)
            if question.option == "on_elicitation":  # first: no answer to a server ends a turn
                self._parts.connection.exchanges.interrupt(internal=True)
        answer = question.encode(outcome, request)
        if (approval := request.approval) is not None:
            # For readers of traces; the CLI reads no field that it does not know (2.1.328, 2.1.330).
            seconds = round(approval.answered_at - approval.asked_at, 3)
            told = {"id": approval.id, "by": approval.answered_by, "seconds": seconds, "approvers": approval.approvers}
            answer = answer._replace(wire={**answer.wire, "hackamoreApproval": told})
        guarded = self._guard is not None and question.option == "can_use_tool"
        return self._guard.permission_answer(answer, outcome, request) if self._guard and guarded else answer


def _callee_of_hook(hook: RegisteredHook) -> Callee:
    name = f"{hook.event} hook `{_name(hook.callback)}`"
    return Callee(name, partial(fail_output, hook.on_failure, hook.event), hook.callback, hook.is_async, hook.timeout)


def _callee_of_question(question: _Question, callback: Any, timeout: float | None) -> Callee:
    if callback is None:
        return Callee(f"`{question.option}`", question.fail)
    name = f"`{question.option}` ({_name(callback)})"
    return Callee(name, question.fail, callback, is_async(callback), timeout)


def _name(function: Any) -> str:
    function = getattr(function, "func", function)  # a `partial` is called by the name of its function
    return getattr(function, "__qualname__", None) or type(function).__qualname__
