"""The copy of a transcript in a store, by a clock that the test moves: what waits for the store, and what does not."""

from __future__ import annotations

import contextvars
import json
from typing import Any

import pytest

from hackamore import HookMatcher, Message, Options, OptionsError, StoreConflictError, StreamWarning, TurnTimeoutError
from hackamore._engine.answering.jobs import Job
from hackamore._engine.session.core import ShellStep
from hackamore._engine.session.readers import Inbox
from hackamore._engine.session.steering import SteeredQuery
from hackamore.messages.system import MirrorErrorMessage
from tests.session.test_deadlines import HOOK, RESULT, RUNNING, TEXT, Clocked

MAIN = "/c/projects/-work/s.jsonl"
SUB = "/c/projects/-work/s/subagents/agent-a.jsonl"


class Store:
    """A blocking store."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def append(self, key: Any, entries: list[Any]) -> None:
        self.taken.append((key.get("subpath", ""), [entry["n"] for entry in entries]))

    def load(self, key: Any) -> None:
        return None


class Stored(Clocked):
    """A session with a store, whose appends the test runs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.store = Store()
        super().__init__(*arguments, session_store=self.store, **options)

    def wrote(self, *numbers: int, path: str = MAIN) -> dict[str, Any]:
        return {"type": "transcript_mirror", "filePath": path, "entries": [{"type": "user", "n": n} for n in numbers]}

    def jobs(self) -> list[Job]:
        return list(self.core.callbacks.take())

    def append(self, error: BaseException | None = None) -> None:
        (job,) = self.jobs()
        assert job.about.kind == "store"
        self.end(job, error)

    def end(self, job: Job, error: BaseException | None = None) -> None:
        if error is None:
            job.call()
        self.core.callback_ended(job, None, error, self.now)
        self.core.pump(self.now)

    @property
    def warnings(self) -> list[str]:
        return [warning.code for warning in self.core.warnings.kept]


