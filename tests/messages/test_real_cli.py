"""What the real CLI writes decodes without a warning, and without an unknown message or block."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import TYPE_CHECKING

from hackamore.messages import (
    AssistantMessage,
    CommandLifecycleMessage,
    ControlResponse,
    Frame,
    InitMessage,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskStartedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)
from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, Text, Thinking, ToolCall
from tests.messages.support import quietly
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.conftest import RealCLI

STREAM = ("--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions")


def frames_of(cli: RealCLI, model: ScriptedModel, *arguments: str, stdin: bytes, **env: str) -> list[Frame]:
    finished = subprocess.run(
        [cli.cli_path, *STREAM, *arguments],
        input=stdin,
        capture_output=True,
        cwd=cli.cwd,
        env={**cli.env(model), **env},
        timeout=patience(45),
        check=False,
    )
    assert finished.stdout, finished.stderr
    frames = [quietly(line) for line in finished.stdout.removesuffix(b"\n").split(b"\n")]
    assert [frame for frame in frames if isinstance(frame, UnknownMessage)] == []
    for frame in frames:
        assert frame.data == json.loads(frame.raw)
        if isinstance(frame, AssistantMessage | UserMessage) and not isinstance(frame.content, str):
            assert [block for block in frame.content if isinstance(block, UnknownBlock)] == []
    return frames


def test_a_one_shot_with_a_tool(real_cli: RealCLI) -> None:
    call = Reply(
        Thinking("hm"), Text("Let me look."), ToolCall("Bash", {"command": "echo naïve", "description": "say it"})
    )
    with ScriptedModel(call, "It says naïve.") as model:
        frames = frames_of(real_cli, model, "--print", "--include-partial-messages", stdin=b"What does it say?")
    assert isinstance(next(frame for frame in frames if not isinstance(frame, SessionStateChangedMessage)), InitMessage)
    blocks = [block for frame in frames if isinstance(frame, AssistantMessage) for block in frame.content]
    assert {type(block) for block in blocks} == {ThinkingBlock, TextBlock, ToolUseBlock}
    call_block = next(block for block in blocks if isinstance(block, ToolUseBlock))
    assert call_block.input["command"] == "echo naïve"
    outcome = next(frame for frame in frames if isinstance(frame, UserMessage))
    assert isinstance(outcome.content[0], ToolResultBlock)
    assert outcome.content[0].text == "naïve"
    assert outcome.tool_use_result["stdout"] == "naïve"
    written = "".join(frame.text_delta or "" for frame in frames if isinstance(frame, StreamEvent))
    assert written == "Let me look.It says naïve."
    result = frames[-1]
    assert isinstance(result, ResultMessage)
    assert (result.is_error, result.result, result.subtype) == (False, "It says naïve.", "success")
    assert result.usage is not None
    assert result.usage.output_tokens > 0


def test_a_failure_of_the_api(real_cli: RealCLI) -> None:
    with ScriptedModel(Repeat(HTTPFailure(400))) as model:
        frames = frames_of(real_cli, model, "--print", stdin=b"Hello")
    synthetic = next(frame for frame in frames if isinstance(frame, AssistantMessage))
    assert synthetic.model == "<synthetic>"
    assert synthetic.error
    result = frames[-1]
    assert isinstance(result, ResultMessage)
    assert result.is_error
    assert result.api_error_status == 400


def test_a_session_with_a_subagent(real_cli: RealCLI) -> None:
    prompt_id = str(uuid.uuid4())
    prompt = {"type": "user", "message": {"role": "user", "content": "Delegate"}, "uuid": prompt_id}
    requests = [
        {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}},
        {**prompt, "parent_tool_use_id": None, "session_id": ""},
    ]
    agent = {"description": "d", "prompt": "p", "subagent_type": "general-purpose", "run_in_background": False}
    with ScriptedModel(Reply(ToolCall("Agent", agent)), "done", subagents={"*": "delegated"}) as model:
        frames = frames_of(
            real_cli,
            model,
            "--input-format",
            "stream-json",
            "--replay-user-messages",
            stdin=b"".join(json.dumps(request).encode() + b"\n" for request in requests),
            CLAUDE_CODE_SDK_READS_SESSION_STATE="1",
        )
    answer = next(frame for frame in frames if isinstance(frame, ControlResponse))
    assert (answer.request_id, answer.subtype) == ("r1", "success")
    life = [f.state for f in frames if isinstance(f, CommandLifecycleMessage) and f.command_uuid == prompt_id]
    assert life[0] in {"queued", "started"}
    assert life[-1] == "completed"
    assert any(isinstance(frame, TaskStartedMessage) for frame in frames)
    assert any(isinstance(frame, SessionStateChangedMessage) and frame.state == "idle" for frame in frames)
    result = next(frame for frame in frames if isinstance(frame, ResultMessage))
    assert result.user_message_uuids == [prompt_id]
