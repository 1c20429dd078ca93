"""Damage lines of the wire, at random and along their structure; find the least part of an input that still fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

# Placeholders in templates: a target puts in the ids that its peer knows.
TURN, REQUEST = "@turn@", "@request@"

_RAW = [
    b"NaN", b"-Infinity", b"1e999", b"-0", b"1" * 400, b'"\\ud800"', b'"\\u0000"', b"[" * 200 + b"]" * 200,
    b'{"a":1,"a":2}', b"\xff", b'"' + "é😀\u2028".encode() + b'"', b"",
]  # fmt: skip
_VALUES: list[Any] = [
    None, True, False, 0, -1, 2**63, 2**64, 1.5, 1e300, "", "x", "x" * 3_000, [], {}, [None], [[]], {"": None}, {"type": None},
    {"type": "text"}, {"type": "text", "text": 7}, ["text"], "success", "error", "idle", TURN, [TURN], REQUEST, {"subtype": "success"},
    *map(msgspec.Raw, _RAW),
]  # fmt: skip


def _request(request: dict[str, Any]) -> dict[str, Any]:
    return {"type": "control_request", "request_id": REQUEST, "request": request}


def _response(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": subtype, "request_id": REQUEST, **more}}


_HOOK = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "session_id": "s",
    "cwd": "/",
}
_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "price", "arguments": {"article": "tea"}},
}
CONTROL: list[dict[str, Any]] = [
    _request({"subtype": "hook_callback", "callback_id": "hook_0", "input": _HOOK, "tool_use_id": "t"}),
    _request({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "permission_suggestions": []}),
    _request({"subtype": "mcp_message", "server_name": "shop", "message": _CALL}),
    _request({"subtype": "mcp_message", "server_name": "shop", "message": {**_CALL, "method": "tools/list"}}),
    _request({"subtype": "elicitation", "mcp_server_name": "shop", "message": "Name?", "requested_schema": {}}),
    _request({"subtype": "request_user_dialog", "dialog_kind": "ask", "payload": {"question": "?"}}),
    {"type": "control_cancel_request", "request_id": REQUEST},
    _response("success", response={"models": [], "still_queued": []}),
    _response("error", error="no"),
    *({"type": "command_lifecycle", "command_uuid": TURN, "state": state} for state in ("queued", "started", "completed", "cancelled")),
    {"type": "result", "subtype": "success", "is_error": False, "result": "x", "user_message_uuids": [TURN]},
    {"type": "system", "subtype": "session_state_changed", "state": "idle"},
    {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b", "task_type": "shell"}]},
    {"type": "system", "subtype": "task_notification", "task_id": "b", "status": "completed"},
]  # fmt: skip


@lru_cache
def _good(lines: tuple[bytes, ...]) -> tuple[list[Any], list[bytes], list[list[tuple[Any, ...]]], list[str]]:
    """Return the frames of good lines, the lines, the paths in each frame, and the names of all fields; control frames are added."""
    templates: list[Any] = [*map(json.loads, lines), *CONTROL]
    paths = [list(_paths(template)) for template in templates]
    names = sorted({path[-1] for some in paths for path in some if path and isinstance(path[-1], str)})
    return templates, [*lines, *map(msgspec.json.encode, CONTROL)], paths, names


class Mutator:
    """Makes damaged lines of good ones.

    Args:
        random: the source of all decisions.
        lines: good lines; control frames are added.
    """

    def __init__(self, random: Random, lines: Sequence[bytes]) -> None:
        self.random = random
        self._templates, self._lines, self._paths, self._names = _good(tuple(lines))

    def line(self) -> bytes:
        """Return a line without its end: mostly damaged, sometimes good, sometimes noise."""
        random = self.random
        number = random.randrange(len(self._templates))
        kind = random.random()
        if kind < 0.1:
            return self._lines[number]
        if kind < 0.7:
            frame = self._structural(self._templates[number], self._paths[number])
            for _ in range(random.choice((0, 0, 0, 1, 3))):
                frame = self._structural(frame, self._paths[number])
            return msgspec.json.encode(frame).replace(b"\n", b"")
        return self.bytes_of(self._lines[number])

    def damaged(self, line: bytes) -> bytes:
        """Return this line, damaged."""
        if self.random.random() < 0.3:
            return self.bytes_of(line)
        try:
            frame = json.loads(line)
        except ValueError:
            return self.bytes_of(line)
        return msgspec.json.encode(self._structural(frame, list(_paths(frame)))).replace(b"\n", b"")

    def bytes_of(self, line: bytes) -> bytes:
        """Return a line with damaged bytes."""
        random = self.random
        at = random.randrange(len(line) + 1)
        match random.randrange(6):
            case 0:
                line = line[:at]
            case 1:
                line = line[:at] + bytes((random.randrange(256),)) + line[at + 1 :]
            case 2:
                line = line[:at] + random.randbytes(random.randrange(1, 9)) + line[at + random.randrange(20) :]
            case 3:
                line = line[at:]
            case 4:
                other = random.choice(self._lines)
                line = line[:at] + other[random.randrange(len(other)) :]
            case _:
                line = random.randbytes(random.randrange(60))
        return line.replace(b"\n", b"")

    def _value(self) -> Any:
        if self.random.random() < 0.3:
            number = self.random.randrange(len(self._templates))
            value = self._templates[number]
            for step in self.random.choice(self._paths[number]):
                value = value[step]
            return value
        return self.random.choice(_VALUES)

    def _structural(self, frame: Any, paths: list[tuple[Any, ...]]) -> Any:
        return self._changed(frame, self.random.choice(paths), 0)

    def _changed(self, node: Any, path: tuple[Any, ...], at: int) -> Any:
        """Return a copy of `node` with a change at the end of the path; what is not on the path is shared."""
        if at == len(path) or not isinstance(node, (dict, list)):
            return self._value()
        step = path[at]
        if not (step in node if isinstance(node, dict) else isinstance(step, int) and step < len(node)):
            return self._value()  # changed before
        copy: Any = node.copy()
        if at + 1 < len(path):
            copy[step] = self._changed(node[step], path, at + 1)
            return copy
        match self.random.randrange(5):
            case 0:
                del copy[step]
            case 1 if isinstance(copy, dict):
                copy[self.random.choice(self._names)] = copy.pop(step)
            case 1:
                copy.insert(step, self._value())
            case 2:
                copy[step] = [copy[step]]
            case _:
                copy[step] = self._value()
        return copy


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield prefix
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _paths(inner, (*prefix, name))


def minimised(lines: list[bytes], fails: Callable[[list[bytes]], bool], tries: int = 400) -> list[bytes]:
    """Return fewer and shorter lines that still fail: first without whole lines, then without parts of each."""
    budget = [tries]

    def still(candidate: list[bytes]) -> bool:
        budget[0] -= 1
        return budget[0] >= 0 and fails(candidate)

    least = _without_parts(lines, still)
    for number, line in enumerate(least):
        before, after = least[:number], least[number + 1 :]

        def fails_with(pieces: list[bytes], before: list[bytes] = before, after: list[bytes] = after) -> bool:
            return still([*before, b"".join(pieces), *after])

        least[number] = b"".join(_without_parts([line[at : at + 1] for at in range(len(line))], fails_with))
    return least


def _without_parts(parts: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Take parts out, half of them at a time, then a quarter, and so on, for as long as the rest fails."""
    size = len(parts) // 2 or 1
    while parts:
        at, shorter = 0, False
        while at < len(parts):
            candidate = parts[:at] + parts[at + size :]
            if fails(candidate):
                parts, shorter = candidate, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return parts
