"""What the stand-in CLI prints, and the stand-in itself: a shell script that copies a prepared file to its stdout with `cat`.

So the producer costs next to nothing, writes large blocks as fast as the pipe takes them, and is the same for every client. It
answers the official package's `initialize` request and reads the prompt as the real CLI does: a line in the bidirectional mode, else
up to the end of its stdin.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION = "0b4a1a52-1111-4222-8333-444455556666"
VERSION = "2.1.330"

SCRIPT = r"""#!/bin/sh
case "$1" in -v | --version) echo 'VERSION (Claude Code)'; exit ;; esac
case " $* " in
*' --input-format stream-json '*)
    IFS= read -r request
    id=${request#*'"request_id"'}
    id=${id#*'"'}
    id=${id%%'"'*}
    answer='{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"commands":[]}}}\n'
    # shellcheck disable=SC2059
    printf "$answer" "$id"
    ;;
esac
IFS= read -r prompt
exec cat 'FRAMES'
"""

PROSE = "The parser keeps a cursor into the buffer, and moves it only when a whole token was read. "
CODE = 'def step(self, token: str) -> None:\n    """Take one token."""\n    self.seen.append(token)\n\n'


@dataclass(frozen=True)
class Scenario:
    """One kind of output.

    Attributes:
        name: for the command line.
        title: for the table.
        count: how many frames stand between the first (`system/init`) and the last (`result`).
        path: the stand-in.
        frame_bytes: the mean size of those frames, line end included.
    """

    name: str
    title: str
    count: int
    path: str
    frame_bytes: float

    @property
    def messages(self) -> int:
        return self.count + 2


def _line(kind: str, **fields: Any) -> bytes:
    # Compact and without escapes for letters, as the CLI's JSON.stringify writes it.
    return json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _uuid(number: int) -> str:
    return f"{number:08x}-9999-4aaa-8bbb-ccccddddeeee"


def _text(number: int, size: int, pattern: str = PROSE) -> str:
    # Every frame differs, so that no client gains from having seen it before.
    return (f"{number:08d} " + pattern * (size // len(pattern) + 1))[:size]


def _reply(number: int, content: list[dict[str, Any]], **message: Any) -> bytes:
    body = {"model": "claude-opus-4-5", "id": f"msg_{number:08d}", "role": "assistant", "content": content, **message}
    tail = {"parent_tool_use_id": None, "session_id": SESSION, "uuid": _uuid(number)}
    return _line("assistant", message=body, **tail)


def assistant_300(number: int) -> bytes:
    return _reply(number, [{"type": "text", "text": _text(number, 35)}])


def partial_event(number: int) -> bytes:
    delta = {"type": "text_delta", "text": _text(number, 45)}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    tail = {"session_id": SESSION, "parent_tool_use_id": None, "uuid": _uuid(number)}
    return _line("stream_event", event=event, **tail)


def partial_event_with_blanks(number: int) -> bytes:
    # As a program writes it that is not the CLI: Python's `json.dumps` does.
    return json.dumps(json.loads(partial_event(number)), ensure_ascii=False).encode() + b"\n"


def assistant_5000(number: int) -> bytes:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 1200,
        "cache_read_input_tokens": 15000,
        "output_tokens": 950,
    }
    write = {"file_path": "/home/user/project/module.py", "content": _text(number, 2_000, CODE)}
    content = [
        {"type": "text", "text": _text(number, 2_250)},
        {"type": "tool_use", "id": f"toolu_{number:08d}", "name": "Write", "input": write},
    ]
    return _reply(number, content, type="message", stop_reason="tool_use", stop_sequence=None, usage=usage)


def one_line(size: int) -> bytes:
    return _reply(0, [{"type": "text", "text": _text(0, size)}])


def init() -> bytes:
    tools = ["Bash", "Edit", "Glob", "Grep", "Read", "Task", "Write"]
    return _line(
        "system", subtype="init", cwd="/", session_id=SESSION, tools=tools, mcp_servers=[], model="claude-opus-4-5",
        permissionMode="default", slash_commands=[], claude_code_version=VERSION, apiKeySource="none", uuid=_uuid(0),
    )  # fmt: skip


def result() -> bytes:
    # The real CLI does not put `type` first here.
    return json.dumps(
        {
            "duration_api_ms": 9, "type": "result", "subtype": "success", "is_error": False, "duration_ms": 10, "num_turns": 1,
            "result": "done", "session_id": SESSION, "total_cost_usd": 0.01, "uuid": _uuid(1), "permission_denials": [],
            "usage": {"input_tokens": 3, "output_tokens": 5},
        },
        separators=(",", ":"),
    ).encode() + b"\n"  # fmt: skip


def write_stand_in(folder: Path, name: str, frames: Iterator[bytes]) -> tuple[str, int]:
    """Write a stand-in that prints the frames between `system/init` and a result; return its path and the bytes of the frames."""
    output = folder / f"{name}.jsonl"
    size = 0
    with output.open("wb") as file:
        file.write(init())
        for frame in frames:
            size += len(frame)
            file.write(frame)
        file.write(result())
    path = folder / f"claude-{name}"
    path.write_text(SCRIPT.replace("FRAMES", str(output)).replace("VERSION", VERSION))
    path.chmod(0o755)
    return str(path), size


def build(folder: Path, *, scale: float, long_line_bytes: int) -> dict[str, Scenario]:
    """Write the stand-ins to `folder`.

    Args:
        folder: where.
        scale: 1 for the full number of frames.
        long_line_bytes: the length of the text in the one long line.
    """
    kinds = {
        "assistant-300": ("assistant message, 300 bytes", int(60_000 * scale), assistant_300),
        "partial": ("partial event, 300 bytes", int(60_000 * scale), partial_event),
        "assistant-5000": ("assistant message, 5 kB", int(12_000 * scale), assistant_5000),
        "long-line": (f"one line of {long_line_bytes // 1_000_000} MB", 1, lambda _: one_line(long_line_bytes)),
        "instant": ("instant answer", 1, assistant_300),
    }
    scenarios = {}
    for name, (title, count, frame) in kinds.items():
        path, size = write_stand_in(folder, name, (frame(number) for number in range(count)))
        scenarios[name] = Scenario(name, title, count, os.path.abspath(path), size / count)
    return scenarios
