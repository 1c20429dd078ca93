"""Jobs by themselves: room, answers, failures, timeouts and their log. No shell and no process."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import Allow, ElicitationResult, HookMatcher, HookOutput, Limits, Options, Timeouts, UserDialogResult
from hackamore._engine.answering.jobs import Callee, Job, Jobs, JobState, RpcCall, SessionParts
from hackamore._engine.answering.servers import answered
from hackamore._engine.protocol.deadlines import TurnDeadlines
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Readers
from hackamore.checked.functions import Answer, Reach
from hackamore.dialogs import encode_elicitation, encode_user_dialog
from hackamore.hooks.outputs import encode_hook_output, fail_output
from hackamore.options.observing import CallbackCall
from hackamore.permissions import deny
from hackamore.tools import ToolError


class Asked:
    """A ready session that the CLI calls hooks of."""

    def __init__(
        self, callback: Callable[..., Any] = lambda asked, context: None, most: int = 1, **matcher: Any
    ) -> None:
        options = Options(
            hooks={"PreToolUse": [HookMatcher(hooks=[callback], **matcher)]}, limits=Limits(inflight_callbacks=most)
        )
        self.core: SessionCore[Readers] = SessionCore(options, lambda function: function(), Readers)
        self.core.connection.state.begin_start()
        started = self.core.connection.send_initialize({})
        info = {"hook_on_failure_supported": True}
        response = {"subtype": "success", "request_id": started, "response": info}
        self.feed({"type": "control_response", "response": response}, now=0.0)
        self.core.connection.data_to_send()

    def feed(self, frame: dict[str, Any], now: float) -> None:
        self.core.connection.receive_data(json.dumps(frame).encode() + b"\n")
        self.core.pump(now)

    def hook(self, request_id: str, now: float = 0.0) -> None:
        asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
        request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": asked}
        self.feed({"type": "control_request", "request_id": request_id, "request": request}, now)

    def started(self) -> list[Job]:
        return list(self.core.callbacks.take())

    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(line)["response"] for line in self.core.connection.data_to_send().splitlines()]

    def jobs(self) -> Jobs:
        """Return jobs of their own in the same session, for kinds that the CLI did not ask for."""
        core = self.core
        silence = TurnDeadlines(
            core.options.timeouts, core.deadlines, core.connection.turns, core.connection.exchanges.in_flight
        )
        reach = Reach(lambda: None)
        return Jobs(
            2,
            SessionParts(
                core.connection,
                core.connection.exchanges,
                core.deadlines,
                silence.answered,
                core.warnings.add,
                reach,
                core.post,
                core.log,
                None,
            ),
        )

    def job(self, request_id: str, kind: str, name: str = "the callback", **more: Any) -> Job:
        """Return a job that arrives now."""
        state = JobState(self.core.deadlines.now)
        return Job(CallbackCall(request_id, kind, name), Callee(name), state, **more)

    def codes(self) -> list[str]:
        return [warning.code for warning in self.core.warnings.kept]


def test_jobs_beyond_the_limit_wait_in_order_and_one_warning_says_so() -> None:
    asked = Asked()
    for name in ("r0", "r1", "r2"):
        asked.hook(name)
    (first,) = asked.started()
    assert first.about.id == "r0"
    (warning,) = asked.core.warnings.kept
    assert warning.code == "CALLBACK_QUEUE_FULL"
    assert warning.context == {"kind": "hook", "limit": 1}
    assert "1 callbacks of the kind `hook` run already" in warning.message
    asked.core.callbacks.finish(first, None, None)
    (second,) = asked.started()
    assert second.about.id == "r1"
    asked.core.callbacks.finish(second, None, None)
    (third,) = asked.started()
    asked.core.callbacks.finish(third, None, None)
    assert [answer["request_id"] for answer in asked.answers()] == ["r0", "r1", "r2"]
    assert asked.codes() == ["CALLBACK_QUEUE_FULL"]
    asked.hook("r3")
    asked.hook("r4")
    assert asked.codes() == ["CALLBACK_QUEUE_FULL"] * 2
    (fourth,) = asked.started()
    assert fourth.about.id == "r3"


def test_a_request_that_is_cancelled_in_the_queue_leaves_its_place() -> None:
    asked = Asked()
    for name in ("r0", "r1", "r2"):
        asked.hook(name)
    (first,) = asked.started()
    asked.feed({"type": "control_cancel_request", "request_id": "r1"}, 1.0)
    asked.core.callbacks.finish(first, None, None)
    (job,) = asked.started()
    assert job.about.id == "r2"
    assert [answer["request_id"] for answer in asked.answers()] == ["r0"]


def test_a_request_that_is_cancelled_in_the_queue_makes_no_room() -> None:
    asked = Asked()
    for name in ("r0", "r1", "r2"):
        asked.hook(name)
    (first,) = asked.started()
    asked.feed({"type": "control_cancel_request", "request_id": "r2"}, 1.0)
    assert asked.started() == []
    asked.core.callbacks.finish(first, None, None)
    assert [job.about.id for job in asked.started()] == ["r1"]


def test_a_callback_that_raises_is_answered_safely_and_named() -> None:
    def guard(asked: object, context: object) -> None:
        """Raise nothing by itself: the outcome is handed in."""

    asked = Asked(guard)
    asked.hook("r0")
    (job,) = asked.started()
    asked.core.callbacks.finish(job, None, ValueError("bad"))
    asked.core.callbacks.finish(job, {"continue": True}, None)
    (answer,) = asked.answers()
    assert answer["subtype"] == "success"
    assert "bad" not in json.dumps(answer)
    (warning,) = asked.core.warnings.kept
    assert warning.code == "CALLBACK_FAILED"
    assert warning.context["kind"] == "hook"
    assert "guard" in str(warning.context["callback"])
    assert not len(asked.core.deadlines)


def test_an_outcome_that_cannot_be_sent_is_a_failure_with_its_place() -> None:
    asked = Asked()
    asked.hook("r0")
    (job,) = asked.started()
    name = job.callee.name
    asked.core.callbacks.finish(job, "not an output", None)
    (warning,) = asked.core.warnings.kept
    assert warning.code == "CALLBACK_FAILED"
    assert (warning.context["kind"], warning.context["callback"]) == ("hook", name)
    reason = str(warning.context["reason"])
    assert reason.startswith(f"{name}: ")
    assert "test_answers.py" in warning.message
    assert not warning.message.endswith("..")
    assert len(asked.answers()) == 1
    assert job.state.over


def test_a_timeout_says_how_long_and_answers() -> None:
    asked = Asked(timeout=4.0)
    asked.hook("r0", 10.0)
    (job,) = asked.started()
    assert asked.core.deadlines.seconds_of("callback", "r0") == 4.0
    asked.core.expire(13.9, b"")
    assert asked.codes() == []
    asked.core.expire(14.0, b"")
    (warning,) = asked.core.warnings.kept
    assert warning.code == "CALLBACK_TIMED_OUT"
    assert warning.context == {"kind": "hook", "callback": job.callee.name, "seconds": 4.0}
    assert warning.message == f"{job.callee.name} did not answer within 4 s."
    assert (job.state.cancelled, job.state.over) == (True, True)
    assert len(asked.answers()) == 1


def test_jobs_of_calls_are_found_by_owner_and_id() -> None:
    asked = Asked()
    jobs, owner = asked.jobs(), object()
    first = asked.job("a", "mcp", rpc=RpcCall(owner, 1))
    for job in (first, asked.job("b", "mcp", rpc=RpcCall(object(), 1)), asked.job("c", "dialog")):
        jobs.open(job)
    assert jobs.of_call(owner, 1) is first
    assert jobs.of_call(owner, 2) is None
    assert jobs.of_call(owner, None) is None
    assert jobs.of_owner(owner) == [first]
    jobs.cancelled("a")
    assert jobs.of_call(owner, 1) is None
    assert jobs.of_owner(owner) == []


def test_a_call_is_found_without_a_look_at_the_others() -> None:
    looks = []

    class Call(RpcCall):
        def __eq__(self, other: object) -> bool:
            looks.append(other)
            return super().__eq__(other)

        __hash__ = tuple.__hash__

    asked, owner = Asked(), object()
    jobs = asked.jobs()
    opened = [asked.job(str(number), "mcp", rpc=Call(owner, number)) for number in range(50)]
    for job in opened:
        jobs.open(job)
    assert jobs.of_call(owner, 49) is opened[49]
    assert jobs.of_call(owner, [49]) is None  # the peer may send any JSON as an id
    assert looks == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (encode_hook_output({"continue": False, "decision": "block"}, "PreToolUse"), "stop"),
        (encode_hook_output({"continue": True}, "PreToolUse"), "no decision"),
        (encode_hook_output(HookOutput.block("no"), "PostToolUse"), "block"),
        (encode_hook_output(HookOutput.deny("no", decision="block"), "PreToolUse"), "deny"),
        (encode_hook_output(HookOutput.deny("no"), "PermissionRequest"), "deny"),
        (encode_hook_output(HookOutput(action="decline"), "Elicitation"), "decline"),
        (encode_hook_output({"hookSpecificOutput": {"permissionDecision": {"odd": 1}}}, "New"), "no decision"),
        (encode_hook_output({"hookSpecificOutput": {"decision": "odd"}}, "New"), "no decision"),
        (encode_hook_output(HookOutput.deny("no"), "Stop"), "no decision"),
        (fail_output("block", "PreToolUse"), "deny"),
        (fail_output("block", "Elicitation"), "decline"),
        (fail_output("block", "PostToolUse"), "block"),
        (fail_output("continue", "PostToolUse"), "no decision"),
        (deny("no"), "deny"),
        (encode_elicitation({"action": "accept"}), "accept"),
        (encode_elicitation(ElicitationResult.cancel()), "cancel"),
        (encode_elicitation(None), "decline"),
        (encode_user_dialog({"behavior": "completed"}), "completed"),
        (encode_user_dialog(UserDialogResult.completed()), "completed"),
        (encode_user_dialog(None), "cancelled"),
        (answered({"result": {"isError": True}}), "failed"),
        (answered({"result": {"isError": False}}), "answered"),
        (answered({"error": {"code": 1}}), "failed"),
        (answered({"result": []}), "answered"),
    ],
)
def test_the_log_has_the_decision_and_how_long_it_took(
    answer: Answer, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    asked = Asked()
    asked.core.deadlines.now = 1.0
    jobs, job = asked.jobs(), asked.job("r", "hook")
    jobs.open(job)
    asked.core.deadlines.now = 3.5
    jobs.answer(job, answer)
    assert f"the callback: {said}, after 2.500 s" in caplog.messages


def test_a_job_without_an_answer_hands_over_its_outcome() -> None:
    asked = Asked()
    ended: list[Any] = []
    error = ToolError("x")
    job = asked.job("", "prompts", ended=lambda outcome, problem: ended.append((outcome, problem)))
    asked.core.callbacks.finish(job, "out", error)
    asked.core.callbacks.finish(job, "again", None)
    assert ended == [("out", error)]
    assert job.state.over


def test_a_hook_that_was_not_registered_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked()
    request = {"subtype": "hook_callback", "callback_id": "hook_7", "input": {"hook_event_name": "PreToolUse"}}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    assert asked.started() == []
    (answer,) = asked.answers()
    assert (answer["subtype"], answer["response"]) == ("success", {})
    assert "the CLI calls hook 'hook_7', which was not registered" in caplog.messages
    assert asked.codes() == []


def test_a_permission_without_a_callback_is_denied_with_the_reason() -> None:
    asked = Asked()
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    (answer,) = asked.answers()
    assert answer["response"]["behavior"] == "deny"
    assert answer["response"]["message"] == "No permission callback: `can_use_tool` was not set."
    assert asked.started() == []


def test_a_dialog_without_a_callback_is_declined(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    asked = Asked()
    request = {"subtype": "elicitation", "mcp_server_name": "s", "message": "which one?"}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    (answer,) = asked.answers()
    assert answer["response"] == {"action": "decline"}
    assert asked.started() == []
    assert "`on_elicitation`: decline, after 0.000 s" in caplog.messages


def test_jobs_are_named_after_their_callbacks() -> None:
    def guard(asked: object, context: object) -> None:
        """Decide nothing."""

    asked = Asked(guard)
    asked.hook("r0")
    (job,) = asked.started()
    assert job.callee.name.startswith("PreToolUse hook `")
    assert "guard" in job.callee.name
    assert job.callee.function is guard
    assert not job.callee.is_async


# -- permissions and dialogs with callbacks ----------------------------------------------------------------------------


class Questioned(Asked):
    """A ready session with callbacks for permissions and dialogs."""

    def __init__(self, **callbacks: Any) -> None:
        options = Options(timeouts=Timeouts(permission=9.0), **callbacks)
        self.core = SessionCore(options, lambda function: function(), Readers)
        self.core.connection.state.begin_start()
        started = self.core.connection.send_initialize({})
        self.feed({"type": "control_response", "response": {"subtype": "success", "request_id": started}}, now=0.0)
        self.core.connection.data_to_send()
        self.owner = object()
        self.core.session = lambda: self.owner

    def question(self, request: dict[str, Any]) -> Job:
        self.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
        (job,) = self.started()
        return job


PERMISSION = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"}
ELICITATION = {"subtype": "elicitation", "mcp_server_name": "s", "message": "which one?"}
DIALOG = {"subtype": "request_user_dialog", "dialog_kind": "k", "payload": {"a": 1}}


@pytest.mark.parametrize(
    ("option", "request_", "outcome", "answer", "refusal"),
    [
        (
            "can_use_tool",
            PERMISSION,
            Allow(),
            {"behavior": "allow", "updatedInput": {"command": "ls"}, "toolUseID": "t"},
            {"behavior": "deny"},
        ),
        (
            "on_elicitation",
            ELICITATION,
            ElicitationResult.accept({"n": 1}),
            {"action": "accept", "content": {"n": 1}},
            {"action": "decline"},
        ),
        (
            "on_user_dialog",
            DIALOG,
            UserDialogResult.completed({"a": 2}),
            {"behavior": "completed", "result": {"a": 2}},
            {"behavior": "cancelled"},
        ),
    ],
)
def test_a_question_reaches_its_callback_and_the_outcome_its_asker(
    option: str, request_: dict[str, Any], outcome: Any, answer: dict[str, Any], refusal: dict[str, Any]
) -> None:
    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append(request)
        return outcome

    async def later(request: Any) -> Any:
        return outcome

    it = Questioned(**{option: decide})
    job = it.question(request_)
    assert (job.callee.function, job.callee.is_async) == (decide, False)
    assert job.callee.name.startswith(f"`{option}` (")
    assert job.callee.name.endswith("decide)")
    assert it.core.deadlines.seconds_of("callback", "r0") == 9.0
    it.core.callbacks.finish(job, job.call(), None)
    (given,) = it.answers()
    assert {name: given["response"][name] for name in answer if name in given["response"]} == {
        name: value for name, value in answer.items() if name in given["response"]
    }
    assert given["response"].keys() <= answer.keys()
    assert asked[0].request_id == "r0"
    assert asked[0].session is it.owner
    assert not asked[0].cancelled

    it = Questioned(**{option: later})
    job = it.question(request_)
    assert job.callee.is_async
    it.core.expire(9.0, b"")
    (given,) = it.answers()
    assert refusal.items() <= given["response"].items()
    (warning,) = it.core.warnings.kept
    assert (warning.code, warning.context["callback"]) == ("CALLBACK_TIMED_OUT", job.callee.name)

    it = Questioned(**{option: decide})
    job = it.question(request_)
    job.call()
    it.feed({"type": "control_cancel_request", "request_id": "r0"}, 1.0)
    assert asked[1].cancelled
    assert it.answers() == []

    it = Questioned(**{option: decide})
    job = it.question(request_)
    it.core.callbacks.finish(job, 5, None)
    (given,) = it.answers()
    assert refusal.items() <= given["response"].items()
    assert it.codes() == ["CALLBACK_FAILED"]


def test_a_callback_object_is_named_by_its_class() -> None:
    class Guard:
        def __call__(self, request: Any) -> Any:
            return Allow()

    it = Questioned(can_use_tool=Guard())
    assert it.question(PERMISSION).callee.name.endswith("Guard)")


def test_a_user_dialog_without_a_callback_is_cancelled() -> None:
    it = Questioned()
    it.feed({"type": "control_request", "request_id": "r0", "request": DIALOG}, 0.0)
    (given,) = it.answers()
    assert given["response"] == {"behavior": "cancelled"}


@pytest.mark.parametrize("input_", [{}, {"hook_event_name": "PreToolUse", "tool_name": 7, "tool_input": {}}])
def test_a_hook_whose_input_is_odd_is_called_all_the_same(input_: dict[str, Any]) -> None:
    asked = Asked(lambda asked, context: None)
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": input_}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    (job,) = asked.started()
    job.call()
    asked.core.callbacks.finish(job, None, None)
    (given,) = asked.answers()
    assert given["response"] == {}


@pytest.mark.parametrize("input_", [{}, {"input": None}, {"input": "ls"}, {"input": [1]}])
def test_a_hook_whose_input_cannot_be_read_fails_without_a_call(input_: dict[str, Any]) -> None:
    asked = Asked(lambda asked, context: HookOutput.allow(), on_failure="block")
    request = {"subtype": "hook_callback", "callback_id": "hook_0", **input_}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    assert asked.started() == []
    (given,) = asked.answers()
    assert given["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert asked.codes() == ["CALLBACK_FAILED"]


def test_a_hook_gets_its_input_and_its_context() -> None:
    seen: list[Any] = []
    asked = Asked(lambda *arguments: seen.append(arguments))
    asked.hook("r")
    (job,) = asked.started()
    job.call()
    assert seen.pop()[1].session is None
    asked.core.callbacks.finish(job, None, None)
    asked.core.session = lambda: "the session"
    fields = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": fields, "tool_use_id": "t"}
    asked.feed({"type": "control_request", "request_id": "r0", "request": request}, 0.0)
    (job,) = asked.started()
    job.call()
    ((value, context),) = seen
    assert (value.tool_name, value.tool_input) == ("Bash", {"command": "ls"})
    assert (context.tool_use_id, context.session, context.cancelled) == ("t", "the session", False)
    asked.feed({"type": "control_cancel_request", "request_id": "r0"}, 1.0)
    assert context.cancelled


def test_an_unknown_field_of_an_output_is_a_warning_and_the_answer_is_sent() -> None:
    asked = Asked(on_failure="block")
    asked.hook("r0")
    (job,) = asked.started()
    asked.core.callbacks.finish(job, {"continue": True, "noSuchField": 1}, None)
    (given,) = asked.answers()
    assert given["response"]["continue"] is True
    asked.hook("r1")
    (job,) = asked.started()
    asked.core.callbacks.finish(job, None, ValueError("bad"))
    (given,) = asked.answers()
    assert given["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "bad" in json.dumps(given)


def test_each_kind_of_callback_has_room_of_its_own() -> None:
    asked = Asked()
    jobs = asked.jobs()
    for number, kind in enumerate(["hook", "hook", "hook", "permission", "mcp", "dialog"]):
        jobs.open(asked.job(f"j{number}", kind))
    assert [job.about.id for job in jobs.take()] == ["j0", "j1", "j3", "j4", "j5"]
    assert asked.codes() == ["CALLBACK_QUEUE_FULL"]
    assert asked.core.warnings.kept[0].context == {"kind": "hook", "limit": 2}


def test_a_timeout_counts_while_a_callback_waits_for_its_turn() -> None:
    asked = Asked(timeout=4.0)
    asked.hook("r0", 0.0)
    asked.hook("r1", 1.0)
    (first,) = asked.started()
    asked.core.expire(4.0, b"")
    (second,) = asked.started()
    assert second.about.id == "r1"
    asked.core.expire(5.0, b"")
    assert asked.codes() == ["CALLBACK_QUEUE_FULL", "CALLBACK_TIMED_OUT", "CALLBACK_TIMED_OUT"]
    assert first.state.cancelled
    assert second.state.cancelled


def test_a_cancelled_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    asked = Asked()
    asked.hook("r0", 1.0)
    (job,) = asked.started()
    asked.feed({"type": "control_cancel_request", "request_id": "r0"}, 1.5)
    assert f"{job.callee.name}: cancelled, after 0.500 s" in caplog.messages
    asked.hook("r1", 2.0)
    (job,) = asked.started()
    asked.core.deadlines.now = 4.0
    asked.core.callbacks.finish(job, None, ValueError("bad"))
    assert f"{job.callee.name}: failed ({job.callee.name} raised ValueError: bad), after 2.000 s" in caplog.messages


class Unprintable:
    """An outcome whose methods end the program."""

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(3)


def test_an_outcome_that_ends_the_program_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked()

    def finish(outcome: Any) -> Answer:
        raise SystemExit(3)

    jobs, job = asked.jobs(), asked.job("r0", "hook", finish=finish)
    jobs.open(job)
    jobs.finish(job, Unprintable(), None)
    assert job.state.over
    (warning,) = asked.core.warnings.kept
    assert (warning.code, warning.context["reason"]) == ("CALLBACK_FAILED", "the callback: 3")
    assert "the answer of a callback could not be made" in caplog.messages

    def interrupted(outcome: Any) -> Answer:
        raise KeyboardInterrupt

    other = asked.job("r1", "hook", finish=interrupted)
    jobs.open(other)
    with pytest.raises(KeyboardInterrupt):
        jobs.finish(other, None, None)


def test_a_permission_request_for_no_tool_is_denied_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    it = Questioned(can_use_tool=print)
    it.feed({"type": "control_request", "request_id": "r0", "request": {**PERMISSION, "tool_name": ""}}, 0.0)
    assert it.started() == []
    (given,) = it.answers()
    reason = "PermissionRequestError: The permission request names no tool."
    assert given["response"] == {"behavior": "deny", "message": reason}
    (warning,) = it.core.warnings.kept
    assert warning.code == "CALLBACK_FAILED"
    assert warning.message == reason
    assert warning.context == {"kind": "permission", "callback": "`can_use_tool` (print)", "reason": reason}
    assert "a request cannot be read: The permission request names no tool." in caplog.messages


def test_long_texts_of_callbacks_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    asked = Asked()
    jobs = asked.jobs()
    for number, kind in enumerate(["permission", "mcp"]):
        job = asked.job(f"r{number}", kind, "n")
        jobs.open(job)
        jobs.crash(job, "x" * 3_000)
    for warning in asked.core.warnings.kept:
        assert warning.message == f"[... 2500 characters left out] {'x' * 500}."
    job = asked.job("r9", "hook", "n")
    jobs.open(job)
    jobs.answer(job, Answer({}, "y" * 400))
    assert f"n: [... 100 characters left out] {'y' * 300}, after 0.000 s" in caplog.messages


def test_a_failure_without_an_answer_of_its_own_is_answered_as_its_kind_says() -> None:
    it = Questioned(can_use_tool=print)
    it.question(PERMISSION)
    it.jobs().fail(it.job("r0", "permission"), "x" * 3_000)
    (given,) = it.answers()
    assert given["response"]["behavior"] == "deny"
    left_out, _, text = given["response"]["message"].partition("] ")
    assert left_out.endswith("characters left out")
    assert text == "x" * 1_000
