"""What a CLI sent, without what no two runs have in common, and where two runs differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from math import isclose
from typing import Any

from tests.fidelity.differences import DIFFERENT_VALUES, NOT_COMPARED, ONLY_REAL, ONLY_SIMULATED_FRAMES, SHAPE_ONLY

Frame = dict[str, Any]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMES = [
    (re.compile(r"req_\d+_[0-9a-f]+"), "request"),
    (re.compile(r"toolu_\w+"), "call"),
    (re.compile(r"msg_\w+"), "message"),
    (re.compile(r"hook-<id>"), "batch"),
    (re.compile(r"\b(run-[0-9a-f]{8}|[0-9a-z]{9}-[0-9a-f]{8})\b"), "run"),
    (re.compile(r"\ba[0-9a-f]{16}\b"), "agent"),
    (re.compile(r"(?:<home>)?/[^\s\]]*/tool-results/mcp-\w+-blob-[\w-]+\.\w+"), "file"),
]
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def kind_of(frame: Frame) -> str:
    """A frame's name: its type, its subtype, and for control frames what is asked or which event."""
    kind = str(frame.get("type"))
    match kind:
        case "system" | "result":
            return f"{kind}/{frame.get('subtype')}"
        case "control_request":
            request = frame["request"]
            if request["subtype"] == "hook_callback":
                return f"hook/{request['input']['hook_event_name']}"
            if request["subtype"] == "mcp_message":
                return f"mcp/{request['message'].get('method')}"
            return f"asks/{request['subtype']}"
        case "control_response":
            return f"answers/{frame.get('operation')}"
        case "stream_event":
            return f"stream_event/{frame['event']['type']}"
        case _:
            return kind


