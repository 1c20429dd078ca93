"""The frames of one run, and the differences between two runs: presence, values, and the links that ids make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from functools import cache
from math import isclose
from typing import Any, NamedTuple

from hackamore.errors import DecodeError
from hackamore.messages import decode
from scripts.drift import unmodelled_fields
from scripts.drift_baseline import FIELDS
from tests.fidelity.differences import DIFFERENT_VALUES, NOT_COMPARED, ONLY_REAL, SHAPE_ONLY

Frame = dict[str, Any]

_IDS = {
    "id": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|req_\d+_[0-9a-f]+",
    "call": r"toolu_\w+",
    "message": r"msg_\w+",
    "agent": r"\ba[0-9a-f]{16}\b",
    "run": r"\b[0-9a-z]{9}-[0-9a-f]{8}\b",
}
_MARK = re.compile("\0([a-z]+):([^\0]*)\0")
_PLAIN = [
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"duration_ms(: |>)\d+"), r"duration_ms\1<ms>"),
    (re.compile(r"(?:<home>)?/[^\s\]]*/tasks/\0[a-z]+:\w+\0\.output"), "<output file>"),
    (re.compile(r"(?:<home>|/simulated)/\S*/\0id:[0-9a-f-]+\0\.jsonl"), "<transcript>"),
    (re.compile(r"(?:<home>)?/[^\s\]]*/tool-results/mcp-\w+-blob-[\w\0:-]+\.\w+"), "<file>"),
]


class Rules(NamedTuple):
    """What is allowed to differ in one case, beside the tables of `differences.py`.

    Attributes:
        values: paths whose values differ.
        missing: paths, or whole kinds of frames, that the simulated CLI does not have.
        exact: the tables of `differences.py` do not count.
    """

    values: dict[str, str]
    missing: dict[str, str]
    exact: bool = False


class Found(NamedTuple):
    """The differences between two runs.

    Attributes:
        differences: in words; empty if the runs agree.
        new_fields: fields that neither a message class nor the drift baseline knows.
    """

    differences: list[str]
    new_fields: set[str]


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
        """What the CLI sent, with marked ids; each answer with the name of the operation."""
        operations = {
            frame["request_id"]: frame["request"]["subtype"]
            for frame in self.sent
            if frame.get("type") == "control_request"
        }
        named = [
            {**frame, "operation": operations.get(frame["response"]["request_id"])}
            if frame.get("type") == "control_response"
            else frame
            for frame in self.received
        ]
        return [self._marked(frame) for frame in named]

    def prompts(self) -> list[str]:
        """The ids of the host's prompts, in order."""
        return [str(frame.get("uuid")) for frame in self.sent if frame.get("type") == "user"]

    def _marked(self, frame: Frame) -> Frame:
        versions = {
            (str(each["claude_code_version"]), "<version>") for each in self.received if kind_of(each) == "system/init"
        }
        # Nothing in the id of a task tells it from a word.
        tasks = "|".join(sorted({re.escape(str(each["task_id"])) for each in self.received if "task_id" in each}))
        ids = {**({"task": rf"\b(?:{tasks})\b"} if tasks else {}), **_IDS}
        pattern = re.compile("|".join(f"(?P<{name}>{form})" for name, form in ids.items()))
        places = [*self.places, *versions]

        def marked(value: Any) -> Any:
            if isinstance(value, dict):
                return {_MARK.sub(r"<\1>", marked(name)): marked(part) for name, part in value.items()}
            if isinstance(value, list):
                return [marked(part) for part in value]
            if isinstance(value, str):
                for path, name in places:
                    value = value.replace(path, name)
                value = pattern.sub(lambda found: f"\0{found.lastgroup}:{found.group()}\0", value)
                for form, name in _PLAIN:
                    value = form.sub(name, value)
            return value

        return marked(frame)  # type: ignore[no-any-return]


