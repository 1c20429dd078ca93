"""How long `decode` takes, beside msgspec without types and `json.loads`: `python bench/decode.py`."""

from __future__ import annotations

import json
import timeit
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.messages import decode

if TYPE_CHECKING:
    from collections.abc import Callable

ID = "0b4a1a52-1111-4222-8333-444455556666"


def line(kind: str, **fields: Any) -> bytes:
    frame = {"type": kind, **fields, "parent_tool_use_id": None, "session_id": ID, "uuid": ID}
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode()


def reply(*content: dict[str, Any]) -> bytes:
    body = {"model": "claude-opus-4-5", "id": "msg_01", "type": "message", "role": "assistant", "content": content}
    return line("assistant", message={**body, "usage": {"input_tokens": 3, "output_tokens": 12}})


TEXT = {"type": "text", "text": "Hello there."}
LONG = {"type": "text", "text": "Hello there, what is it? " * 90}
ACCENTS = {"type": "text", "text": "Hello there, que é isso? " * 90}
WRITE = {"type": "tool_use", "id": "t", "name": "Write", "input": {"path": "/a", "content": "some code = 1\n" * 150}}
DELTA = {"type": "text_delta", "text": "Hello there, how are you? " * 3}

LINES = {
    "assistant": reply(TEXT),
    "assistant, tool call": reply({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}),
    "stream_event": line("stream_event", event={"type": "content_block_delta", "index": 0, "delta": DELTA}),
    "assistant, 5 kB": reply(LONG, WRITE),
    "assistant, 5 kB, accents": reply(ACCENTS, WRITE),
}


def microseconds(call: Callable[[], object], times: int) -> float:
    return min(timeit.repeat(call, number=times, repeat=5)) / times * 1e6


def main() -> None:
    generic = msgspec.json.Decoder().decode
    print(f"{'':26}{'bytes':>7}{'decode':>9}{'msgspec':>9}{'json':>9}   us, best of 5")
    for name, data in LINES.items():
        typed = microseconds(lambda data=data: decode(data, print), 50_000)  # type: ignore[misc]
        untyped = microseconds(lambda data=data: generic(data), 50_000)  # type: ignore[misc]
        standard = microseconds(lambda data=data: json.loads(data), 10_000)  # type: ignore[misc]
        print(f"{name:26}{len(data):7}{typed:9.2f}{untyped:9.2f}{standard:9.2f}")


if __name__ == "__main__":
    main()
