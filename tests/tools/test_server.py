"""The JSON-RPC side: every method, every error, and nothing that raises."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hackamore import __version__
from hackamore.errors import OptionsError
from hackamore.tools import CancelledCall, ToolCallPlan, ToolContext, ToolServer, tool, tool_server
from hackamore.tools.server import LATEST_PROTOCOL, PROTOCOLS
from tests.contract import shows
from tests.support.examples import examples
from tests.support.reaching import mostly, reached, reaching
from tests.tools.support import call_request, error_text, plan, request


@tool(read_only=True)
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def greet(name: str) -> str:
    return f"Hello {name}"


SERVER = tool_server("calculator", [add, greet], version="1.2", instructions="Count with it.")


def _unannotated(a): ...  # type: ignore[no-untyped-def]


def error_of(message: object) -> tuple[Any, int]:
    answer = SERVER.handle(message)
    assert isinstance(answer, dict)
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert isinstance(answer["error"]["message"], str)
    return answer["id"], answer["error"]["code"]


@shows("tools.no-package")
def test_initialize() -> None:
    assert SERVER.handle(request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, 0)) == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "calculator", "version": "1.2"},
            "instructions": "Count with it.",
        },
    }
    plain = tool_server("plain").handle(request("initialize"))
    assert isinstance(plain, dict)
    assert plain["result"]["serverInfo"] == {"name": "plain", "version": __version__}
    assert "instructions" not in plain["result"]


@pytest.mark.parametrize("wanted", [*PROTOCOLS, "1999-01-01", "2099-01-01", "", None, 3, []])
def test_the_protocol_version_is_theirs_if_we_speak_it(wanted: Any) -> None:
    answer = SERVER.handle(request("initialize", {"protocolVersion": wanted}))
    assert isinstance(answer, dict)
    assert answer["result"]["protocolVersion"] == (wanted if wanted in PROTOCOLS else LATEST_PROTOCOL)


@shows("tools.no-package")
def test_ping_and_list() -> None:
    assert SERVER.handle(request("ping", None, "text-id")) == {"jsonrpc": "2.0", "id": "text-id", "result": {}}
    answer = SERVER.handle(request("tools/list", {"cursor": None}))
    assert isinstance(answer, dict)
    assert answer["result"] == {"tools": [add.definition, greet.definition]}
    refused = SERVER.handle(request("tools/list", {"cursor": "x"}))  # the list has one page, so no cursor was given out
    assert isinstance(refused, dict)
    assert refused["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/whatever", "tools/call", "ping"])
def test_notifications_are_acknowledged_with_an_empty_result(method: str) -> None:
    assert SERVER.handle({"jsonrpc": "2.0", "method": method}) == {"jsonrpc": "2.0", "result": {}}


def test_a_cancellation_names_the_call() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7, "reason": "why"}}
    answer = SERVER.handle(message)
    assert isinstance(answer, CancelledCall)
    assert (answer.request_id, answer.reason) == (7, "why")
    assert answer == {"jsonrpc": "2.0", "result": {}}
    assert msgspec.json.encode(answer) == b'{"jsonrpc":"2.0","result":{}}'


@pytest.mark.parametrize("answer", [{"result": {}}, {"error": {"code": 1, "message": "x"}}])
def test_answers_to_nothing_are_acknowledged(answer: dict[str, Any]) -> None:
    assert SERVER.handle({"jsonrpc": "2.0", "id": 3, **answer}) == {"jsonrpc": "2.0", "result": {}}


def test_a_call_is_planned_and_finished() -> None:
    planned = SERVER.handle(call_request("add", {"a": 1}))
    assert isinstance(planned, ToolCallPlan)
    assert (planned.tool.name, planned.arguments, planned.is_async, planned.request_id) == (
        "add",
        {"a": 1, "b": 2},
        False,
        1,
    )
    assert planned.finish(planned.call()) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"content": [{"type": "text", "text": "3"}]},
    }
    assert plan(SERVER, {"name": "x"}, "greet").is_async


@shows("asked.mcp.tool-errors")
def test_an_unknown_tool_is_a_tool_error() -> None:
    assert error_text(SERVER, {}, "subtract") == "There is no tool `subtract`. The tools are: `add`, `greet`."


@pytest.mark.parametrize(
    ("message", "identifier", "code"),
    [
        (b"not json", None, -32700),
        ("{", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[" * 200_000, None, -32700),
        (None, None, -32600),
        ([], None, -32600),
        ([request("ping")], None, -32600),
        (3, None, -32600),
        ({}, None, -32600),
        ({"id": 1, "method": "ping"}, None, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 3}, None, -32600),
        (request("ping", None, None), None, -32600),
        (request("ping", None, True), None, -32600),
        (request("ping", None, {}), None, -32600),
        (request("ping", None, "\ud800"), None, -32600),
        (request("ping", None, float("inf")), None, -32600),
        (request("ping", None, float("nan")), None, -32600),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', None, -32700),
        (request("resources/list"), 1, -32601),
        (request("logging/setLevel", {"level": "debug"}), 1, -32601),
        (request("", None, "a"), "a", -32601),
        (request("ping", []), 1, -32602),
        (request("tools/call", "x"), 1, -32602),
        (request("tools/call", {}), 1, -32602),
        (request("tools/call", {"name": 3}), 1, -32602),
    ],
)
def test_errors_have_the_codes_of_json_rpc(message: object, identifier: Any, code: int) -> None:
    assert error_of(message) == (identifier, code)


def test_an_error_inside_is_an_internal_error() -> None:
    class Hostile(dict[str, Any]):
        def get(self, *args: Any) -> Any:
            if args[0] == "method":
                raise RuntimeError("hostile")
            return super().get(*args)

    assert error_of(Hostile(request("ping"))) == (1, -32603)


@shows("tools.bytes")
@pytest.mark.parametrize("form", [bytes, str, bytearray, memoryview])
def test_messages_may_come_undecoded(form: Any) -> None:
    text = json.dumps(request("ping"))
    answer = SERVER.handle(text if form is str else form(text.encode()))
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}
    surrogate = SERVER.handle(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}')
    assert isinstance(surrogate, dict)
    msgspec.json.encode(surrogate)
    greeting = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"a\\ud800\\ud83d\\ude00"}}}'
    called = SERVER.handle(greeting)
    assert isinstance(called, ToolCallPlan)
    assert called.arguments == {"name": "a\ufffd\U0001f600"}


def test_one_server_serves_many_at_once() -> None:
    first = plan(SERVER, {"a": 1}, "add", session="one")
    second = plan(SERVER, {"a": 5}, "add", session="two")
    assert (first.context.session, second.context.session) == ("one", "two")
    assert second.finish(second.call())["result"]["content"][0]["text"] == "7"
    assert first.finish(first.call())["result"]["content"][0]["text"] == "3"


def test_wrong_servers_are_refused() -> None:
    for name in ("", None, 3):
        with pytest.raises(OptionsError, match="name"):
            tool_server(name, [])  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="two tools called `add`"):
        tool_server("x", [add, add])
    with pytest.raises(OptionsError, match="list of tools"):
        tool_server("x", add)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="what `@tool` made"):
        tool_server("x", ["add"])  # type: ignore[list-item]
    with pytest.raises(OptionsError, match="what `@tool` made"):
        tool_server("x", [int])
    with pytest.raises(OptionsError, match="version"):
        tool_server("x", [], version=3)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="annotation"):
        tool_server("x", [_unannotated])


def test_plain_functions_become_tools() -> None:
    def double(a: int) -> int:
        """Double."""
        return 2 * a

    server = tool_server("x", [double])
    assert server.tools["double"].description == "Double."
    assert repr(server) == "ToolServer('x', [double])"


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_messages = st.fixed_dictionaries(
    {
        "jsonrpc": mostly(st.just("2.0"), st.sampled_from(["1.0", None])),
        "id": mostly(st.integers() | st.text(), _values),
        "method": st.sampled_from(
            ["initialize", "ping", "tools/list", "tools/call", "tools/call", "notifications/cancelled", "x", None]
        ),
    },
    optional={
        "params": _values
        | st.fixed_dictionaries(
            {"name": st.sampled_from(["add", "greet", "y"])},
            optional={
                "arguments": mostly(st.fixed_dictionaries({"a": st.integers()}, optional={"b": _values}), _values),
                "_meta": _values,
            },
        ),
    },
)
_answers = st.dictionaries(st.sampled_from(["jsonrpc", "id", "result", "error"]), _values)


@reaching
@settings(max_examples=examples(300))
@given(mostly(_messages, _answers | _values | st.binary() | st.text()))
def test_no_message_raises_and_every_answer_can_be_sent(message: Any) -> None:
    def check(answer: dict[str, Any] | ToolCallPlan) -> None:
        if isinstance(answer, ToolCallPlan):
            answer = answer.finish(None)
        if "result" in answer:
            reached()
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        json.loads(msgspec.json.encode(answer))

    check(SERVER.handle(message))
    if isinstance(message, dict):
        check(SERVER.handle({"jsonrpc": "2.0", "id": 1, **message}))


def test_types_are_seen_by_checkers() -> None:
    number: int = add(1, b=2)
    assert number == 3
    server: ToolServer = SERVER
    assert server.tools["add"] is add
    assert isinstance(ToolContext(), ToolContext)
