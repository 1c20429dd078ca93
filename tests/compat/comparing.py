"""What two runs of one conversation have in common: values without ids and times, and the places at which they differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_ID = re.compile(
    r"\b0[0-9a-z]{8}-[0-9a-f]{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b(?:toolu|srvtoolu|msg|req)_\w+|\bagent-a[0-9a-f]{8,}|\ba[0-9a-f]{16}\b"
)
_TIME = re.compile(r"\b20\d\d-\d\d-\d\d(?:T[\d:.]+Z?)?")
_LENGTHS = (
    "duration_ms duration_api_ms ttft_ms ttft_stream_ms time_to_request_ms totalDurationMs durationMs durationSeconds pid end_time "
    "retry_delay_ms tokens totalTokens percentage attachmentTokens toolResultTokens userMessageTokens gridRows"
)
"""Numbers that differ from run to run: times, and estimates of a context that has times and names made of random words."""
_ESTIMATES = re.compile(r"(?<=\| )<?~?\s?[\d.]+[km]?(?: \| [\d.]+%)?(?= \|)|(?<=\*\*Tokens:\*\* )[^\n]+")
_FOLDER = re.compile(
    r"(?:claude-resume|hackamore-session)-\w+|-blob-\d+-\w+|plans/[\w-]+\.md|/tmp/cc-socks[-\d]*/\d+|/tmp/claude-\d+|/[^\s\"']*?/package-[ab]/\d+|-[\w-]*?-package-[ab]-\d+"
)


class Same:
    """Gives each id the number of its first appearance, so that equal runs have equal values."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            # The largest estimate comes first.
            by_name = {
                name: sorted(value[name], key=lambda one: one["name"]) for name in value if name.endswith("ByType")
            }
            value = value | by_name
            return {
                self.text(name): "a number" if name in _LENGTHS.split() and inner is not None else self.value(inner)
                for name, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.value(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        text = _FOLDER.sub("FOLDER", text)
        text = _ESTIMATES.sub("...", text) if text.startswith("## Context Usage") else text
        text = re.sub(r"duration_ms: \d+|\((?:API|wall)\): +[^\n]+|\b127\.0\.0\.1:\d+", "...", _TIME.sub("TIME", text))
        return _ID.sub(lambda found: self.ids.setdefault(found.group(), f"id {len(self.ids) + 1}"), text)


def arguments(words: list[str]) -> dict[str, list[str]]:
    """Return the values of each flag: `--flag=a`, `--flag a`, and lists that are given at once or one by one are the same."""
    found: dict[str, list[str]] = {}
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            found.setdefault(flag, []).extend([value] if equals else [])
        else:
            found.setdefault(flag, []).append(word)
    found.pop("--allow-dangerously-skip-permissions", None)  # the layer allows a later change to that mode
    lists = ("--allowedTools", "--disallowedTools", "--betas")
    return {flag: [",".join(values)] if flag in lists else values for flag, values in sorted(found.items())}


def in_one_place(initialize: dict[str, Any], argv: dict[str, list[str]]) -> None:
    """Move what one package says on the command line and the other one in `initialize` to one place."""
    if initialize.pop("forwardSubagentText", False):
        argv["--forward-subagent-text"] = []
    servers = {name: {"type": "sdk", "name": name} for name in initialize.pop("sdkMcpServers", ())}
    for text in argv.pop("--mcp-config", ()):
        servers |= json.loads(text)["mcpServers"]
    initialize["servers"] = servers
    if initialize.pop("excludeDynamicSections", False):
        argv["--exclude-dynamic-system-prompt-sections"] = []
    for flag in ("--json-schema", "--settings"):
        if flag in argv:
            argv[flag] = values = list(map(json.loads, argv[flag]))
            values[0].get("sandbox", {}).pop("failIfUnavailable", None)
    argv.pop(
        "--await-initialize", None
    )  # the layer sends it with a guard: its hooks see a deferred call of a resumed session
    if initialize.get("hooks") is None:
        initialize.pop("hooks", None)
    for matchers in (initialize.get("hooks") or {}).values():
        for matcher in matchers:
            given = matcher.get("timeout")  # the layer ends hooks itself: its CLI waits for 5 s more
            matcher["timeout"] = {None: "default", 605: "default", 35: 30}.get(given, given)


def settled(called: list[Any]) -> list[Any]:
    """Return callbacks in one order: the CLI calls the hook `PermissionRequest` and the callback for permissions at the same time."""
    called = list(called)
    for at in range(1, len(called)):
        place = at
        while place and called[place][:2] == ["hook", "PermissionRequest"] and called[place - 1][0] == "permission":
            called[place - 1 : place + 1] = reversed(called[place - 1 : place + 1])
            place -= 1
    return called


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield the places at which two values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(name, "(missing)"), theirs.get(name, "(missing)"), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        for number in range(max(len(ours), len(theirs))):
            one, other = (values[number] if number < len(values) else "(missing)" for values in (ours, theirs))
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        if isinstance(ours, str) and isinstance(theirs, str):
            pairs = enumerate(zip(ours, theirs, strict=False))
            first = next((place for place, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
            ours, theirs = (text[max(0, first - 40) :] for text in (ours, theirs))
        yield f"{path}: {shortened(ours)} instead of {shortened(theirs)}"


def shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else f"{text[:300]} ... {text[-90:]}"


def comparable(run: dict[str, Any]) -> dict[str, Any]:
    """Return what has to be equal of a run.

    Answers to requests of the CLI may be written in another order than those of other requests, so they are sorted.
    """
    same = Same()
    messages, called = same.value(run["messages"]), same.value(settled(run["called"]))
    argv = list(map(arguments, run["argv"]))
    starts = iter(argv)
    frames: list[Any] = []
    answers: list[Any] = []
    for frame in run["frames"]:
        kind = frame["type"]
        if kind == "user":
            frame.pop("uuid", None)
            frame["session_id"] = frame.get("session_id") or ""
        if kind == "control_request":
            frame["request_id"] = "an id"
            if frame["request"]["subtype"] == "initialize":
                in_one_place(frame["request"], next(starts))
        if kind == "control_response":
            answer = frame["response"]
            answer["request_id"] = "an id"
            mcp = (answer.get("response") or {}).get("mcp_response")
            (answer.get("response") or {}).pop("toolUseID", None)
            if mcp is not None:
                mcp.pop("id", None)
                (mcp.get("result") or {}).get("capabilities", {}).get("tools", {}).pop("listChanged", None)
        (answers if kind == "control_response" else frames).append(same.value(frame))
    return {
        "messages": messages,
        "called": called,
        "frames": frames,
        "answers": sorted(answers, key=lambda answer: json.dumps(answer, sort_keys=True)),
        "argv": same.value(argv),
        "requests": same.value(run["requests"]),
    }