def started(turn_id: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": turn_id, "state": "started"}


def result(turn_id: str) -> dict[str, Any]:
    return {**RESULT, "user_message_uuids": [turn_id]}


def cursor(session: Clocked) -> Inbox:
    inbox = Inbox()
    session.core.audience.add(inbox, events=False)
    return inbox


def kinds(inbox: Inbox) -> list[str]:
    return [item.type for item in inbox.items]


def test_a_result_waits_for_the_store_and_what_came_before_it_does_not() -> None:
    session = Stored()
    turn = session.send()
    session.take(started(turn.id), TEXT, session.wrote(1, 2))
    assert "assistant" in kinds(turn.inbox)
    assert session.jobs() == []
    session.take(session.wrote(3), result(turn.id))
    assert not turn.over.is_set
    assert "result" not in kinds(turn.inbox)
    assert not session.core.quiet
    (job,) = session.jobs()
    assert not job.callee.is_async
    session.end(job)
    assert session.store.taken == [("", [1, 2, 3])]
    assert turn.over.is_set
    assert turn.result is not None
    assert turn.inbox.the_error() is None


def test_a_result_without_entries_does_not_wait() -> None:
    session = Stored()
    turn = session.send()
    session.take(started(turn.id), result(turn.id))
    assert turn.over.is_set


def test_hooks_are_answered_while_a_result_waits() -> None:
    session = Stored(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    (append,) = session.jobs()
    session.core.connection.data_to_send()
    session.take({"type": "control_request", "request_id": "r1", "request": HOOK})
    (hook,) = session.jobs()
    session.core.callback_ended(hook, None, None, session.now)
    assert b"r1" in session.core.connection.data_to_send()
    assert not turn.over.is_set
    session.end(append)
    assert turn.over.is_set


def test_another_turn_does_not_wait_and_cursors_keep_the_order() -> None:
    session = Stored()
    everything = cursor(session)
    first, second = session.send(), session.send()
    session.take(started(first.id), session.wrote(1), result(first.id), started(second.id), TEXT)
    assert "assistant" in kinds(second.inbox)
    assert not first.over.is_set
    assert "assistant" not in kinds(everything)
    session.take(session.wrote(2), result(second.id))
    (append,) = session.jobs()
    session.end(append)
    assert first.over.is_set
    assert not second.over.is_set  # its own entries are not there yet
    session.append()
    assert second.over.is_set
    assert session.store.taken == [("", [1]), ("", [2])]
    shown = [kind for kind in kinds(everything) if kind in ("result", "assistant")]
    assert shown == ["result", "assistant", "result"]
    assert kinds(second.inbox).count("assistant") == 1


def test_the_items_of_a_query_keep_their_order() -> None:
    session = Stored(SteeredQuery)
    query = session.core.audience
    assert isinstance(query, SteeredQuery)
    query.send_all("hello", session.now)
    session.take(RUNNING, TEXT, session.wrote(1), RESULT, {"type": "prompt_suggestion", "suggestion": "more"})
    assert [item.type for item in query.take() if isinstance(item, Message)] == ["assistant"]
    session.append()
    assert [item.type for item in query.take() if isinstance(item, Message)] == ["result", "prompt_suggestion"]


def test_a_query_whose_cli_stays_has_the_result_that_waits_for_the_store() -> None:
    session = Stored(SteeredQuery, timeouts={"after_result": 5, "store": 100})
    query = session.core.audience
    assert isinstance(query, SteeredQuery)
    query.send_all("hello", session.now)
    session.take(RUNNING, session.wrote(1), RESULT)
    session.pass_by(6)
    items = query.take()
    assert [item.type for item in items if isinstance(item, Message)] == ["result"]
    assert [item.code for item in items if isinstance(item, StreamWarning)] == ["CLI_DID_NOT_EXIT"]
    assert query.core.terminal_error is None


def test_a_timeout_of_the_turn_does_not_run_while_its_result_waits() -> None:
    session = Stored(timeouts={"idle": 5, "turn": 10, "store": 100})
    turn = session.send()
    session.take(started(turn.id), TEXT, session.wrote(1), result(turn.id))
    session.pass_by(50)
    session.append()
    assert turn.inbox.the_error() is None
    assert turn.over.is_set


def test_hooks_behind_turns_that_waited_for_the_store_see_the_variables_of_the_last_sender() -> None:
    session = Stored(SteeredQuery, hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    contexts = [contextvars.copy_context() for _ in range(2)]
    first, second = (session.core.send("hi", None, session.now, context=context) for context in contexts)
    session.take(started(first.id), session.wrote(1), result(first.id))
    session.take(started(second.id), session.wrote(2), result(second.id))
    session.append()
    session.append()
    assert not session.core.storing.holds  # type: ignore[union-attr]
    session.take({"type": "control_request", "request_id": "r", "request": HOOK})
    (job,) = session.jobs()
    assert job.state.context is contexts[1]


def test_the_time_of_a_session_is_known_after_its_callbacks() -> None:
    session = Stored(timeouts={"first_message": 5.0})
    session.take(session.wrote(1), RESULT)
    for step in session.core.next_steps(session.now):
        if step is ShellStep.CALLBACKS:
            session.append()
    assert session.core.deadlines.now == session.now


def test_a_turn_has_no_more_time_because_the_result_before_it_waited() -> None:
    session = Stored(SteeredQuery, timeouts={"turn": 10.0})
    first, second, third = (session.send() for _ in range(3))
    session.take(started(first.id), session.wrote(1), result(first.id), started(second.id))
    session.pass_by(6.0)
    session.append()
    session.pass_by(3.9)
    assert not session.core.connection.state.over
    session.take(session.wrote(2), result(second.id), started(third.id), result(third.id))
    session.append()
    assert session.core.deadlines.names("turn") == []
    late = Stored(SteeredQuery, timeouts={"turn": 10.0})
    first, second = late.send(), late.send()
    late.take(started(first.id), late.wrote(1), result(first.id), started(second.id))
    late.pass_by(6.0)
    late.append()
    late.pass_by(4.1)
    error = late.core.connection.state.terminal_error
    assert isinstance(error, TurnTimeoutError)
    assert error.kind == "turn"


def test_an_append_that_is_async_runs_in_the_event_loop() -> None:
    async def append(key: Any, entries: list[Any]) -> None: ...

    session = Stored()
    assert session.core.storing is not None
    session.core.storing.use(append)
    session.take(session.wrote(1), RESULT)
    (job,) = session.jobs()
    assert job.callee.is_async
    assert job.callee.function is append


def test_an_append_is_tried_again_after_its_rests() -> None:
    session = Stored()
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    session.append(OSError("down"))
    assert session.jobs() == []
    session.pass_by(0.21)
    session.append(OSError("down"))
    session.pass_by(0.79)
    assert session.jobs() == []
    session.pass_by(0.02)
    session.append()
    assert session.warnings == []
    assert turn.over.is_set
    assert session.store.taken == [("", [1])]


def test_a_store_that_fails_gives_a_message_a_warning_and_the_result() -> None:
    session = Stored()
    everything = cursor(session)
    turn = session.send()
    session.take(started(turn.id), session.wrote(1, path=SUB), result(turn.id))
    problem = OSError("down")
    for _ in range(3):
        session.append(problem)
        session.pass_by(1)
    assert turn.over.is_set
    assert turn.inbox.the_error() is None
    for inbox in (turn.inbox, everything):
        (message,) = [item for item in inbox.items if isinstance(item, MirrorErrorMessage)]
        assert (message.error, message.uuid) == ("OSError: down", "")
        assert message.key is not None
        assert (message.key.project_key, message.key.session_id) == ("-work", "s")
        assert message.key.subpath == "subagents/agent-a"
        assert kinds(inbox).index("system") < kinds(inbox).index("result")
    (warning,) = session.core.warnings.kept
    assert (warning.code, warning.context["given_up"]) == ("STORE_FAILED", False)
    assert warning.context["key"] == {"project_key": "-work", "session_id": "s", "subpath": "subagents/agent-a"}
    assert warning.message == (
        "The session store did not take entries of s (subagents/agent-a): OSError: down. "
        "The entries wait for the next write."
    )
    assert warning.exception is problem
    second = session.send()
    session.take(started(second.id), session.wrote(2, path=SUB), result(second.id))
    session.append()
    assert session.store.taken == [("subagents/agent-a", [1, 2])]  # nothing is lost, and nothing is behind a hole


def test_a_long_name_of_a_transcript_is_cut_in_the_warning() -> None:
    session = Stored()
    session.take(session.wrote(1, path=SUB.replace("agent-a", "a" * 500)), RESULT)
    session.append(StoreConflictError("s"))
    (warning,) = session.core.warnings.kept
    shown = warning.message.partition("entries of ")[2].partition(": ")[0]
    name = f"s (subagents/{'a' * 500})"
    assert shown == f"[... {len(name) - 200} characters left out] {name[-200:]}"


def test_the_error_of_a_store_is_cut_and_shows_no_password() -> None:
    session = Stored()
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    for _ in range(3):
        session.append(OSError(f"{'x' * 5_000} redis://user:secret@host/0"))
        session.pass_by(1)
    (message,) = [item for item in turn.inbox.items if isinstance(item, MirrorErrorMessage)]
    assert message.error is not None
    cut, _, kept = message.error.partition("] ")
    assert cut.startswith("[... ")
    assert len(kept) == 500
    assert kept.endswith("host/0")
    assert "secret" not in message.error
    assert "secret" not in session.core.warnings.kept[0].message


def test_a_failure_is_told_to_the_turn_that_runs() -> None:
    session = Stored()
    first = session.send()
    session.take(started(first.id), session.wrote(1), result(first.id))
    session.append()
    second = session.send()
    session.take(started(second.id), session.wrote(*range(500)))
    for _ in range(3):
        session.append(OSError("down"))
        session.pass_by(1)
    assert [isinstance(item, MirrorErrorMessage) for item in second.inbox.items][-1]
    assert not any(isinstance(item, MirrorErrorMessage) for item in first.inbox.items)


def test_the_message_about_a_failure_names_the_session() -> None:
    session = Stored()
    everything = cursor(session)
    session.take({**TEXT, "session_id": "s1"}, session.wrote(1), RESULT)
    for _ in range(3):
        session.append(OSError("down"))
        session.pass_by(1)
    (message,) = [item for item in everything.items if isinstance(item, MirrorErrorMessage)]
    assert message.session_id == "s1"


def test_two_writers_are_not_tried_again() -> None:
    session = Stored()
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    session.append(StoreConflictError("s"))
    assert turn.over.is_set
    session.take(session.wrote(2))
    session.core.begin_last_writes(session.now)
    assert session.jobs() == []
    (warning,) = session.core.warnings.kept
    assert warning.context["given_up"] is True
    assert warning.message.startswith("The session store did not take entries of s: ")
    assert warning.message.endswith(
        "No more of it is copied in this session. "
        "The transcript on the disk is complete: the next resume on this host heals the store."
    )


def test_an_append_that_does_not_return_is_stopped_and_its_entries_wait() -> None:
    session = Stored(timeouts={"store": 60})
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    (hanging,) = session.jobs()
    stopped: list[bool] = []
    assert hanging.started(lambda: stopped.append(True))
    session.pass_by(59)
    assert not turn.over.is_set
    session.pass_by(2)
    assert turn.over.is_set
    assert session.jobs() == []
    assert stopped == [True]
    (warning,) = session.core.warnings.kept
    assert warning.code == "STORE_FAILED"
    assert "entries of s: it did not return within 60 s. The entries wait for the next write." in warning.message
    session.end(hanging)  # it returns after all, and that changes nothing
    session.core.begin_last_writes(session.now)
    session.append()
    assert session.store.taken == [("", [1]), ("", [1])]  # at least once


def test_a_session_that_fails_gives_its_held_result_and_then_the_error() -> None:
    session = Stored()
    first, second = session.send(), session.send()
    session.take(started(first.id), session.wrote(1), result(first.id), started(second.id))
    assert not first.over.is_set
    session.core.lost("test", session.now)
    assert first.result is not None
    assert first.inbox.the_error() is None
    assert second.inbox.the_error() is not None
    session.core.begin_last_writes(session.now)
    (append,) = session.jobs()
    session.end(append)
    assert session.store.taken == [("", [1])]


def test_output_is_not_read_while_too_much_waits() -> None:
    session = Stored(limits={"mirrored_bytes": 1_000})
    storing = session.core.storing
    assert storing is not None
    session.take(session.wrote(*range(500)))
    assert storing.full
    assert session.warnings == ["STORE_SLOW"]
    session.append()
    assert not storing.full
    assert session.warnings == ["STORE_SLOW"]


def test_output_is_not_read_while_held_messages_are_too_many() -> None:
    session = Stored(limits={"mirrored_bytes": 2_000})
    storing = session.core.storing
    assert storing is not None
    turn = session.send()
    session.take(started(turn.id), session.wrote(1), result(turn.id))
    assert storing.holds
    assert not storing.full
    text = {**TEXT, "uuid": "x" * 900}
    session.take(text, text)
    assert storing.full
    assert storing.full
    (warning,) = session.core.warnings.kept
    assert warning.code == "STORE_SLOW"
    held = sum(len(json.dumps(frame)) for frame in (result(turn.id), text, text))
    assert warning.context == {"waiting": storing.mirror.waiting + held}
    assert warning.message.startswith(f"{storing.mirror.waiting + held:,} bytes wait for the session store")
    session.append()
    assert not storing.holds
    assert not storing.full
    session.take(session.wrote(2), result(session.send().id))
    assert not storing.full  # what was handed out does not count any more


def test_a_stop_closes_the_input_and_reads_on_for_what_the_cli_writes_at_its_end() -> None:
    session = Stored(timeouts={"stop_grace": 4.0})
    core = session.core
    assert core.stop.seconds == 6.0
    turn = session.send()
    session.take(started(turn.id), RUNNING)
    assert not core.stop.closes_input
    core.stop.begin(session.now)
    assert not core.stop.closes_input  # the turn is interrupted first
    session.take(result(turn.id))
    assert core.stop.closes_input
    assert not core.stop.may_end
    core.input_closed(session.now)
    assert not core.stop.closes_input
    assert core.connection.state.input_closed
    session.take(session.wrote(1))
    session.pass_by(3.9)
    assert not core.stop.may_end
    session.pass_by(0.2)
    assert core.stop.may_end


def test_a_stop_that_reads_on_does_not_warn_that_the_cli_stays() -> None:
    session = Stored(timeouts={"stop_grace": 4.0, "after_result": 1.0})
    session.core.stop.begin(session.now)
    session.core.input_closed(session.now)
    session.pass_by(4.1)
    assert session.core.stop.may_end
    assert session.warnings == []


def test_a_session_that_is_abandoned_or_over_hears_no_last_words() -> None:
    session = Stored()
    session.core.stop.ask(abandon=True)
    session.core.stop.begin(session.now)
    assert not session.core.stop.closes_input
    other = Stored()
    other.core.stop.begin(other.now)
    assert other.core.stop.closes_input
    other.core.process_gone(0, b"")
    assert not other.core.stop.closes_input


@pytest.mark.parametrize("running", [True, False])
def test_entries_without_time_at_the_end_are_a_warning(running: bool) -> None:
    session = Stored()
    storing = session.core.storing
    assert storing is not None
    session.take(session.wrote(1))
    session.core.process_gone(0, b"")
    session.core.pump(session.now)
    session.core.begin_last_writes(session.now)
    assert not storing.ended
    (job,) = session.jobs()
    stopped: list[bool] = []
    assert job.started(lambda: stopped.append(True))
    if not running:
        session.end(job, OSError("down"))
        assert session.core.deadlines.is_armed("store", "rest")
    storing.end()
    assert not len(session.core.deadlines)
    assert storing.ended
    assert (job.state.over, job.state.cancelled) == (True, running)
    assert session.jobs() == []
    assert stopped == ([True] if running else [])
    (warning,) = session.core.warnings.kept
    assert (warning.code, warning.context["given_up"]) == ("STORE_FAILED", True)
    assert "the session has ended, and there was no time left" in warning.message
    assert session.core.warnings.waiting


def test_nothing_is_said_at_the_end_if_nothing_waits() -> None:
    session = Stored()
    storing = session.core.storing
    assert storing is not None
    session.take(session.wrote(1), RESULT)
    session.append()
    session.core.begin_last_writes(session.now)
    storing.end()
    assert session.warnings == []


@pytest.mark.parametrize("when", ["running", "resting"])
def test_the_last_writes_have_the_whole_time_of_the_store(when: str) -> None:
    session = Stored(timeouts={"store": 30})
    session.take(session.wrote(1), RESULT)
    (job,) = session.jobs()
    if when == "resting":
        session.end(job, OSError("down"))
    session.pass_by(0.125)
    session.core.lost("gone", session.now)
    session.core.begin_last_writes(session.now)
    if when == "resting":
        (job,) = session.jobs()
    assert session.core.deadlines.wait_seconds(session.now) == 30
    session.end(job)
    assert session.store.taken == [("", [1])]
    assert not len(session.core.deadlines)


def test_the_warning_about_a_slow_store_comes_again_after_it_has_taken_something() -> None:
    session = Stored(limits={"mirrored_bytes": 1_000})
    storing = session.core.storing
    assert storing is not None
    for count in (1, 2):
        session.take(session.wrote(*range(500)))
        assert storing.full
        assert session.warnings == ["STORE_SLOW"] * count
        session.append()


def test_without_a_store_no_frame_is_kept() -> None:
    session = Clocked()
    session.take(Stored.wrote(None, 1))  # type: ignore[arg-type]
    assert session.core.storing is None
    assert not session.core.connection.outbox.waiting


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"session_store": object()}, "`append` is missing"),
        ({"session_store": Store}, "write `Store(...)`"),
        ({"session_store": "redis://x"}, "`append` is missing"),
        ({"session_store": Store(), "persist_session": False}, "needs `persist_session=True`"),
        ({"session_store": Store(), "enable_file_checkpointing": True}, "excludes `enable_file_checkpointing`"),
        ({"session_store": Store(), "continue_conversation": True}, "`list_sessions`"),
        ({"session_store_flush": "now"}, "batched"),
    ],
)
def test_a_store_is_checked_when_it_is_given(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionsError, match=text.replace("(", r"\(").replace(")", r"\)").replace(".", r"\.")):
        Options(**given)


def test_a_store_that_inherits_the_defaults_of_the_protocol_does_not_implement_them() -> None:
    from typing import Protocol

    from hackamore.options.stores import implements

    class Official(Protocol):
        async def list_sessions(self, project_key: str) -> list[Any]:
            raise NotImplementedError

    class Plain(Store, Official):
        pass

    class Listing(Plain):
        async def list_sessions(self, project_key: str) -> list[Any]:
            return []

    plain: Any = Plain  # the default of a protocol is abstract for type checkers
    assert not implements(plain(), "list_sessions")
    assert implements(Listing(), "list_sessions")
    with pytest.raises(OptionsError):
        Options(session_store=plain(), continue_conversation=True)
    assert Options(session_store=Listing(), continue_conversation=True).session_store is not None
