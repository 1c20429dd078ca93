"""Messages for the servers of this process by themselves: which are passed on, and what each is answered. No shell and no process."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import weakref
from typing import Any

import pytest
from mcp.server.lowlevel import Server

from hackamore import ControlRejectedError, Options, OptionsError, SessionClosedError, Timeouts
from hackamore._engine.answering.jobs import Job
from hackamore._engine.answering.mcp_calls import check_package
from hackamore._engine.answering.servers import Entry, Head, ObjectRun, Servers, failed
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Readers
from hackamore.messages.results import McpServersChange
from hackamore.options.observing import CallbackCall, Observation
from hackamore.tools import ToolContext, tool, tool_server
from tests.support.observing import Noting, Observer

ACKNOWLEDGED = {"jsonrpc": "2.0", "id": 0, "result": {}}


class Woken:
    """An event that counts how often it is set."""

    def __init__(self) -> None:
        self.times = 0

    def set(self) -> None:
        self.times += 1


class Served:
    """A ready session with servers, and the CLI that sends them messages."""

    def __init__(self, telemetry: Any = None, **servers: Any) -> None:
        options = Options(mcp_servers=servers, timeouts=Timeouts(mcp=6.0), telemetry=telemetry)
        self.core: SessionCore[Readers] = SessionCore(options, lambda function: function(), Readers)
        self.core.connection.state.begin_start()
        started = self.core.connection.send_initialize({})
        self.feed({"type": "control_response", "response": {"subtype": "success", "request_id": started}})
        self.core.connection.data_to_send()
        self.asked = 0

    def feed(self, frame: dict[str, Any]) -> None:
        self.core.connection.receive_data(json.dumps(frame).encode() + b"\n")
        self.core.pump(0.0)

    def tell(self, server: str, message: Any) -> list[Job]:
        """Send a message; return the jobs that begin."""
        self.asked += 1
        request = {"subtype": "mcp_message", "server_name": server, "message": message}
        self.feed({"type": "control_request", "request_id": f"r{self.asked}", "request": request})
        return list(self.core.callbacks.take())

    def call(self, server: str, method: str, message_id: Any = 1, **params: Any) -> list[Job]:
        return self.tell(server, {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params})

    def cancel(self, server: str, message_id: Any) -> list[Job]:
        params = {"requestId": message_id}
        return self.tell(server, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def finish(self, job: Job, outcome: object, error: BaseException | None = None) -> None:
        self.core.callback_ended(job, outcome, error, 0.0)
        self.core.pump(0.0)

    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.core.connection.data_to_send().splitlines()]

    def answers(self) -> dict[str, Any]:
        """Return the answers to the messages, by the request."""
        return {
            frame["response"]["request_id"]: frame["response"]["response"]["mcp_response"] for frame in self.frames()
        }


# -- heads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "identifier", "method", "cancelled"),
    [
        (b'{"id": 7, "method": "m", "params": {"requestId": "c"}}', 7, "m", "c"),
        (b'{"id": "x"}', "x", None, None),
        (b'{"method": "m", "params": {"requestId": 1.5}}', None, "m", 1.5),
        (b'{"method": "m", "params": []}', None, "m", None),
        (b'{"method": 3}', None, None, None),
        (b"[", None, None, None),
    ],
)
def test_the_head_of_a_message_is_read_as_far_as_it_can_be(
    message: bytes, identifier: Any, method: str | None, cancelled: Any
) -> None:
    head = Head.of(message)
    assert (head.id, head.method, head.cancelled_id) == (identifier, method, cancelled)


def test_a_message_that_no_server_answered_gets_the_reason_and_a_notification_none() -> None:
    assert failed(None, "no").wire == {"mcp_response": ACKNOWLEDGED}
    error = failed(7, "x" * 2_000 + "no\x1b[2J").wire["mcp_response"]
    assert (error["jsonrpc"], error["id"], error["error"]["code"]) == ("2.0", 7, -32603)
    assert error["error"]["message"].endswith("no\\x1b[2J")
    assert 1_000 < len(error["error"]["message"]) < 1_100


# -- tools and functions -----------------------------------------------------------------------------------------------


def test_a_message_for_an_unknown_server_is_refused() -> None:
    served = Served(known=tool_server("known", []))
    assert served.call("unknown", "tools/list", 5) == []
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["code"]) == (5, -32601)
    assert answer["error"]["message"] == "There is no server 'unknown' here."
    served.call("x" * 300, "tools/list", 6)
    (answer,) = served.answers().values()
    assert answer["error"]["message"] == f"There is no server '[... 100 characters left out] {'x' * 200}' here."


def test_a_call_of_a_tool_becomes_a_job_with_its_name_timeout_and_answers() -> None:
    contexts: list[ToolContext] = []

    @tool
    def price(article: str, context: ToolContext) -> str:
        """Return a price."""
        contexts.append(context)
        return f"{article} costs 2"

    served = Served(shop=tool_server("inner", [price]))
    (job,) = served.call("shop", "tools/call", 3, name="price", arguments={"article": "tea"})
    assert (job.callee.name, job.callee.is_async, job.callee.function) == ("tool `shop.price`", False, price.function)
    assert served.core.deadlines.seconds_of("callback", "r1") == 6.0
    served.finish(job, job.call())
    (answer,) = served.answers().values()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (3, "tea costs 2")
    assert not contexts[0].cancelled

    (job,) = served.call("shop", "tools/call", 4, name="price", arguments={"article": "tea"})
    job.call()
    assert served.cancel("shop", 4) == []
    answers = served.answers()
    assert answers["r3"]["result"] == {}
    assert answers["r2"]["id"] == 4
    assert contexts[1].cancelled
    assert job.state.cancelled
    assert not served.core.warnings.kept


def test_a_tool_that_times_out_or_raises_is_answered_as_a_tool() -> None:
    @tool
    async def price() -> str:
        """Return a price."""
        return ""

    served = Served(shop=tool_server("inner", [price]))
    (job,) = served.call("shop", "tools/call", 3, name="price", arguments={})
    assert job.callee.is_async
    served.core.expire(6.0, b"")
    (answer,) = served.answers().values()
    assert answer["result"]["isError"]
    assert "did not answer within 6 s" in answer["result"]["content"][0]["text"]
    (job,) = served.call("shop", "tools/call", 4, name="price", arguments={})
    served.finish(job, None, LookupError("nothing there"))
    (answer,) = served.answers().values()
    assert answer["result"]["isError"]
    assert [warning.code for warning in served.core.warnings.kept] == ["CALLBACK_TIMED_OUT", "CALLBACK_FAILED"]
    assert served.core.warnings.kept[-1].context["reason"] == "tool `shop.price` raised LookupError: nothing there"


def test_what_a_tool_reports_is_sent_until_its_call_is_over() -> None:
    contexts: list[ToolContext] = []

    @tool
    def price(context: ToolContext) -> str:
        """Return a price."""
        contexts.append(context)
        context.report_progress(1, 2, "half")
        return ""

    served = Served(shop=tool_server("inner", [price]))
    (job,) = served.call("shop", "tools/call", 3, name="price", arguments={}, _meta={"progressToken": "p"})
    call = job.call
    outcome = call()
    (frame,) = served.frames()
    assert frame["request"]["subtype"] == "mcp_message"
    assert frame["request"]["server_name"] == "shop"
    assert frame["request"]["message"]["method"] == "notifications/progress"
    served.finish(job, outcome)
    served.frames()
    contexts[0].report_progress(2, 2)
    assert served.frames() == []


@dataclasses.dataclass
class Article:
    name: str


def test_a_call_that_is_over_leaves_nothing_to_the_garbage_collector() -> None:
    asked: list[weakref.ref[Article]] = []

    @tool
    def price(article: Article, context: ToolContext) -> str:
        """Return a price."""
        asked.append(weakref.ref(article))
        return ""

    served = Served(shop=tool_server("inner", [price]))
    gc.disable()
    try:
        (job,) = served.call("shop", "tools/call", 3, name="price", arguments={"article": {"name": "tea"}})
        served.finish(job, job.call())
        del job
        assert asked[0]() is None
    finally:
        gc.enable()


def test_a_function_gets_the_message_and_gives_the_answer() -> None:
    heard: list[Any] = []

    def serve(message: dict[str, Any]) -> Any:
        heard.append(message)
        return {"jsonrpc": "2.0", "id": message.get("id"), "result": {"n": 1}}

    served = Served(f=serve)
    (job,) = served.call("f", "anything", 3, a=1)
    assert (job.callee.name, job.callee.is_async, job.callee.function) == ("server 'f'", False, serve)
    served.finish(job, job.call())
    assert served.answers() == {"r1": {"jsonrpc": "2.0", "id": 3, "result": {"n": 1}}}
    assert heard == [{"jsonrpc": "2.0", "id": 3, "method": "anything", "params": {"a": 1}}]
    (job,) = served.tell("f", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    served.finish(job, None)
    assert served.answers() == {"r2": ACKNOWLEDGED}
    (job,) = served.call("f", "anything", 4)
    served.finish(job, None)
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["code"]) == (4, -32603)
    assert "it must return a JSON-RPC dict, not NoneType" in answer["error"]["message"]
    (job,) = served.call("f", "anything", 5)
    (also,) = served.cancel("f", 5)
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["message"]) == (5, "The call was cancelled.")
    assert job.state.cancelled
    assert not also.state.over


# -- server objects ----------------------------------------------------------------------------------------------------


def connected() -> tuple[Served, Job, Any]:
    """Return a session whose CLI has connected to a server object, the job that runs it, and its run."""
    served = Served(shop=Server("shop"))
    (job,) = served.call("shop", "initialize", 0, capabilities={})
    (entry,) = served.core.callbacks.servers.all()
    return served, job, entry


def run_of(entry: Entry) -> ObjectRun:
    assert entry.run is not None
    return entry.run


def test_a_server_object_runs_from_its_first_message_on() -> None:
    served, job, entry = connected()
    assert (job.about.kind, job.about.id) == ("server", "")
    assert (job.callee.name, job.callee.is_async) == ("MCP server 'shop'", True)
    run = run_of(entry)
    assert (run.name, run.initialized, run.closing) == ("shop", True, False)
    assert [json.loads(message)["method"] for message in run.inbox] == ["initialize"]
    assert served.answers() == {}
    run.received({"id": 0, "result": {"x": 1}})
    assert served.answers() == {"r1": {"jsonrpc": "2.0", "id": 0, "result": {"x": 1}}}
    assert served.tell("shop", {"jsonrpc": "2.0", "method": "notifications/initialized"}) == []
    assert served.answers() == {"r2": ACKNOWLEDGED}
    assert [json.loads(message)["method"] for message in run.inbox] == ["initialize", "notifications/initialized"]
    assert served.core.deadlines.names("callback") == []


@pytest.mark.parametrize("message_id", [1.5, 2])
def test_an_id_that_a_server_object_cannot_answer_is_refused(message_id: Any) -> None:
    served, _, entry = connected()
    assert served.call("shop", "tools/list", 2) == []
    inbox = len(run_of(entry).inbox)
    assert served.call("shop", "tools/list", message_id) == []
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["code"]) == (message_id, -32600)
    assert answer["error"]["message"] == "`id` must be a text or a whole number, and no open request's."
    assert len(run_of(entry).inbox) == inbox


def test_a_call_of_a_server_object_that_is_cancelled_or_late_is_told_to_the_server() -> None:
    served, _, entry = connected()
    run = run_of(entry)
    run.received({"id": 0, "result": {}})
    served.call("shop", "tools/call", 2)
    served.call("shop", "tools/call", 3)
    assert served.core.deadlines.seconds_of("callback", "r2") == 6.0
    served.answers()
    run.inbox.clear()
    served.cancel("shop", 2)
    answers = served.answers()
    assert (answers["r2"]["id"], answers["r2"]["error"]["message"]) == (2, "The call was cancelled.")
    assert answers["r4"] == ACKNOWLEDGED
    served.core.expire(6.0, b"")
    list(served.core.callbacks.take())
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["code"]) == (3, -32603)
    assert answer["error"]["message"] == "server 'shop' did not answer within 6 s"
    told = [json.loads(message) for message in run.inbox]
    assert [(one["jsonrpc"], one["method"], one["params"]["requestId"]) for one in told] == [
        ("2.0", "notifications/cancelled", 2),
        ("2.0", "notifications/cancelled", 3),
    ]
    run.received({"id": 3, "result": {}})  # too late
    assert served.answers() == {}


def test_a_second_initialize_is_another_connection() -> None:
    served, _, entry = connected()
    first = run_of(entry)
    served.call("shop", "tools/list", 2)
    (job,) = served.call("shop", "initialize", 3)
    assert job.about.kind == "server"
    second = run_of(entry)
    assert first is not second
    assert (first.closing, second.closing) == (True, False)
    answers = served.answers()
    assert {answer["error"]["message"] for answer in answers.values()} == {"The CLI has connected again."}
    assert sorted(answers) == ["r1", "r2"]
    first.received({"id": 3, "result": {}})
    assert served.answers() == {}
    first.received({"method": "notifications/tools/list_changed"})
    assert served.frames() == []


class Tracing(Observation):
    """Adds an entry to the `_meta` of each call that has one."""

    def __init__(self) -> None:
        self.calls: list[CallbackCall] = []

    def callback_started(self, call: CallbackCall) -> None:
        self.calls.append(call)
        if call.meta is not None and call.tool_use_id != "plain":
            call.meta.update(traceparent="00-1", progressToken="never")


def test_an_observer_adds_to_the_meta_of_a_call_of_a_server_object_and_the_client_wins() -> None:
    tracing = Tracing()
    served = Served(Observer(tracing), shop=Server("shop"))
    served.call("shop", "initialize", 0, capabilities={})
    run = run_of(served.core.callbacks.servers.all()[0])
    meta = {"progressToken": "p", "claudecode/toolUseId": "u"}
    served.call("shop", "tools/call", 1, name="price", arguments={"a": 1}, _meta=meta)
    served.call("shop", "tools/call", 2, name="price")
    served.call("shop", "tools/list", 3)
    served.tell("shop", {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": []})
    sent = [json.loads(message) for message in run.inbox][1:]
    assert [message["params"].get("_meta") for message in sent[:3]] == [
        {"traceparent": "00-1", **meta},
        {"traceparent": "00-1", "progressToken": "never"},
        None,
    ]
    assert sent[0] == {**sent[0], "id": 1, "method": "tools/call"}
    assert {**sent[0]["params"], "_meta": None} == {"name": "price", "arguments": {"a": 1}, "_meta": None}
    assert sent[3]["params"] == []
    assert [(call.kind, call.tool, call.tool_use_id, call.request) for call in tracing.calls] == [
        ("mcp", "", None, None),
        ("mcp", "mcp__shop__price", "u", {"a": 1}),
        ("mcp", "mcp__shop__price", None, None),
        ("mcp", "", None, None),
        ("mcp", "", None, None),
    ]


def test_a_call_to_which_no_observer_adds_is_passed_on_as_it_came() -> None:
    served = Served(Observer(Tracing()), shop=Server("shop"))
    served.call("shop", "initialize", 0)
    meta = {"claudecode/toolUseId": "plain"}
    served.call("shop", "tools/call", 1, name="price", arguments={"a": 1e2}, _meta=meta)
    call = {"name": "price", "arguments": {"a": 1e2}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert run_of(served.core.callbacks.servers.all()[0]).inbox[-1] == json.dumps(message).encode()


def test_a_function_gets_numbers_that_no_float_holds_as_infinity(caplog: pytest.LogCaptureFixture) -> None:
    served = Served(f=lambda message: {"jsonrpc": "2.0", "id": message["id"], "result": {}})
    message = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":1e999}}'
    request = b'{"subtype":"mcp_message","server_name":"f","message":' + message + b"}"
    served.core.connection.receive_data(b'{"type":"control_request","request_id":"r","request":' + request + b"}\n")
    served.core.pump(0.0)
    (job,) = served.core.callbacks.take()
    served.finish(job, job.call())
    assert served.answers() == {"r": {"jsonrpc": "2.0", "id": 1, "result": {}}}
    assert not caplog.records


def test_an_observer_hears_which_tool_of_a_function_is_called() -> None:
    tracing = Tracing()
    served = Served(Observer(tracing), f=lambda message: {"jsonrpc": "2.0", "id": message["id"], "result": {}})
    served.call("f", "tools/call", 1, name="price", arguments={"a": 1}, _meta={"claudecode/toolUseId": "u"})
    (call,) = tracing.calls
    assert (call.tool, call.tool_use_id, call.request, call.meta) == ("mcp__f__price", "u", {"a": 1}, None)


def test_a_connection_that_was_replaced_ends_without_a_warning() -> None:
    served, first, entry = connected()
    (second,) = served.call("shop", "initialize", 3)
    served.finish(first, None, LookupError("late"))
    assert not served.core.warnings.kept
    assert entry.crashed is None
    served.core.connection.fail(SessionClosedError(expected=False, reason="lost"))
    served.core.callbacks.finish(second, None, LookupError("late"))
    assert not served.core.warnings.kept


def test_long_names_and_reasons_of_servers_are_cut() -> None:
    name = "s" * 300
    served = Served(**{name: Server("shop")})
    (job,) = served.call(name, "initialize", 0)
    served.finish(job, None, LookupError("x" * 2_000))
    (warning,) = served.core.warnings.kept
    assert warning.message == (
        f"MCP server `[... 100 characters left out] {'s' * 200}` has ended: [... 1513 characters left out] {'x' * 500}."
    )
    served.answers()
    served.call(name, "tools/list", 2)
    (answer,) = served.answers().values()
    assert answer["error"]["message"].endswith(f"has ended: [... 1713 characters left out] {'x' * 300}.")


def test_a_server_object_that_ends_answers_everything_and_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served, job, entry = connected()
    waker = Woken()
    assert served.core.callbacks.mcp.objects.wake_when_ended(waker)
    problem = LookupError("a hole.")
    served.finish(job, None, problem)
    assert waker.times == 1
    (warning,) = served.core.warnings.kept
    assert warning.code == "CALLBACK_FAILED"
    assert warning.message == "MCP server `shop` has ended: LookupError: a hole."
    assert warning.context == {"kind": "mcp", "callback": "shop", "reason": "LookupError: a hole."}
    assert warning.exception is problem
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "MCP server 'shop' ended with an error"
    assert record.exc_info is not None
    assert record.exc_info[1] is problem
    (answer,) = served.answers().values()
    assert answer["error"]["message"] == "The server has ended: LookupError: a hole.."
    assert entry.run is None
    assert served.call("shop", "tools/list", 2) == []
    (answer,) = served.answers().values()
    assert (answer["id"], answer["error"]["message"]) == (2, "Server 'shop' has ended: LookupError: a hole..")
    (again,) = served.call("shop", "initialize", 3)
    served.answers()
    served.finish(again, None)
    assert served.core.warnings.kept[-1].context["reason"] == "it ended by itself"
    assert not served.core.callbacks.mcp.objects.wake_when_ended(waker)


def test_the_end_of_a_session_ends_its_server_objects() -> None:
    served, job, entry = connected()
    run = run_of(entry)
    served.core.lost("gone", 1.0)
    assert run.closing
    assert entry.run is None
    served.finish(job, None)
    assert not served.core.warnings.kept
    run.received({"method": "notifications/tools/list_changed"})
    assert served.frames() == []


def test_a_notification_of_a_server_object_is_not_an_operation_of_the_user() -> None:
    noting = Noting()
    served = Served(Observer(noting), shop=Server("shop"))
    served.call("shop", "initialize", 0)
    run_of(served.core.callbacks.servers.all()[0]).received({"method": "notifications/tools/list_changed"})
    (sent,) = served.frames()
    response = {"subtype": "success", "request_id": sent["request_id"]}
    served.feed({"type": "control_response", "response": response})
    assert "request_ended" not in noting.names()


def test_a_request_of_a_server_object_that_cannot_be_sent_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    served, _, entry = connected()
    run = run_of(entry)
    run.note_initialize(b'{"params": {"capabilities": {"elicitation": {}}}}')
    run.inbox.clear()
    run.received({"id": 9, "method": "elicitation/create", "params": {"message": "Who?"}})
    (frame,) = served.frames()
    assert frame["request"]["message"] == {
        "jsonrpc": "2.0",
        "id": 9,
        "method": "elicitation/create",
        "params": {"message": "Who?"},
    }
    run.received({"id": 10, "method": "elicitation/create", "params": {"message": "\ud800"}})
    assert served.frames() == []
    (answer,) = run.inbox
    assert json.loads(answer)["error"] == {
        "code": -32603,
        "message": "The request could not be sent to Claude Code.",
    }
    assert json.loads(answer)["id"] == 10
    assert any(text.startswith("a message of server 'shop' was not sent: ") for text in caplog.messages)
    run.received({"method": "notifications/x", "params": {"message": "\ud800"}})
    assert len(run.inbox) == 1


class Watched:
    """The run of a server object, and what comes out of it."""

    def __init__(self) -> None:
        self.answered: list[tuple[Any, dict[str, Any]]] = []
        self.sent: list[dict[str, Any]] = []
        self.run = ObjectRun(
            object(), "s", answered=lambda *answer: self.answered.append(answer), sent=self.sent.append
        )

    def inbox(self) -> list[Any]:
        return [json.loads(message) for message in self.run.inbox]


def test_a_message_that_the_package_cannot_read_is_answered_if_it_has_an_id() -> None:
    watched = Watched()
    watched.run.unreadable(b'{"id": 4, "method": 7}', ValueError("no"))
    assert watched.answered == []  # its head cannot be read
    watched.run.unreadable(b'{"method": "m"}', ValueError("no"))
    assert watched.answered == []
    watched.run.unreadable(b'{"id": 4, "method": "m"}', ValueError("x" * 500 + "bad\x1b"))
    ((message_id, answer),) = watched.answered
    assert (message_id, answer["id"], answer["error"]["code"]) == (4, 4, -32600)
    text = answer["error"]["message"]
    assert text.startswith("Not a JSON-RPC message that the `mcp` package can read: ")
    assert text.endswith("bad\\x1b")
    assert 300 < len(text) < 400


@pytest.mark.parametrize(
    ("declared", "method", "passed"),
    [
        (b'{"params": {"capabilities": {"sampling": {}}}}', "sampling/createMessage", True),
        (b'{"params": {"capabilities": {"roots": {}}}}', "roots/list", True),
        (b'{"params": {"capabilities": {"roots": {}}}}', "elicitation/create", False),
        (b'{"params": {"capabilities": 7}}', "roots/list", False),
        (b'{"params": {}}', "roots/list", False),
        (b"{}", "roots/list", False),
        (b'{"params": {"capabilities": {"roots": {}}}}', "never/heard", False),
    ],
)
def test_a_request_of_a_server_is_passed_on_if_the_client_declared_it(
    declared: bytes, method: str, passed: bool
) -> None:
    watched = Watched()
    watched.run.note_initialize(declared)
    watched.run.received({"id": 3, "method": method, "params": None})
    if passed:
        assert watched.sent == [{"jsonrpc": "2.0", "id": 3, "method": method}]
        assert watched.inbox() == []
    else:
        assert watched.sent == []
        (answer,) = watched.inbox()
        assert (answer["id"], answer["error"]["code"]) == (3, -32601)
        assert answer["error"]["message"].startswith(f"`{method}` is not supported here")
    assert watched.answered == []


def test_a_long_name_of_a_request_is_cut() -> None:
    watched = Watched()
    watched.run.received({"id": 3, "method": "m" * 300})
    (answer,) = watched.inbox()
    assert answer["error"]["message"].startswith(f"`[... 200 characters left out] {'m' * 100}` is not supported here: ")


def test_a_server_that_pings_is_answered_and_notifications_and_answers_come_out() -> None:
    watched = Watched()
    watched.run.received({"id": 3, "method": "ping"})
    assert watched.inbox() == [{"jsonrpc": "2.0", "id": 3, "result": {}}]
    watched.run.received({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}})
    assert watched.sent == [{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}]
    watched.run.received({"id": 5, "result": {}})
    assert watched.answered == [(5, {"id": 5, "result": {}, "jsonrpc": "2.0"})]


def test_a_run_wakes_its_event_loop_and_takes_nothing_once_it_closes() -> None:
    watched, woken = Watched(), Woken()
    watched.run.put(b"1")
    watched.run.wake = woken.set
    watched.run.put(b"2")
    watched.run.cancel(7)
    assert woken.times == 2
    watched.run.close()
    watched.run.put(b"3")
    assert (woken.times, watched.run.closing) == (3, True)
    assert watched.inbox() == [
        1,
        2,
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 7, "reason": "the caller no longer waits"},
        },
    ]

    def closed() -> None:
        raise RuntimeError("Event loop is closed")

    watched.run.wake = closed
    watched.run.close()


class Halved:
    """Looks like a server object of the `mcp` package and has nothing inside."""

    def run(self) -> None:
        """Do nothing."""


def test_a_server_object_without_a_server_is_refused() -> None:
    with pytest.raises(OptionsError) as refused:
        check_package("x", Halved())
    assert str(refused.value) == (
        "`mcp_servers.x` looks like a server object of the `mcp` package and has no low-level server inside: this version of "
        "Hackamore does not support it."
    )
    assert refused.value.field == "mcp_servers.x"
    check_package("x", Server("shop"))


# -- replacements ------------------------------------------------------------------------------------------------------


class Replacing:
    """Servers that are replaced, one step at a time."""

    def __init__(self, **servers: Any) -> None:
        self.dropped: list[str] = []
        self.servers = Servers(servers, lambda entry: self.dropped.append(entry.name))

    def change(self, *external: str, **inside: Any) -> Any:
        wire = {name: {"type": "sdk", "name": name} for name in inside} | {name: {"command": name} for name in external}
        return self.servers.change(wire, inside)

    def found(self, *names: str) -> list[Any]:
        entries = [self.servers.find(name) for name in names]
        return [entry.server if entry is not None else None for entry in entries]


def finished(change: Any, answer: McpServersChange) -> McpServersChange:
    with pytest.raises(StopIteration) as done:
        change.send(answer)
    result: McpServersChange = done.value.value
    return result


REFUSED = ControlRejectedError("set_mcp_servers", "no", None)


def test_new_servers_answer_while_the_cli_is_asked_and_old_ones_until_it_has_accepted() -> None:
    it = Replacing(a="A", b="B")
    change = it.change("outside", a="A", c="C")
    assert next(change) == {
        "a": {"type": "sdk", "name": "a"},
        "c": {"type": "sdk", "name": "c"},
        "outside": {"command": "outside"},
    }
    assert it.found("a", "b", "c", "d") == ["A", "B", "C", None]
    assert sorted(entry.name for entry in it.servers.all()) == ["a", "b", "c"]
    answer = McpServersChange(added=["c"], removed=["b"])
    assert finished(change, answer) is answer
    assert it.found("a", "b", "c") == ["A", None, "C"]
    assert it.dropped == ["b"]


def test_a_name_that_gets_another_server_is_removed_first() -> None:
    it = Replacing(a="A", k="K")
    change = it.change("outside", a="other", k="K", n="N")
    assert next(change) == {"k": {"type": "sdk", "name": "k"}}
    assert change.send(McpServersChange(added=["q"], removed=["a"], errors={"x": "1", "y": "1"})) == {
        name: {"type": "sdk", "name": name} for name in ("a", "k", "n")
    } | {"outside": {"command": "outside"}}
    assert it.dropped == ["a"]
    assert it.found("a", "k", "n") == ["other", "K", "N"]
    both = finished(change, McpServersChange(added=["a", "n"], removed=["z"], errors={"y": "2"}))
    assert (both.added, both.removed, both.errors) == (["q", "a", "n"], ["a", "z"], {"x": "1", "y": "2"})
    again = it.change(a="third", k="K", n="N")
    assert sorted(next(again)) == ["k", "n"]  # what the CLI was told last, but for what is replaced


def test_a_refusal_takes_the_new_servers_back() -> None:
    it = Replacing(a="A")
    change = it.change(a="A", n="N")
    next(change)
    with pytest.raises(ControlRejectedError):
        change.throw(REFUSED)
    assert it.dropped == ["n"]
    assert it.found("a", "n") == ["A", None]


@pytest.mark.parametrize("again", [None, REFUSED])
def test_a_refusal_half_way_tells_the_cli_what_it_had(again: Exception | None) -> None:
    it = Replacing(a="A", k="K")
    change = it.change(a="other", k="K")
    next(change)
    change.send(McpServersChange())
    assert change.throw(REFUSED) == {name: {"type": "sdk", "name": name} for name in ("a", "k")}
    assert it.found("a", "k") == ["A", "K"]
    with pytest.raises(ControlRejectedError) as raised:
        change.throw(again) if again is not None else change.send(McpServersChange())
    assert raised.value is REFUSED
    assert it.found("k") == ["K"]
    assert it.found("a") == ([None] if again is not None else ["A"])


def test_a_change_without_an_answer_keeps_old_and_new_servers() -> None:
    it = Replacing(a="A")
    change = it.change(n="N")
    next(change)
    with pytest.raises(TimeoutError):
        change.throw(TimeoutError())
    assert it.found("a", "n") == ["A", "N"]
    assert it.dropped == []
    assert [entry.name for entry in it.servers.all()] == ["a", "n"]