class _Links:
    """Which id of the one run stands for which of the other: an id that returns here has to return there."""

    def __init__(self, pairs: Iterator[tuple[str, str]]) -> None:
        self._there: dict[str, str] = {}
        self._here: dict[str, str] = {}
        for real, simulated in pairs:
            self.pair(real, simulated)

    def pair(self, real: str, simulated: str) -> bool:
        return self._there.setdefault(real, simulated) == simulated and self._here.setdefault(simulated, real) == real

    def same(self, real: str, simulated: str) -> str | None:
        """Return how two texts differ; None if they do not."""
        if _MARK.sub(r"<\1>", real) != _MARK.sub(r"<\1>", simulated):
            return f"is {_short(real)} and {_short(simulated)}"
        for (kind, theirs), (_, ours) in zip(_MARK.findall(real), _MARK.findall(simulated), strict=True):
            if not self.pair(theirs, ours):
                return (
                    f"links to another {kind}: {theirs} is {self._there.get(theirs, 'new')} elsewhere, and not {ours}, "
                    f"which is {self._here.get(ours, 'new')}"
                )
        return None


def streams(frames: list[Frame]) -> dict[str, list[Frame]]:
    """Frames by the activity that orders them: servers, answers to the host, and subagents run beside the turns."""
    parts: dict[str, list[Frame]] = {}
    beside = {frame["task_id"] for frame in frames if frame.get("is_backgrounded") and "prompt" in frame}
    for frame in frames:
        kind = kind_of(frame)
        first = kind.partition("/")[0]
        where = "answers" if first == "answers" else "turns"
        if first == "mcp":
            where = f"server {frame['request']['server_name']}"
        hook_input = frame["request"]["input"] if first == "hook" else {}
        agent = hook_input.get("agent_id") or frame.get("agent_id")
        if kind == "system/task_progress":
            agent = frame["task_id"]
        # The hook before a tool of a subagent races with the frame of the call.
        if (agent in beside and kind != "hook/SubagentStart") or (agent and kind == "hook/PreToolUse"):
            where = "agents"
        parts.setdefault(where, []).append(frame)
    return parts


def ordered(frames: list[Frame]) -> list[Frame]:
    """Undo what chance does to the order of frames.

    A tool starts while the end of the message that calls it is still streamed, and tools that run side by side end in any order.
    """
    done: list[Frame] = []
    calls: list[str] = []
    end = 0
    for frame in frames:
        kind = kind_of(frame)
        if kind == "assistant":
            calls += [str(block["id"]) for block in frame["message"]["content"] if block["type"] == "tool_use"]
        if kind in ("stream_event/content_block_stop", "stream_event/message_delta", "stream_event/message_stop"):
            done.insert(end, frame)
            end += 1
            continue
        place = len(done)
        while place and (number := _result_of(frame, calls)) >= 0 and number < _result_of(done[place - 1], calls):
            place -= 1
        done.insert(place, frame)
        if kind.startswith("stream_event/") or (kind == "assistant" and frame.get("parent_tool_use_id") is None):
            end = len(done)
    return done


def _result_of(frame: Frame, calls: list[str]) -> int:
    """Return the number of the call whose result this frame is; -1 for other frames."""
    content = frame["message"]["content"] if kind_of(frame) == "user" else ""
    block = content[0] if isinstance(content, list) and content else {}
    return calls.index(block["tool_use_id"]) if block.get("tool_use_id") in calls else -1


def compare(real: Recording, simulated: Recording, rules: Rules) -> Found:
    """Return where two runs disagree."""
    comparison = _Comparison(rules, _Links(zip(real.prompts(), simulated.prompts(), strict=False)))
    theirs, ours = (
        streams(
            [
                frame
                for frame in ordered(run.frames())
                if not comparison.listed(kind_of(frame), NOT_COMPARED, rules.missing)
            ]
        )
        for run in (real, simulated)
    )
    for name in sorted({*theirs, *ours}, key=lambda name: (name != "turns", name)):
        left_frames, right_frames = theirs.get(name, []), ours.get(name, [])
        kinds = [kind_of(frame) for frame in left_frames], [kind_of(frame) for frame in right_frames]
        if kinds[0] != kinds[1]:
            lines = unified_diff(*kinds, "the real CLI", "the simulated one", n=6, lineterm="")
            comparison.found.append(f"{name} in another order:\n    " + "\n    ".join(lines))
            continue
        for place, (left, right) in enumerate(zip(left_frames, right_frames, strict=True)):
            comparison.frame(f"{name} {place}, {kind_of(left)}", left, right)
    if real.exit_code != simulated.exit_code:
        comparison.found.append(f"exit codes: {real.exit_code} and {simulated.exit_code}")
    return Found(comparison.found, comparison.new_fields)


