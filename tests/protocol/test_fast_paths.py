"""The quick ways give the same as the careful ones."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore import Limits, Options
from hackamore._engine.protocol.conversation import PLAIN
from hackamore._engine.protocol.framing import OversizedLine, _split
from hackamore._engine.queries.plain import PlainQuery
from hackamore.messages import AssistantMessage, Message, ResultMessage, StreamEvent, TextBlock, decode
from hackamore.messages.decode import decode_run
from tests.protocol.test_connection import Host, report
from tests.protocol.test_deadlines import Operations

ASSISTANT = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]},"uuid":"u"}'
EVENT = b'{"type":"stream_event","event":{"type":"ping"}}'
ODD_EVENT = b'{"event":{"type":"ping"},"type":"stream_event"}'
BLANK_EVENT = b'{"type": "stream_event", "event": {"type": "ping"}}'
WRONG_EVENT = b'{"event":7,"type":"stream_event"}'
STATUS = b'{"type":"system","subtype":"status","status":null}'
RESULT = b'{"type":"result","subtype":"success","is_error":false}'
NOT_UTF8 = b'{"type":"assistant","unknown":"\xff"}'
LINES = [ASSISTANT, EVENT, ODD_EVENT, WRONG_EVENT, STATUS, RESULT, NOT_UTF8, b"garbage", b'{"type":"new"}', b"7"]


@given(st.lists(st.sampled_from([b"\n", b"x", b"\r", b"y" * 700, b"\n" * 9])).map(b"".join))
def test_splitting_is_splitting(data: bytes) -> None:
    assert _split(data) == data.split(b"\n")


def started() -> PlainQuery:
    query = PlainQuery(Options(limits=Limits(consecutive_decode_errors=1_000)))
    query.begin(0.0)
    return query


FLOOD = [ASSISTANT, EVENT, ODD_EVENT, BLANK_EVENT, '{"type":"assistant","unknown":"\u00e9"}'.encode()]


@given(
    st.lists(st.sampled_from(LINES), max_size=12)
    | st.lists(st.sampled_from(FLOOD), min_size=8, max_size=20)
    | st.tuples(st.lists(st.sampled_from(FLOOD), min_size=8, max_size=12), st.sampled_from(LINES)).map(
        lambda it: [*it[0], it[1]]
    )
)
def test_a_run_of_lines_gives_what_single_lines_give(lines: list[bytes]) -> None:
    connection = started()
    connection.receive_data(EVENT + b"\n", 0.0)  # after a read of plain messages the next one is decoded all at once
    connection.core.items.clear()
    connection.receive_data(b"".join(line + b"\n" for line in lines), 0.0)
    together = [item for item in connection.core.items if isinstance(item, Message)]
    single: list[Message] = []
    for line in lines:
        alone = started()
        alone.receive_data(line + b"\n", 0.0)
        single += [item for item in alone.core.items if isinstance(item, Message)]
    assert together == single
    assert [message.raw for message in together] == [message.raw for message in single]


def test_a_run_stops_at_what_needs_a_closer_look() -> None:
    for odd in (WRONG_EVENT, STATUS, RESULT, NOT_UTF8, b"garbage", b"[]", OversizedLine(9, b"")):
        taken: list[Message] = []
        assert decode_run(iter([ASSISTANT, EVENT, odd, ASSISTANT]), PLAIN, taken.append) == (2, odd)
        assert [type(message) for message in taken] == [AssistantMessage, StreamEvent]
        assert taken[0].raw == ASSISTANT
    assert ResultMessage not in PLAIN


def test_the_garbage_collector_is_spared_what_refers_to_nothing() -> None:
    import gc

    message = decode(ASSISTANT, print)
    assert isinstance(message, AssistantMessage)
    block = message.content[0]
    assert isinstance(block, TextBlock)
    assert not gc.is_tracked(block)
    assert not gc.is_tracked(message.message)
    assert isinstance(block, msgspec.Struct)


@pytest.mark.parametrize("line", [ASSISTANT, EVENT], ids=["assistant", "event"])
@pytest.mark.parametrize("prompt", ["none", "queued", "started"])
def test_a_message_costs_little_more_than_to_decode_it(line: bytes, prompt: str) -> None:
    host = Host()
    if prompt != "none":
        turn = host.connection.conversation.send_prompt("1")
        if prompt == "started":
            host.feed(report(turn, "started"))
    host.take()
    together, alone = Operations(), Operations()
    with together:
        host.connection.receive_data((line + b"\n") * 200)
    with alone:
        for _ in range(200):
            host.connection.receive_data(line + b"\n")
    assert together.count < 200 * 100  # measured: 70; with a second look 250
    assert alone.count < 200 * 350  # measured: 270; with a second look 450