class Recording:
    """One run: both directions, as JSON."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.received: list[Frame] = []
        self.exit_code: int | None = None
        self.places: list[tuple[str, str]] = []

    def frames(self) -> list[Frame]:
        """What the CLI sent, normalised; each answer with the name of the operation."""
        operations = {
            frame["request_id"]: frame["request"]["subtype"]
            for frame in self.sent
            if frame.get("type") == "control_request"
        }
        named = []
        for frame in self.received:
            if frame.get("type") == "control_response":
                frame = {**frame, "operation": operations.get(frame["response"]["request_id"])}
            named.append(frame)
        # Nothing in the ids of tasks tells them from words.
        tasks = {str(frame["task_id"]) for frame in self.received if "task_id" in frame}
        names = _Names([*self.places, *((task, "<task>") for task in tasks)])
        return [names.normal(frame) for frame in named]


class _Names:
    def __init__(self, places: list[tuple[str, str]]) -> None:
        self._places = places

    def normal(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.normal(name): self.normal(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self.normal(part) for part in value]
        if isinstance(value, str):
            for path, name in self._places:
                value = value.replace(path, name)
            value = _PORT.sub("<address>", _UUID.sub("<id>", value))
            for pattern, name in _NAMES:
                value = pattern.sub(f"<{name}>", value)
        return value


def streams(frames: list[Frame]) -> dict[str, list[Frame]]:
    """Frames by what orders them: talk with servers goes on beside the turns, and so do answers to the host."""
    parts: dict[str, list[Frame]] = {"turns": [], "servers": [], "answers": []}
    for frame in frames:
        kind = kind_of(frame)
        if kind in NOT_COMPARED:
            continue
        where = "servers" if kind.startswith("mcp/") else "answers" if kind.startswith("answers/") else "turns"
        parts[where].append(frame)
    return parts


def differences(real: list[Frame], simulated: list[Frame], but: dict[str, str]) -> list[str]:
    """Where the two disagree, in words; nothing if they agree.

    `but` are rules for this case alone: about a path, or a whole kind of frame that only one of them sends.
    """
    found: list[str] = []
    real = [frame for frame in real if kind_of(frame) not in but]
    simulated = [frame for frame in simulated if kind_of(frame) not in but]
    theirs, ours = streams(real), streams(simulated)
    for name in theirs:
        ours[name] = [frame for frame in ours[name] if kind_of(frame) not in ONLY_SIMULATED_FRAMES]
        kinds = [kind_of(frame) for frame in theirs[name]], [kind_of(frame) for frame in ours[name]]
        if kinds[0] != kinds[1]:
            found.append(f"{name}, the real CLI:\n    " + "\n    ".join(kinds[0]))
            found.append(f"{name}, the simulated one:\n    " + "\n    ".join(kinds[1]))
            continue
        for place, (left, right) in enumerate(zip(theirs[name], ours[name], strict=True)):
            kind = kind_of(left)
            found += [f"{name} {place}, {kind}: {text}" for text in _differ(kind, "", left, right, but)]
    return found


def _differ(kind: str, path: str, real: Any, simulated: Any, but: dict[str, str]) -> Iterator[str]:
    rule = f"{kind}{path}"
    if _listed(DIFFERENT_VALUES, rule) or _listed(but, rule):
        return
    if _listed(SHAPE_ONLY, rule):
        yield from _shape(rule, real, simulated)
        return
    if isinstance(real, dict) and isinstance(simulated, dict):
        for name in real.keys() | simulated.keys():
            inner = f"{path}.{name}"
            if name not in simulated:
                if not any(_listed(table, f"{kind}{inner}") for table in (ONLY_REAL, DIFFERENT_VALUES, but)):
                    yield f"only the real CLI has {inner}: {_short(real[name])}"
            elif name not in real:
                if not any(_listed(table, f"{kind}{inner}") for table in (DIFFERENT_VALUES, but)):
                    yield f"only the simulated CLI has {inner}: {_short(simulated[name])}"
            else:
                yield from _differ(kind, inner, real[name], simulated[name], but)
    elif isinstance(real, list) and isinstance(simulated, list):
        if len(real) != len(simulated):
            yield f"{path} has {len(real)} and {len(simulated)} items: {_short(real)} and {_short(simulated)}"
            return
        for left, right in zip(real, simulated, strict=True):
            yield from _differ(kind, f"{path}[]", left, right, but)
    elif not _same(real, simulated):
        yield f"{path} is {_short(real)} and {_short(simulated)}"


def _shape(path: str, real: Any, simulated: Any) -> Iterator[str]:
    """The simulated value may have less than the real one, and nothing else."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        for name in simulated:
            if name in real:
                yield from _shape(f"{path}.{name}", real[name], simulated[name])
            else:
                yield f"only the simulated CLI has {path}.{name}"
    elif isinstance(real, list) and isinstance(simulated, list):
        if real and simulated:
            yield from _shape(f"{path}[]", real[0], simulated[0])
    elif real is not None and simulated is not None and _json_type(real) != _json_type(simulated):
        yield f"{path} is {_short(real)} and {_short(simulated)}"


def _json_type(value: Any) -> str:
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def _same(real: Any, simulated: Any) -> bool:
    # Texts of the CLI about itself are long and belong to it; the simulated CLI has their beginnings.
    if isinstance(real, str) and isinstance(simulated, str) and min(len(real), len(simulated)) >= 15:
        return real.startswith(simulated.removesuffix("."))
    if _json_type(real) == _json_type(simulated) == "number":
        return isclose(real, simulated, rel_tol=1e-6)
    return bool(real == simulated)


@cache
def _pattern(rule: str) -> re.Pattern[str]:
    return re.compile(re.escape(rule).replace(r"\*", ".*") + r"(\..*|\[\].*)?", re.DOTALL)


def _listed(table: dict[str, str], path: str) -> bool:
    """Return whether a rule of a table is about this path, or about what it is a part of."""
    for rule in table:
        if _pattern(rule).fullmatch(path):
            USED.add(rule)
            return True
    return False


USED: set[str] = set()
"""Rules that were needed."""


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 200 else text[:200] + "..."
