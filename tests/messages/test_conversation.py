"""What users read from messages: flattened fields, text, payloads, deltas, results."""

from __future__ import annotations

import pytest

from hackamore.messages import (
    AssistantMessage,
    ControlRequest,
    ControlResponse,
    HookResponseMessage,
    InitMessage,
    ResultError,
    ResultMessage,
    StreamEvent,
    TaskUpdatedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    UserMessage,
    from_data,
)
from tests.messages.support import quietly


def test_a_reply_is_flattened() -> None:
    line = (
        b'{"type":"assistant","message":{"id":"msg_1","model":"claude-opus-4-5","role":"assistant","stop_reason":"tool_use",'
        b'"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Let me "},'
        b'{"type":"text","text":"look."},'
        b'{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls","limit":1e2}}],"usage":{"input_tokens":3}},'
        b'"parent_tool_use_id":"toolu_0","session_id":"s1","uuid":"u1"}'
    )
    message = quietly(line)
    assert isinstance(message, AssistantMessage)
    assert message.content == [
        ThinkingBlock(thinking="hm", signature="s"),
        TextBlock(text="Let me "),
        TextBlock(text="look."),
        message.content[3],
    ]
    assert (message.model, message.message_id, message.stop_reason) == ("claude-opus-4-5", "msg_1", "tool_use")
    assert (message.parent_tool_use_id, message.session_id, message.uuid) == ("toolu_0", "s1", "u1")
    assert message.usage == Usage(input_tokens=3)
    assert message.text == "Let me look."
    match message.content[3]:
        case ToolUseBlock(name="Bash", input=arguments) as call:
            assert arguments == {"command": "ls", "limit": 100.0}
            assert call.input is call.input
            assert bytes(call.input_raw) == b'{"command":"ls","limit":1e2}'
        case _:
            pytest.fail("not a tool call")


def test_a_prompt_is_a_string_or_blocks() -> None:
    text = from_data({"type": "user", "message": {"role": "user", "content": "hello"}})
    assert isinstance(text, UserMessage)
    assert (text.content, text.text) == ("hello", "hello")
    blocks = from_data(
        {"type": "user", "message": {"content": [{"type": "text", "text": "hello"}, {"type": "image", "source": {}}]}}
    )
    assert isinstance(blocks, UserMessage)
    assert blocks.text == "hello"
    assert len(blocks.content) == 2


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\nb"),
        (["loose", 5, {"type": "text"}], ""),
    ],
)
def test_a_tool_result(content: object, text: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": True}
    message = from_data({"type": "user", "message": {"content": [block]}, "tool_use_result": {"stdout": "x"}})
    assert isinstance(message, UserMessage)
    result = message.content[0]
    assert isinstance(result, ToolResultBlock)
    assert (result.tool_use_id, result.content, result.is_error, result.text) == ("toolu_1", content, True, text)
    assert message.tool_use_result == {"stdout": "x"}


def test_the_pieces_of_a_stream() -> None:
    def event(**body: object) -> StreamEvent:
        message = from_data({"type": "stream_event", "event": body})
        assert isinstance(message, StreamEvent)
        return message

    text = event(type="content_block_delta", index=2, delta={"type": "text_delta", "text": "Hel"})
    assert (text.event_type, text.index, text.text_delta, text.thinking_delta) == (
        "content_block_delta",
        2,
        "Hel",
        None,
    )
    assert text.event["delta"] == {"type": "text_delta", "text": "Hel"}
    thinking = event(type="content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"})
    assert (thinking.text_delta, thinking.thinking_delta) == (None, "hm")
    tool = event(type="content_block_delta", delta={"type": "input_json_delta", "partial_json": '{"a'})
    assert (tool.text_delta, tool.input_json_delta) == (None, '{"a')
    stop = event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    assert (stop.event_type, stop.text_delta, stop.index) == ("message_delta", None, None)
    odd = event(type=5, delta="what")
    assert (odd.event_type, odd.text_delta, odd.event) == ("", None, {"type": 5, "delta": "what"})


def test_a_result_that_succeeded() -> None:
    message = from_data(
        {
            "duration_api_ms": 12.5,
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "4",
            "total_cost_usd": 0,
            "structured_output": {"answer": 4},
            "modelUsage": {"claude-opus-4-5": {"inputTokens": 3, "costUSD": 0.5}},
            "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "rm"}}],
        }
    )
    assert isinstance(message, ResultMessage)
    message.raise_for_error()
    assert (message.result, message.errors, message.duration_api_ms) == ("4", [], 12.5)
    assert message.structured_output == {"answer": 4}
    assert message.model_usage["claude-opus-4-5"].cost_usd == 0.5
    assert message.permission_denials[0].tool_input == {"command": "rm"}


def test_a_result_that_failed() -> None:
    message = from_data({"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["too many"]})
    assert isinstance(message, ResultMessage)
    with pytest.raises(ResultError, match="too many") as caught:
        message.raise_for_error()
    assert caught.value.result is message


def test_system_messages() -> None:
    init = from_data(
        {
            "type": "system",
            "subtype": "init",
            "permissionMode": "plan",
            "mcp_servers": [{"name": "a", "status": "failed"}],
        }
    )
    assert isinstance(init, InitMessage)
    assert (init.permission_mode, init.mcp_servers[0].status, init.tools) == ("plan", "failed", [])
    updated = from_data(
        {"type": "system", "subtype": "task_updated", "task_id": "t", "patch": {"status": "killed", "x": 1}}
    )
    assert isinstance(updated, TaskUpdatedMessage)
    assert (updated.status, updated.patch) == ("killed", {"status": "killed", "x": 1})
    hook = from_data({"type": "system", "subtype": "hook_response", "hook_name": "Stop", "exit_code": 2})
    assert isinstance(hook, HookResponseMessage)
    assert (hook.hook_event_name, hook.exit_code) == ("Stop", 2)


def test_control_frames() -> None:
    request = from_data({"type": "control_request", "request_id": "1", "request": {"subtype": "can_use_tool"}})
    assert isinstance(request, ControlRequest)
    assert (request.request_id, request.subtype) == ("1", "can_use_tool")
    inner = from_data(
        {"type": "control_response", "response": {"subtype": "success", "request_id": "in"}, "request_id": "out"}
    )
    assert isinstance(inner, ControlResponse)
    assert (inner.request_id, inner.subtype) == ("in", "success")
    outer = from_data({"type": "control_response", "response": {"subtype": "success"}, "request_id": "out"})
    assert isinstance(outer, ControlResponse)
    assert outer.request_id == "out"
