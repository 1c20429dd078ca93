"""Lines come out of bytes the same way, however the bytes are cut."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore._engine.protocol.framing import LineFramer, OversizedLine
from tests.support.reaching import reached, reaching


def feed(chunks: list[bytes], limit: int = 1 << 20) -> list[bytes | OversizedLine]:
    framer = LineFramer(limit)
    lines = [line for chunk in chunks for line in framer.receive_data(chunk)]
    tail = framer.receive_eof()
    return lines if tail is None else [*lines, tail]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if start < end]


def test_lines_end_with_newline_only() -> None:
    text = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1eg"
    assert feed([f"{text}\nnext\n".encode()]) == [text.encode(), b"next"]


def test_carriage_return_belongs_to_the_line_end_only() -> None:
    assert feed([b"one\r\ntw\ro\r\n\r\nthree\r", b"\nfour\r"]) == [b"one", b"tw\ro", b"three", b"four"]


def test_blank_lines_are_left_out() -> None:
    assert feed([b"\n\na\n\n", b"\nb\n\n"]) == [b"a", b"b"]


def test_the_tail_without_newline_comes_at_the_end() -> None:
    framer = LineFramer(100)
    assert framer.receive_data(b"a\nb") == [b"a"]
    assert framer.receive_eof() == b"b"
    assert framer.receive_eof() is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
def test_the_limit_counts_bytes_without_the_line_end(end: bytes, size: int) -> None:
    line = "é".encode() * 4  # eight bytes, four characters
    exact, long = line + end, line + b"x" + end
    chunks = [exact[start : start + size] for start in range(0, len(exact), size)]
    assert feed(chunks, limit=8) == [line]
    chunks = [long[start : start + size] for start in range(0, len(long), size)]
    (oversized,) = feed(chunks, limit=8)
    assert isinstance(oversized, OversizedLine)
    assert oversized.size >= 9
    assert (line + b"x").startswith(oversized.head[:8])


def test_an_oversized_line_is_reported_at_once_and_passed_over() -> None:
    framer = LineFramer(10)
    assert framer.receive_data(b"short\n" + b"x" * 11) == [b"short", OversizedLine(11, b"x" * 11)]
    assert framer.receive_data(b"y" * 1000) == []
    assert framer.receive_data(b"z\nnext\n") == [b"next"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_one_whole_line_for_each_read(end: bytes) -> None:
    framer = LineFramer(4)
    assert [framer.receive_data(line + end) for line in (b"a", b"", b"\rb", b"cdef", b"g")] == [
        [b"a"],
        [],
        [b"\rb"],
        [b"cdef"],
        [b"g"],
    ]
    assert framer.receive_data(b"h") == []
    assert framer.receive_data(b"i" + end) == [b"hi"]
    assert framer.receive_data(b"") == []
    assert framer.receive_data(b"long!" + end) == [OversizedLine(5, b"long!")]
    assert framer.receive_data(b"longer") == [OversizedLine(6, b"longer")]
    assert framer.receive_data(b"rest" + end) == []
    assert framer.receive_data(b"next" + end) == [b"next"]
    assert framer.receive_eof() is None


def test_a_return_at_the_limit_may_belong_to_the_line_end_or_not() -> None:
    framer = LineFramer(4)
    assert framer.receive_data(b"four\r") == []
    assert framer.receive_data(b"\n") == [b"four"]
    assert framer.receive_data(b"four\r") == []
    assert framer.receive_data(b"x") == [OversizedLine(6, b"four\rx")]
    assert framer.receive_data(b"\nfour") == []
    assert framer.receive_data(b"x") == [OversizedLine(5, b"fourx")]
    assert framer.receive_data(b"y\nz") == []
    assert framer.receive_eof() == b"z"


def test_the_head_of_a_long_line_has_8_kib_wherever_it_was_cut() -> None:
    line = bytes(range(48, 58)) * 900
    for chunks in ([line + b"\n"], [line[:150], line[150:] + b"\n"], [line]):
        assert feed(chunks, limit=8_500) == [OversizedLine(9_000, line[: 8 * 1024])]


def test_the_end_of_the_output_forgets_what_was_there() -> None:
    framer = LineFramer(4)
    assert framer.receive_data(b"longer") == [OversizedLine(6, b"longer")]
    assert framer.receive_eof() is None
    assert framer.receive_data(b"abc") == []
    assert framer.receive_eof() == b"abc"
    assert framer.receive_data(b"d\n") == [b"d"]


def test_oversized_lines_inside_one_read() -> None:
    assert feed([b"a\n" + b"x" * 20 + b"\nb\n"], limit=10) == [b"a", OversizedLine(20, b"x" * 20), b"b"]


@given(
    lines=st.lists(
        st.binary(max_size=40).filter(lambda line: b"\n" not in line and b"\r" not in line and line.strip() != b"")
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\n\n"]), min_size=1),
    places=st.lists(st.integers(0, 10_000)),
    last_end=st.booleans(),
)
def test_whole_one_byte_at_a_time_and_random_cuts_agree(
    lines: list[bytes], ends: list[bytes], places: list[int], last_end: bool
) -> None:
    data = b"".join(line + ends[index % len(ends)] for index, line in enumerate(lines))
    if not last_end:
        data = data.rstrip(b"\r\n")
    expected: list[bytes | OversizedLine] = list(lines)
    assert feed([data]) == expected
    assert feed([data[index : index + 1] for index in range(len(data))]) == expected
    assert feed(cut(data, places)) == expected


@reaching
@given(st.lists(st.binary(max_size=30) | st.just(b"\nab\n"), min_size=2), st.integers(1, 12))
def test_with_a_small_limit_nothing_longer_comes_out(chunks: list[bytes], limit: int) -> None:
    for line in feed(chunks, limit):
        if isinstance(line, bytes):
            reached()
            assert len(line) <= limit + 1  # the tail may keep a carriage return that no newline followed
        else:
            assert line.size > limit


def test_a_50_megabyte_line_is_copied_a_bounded_number_of_times() -> None:
    size = 50_000_000
    chunk = b"x" * 250_000
    framer = LineFramer(64 * 1024 * 1024)
    tracemalloc.start()
    try:
        for _ in range(size // len(chunk)):
            # A fresh object each time, as reading from a pipe gives.
            assert framer.receive_data(bytes(bytearray(chunk))) == []
        (line,) = framer.receive_data(b"\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(line) == size
    assert peak < 2.2 * size