class _Comparison:
    def __init__(self, rules: Rules, links: _Links) -> None:
        self.rules = rules
        self.links = links
        self.found: list[str] = []
        self.new_fields: set[str] = set()
        self._internal: dict[str, str] = {}

    def frame(self, where: str, real: Frame, simulated: Frame) -> None:
        self._internal = _unmodelled(real)
        self.found += [f"{where}: {text}" for text in self._differ(kind_of(real), "", real, simulated)]

    def listed(self, path: str, *tables: dict[str, str]) -> bool:
        """Return whether a rule is about this path, or about what it is a part of."""
        for table in tables:
            general = table is not self.rules.values and table is not self.rules.missing
            for rule in () if general and self.rules.exact else table:
                if _pattern(rule).fullmatch(path):
                    USED.add(rule)
                    return True
        return False

    def _differ(self, kind: str, path: str, real: Any, simulated: Any, *, free: bool = False) -> Iterator[str]:
        """Compare two values; `free` ones only in their form."""
        rule = f"{kind}{path}"
        if self.listed(rule, SHAPE_ONLY):
            yield from _shape(rule, real, simulated)
            return
        free = free or self.listed(rule, DIFFERENT_VALUES, self.rules.values)
        if isinstance(real, dict) and isinstance(simulated, dict):
            for name in [*real, *(name for name in simulated if name not in real)]:
                inner = f"{path}.{name}"
                if name not in simulated:
                    yield from self._only_real(f"{kind}{inner}", inner, name, real[name])
                elif name not in real:
                    yield f"only the simulated CLI has {inner}: {_short(simulated[name])}"
                else:
                    yield from self._differ(kind, inner, real[name], simulated[name], free=free)
        elif isinstance(real, list) and isinstance(simulated, list):
            if len(real) != len(simulated) and not free:
                yield f"{path} has {len(real)} and {len(simulated)} items: {_short(real)} and {_short(simulated)}"
                return
            for left, right in zip(real, simulated, strict=False):
                yield from self._differ(kind, f"{path}[]", left, right, free=free)
        elif free:
            yield from _shape(rule, real, simulated)
        elif isinstance(real, str) and isinstance(simulated, str):
            if (how := self.links.same(real, simulated)) is not None:
                yield f"{path} {how}"
        elif not _same(real, simulated):
            yield f"{path} is {_short(real)} and {_short(simulated)}"

    def _only_real(self, rule: str, path: str, name: str, value: Any) -> Iterator[str]:
        if self.listed(rule, ONLY_REAL, self.rules.missing):
            return
        if name in self._internal and self._internal[name] not in FIELDS:
            self.new_fields.add(self._internal[name])
            return
        yield f"only the real CLI has {path}: {_short(value)}"


def _unmodelled(frame: Frame) -> dict[str, str]:
    """Return the fields of a frame that no message class has: by name, with the class that lacks it."""
    try:
        decoded = decode(json.dumps(frame).encode(), lambda warning: None)
    except DecodeError:
        return {}
    return {name: f"{owner}.{name}" for owner, name in unmodelled_fields(decoded)}


def _shape(path: str, real: Any, simulated: Any) -> Iterator[str]:
    """Compare forms and not values; the simulated value may have less than the real one."""
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
    if _json_type(real) == _json_type(simulated) == "number":
        return isclose(real, simulated, rel_tol=1e-6)
    return _json_type(real) == _json_type(simulated) and bool(real == simulated)


@cache
def _pattern(rule: str) -> re.Pattern[str]:
    return re.compile(re.escape(rule).replace(r"\*", ".*") + r"(\..*|\[\].*)?", re.DOTALL)


USED: set[str] = set()
"""Rules that were needed."""


def _short(value: Any) -> str:
    text = _MARK.sub(r"<\1>", json.dumps(value, ensure_ascii=False).replace("\\u0000", "\0"))
    return text if len(text) < 400 else text[:400] + "..."
