"""Outcomes of callbacks: the failures and decisions that a dashboard counts."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from opentelemetry import trace

import hackamore
from hackamore import Allow, Deny, HackamoreError, HookOutput, Options
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.telemetry.collecting import Collected, attributes

HOOK, PERMISSION, SERVED = "hackamore.hook PreToolUse", "hackamore.permission", "tools/call mcp__shop__price"


def played(collected: Collected, script: Script, **more: Any) -> None:
    options = Options(telemetry=collected.telemetry(content=True), **more)
    with SimulatedCLI(script) as cli, contextlib.suppress(HackamoreError):
        hackamore.sync.run("go", options, transport=cli)


def outcome(collected: Collected, name: str) -> tuple[str, str | None, str | None]:
    """Return how a callback ended, its decision and its failure, as its span says. A failure is the status of the span too."""
    span = collected.one(name)
    found = attributes(span)
    failed = span.status.status_code is trace.StatusCode.ERROR
    assert failed == ("error.type" in found)
    return found["hackamore.callback.outcome"], found.get("hackamore.decision"), found.get("error.type")


def fails(*_: object) -> Any:
    raise ValueError("no")


@shows("telemetry.spans")
@pytest.mark.filterwarnings("ignore")  # of callbacks that fail
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda *_: None, ("answered", "none", None)),
        (lambda *_: HookOutput(continue_=False), ("answered", "stop", None)),
        (lambda *_: HookOutput(continue_=True), ("answered", "none", None)),
        (lambda *_: HookOutput.deny("no"), ("answered", "deny", None)),
        (lambda *_: {"decision": "block", "reason": "no"}, ("answered", "block", None)),
        (fails, ("failed", "none", "callback_failed")),
    ],
    ids=["nothing", "stop", "continue", "deny", "block", "failed"],
)
def test_the_span_of_a_hook_says_what_it_decided(collected: Collected, answer: Any, expected: Any) -> None:
    hooks: Any = {"PreToolUse": hackamore.HookMatcher("Read", [answer])}
    played(collected, Script().user("go").calls("Read", {"file_path": "a"}).says("done"), hooks=hooks)
    assert outcome(collected, HOOK) == expected


@shows("telemetry.spans", "telemetry.metrics")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: Allow(), ("answered", "allow", None)),
        (lambda _: Deny("no"), ("answered", "deny", None)),
        (fails, ("failed", "deny", "callback_failed")),
    ],
    ids=["allow", "deny", "failed"],
)
def test_the_span_of_a_permission_says_what_it_decided(collected: Collected, answer: Any, expected: Any) -> None:
    played(collected, Script().user("go").calls("Bash", {"command": "rm -r cache"}).says("done"), can_use_tool=answer)
    assert outcome(collected, PERMISSION) == expected
    [(waited, (count, _))] = collected.points("hackamore.permission.wait")
    assert (waited, count) == ({"gen_ai.tool.name": "Bash", "hackamore.decision": expected[1]}, 1)


def answering(answer: dict[str, Any]) -> Any:
    """A server that is a function, with one tool that answers this."""

    def function(message: dict[str, Any]) -> dict[str, Any] | None:
        if "id" not in message:
            return None
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "price", "inputSchema": {"type": "object"}}]},
        }
        method = message["method"]
        told = answer if method == "tools/call" else {"result": results.get(method, {})}
        return {"jsonrpc": "2.0", "id": message["id"], **told}

    return function


@shows("telemetry.spans")
@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"result": {"content": [{"type": "text", "text": "2.50"}]}}, None),
        ({"result": {"content": [{"type": "text", "text": "2.50"}], "isError": False}}, None),
        ({"result": {"content": [{"type": "text", "text": "no"}], "isError": True}}, "tool_error"),
        ({"error": {"code": -32603, "message": "no"}}, "tool_error"),
    ],
    ids=["result", "no error", "error of the tool", "error of the server"],
)
def test_the_span_of_a_tool_says_if_it_failed(collected: Collected, answer: dict[str, Any], failure: Any) -> None:
    script = Script().user("go").calls("mcp__shop__price", {"article": "tea"}).says("done")
    played(collected, script, mcp_servers={"shop": answering(answer)}, can_use_tool=lambda _: Allow())
    assert outcome(collected, SERVED) == ("answered", None, failure)
    [said] = json.loads(attributes(collected.named("chat claude-opus-5-5")[0])["gen_ai.output.messages"])
    [part] = said["parts"]
    assert part.pop("id")
    assert part == {"type": "tool_call", "name": "mcp__shop__price", "arguments": {"article": "tea"}}
