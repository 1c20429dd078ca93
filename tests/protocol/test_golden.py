"""The golden frames through the whole core: the same bytes give the same items, however they are cut, and `raw` is the bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hackamore import Limits, Options
from hackamore._engine.queries.plain import PlainQuery
from hackamore.errors import StreamWarning
from hackamore.messages import MESSAGE_TYPES, Message, SessionStateChangedMessage

GOLDEN = (Path(__file__).parent.parent / "messages" / "frames.jsonl").read_bytes()
NOISE = b'not json\n{"type":"from_the_future"}\r\n\n"text"\n{"type":"assistant","session_id":7}\n'


def started() -> PlainQuery:
    query = PlainQuery(Options(limits=Limits(line_bytes=1 << 20)))
    query.begin(0.0)
    return query


def items(chunks: list[bytes]) -> list[object]:
    core = started()
    for chunk in chunks:
        core.receive_data(chunk, 0.0)
    core.receive_eof(0.0)
    core.process_exited(0, b"")
    return [
        (item.raw, item)
        if isinstance(item, Message)
        else (item.code, item.context)
        if isinstance(item, StreamWarning)
        else repr(item)
        for item in core.core.items
    ]


WHOLE = GOLDEN + NOISE + GOLDEN
EXPECTED = items([WHOLE])


def test_the_golden_frames_cover_every_message_type() -> None:
    core = started()
    core.receive_data(GOLDEN, 0.0)
    # Session states that the library asked for on its own behalf are not delivered.
    assert {type(item) for item in core.core.items} >= set(MESSAGE_TYPES.values()) - {SessionStateChangedMessage}


def test_raw_equals_the_bytes() -> None:
    core = started()
    for line in GOLDEN.splitlines():
        core.receive_data(line + b"\n", 0.0)
        while core.core.items:
            message = core.core.items.popleft()
            assert isinstance(message, Message)
            assert message.raw == line


def test_one_byte_at_a_time() -> None:
    assert items([WHOLE[index : index + 1] for index in range(len(WHOLE))]) == EXPECTED


@given(st.lists(st.integers(0, len(WHOLE)), max_size=60))
def test_random_cuts(places: list[int]) -> None:
    edges = [0, *sorted(places), len(WHOLE)]
    assert items([WHOLE[start:end] for start, end in pairwise(edges)]) == EXPECTED
