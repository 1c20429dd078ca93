"""The words of a supervisor in the output of its CLI: any cut of the bytes gives the same, and nothing of the CLI is lost."""

from __future__ import annotations

import random
import time

import pytest

from hackamore.transports.remote.link import Output, Refusal, State
from tests.contract import shows
from tests.support.seeds import SEED

TAG = "0123456789abcdef"
WORD = f"\x1e{TAG} %s\n"


def word(text: str) -> bytes:
    return (WORD % text).encode()


def fed(output: Output, data: bytes, sizes: list[int]) -> bytes:
    found, at = b"", 0
    for size in sizes:
        found += output.feed(data[at : at + size])
        at += size
    return found + output.feed(data[at:])


@shows("remote.framing")
def test_words_are_taken_out_wherever_the_bytes_are_cut() -> None:
    chosen = random.Random(SEED)
    for _ in range(500):
        pieces = [
            chosen.choice([b"{}\n", b"\x1e", b"\x1e0123", b"x" * 5_000, b"\n", b"\x1e" + TAG.encode(), b"\xff\0"])
            for _ in range(chosen.randrange(12))
        ]
        wanted = b"".join(pieces)
        said = b""
        for piece in pieces:
            # A sign of life comes between any two bytes of a line, but not inside of what looks like one.
            said += piece + (word("beat") if not piece.startswith(b"\x1e") and chosen.random() < 0.4 else b"")
        data = b"motd\n" + word("ready") + said + b"\n" + word("exit 3") + b"after"
        sizes = [chosen.randrange(1, 400) for _ in range(chosen.randrange(40))]
        output = Output(TAG)
        found = fed(output, data, sizes)
        found += output.end()
        assert (found, output.state, output.code) == (wanted + b"\nafter", State.EXITED, 3), (SEED, pieces, sizes)
        assert output.noise == b"motd\n"


@shows("remote.exit")
@pytest.mark.parametrize(
    ("said", "code"), [("0", 0), ("1", 1), ("137", -9), ("139", -11), ("143", 143), ("130", 130), ("255", 255)]
)
def test_an_exit_is_told_from_a_signal(said: str, code: int) -> None:
    output = Output(TAG)
    assert output.feed(word("ready") + word(f"exit {said}")) == b""
    assert output.code == code


def test_a_refusal_is_kept_and_a_lost_link_is_known() -> None:
    output = Output(TAG)
    assert output.feed(b"Welcome\n" + word("fail no-cli claude is not here")) == b""
    assert output.refusal == Refusal("no-cli", "claude is not here")
    assert (output.end(), output.state) == (b"", State.REFUSED)

    lost = Output(TAG)
    lost.feed(word("ready"))
    assert lost.feed(b'{"a": \x1e0123') == b'{"a": '
    assert (lost.end(), lost.state) == (b"\x1e0123", State.LOST)


@shows("remote.framing")
def test_words_out_of_turn_stay_in_the_output() -> None:
    output = Output(TAG)
    output.feed(word("ready"))
    for words in ("exit many", "exit \u00b2", "exit \u0663", "exit " + "9" * 4_000, "shutdown", "ready"):
        assert output.feed(word(words)) == word(words)
    assert output.state is State.READY


def test_a_sign_without_an_end_costs_linear_time() -> None:
    output = Output(TAG)
    output.feed(word("ready"))
    head = f"\x1e{TAG} ".encode()
    began = time.process_time()
    for _ in range(2_000):
        output.feed(head * 50)
    assert time.process_time() - began < 5
