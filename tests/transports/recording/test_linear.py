"""The functions that look at foreign text take time that grows with its length alone, whatever it is made of."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hackamore._engine.launch.plan import LaunchPlan
from hackamore._engine.protocol.framing import LineFramer
from hackamore.checked.fields import brief
from hackamore.errors import escape_terminal, without_keys, without_passwords
from hackamore.testing.cassettes.match import Matcher
from hackamore.traces.items import short
from hackamore.transports.recording.recorder import SessionRecord
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = {f"SHOP_{number}_KEY": f"https://shop{number}.example/Ab{number}cDeFgH" for number in range(200)}


@cache
def redactor() -> Redactor:
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={**SECRETS, "USER": "ann-lee"}, cwd="/home/ann/project"))
    return made


def as_line(text: str) -> None:
    assert redactor().line(json.dumps({"type": "x", "text": text}).encode(), inbound=True)[1]


def as_list(text: str) -> None:
    parts = [text[at : at + 16] for at in range(0, len(text), 16)]
    assert redactor().line(json.dumps({"type": "x", "parts": parts}).encode(), inbound=True)[1]


def as_pieces(text: str) -> None:
    record = SessionRecord(Nowhere(), redactor(), 0, 1 << 30)
    for at in range(0, len(text), 256):
        event = {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text[at : at + 256]},
        }
        record.received(json.dumps({"type": "stream_event", "event": event}).encode() + b"\n")
    record.end()


class Nowhere:
    """A sink that keeps nothing."""

    def write(self, line: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def framed(text: str) -> None:
    framer = LineFramer(1 << 30)
    data = text.encode()
    for at in range(0, len(data), 1_024):
        framer.receive_data(data[at : at + 1_024])
    framer.receive_eof()


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "Redactor.text": lambda text: redactor().text(text),
    "Redactor.line": as_line,
    "Redactor.line, a list": as_list,
    "Redactor.line, not JSON": lambda text: redactor().line(b'{"type":"x' + text.encode(), inbound=True),
    "Pieces": as_pieces,
    "Matcher.incoming": lambda text: Matcher(lambda _: None).incoming(text.encode(), is_json=True),
    "LineFramer": framed,
    "without_passwords": without_passwords,
    "without_keys": without_keys,
    "brief": brief,
    "escape_terminal": escape_terminal,
    "short": short,
}
UNITS = [
    *("x", " ", "\\", '"', "'", '\\"', "{", "@", "-", "_", "=", ":", "://a:", "://a:b@", "@a.", "a.", "a=", "=b;"),
    *(
        "sk-",
        "ghp_",
        "-eyJ",
        "_eyJ_",
        "-----BEGIN PRIVATE KEY-----",
        "password",
        "token",
        "token=",
        "token='",
        'secret":"',
    ),
    *(
        "api_key ",
        "--token ",
        "cookie: ",
        "cookie=a",
        "curl -u ",
        "curl -u=",
        "curl -b ",
        "mysql ",
        "docker login ",
        "login a ",
    ),
    *(
        "authorization: digest ",
        "bearer ",
        '"env":{',
        '\\"env\\":{',
        '"env":{"a":"b",',
        '"headers":["',
        '"apiKeyHelper":',
    ),
    *(
        '"env":{"',
        "'env':{'",
        "/tmp",
        "/tmp/tmpa",
        "/home/ann/",
        "ann-lee",
        "https://shop",
        "https://shop1.",
        "<hackamore-key-1>",
    ),
    *("00000000-0000-", "req_1_", '"name":"token","value":"'),
]
"""Texts are made of one of these: the beginnings of all patterns, and what may repeat in them."""


def seconds(function: Callable[[str], object], text: str) -> float:
    """Return the processor time of a run."""
    began = time.process_time()
    function(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_time_grows_with_the_length(name: str) -> None:
    """In square time 16 times the length takes 256 times as long."""
    function = FUNCTIONS[name]
    redactor()
    for unit in UNITS:
        small, large = (unit * (size // len(unit)) for size in (4_000, 64_000))
        if seconds(function, large) > 0.3:  # else it is fast enough for any shape of growth
            taken = min(seconds(function, large) for _ in range(3))
            assert taken < 100 * max(min(seconds(function, small) for _ in range(3)), 0.001), (unit, taken)
            assert taken < 5, (unit, taken)


def test_a_message_costs_the_same_with_few_and_with_many_secret_variables() -> None:
    line = json.dumps({"type": "x", "text": "The author sets a token: nothing else. " * 50}).encode()
    taken = []
    for count in (4, 400):
        made = Redactor(Vault())
        secrets = {f"SHOP_{number}_KEY": f"s3cr3T-{number * 7919:x}-Q{number}" for number in range(count)}
        made.prepare(LaunchPlan(argv=("claude",), environment=secrets, cwd="/srv"))
        taken.append(min(seconds(lambda _, made=made: made.line(line * 1, inbound=True), "") for _ in range(20)))  # type: ignore[misc]
    assert taken[1] < 5 * taken[0], taken
