"""A tool server behind two pipes, without pipes: lines in, jobs, lines out, and the limits of everything that may grow."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Limits
from hackamore._engine.answering import stdio
from hackamore._engine.answering.stdio import StdioConnection
from hackamore.tools import ToolContext, tool, tool_server
from tests.tools.support import call_request, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.answering.jobs import Job


@tool
def text(size: int = 2) -> str:
    return "x" * size


@tool
def steps(count: int, context: ToolContext) -> str:
    for step in range(count):
        context.report_progress(step)
    return "all"


@tool
def odd(context: ToolContext) -> str:
    context.report_progress(object())  # type: ignore[arg-type]
    return "reported"


class Played:
    """A connection, and a shell that runs one job after the other."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.posted: list[Callable[[], None]] = []
        self.connection = StdioConnection(tool_server("s", [text, steps, odd]), self.posted.append, limits)

    def send(self, *messages: dict[str, Any]) -> None:
        self.connection.receive_data(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def call(self, name: str, identifier: Any = 1, token: str | None = None, **arguments: Any) -> None:
        meta = {"progressToken": token} if token else None
        self.send({**call_request(name, arguments, meta), "id": identifier})

    def jobs(self) -> list[Job]:
        return list(self.connection.take())

    def run(self, job: Job) -> None:
        self.connection.finish(job, job.call(), None)

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.connection.data_to_send().splitlines()]


def test_a_call_is_a_job_and_its_end_a_line() -> None:
    played = Played()
    played.call("text", "a")
    [job] = played.jobs()
    assert (job.callee.name, job.about.tool, played.said()) == ("tool `s.text`", "mcp__s__text", [])
    played.run(job)
    assert played.said() == [{"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "xx"}]}}]
    assert played.connection.data_to_send() == b""


def test_messages_may_come_in_pieces_and_a_line_has_a_limit() -> None:
    played = Played(Limits(line_bytes=100))
    whole = json.dumps(request("ping")).encode() + b"\n"
    for at in range(len(whole)):
        played.connection.receive_data(whole[at : at + 1])
    assert played.said() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    played.connection.receive_data(b" " * 60 + whole * 2)
    oversized, answer = played.said()
    assert oversized["error"] == {"code": -32600, "message": "A message may have 100 bytes."}
    assert answer["result"] == {}


@pytest.mark.parametrize("identifier", [r'"\ud800"', r'"a\udfffb"', "1e999", "-1e999"])
@pytest.mark.parametrize("method", ["ping", "initialize", "tools/list", "tools/call", "unknown"])
def test_an_id_that_no_answer_can_repeat_is_refused_and_the_next_message_is_read(identifier: str, method: str) -> None:
    played = Played()
    line = f'{{"jsonrpc":"2.0","id":{identifier},"method":"{method}","params":{{"name":"text"}}}}\n'
    played.connection.receive_data(line.encode() * 2)
    assert played.jobs() == []
    refused, again = played.said()
    assert refused == again
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert refused["error"]["message"] == "`id` must be a text without lone surrogates, or a finite number."
    played.call("text", 3)
    [job] = played.jobs()
    played.run(job)
    assert [answer["id"] for answer in played.said()] == [3]


def test_half_a_character_in_arguments_is_replaced() -> None:
    played = Played()
    line = rb'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"size":"\ud800"}}}'
    played.connection.receive_data(line + b"\n")
    assert played.jobs() == []
    [answer] = played.said()
    assert answer["result"]["content"][0]["text"].startswith("Bad arguments for `text`: `size`: expected `int`")


def test_calls_beyond_the_limit_wait_in_order_and_then_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "WAITING_CALLS", 2)
    played = Played(Limits(inflight_callbacks=1))
    for number in range(4):
        played.call("text", number)
    [first] = played.jobs()
    [refused] = played.said()
    assert refused["id"] == 3
    assert refused["result"]["content"][0]["text"].startswith("Too many calls: 3 are open already.")
    played.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert (played.jobs(), played.said()) == ([], [])
    played.run(first)
    [last] = played.jobs()
    played.run(last)
    assert [answer["id"] for answer in played.said()] == [0, 2]


def test_functions_that_run_on_after_their_cancellation_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "WAITING_CALLS", 0)
    played = Played(Limits(inflight_callbacks=1))
    played.call("text", 1)
    [job] = played.jobs()
    played.connection.running.add(job)  # as its thread does
    played.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    played.call("text", 2)
    [refused] = played.said()
    assert (refused["id"], refused["result"]["isError"]) == (2, True)
    played.connection.running.discard(job)
    played.call("text", 3)
    [again] = played.jobs()
    played.run(again)
    assert [answer["id"] for answer in played.said()] == [3]


def test_input_is_not_wanted_while_the_client_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "UNREAD_BYTES", 1)
    assert Played().connection.wants_input
    monkeypatch.setattr(stdio, "UNREAD_BYTES", 1_000)
    played = Played()
    played.call("text", size=2_000)
    played.call("steps", 2, token="t", count=3)
    assert played.connection.wants_input
    long, stepping = played.jobs()
    played.run(long)
    assert not played.connection.wants_input
    played.run(stepping)  # its reports are dropped, its result is not
    assert [answer.get("id") for answer in played.said()] == [1, 2]
    assert played.connection.wants_input


def test_reports_come_before_the_result_and_the_oldest_are_dropped() -> None:
    played = Played()
    played.call("steps", token="t", count=100)
    [job] = played.jobs()
    played.run(job)
    assert len(played.posted) == 1  # one look for all of them
    *reports, answer = played.said()
    assert [report["params"]["progress"] for report in reports] == list(range(36, 100))
    assert answer["result"]["content"][0]["text"] == "all"
    played.posted[0]()
    assert played.said() == []


def test_a_report_without_a_json_form_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()
    played.call("odd", token="t")
    [job] = played.jobs()
    played.run(job)
    [answer] = played.said()
    assert answer["result"]["content"][0]["text"] == "reported"
    assert "a progress report of tool `s.odd` cannot be sent" in caplog.text


def test_the_duration_of_a_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    played = Played()
    played.connection.deadlines.now = 10.0
    played.call("text")
    played.connection.deadlines.now = 12.5
    [job] = played.jobs()
    played.run(job)
    assert [message["id"] for message in played.said()] == [1]
    assert [message for message in caplog.messages if message.startswith("tool `s.text`")] == [
        "tool `s.text`: answered, after 2.500 s"
    ]


def test_an_exception_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()
    played.call("text")
    [job] = played.jobs()
    played.connection.finish(job, None, ValueError("bad day"))
    [answer] = played.said()
    assert answer["result"] == {"content": [{"type": "text", "text": "ValueError: bad day"}], "isError": True}
    [record] = caplog.records
    assert record.exc_info is not None
    assert "tool `s.text` raised ValueError: bad day in text" in record.getMessage()


def test_nothing_is_answered_after_the_end() -> None:
    played = Played()
    played.call("text", 1)
    [job] = played.jobs()
    assert job.rpc is not None
    assert job.rpc.plan is not None
    played.connection.receive_data(json.dumps(request("ping", identifier="last")).encode())  # no line end
    played.connection.receive_eof()
    assert [answer["id"] for answer in played.said()] == ["last"]
    assert (played.connection.over, played.connection.wants_input) == (True, False)
    assert job.rpc.plan.context.cancelled
    played.run(job)
    played.connection.end()
    assert (played.said(), played.jobs()) == ([], [])
    assert len(played.posted) == 1  # the shell looks whether all functions have returned
