"""One table of runs, read by every reader: they agree on tool calls, their agents, their results and what a user typed.

The rows are runs of Claude Code 2.1.330; `test_real_cli.py` shows the ones that the CLI decides.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.activity.readers import PROMPTS, READERS, Frame, expected

if TYPE_CHECKING:
    from pathlib import Path

_numbers = count()


def assistant(*blocks: dict[str, Any], parent: str | None = None, key: str | None = None, **more: Any) -> Frame:
    number = next(_numbers)
    body = {
        "id": key or f"msg_{number}",
        "model": more.pop("model", "claude-opus-5-5"),
        "role": "assistant",
        "content": list(blocks),
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    own = f"00000000-0000-4000-8000-{number:012}"
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent, "session_id": "s", "uuid": own, **more}


def call(call_id: str, name: str = "Write", kind: str = "tool_use", **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": call_id, "name": name, "input": {"file_path": call_id, **more}}


def agent(call_id: str) -> dict[str, Any]:
    return call(call_id, "Agent", description="d", prompt="Look.", subagent_type="general-purpose")


def result(call_id: str, *, failed: bool = False, kind: str = "tool_result") -> dict[str, Any]:
    return {
        "type": kind,
        "tool_use_id": call_id,
        "content": [{"type": "text", "text": f"result of {call_id}"}],
        "is_error": failed,
    }


def user(*blocks: dict[str, Any], parent: str | None = None) -> Frame:
    own = f"00000000-0000-4000-8000-{next(_numbers):012}"
    message = {"role": "user", "content": list(blocks)}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, "session_id": "s", "uuid": own}


def task(subtype: str, call_id: str, *, background: bool = False, **more: Any) -> Frame:
    fields = {"task_type": "local_agent", "subagent_type": "general-purpose", "is_backgrounded": background, **more}
    return {"type": "system", "subtype": subtype, "task_id": f"a{call_id}", "tool_use_id": call_id, **fields}


RUNS: dict[str, tuple[list[Frame], dict[str, tuple[str, str]]]] = {
    "a call and its result": ([assistant(call("t1")), user(result("t1"))], {"t1": ("", "ok")}),
    "a failed call": ([assistant(call("t1")), user(result("t1", failed=True))], {"t1": ("", "failed")}),
    "a call without a result": ([assistant(call("t1"))], {"t1": ("", "open")}),
    "a result without its call": ([assistant(call("t1")), user(result("t2"))], {"t1": ("", "open")}),
    "calls of one reply, with results in another order": (
        [
            assistant(call("t1"), key="m"),
            assistant(call("t2"), key="m"),
            assistant(call("t3"), key="m"),
            user(result("t3")),
            user(result("t1"), result("t2", failed=True)),
        ],
        {"t1": ("", "ok"), "t2": ("", "failed"), "t3": ("", "ok")},
    ),
    "a call whose frame comes twice": (
        [assistant(call("t1"), key="m"), assistant(call("t1"), key="m"), user(result("t1"))],
        {"t1": ("", "ok")},
    ),
    "an id that is used again, as by gateways to other models": (
        [assistant(call("t1")), user(result("t1")), assistant(call("t1")), user(result("t1", failed=True))],
        {"t1": ("", "ok"), "t1 again": ("", "failed")},
    ),
    "a second result, which is an error": (
        [assistant(call("t1")), user(result("t1")), user(result("t1", failed=True))],
        {"t1": ("", "ok")},
    ),
    "a call in a late frame of an earlier reply": (
        [
            assistant(call("t1"), key="m1"),
            assistant(call("t2"), key="m2"),
            assistant(call("t3"), key="m1"),
            user(*map(result, ("t1", "t2", "t3"))),
        ],
        {"t1": ("", "ok"), "t2": ("", "ok"), "t3": ("", "ok")},
    ),
    "a subagent": (
        [
            assistant(agent("t1")),
            task("task_started", "t1"),
            assistant(call("t2"), parent="t1"),
            user(result("t2"), parent="t1"),
            user(result("t1")),
        ],
        {"t1": ("", "ok"), "t2": ("t1", "ok")},
    ),
    "a subagent that no task names": (
        [
            assistant(agent("t1")),
            assistant(call("t2"), parent="t1"),
            user(result("t2"), parent="t1"),
            user(result("t1")),
        ],
        {"t1": ("", "ok"), "t2": ("t1", "ok")},
    ),
    "a subagent that ends with an open call": (
        [assistant(agent("t1")), assistant(call("t2"), parent="t1"), user(result("t1", failed=True))],
        {"t1": ("", "failed"), "t2": ("t1", "open")},
    ),
    "a subagent of a subagent": (
        [
            assistant(agent("t1")),
            assistant(agent("t2"), parent="t1"),
            assistant(call("t3"), parent="t2"),
            user(result("t3"), parent="t2"),
            user(result("t2"), parent="t1"),
            user(result("t1")),
        ],
        {"t1": ("", "ok"), "t2": ("t1", "ok"), "t3": ("t2", "ok")},
    ),
    "two subagents at the same time": (
        [
            assistant(agent("t1"), key="m"),
            assistant(agent("t2"), key="m"),
            assistant(call("t3"), parent="t1"),
            assistant(call("t4"), parent="t2"),
            user(result("t4", failed=True), parent="t2"),
            user(result("t3"), parent="t1"),
            user(result("t2")),
            user(result("t1")),
        ],
        {"t1": ("", "ok"), "t2": ("", "ok"), "t3": ("t1", "ok"), "t4": ("t2", "failed")},
    ),
    "a subagent in the background": (
        [
            assistant(agent("t1")),
            task("task_started", "t1", background=True),
            user(result("t1")),
            assistant(call("t2"), parent="t1"),
            user(result("t2"), parent="t1"),
            task("task_notification", "t1", status="completed", summary="Done."),
        ],
        {"t1": ("", "ok"), "t2": ("t1", "ok")},
    ),
    "a subagent that goes on after the result of its call": (
        [
            assistant(agent("t1")),
            user(result("t1")),
            assistant(call("t2"), parent="t1"),
            user(result("t2"), parent="t1"),
        ],
        {"t1": ("", "ok"), "t2": ("t1", "ok")},
    ),
    "a tool of the API, with its result in the reply": (
        [
            assistant(
                call("t1", "web_search", "server_tool_use"),
                result("t1", kind="web_search_tool_result"),
            )
        ],
        {"t1": ("", "ok")},
    ),
    "a tool of the API that fails": (
        [
            assistant(
                call("t1", "web_fetch", "server_tool_use"),
                result("t1", kind="web_fetch_tool_result", failed=True),
            )
        ],
        {"t1": ("", "failed")},
    ),
    "a tool of a server that the API calls": (
        [assistant(call("t1", "lookup", "mcp_tool_use")), assistant(result("t1", kind="mcp_tool_result"))],
        {"t1": ("", "ok")},
    ),
    "a call in a reply that was interrupted": (
        [assistant(call("t1"), aborted=True), user(result("t1", failed=True))],
        {"t1": ("", "failed")},
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("row", RUNS)
def test_readers_agree_on_calls(row: str, reader: str, tmp_path: Path) -> None:
    frames, calls = RUNS[row]
    assert READERS[reader](frames, tmp_path) == expected(reader, calls, frames)


TEXT = {"type": "text", "text": "go on"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}

ENTRIES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "a text": ("go on", {}, True),
    "a text in a block": ([TEXT], {}, True),
    "an image": ([IMAGE], {}, True),
    "an image and a text": ([IMAGE, TEXT], {}, True),
    "a command": ("<command-name>/compact</command-name>", {}, True),
    "a result": ([result("t1")], {}, False),
    "a result with a text": ([result("t1"), TEXT], {}, False),
    "a note of the CLI": ("go on", {"isMeta": True}, False),
    "the summary of a compaction": ("go on", {"isCompactSummary": True}, False),
    "the output of a command": ("<local-command-stdout>Compacted </local-command-stdout>", {}, False),
    "an error of a command": ("<local-command-stderr>No.</local-command-stderr>", {}, False),
    "an interrupt": ("[Request interrupted by user]", {}, False),
    "an interrupt of a tool": ([{"type": "text", "text": "[Request interrupted by user for tool use]"}], {}, False),
    "a message of a team": ("go on", {"teamName": "t"}, False),
    "the task of a subagent, in the same file": ("go on", {"isSidechain": True}, False),
}


@pytest.mark.parametrize("reader", PROMPTS)
@pytest.mark.parametrize("row", ENTRIES)
def test_readers_agree_on_prompts(row: str, reader: str, tmp_path: Path) -> None:
    content, marks, prompt = ENTRIES[row]
    assert PROMPTS[reader](content, marks, tmp_path) == [True, *[True] * prompt]
