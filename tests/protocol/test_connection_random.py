"""Random frames, deadlines, cancellations and deaths: what must hold whatever happens (hypothesis)."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.states.session import Handshake, SessionState
from hackamore.errors import HackamoreError, SlowConsumerError
from hackamore.options.bounds import Limits
from tests.contract import shows
from tests.support.examples import examples
from tests.support.reaching import reached, reaching

FEW = settings(
    max_examples=examples(60),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Without "explain": it traces every line, which takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
LIMITS = Limits(
    line_bytes=2_000, consecutive_decode_errors=3, queued_operations=3, pending_requests=5, early_requests=2
)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3), max_leaves=6
)
ids = st.sampled_from(["a", "b", "c", "d", "e", "f", "", None, 7])
subtypes = st.sampled_from(
    ["can_use_tool", "hook_callback", "mcp_message", "elicitation", "request_user_dialog", "interrupt", "new", None, 3]
)
REQUEST_FIELDS: dict[str, Any] = {
    "tool_name": "Bash",
    "input": {"a": 1},
    "callback_id": "hook_0",
    "server_name": "s",
    "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "mcp_server_name": "s",
    "dialog_kind": "k",
    "payload": {},
}
requests = st.builds(
    lambda kind, left_out, wrong: {
        "subtype": kind,
        **{k: v for k, v in REQUEST_FIELDS.items() if k != left_out},
        **({wrong[0]: wrong[1]} if wrong else {}),
    },
    subtypes,
    st.sampled_from([None, None, None, *REQUEST_FIELDS]),
    st.none() | st.tuples(st.sampled_from(sorted(REQUEST_FIELDS)), values),
)
FRAME_TYPES = ["assistant", "user", "result", "system", "stream_event", "command_lifecycle", "keep_alive", "unheard_of"]


class HostMachine(RuleBasedStateMachine):
    """A host connection, everything that can be done to it, and a ledger kept beside it."""

    def __init__(self) -> None:
        super().__init__()
        counter = itertools.count()
        self.connection = Connection(limits=LIMITS, random_bytes=lambda n: next(counter).to_bytes(n, "big"))
        self.initialize_id = ""
        self.issued: set[str] = set()
        self.answered: Counter[str] = Counter()
        self.received: set[str] = set()
        self.reported: Counter[str] = Counter()
        self.taken_back: Counter[str] = Counter()
        self.asked: set[str] = set()
        self.given_up: set[str] = set()
        self.resolved: Counter[str] = Counter()
        self.prompts: set[str] = set()
        self.ended_turns: Counter[str] = Counter()
        self.handshakes = 0
        self.ended = False

    # -- what arrives --

    def feed(self, frame: Any) -> None:
        line = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        self.connection.receive_data(line + b"\n")

    def turn_ids(self) -> list[str]:
        return sorted(self.prompts) or ["none"]

    @rule(request_id=ids, request=requests | values)
    def control_request(self, request_id: Any, request: Any) -> None:
        if isinstance(request_id, str):
            self.issued.add(request_id)
        self.feed({"type": "control_request", "request_id": request_id, "request": request})

    @rule(data=st.data(), good=st.booleans(), payload=values, outside=st.booleans(), error=values)
    def control_response(self, data: st.DataObject, good: bool, payload: Any, outside: bool, error: Any) -> None:
        request_id = data.draw(st.sampled_from([*sorted(self.asked), "never", None]))
        response: dict[str, Any] = {"subtype": "success" if good else "error", "response": payload, "error": error}
        frame: dict[str, Any] = {"type": "control_response", "response": response}
        (frame if outside else response)["request_id"] = request_id
        self.feed(frame)

    @rule(request_id=ids)
    def control_cancel_request(self, request_id: Any) -> None:
        self.feed({"type": "control_cancel_request", "request_id": request_id})

    @rule(data=st.data(), word=st.sampled_from(["queued", "started", "completed", "cancelled", "refused", "new"]))
    def lifecycle(self, data: st.DataObject, word: str) -> None:
        turn_id = data.draw(st.sampled_from(self.turn_ids()))
        self.feed({"type": "command_lifecycle", "command_uuid": turn_id, "state": word})

    @rule(data=st.data(), is_error=st.booleans(), reason=st.sampled_from([None, "aborted_tools", "max_turns"]))
    def result(self, data: st.DataObject, is_error: bool, reason: str | None) -> None:
        named = data.draw(st.none() | st.lists(st.sampled_from(self.turn_ids()), max_size=3))
        self.feed(
            {
                "type": "result",
                "subtype": "success",
                "is_error": is_error,
                "terminal_reason": reason,
                "user_message_uuids": named,
            }
        )

    @rule(data=st.data(), kind=st.sampled_from(["assistant", "stream_event", "user"]))
    def message(self, data: st.DataObject, kind: str) -> None:
        named = data.draw(st.none() | st.sampled_from(self.turn_ids()))
        self.feed({"type": kind, "message": {"content": []}, "user_message_uuid": named})

    @rule(state=st.sampled_from(["idle", "idle", "running", "requires_action", "new"]), ours=st.booleans())
    def session_state(self, state: str, ours: bool) -> None:
        frame = {"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": ours}
        self.feed(frame)

    @rule(tasks=st.lists(st.sampled_from(["t1", "t2"]), max_size=2), ambient=st.booleans())
    def tasks(self, tasks: list[str], ambient: bool) -> None:
        listed = [{"task_id": task, "ambient": ambient} for task in tasks]
        self.feed({"type": "system", "subtype": "background_tasks_changed", "tasks": listed})
        self.feed({"type": "system", "subtype": "task_notification", "task_id": "t1", "ambient": ambient})

    @rule(kind=st.sampled_from(FRAME_TYPES), subtype=st.sampled_from(["init", "status", "new"]), more=values)
    def any_frame(self, kind: str, subtype: str, more: Any) -> None:
        self.feed({"type": kind, "subtype": subtype, "message": more, "uuid": more})

    @rule(line=st.binary(max_size=30).filter(lambda b: b"\n" not in b))
    def garbage(self, line: bytes) -> None:
        self.feed(line)

    @rule()
    def long_line(self) -> None:
        self.feed(b'{"type":"assistant","text":"' + b"x" * 3_000 + b'"}')

    @rule(data=st.binary(max_size=20))
    def bytes_without_an_end(self, data: bytes) -> None:
        self.connection.receive_data(data)

    # -- what we do --

    @rule()
    def initialize(self) -> None:
        connection = self.connection
        if connection.state.handshake is Handshake.UNSENT and connection.state.lifecycle in (
            SessionState.NEW,
            SessionState.STARTING,
        ):
            with contextlib.suppress(HackamoreError):
                self.initialize_id = connection.send_initialize({"hooks": None})
                self.asked.add(self.initialize_id)

    @rule(content=st.text(max_size=5))
    def prompt(self, content: str) -> None:
        with contextlib.suppress(HackamoreError, ValueError):
            self.prompts.add(self.connection.conversation.send_prompt(content))

    @rule(subtype=st.sampled_from(["get_usage", "mcp_status", "new"]))
    def request(self, subtype: str) -> None:
        with contextlib.suppress(HackamoreError):
            self.asked.add(self.connection.exchanges.send_request(subtype))

    @rule()
    def interrupt(self) -> None:
        with contextlib.suppress(HackamoreError):
            self.asked.add(self.connection.exchanges.interrupt())

    @rule(data=st.data(), how=st.sampled_from(["response", "raw", "error", "fail", "expire"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        request_id = data.draw(st.sampled_from([*sorted(self.received), "never"]))
        match how:
            case "response":
                self.connection.exchanges.send_response(request_id, {"a": 1})
            case "raw":
                self.connection.exchanges.send_response(request_id, b'{"n":\n1e2}')
            case "error":
                self.connection.exchanges.send_error(request_id, "no \ud800")
            case "fail":
                self.connection.exchanges.fail_request(request_id, "no")
            case _:
                self.connection.expire(request_id, 1.0)

    @rule(data=st.data(), give_up=st.booleans())
    def expire(self, data: st.DataObject, give_up: bool) -> None:
        request_id = data.draw(st.sampled_from([*sorted(self.asked), "never"]))
        if give_up and self.connection.exchanges.cancel_request(request_id):
            self.given_up.add(request_id)
        else:
            self.connection.expire(request_id, 1.0)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        record = self.connection.turns.get(data.draw(st.sampled_from(self.turn_ids())))
        if record is not None and not record.written:
            self.connection.expire_turn(record.id)

    @rule()
    def settle(self) -> None:
        self.connection.conversation.settle()

    # -- how it ends: rare, or nothing else would be seen --

    @rule(what=st.sampled_from(["start", "finish", "closed", "broke", "stop", "eof", "exit", "fail", *[""] * 14]))
    def ending(self, what: str) -> None:
        connection = self.connection
        match what:
            case "start" if connection.state.lifecycle is SessionState.NEW:
                connection.state.begin_start()
            case "finish":
                connection.outbox.close_input()
            case "closed" if connection.input_may_close or connection.state.lifecycle is SessionState.STOPPING:
                connection.outbox.input_was_closed()
            case "broke":
                connection.outbox.input_broke()
            case "stop":
                connection.begin_stop()
            case "eof":
                connection.receive_eof()
            case "exit":
                connection.process_exited(1, b"stderr")
            case "fail":
                connection.fail(SlowConsumerError(2, 1))
            case _:
                pass

    # -- what must hold --

    def take(self) -> None:
        data = self.connection.data_to_send()
        assert not data or data.endswith(b"\n")
        for line in data.splitlines():
            frame = json.loads(line)
            if frame["type"] == "control_response":
                request_id = frame["response"]["request_id"]
                assert request_id in self.issued, "an answer to none"
                self.answered[request_id] += 1
            elif frame["type"] == "control_request":
                assert frame["request_id"] in self.asked
        for event in self.connection.events_received():
            assert not self.ended, "something came after the end"
            match event:
                case events.RequestReceived():
                    self.received.add(event.request_id)
                    self.reported[event.request_id] += 1
                case events.RequestCancelled():
                    self.taken_back[event.request_id] += 1
                case events.RequestResolved():
                    assert (event.result is None) is not (event.error is None)
                    self.resolved[event.request_id] += 1
                case events.TurnStateChanged():
                    assert self.ended_turns[event.turn_id] == 0
                    self.ended_turns[event.turn_id] += event.state.over
                case events.HandshakeCompleted() | events.HandshakeFailed():
                    self.handshakes += 1
                case events.Ended():
                    self.ended = True
                case _:
                    pass

    @invariant()
    def what_must_hold(self) -> None:
        self.take()
        connection = self.connection
        for counter in (self.answered, self.reported, self.taken_back, self.resolved, self.ended_turns):
            assert max(counter.values(), default=0) <= 1, counter
        assert self.handshakes <= 1
        assert not set(self.resolved) & self.given_up
        assert set(self.taken_back) <= self.received
        open_now = {request.request_id for request in connection.exchanges.in_flight}
        assert open_now <= self.received
        assert not open_now & (set(self.answered) | set(self.taken_back))
        assert connection.state.over is self.ended
        if connection.input_may_close:
            assert not self.prompts - {turn for turn, count in self.ended_turns.items() if count}
            assert not open_now
        if connection.state.over:
            self.nothing_is_open()

    def nothing_is_open(self) -> None:
        connection = self.connection
        assert not connection.exchanges.in_flight
        assert not connection.exchanges.pending
        assert not connection.turns.open
        assert not connection.data_to_send()
        assert connection.state.lifecycle in (SessionState.STOPPED, SessionState.FAILED)
        assert {turn for turn, count in self.ended_turns.items() if count} == self.prompts
        assert set(self.resolved) | self.given_up | {self.initialize_id} >= self.asked
        assert self.handshakes == 1 or (connection.state.lifecycle is SessionState.STOPPED and not self.asked)
        with contextlib.suppress(HackamoreError):
            connection.conversation.send_prompt("too late")
            raise AssertionError("a prompt was accepted after the end")

    def teardown(self) -> None:
        self.connection.process_exited(0)
        self.connection.receive_eof()
        self.take()
        assert self.connection.state.over
        self.nothing_is_open()


HostMachine.TestCase.settings = FEW
TestHost = shows("bad.random")(HostMachine.TestCase)


@reaching
@given(
    frames=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.builds(
                lambda kind, request_id, request, more: json.dumps(
                    {"type": kind, "request_id": request_id, "request": request, "response": more, "message": more}
                ).encode(),
                st.sampled_from(["user", "control_request", "control_response", "control_cancel_request", "assistant"]),
                ids,
                requests | st.just({"subtype": "initialize"}) | values,
                values,
            ),
        ),
        max_size=20,
    ),
    pieces=st.integers(1, 50),
    when=st.integers(0, 20),
)
@settings(max_examples=examples(300))
def test_whatever_a_host_sends_the_other_role_goes_on(frames: list[bytes], pieces: int, when: int) -> None:
    cli = Connection(Role.CLI, limits=LIMITS)
    mine = cli.exchanges.send_request("hook_callback", {"callback_id": "hook_0", "input": {}})
    data = b"\n".join(frames) + b"\n"
    for number, start in enumerate(range(0, len(data), pieces)):
        cli.receive_data(data[start : start + pieces])
        if number == when:
            for request in cli.exchanges.in_flight:
                cli.exchanges.send_error(request.request_id, "no")
    written = cli.data_to_send()
    cli.receive_eof()
    cli.process_exited(0)
    happened = cli.events_received()
    if any(not isinstance(e, (events.Ended, events.RequestResolved)) for e in happened):
        reached()
    assert isinstance(happened[-1], events.Ended)
    assert [e.request_id for e in happened if isinstance(e, events.RequestResolved)] == [mine]
    answered = Counter(
        frame["response"]["request_id"]
        for frame in map(json.loads, written.splitlines())
        if frame["type"] == "control_response"
    )
    assert max(answered.values(), default=1) == 1
    assert not cli.exchanges.in_flight
    assert not cli.exchanges.pending


class PairMachine(RuleBasedStateMachine):
    """A host and a CLI back to back: what one believes, the other does too, once all bytes have arrived."""

    def __init__(self) -> None:
        super().__init__()
        host_ids, cli_ids = itertools.count(), itertools.count(1_000)
        self.host = Connection(random_bytes=lambda n: next(host_ids).to_bytes(n, "big"))
        self.cli = Connection(Role.CLI, random_bytes=lambda n: next(cli_ids).to_bytes(n, "big"))
        self.pipes: dict[Connection, bytearray] = {self.host: bytearray(), self.cli: bytearray()}
        self.asked_of: dict[Connection, list[str]] = {self.host: [], self.cli: []}
        self.cli_prompts: list[str] = []
        self.host_prompts: list[str] = []
        self.outcomes: Counter[tuple[Connection, str]] = Counter()
        self.initialize_id = self.host.send_initialize({"hooks": {}})

    @rule(which=st.booleans(), size=st.integers(1, 400))
    def move(self, which: bool, size: int) -> None:
        source, target = (self.host, self.cli) if which else (self.cli, self.host)
        pipe = self.pipes[target]
        pipe += source.data_to_send()
        if pipe:
            target.receive_data(bytes(pipe[:size]))
            del pipe[:size]
            self.take()

    def take(self) -> None:
        for connection in (self.host, self.cli):
            for event in connection.events_received():
                assert not isinstance(event, (events.BadLine, events.WarningRaised, events.Ended)), event
                match event:
                    case events.RequestReceived():
                        self.asked_of[connection].append(event.request_id)
                    case events.RequestResolved():
                        self.outcomes[connection, event.request_id] += 1
                    case events.PromptReceived(uuid=str(uuid)):
                        self.cli_prompts.append(uuid)
                    case _:
                        pass

    @rule(content=st.text(max_size=10))
    def prompt(self, content: str) -> None:
        self.host_prompts.append(self.host.conversation.send_prompt(content))

    @rule(subtype=st.sampled_from(["get_usage", "mcp_status", "get_settings"]))
    def host_asks(self, subtype: str) -> None:
        with contextlib.suppress(HackamoreError):
            self.host.exchanges.send_request(subtype)

    @rule(which=st.booleans())
    def cli_asks(self, which: bool) -> None:
        fields = {"callback_id": "hook_0", "input": {}} if which else {"tool_name": "Bash", "input": {"x": 1e2}}
        with contextlib.suppress(HackamoreError):
            self.cli.exchanges.send_request("hook_callback" if which else "can_use_tool", fields)

    @rule(data=st.data(), which=st.booleans(), good=st.booleans())
    def answer(self, data: st.DataObject, which: bool, good: bool) -> None:
        connection = self.host if which else self.cli
        open_now = [request.request_id for request in connection.exchanges.in_flight]
        if not open_now:
            return
        request_id = data.draw(st.sampled_from(open_now))
        is_initialize = connection is self.cli and request_id == self.initialize_id
        if good or is_initialize:
            assert connection.exchanges.send_response(request_id, {"models": []})
        else:
            assert connection.exchanges.send_error(request_id, "no")

    @rule(data=st.data())
    def cli_takes_back(self, data: st.DataObject) -> None:
        mine = [request.request_id for request in self.cli.exchanges.pending]
        if mine:
            self.cli.exchanges.cancel_request(data.draw(st.sampled_from(mine)))

    @rule(data=st.data(), word=st.sampled_from(["queued", "started", "completed"]))
    def cli_reports(self, data: st.DataObject, word: str) -> None:
        if self.cli_prompts:
            uuid = data.draw(st.sampled_from(self.cli_prompts))
            self.cli.outbox.send_message({"type": "command_lifecycle", "command_uuid": uuid, "state": word})
            if word == "completed":
                self.cli.outbox.send_message({"type": "result", "subtype": "success", "user_message_uuids": [uuid]})

    def teardown(self) -> None:
        self.everything_arrives()
        # Twice: the answer to `initialize` sets free what the host held back.
        for connection in (self.host, self.cli, self.host, self.cli):
            for request in connection.exchanges.in_flight:
                connection.exchanges.send_response(request.request_id, {})
            self.everything_arrives()
        assert not self.host.exchanges.in_flight
        assert not self.cli.exchanges.in_flight
        assert not self.host.exchanges.pending
        assert not self.cli.exchanges.pending
        assert self.host.state.handshake is self.cli.state.handshake is Handshake.CONFIRMED
        assert self.cli_prompts == self.host_prompts
        for uuid in self.cli_prompts:
            self.cli.outbox.send_message({"type": "result", "subtype": "success", "user_message_uuid": uuid})
        self.cli.outbox.send_message({"type": "system", "subtype": "session_state_changed", "state": "idle"})
        self.everything_arrives()
        assert self.host.conversation.quiet
        self.host.outbox.close_input()
        assert self.host.input_may_close
        assert max(self.outcomes.values(), default=1) == 1

    def everything_arrives(self) -> None:
        for _ in range(6):
            for which in (True, False):
                self.move(which, 10_000_000)


PairMachine.TestCase.settings = FEW
TestPair = shows("bad.random")(PairMachine.TestCase)
