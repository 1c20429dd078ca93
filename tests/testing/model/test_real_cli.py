"""The scripted model as the real CLI meets it: every kind of step and of request, without Hackamore's own shells."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from hackamore.testing import (
    Dropped,
    HTTPFailure,
    Repeat,
    Reply,
    ScriptedModel,
    Stall,
    Text,
    Thinking,
    ToolCall,
    UnconsumedStepsError,
    UnexpectedModelRequestError,
    Usage,
)
from tests.support.patience import patience

if TYPE_CHECKING:
    from hackamore.testing import ModelRequest
    from tests.conftest import RealCLI

ALLOW_ALL = ("--permission-mode", "bypassPermissions")


class Run:
    """A finished CLI: its frames by type, and its exit code."""

    def __init__(self, finished: subprocess.CompletedProcess[bytes]) -> None:
        self.exit_code = finished.returncode
        self.stderr = finished.stderr.decode()
        self.frames: list[dict[str, Any]] = [json.loads(line) for line in finished.stdout.splitlines()]

    def of(self, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
        return [f for f in self.frames if f["type"] == kind and subtype in (None, f.get("subtype"))]

    @property
    def result(self) -> dict[str, Any]:
        return self.of("result")[-1]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        return [block for frame in self.of("assistant") for block in frame["message"]["content"]]


def command(cli: RealCLI, *arguments: str) -> list[str]:
    return [cli.cli_path, "--print", "--output-format", "stream-json", "--verbose", *arguments]


def run(cli: RealCLI, model: ScriptedModel, *arguments: str, prompt: str = "Say hello", **env: str) -> Run:
    environment = {**cli.env(model), **env}
    finished = subprocess.run(
        command(cli, *arguments),
        input=prompt.encode(),
        capture_output=True,
        env=environment,
        cwd=cli.cwd,
        timeout=patience(50),
    )
    return Run(finished)


def test_text_arrives_with_the_usage_that_the_script_gives(real_cli: RealCLI) -> None:
    usage = Usage(input_tokens=120, output_tokens=34, cache_read_input_tokens=56)
    with ScriptedModel(Reply("Hello there.", usage=usage)) as model:
        done = run(real_cli, model)

    assert done.exit_code == 0, done.stderr
    assert done.result["result"] == "Hello there."
    counted = done.result["usage"]
    assert (counted["input_tokens"], counted["output_tokens"], counted["cache_read_input_tokens"]) == (120, 34, 56)
    [request] = model.requests_of("main")
    assert request.prompt_text == "Say hello"
    assert request.prompts == ("Say hello",)
    assert "Bash" in request.tools
    assert request.system_text
    assert request.session_id == done.result["session_id"]
    assert not {"x-api-key", "authorization"} & set(request.headers)
    assert "sk-ant" not in repr(request)


def test_thinking_and_text_are_streamed_in_pieces(real_cli: RealCLI) -> None:
    reply = Reply(Thinking("Let me think about it."), Text("A thought-out answer."), chunk=4, delay=0.001)
    with ScriptedModel(reply) as model:
        done = run(real_cli, model, "--include-partial-messages")

    deltas = [f["event"]["delta"] for f in done.of("stream_event") if f["event"]["type"] == "content_block_delta"]
    thoughts = [delta["thinking"] for delta in deltas if delta["type"] == "thinking_delta"]
    texts = [delta["text"] for delta in deltas if delta["type"] == "text_delta"]
    assert "".join(thoughts) == "Let me think about it."
    assert "".join(texts) == "A thought-out answer."
    assert max(map(len, texts)) == 4
    assert [block["type"] for block in done.blocks] == ["thinking", "text"]


def test_a_bash_call_really_runs_and_its_output_comes_back(real_cli: RealCLI) -> None:
    with ScriptedModel(
        Reply("I will look.", ToolCall("Bash", {"command": "echo made > made.txt; cat made.txt"})),
        Reply("It says made.", expect_text="made"),
    ) as model:
        done = run(real_cli, model, *ALLOW_ALL)

    assert done.result["result"] == "It says made."
    assert (real_cli.cwd / "made.txt").read_text() == "made\n"
    first, second = model.requests_of("main")
    assert first.tool_results == ()
    [result] = second.tool_results
    assert (result.text, result.is_error) == ("made", False)
    assert second.prompt_text == "Say hello"


def test_two_tool_calls_in_one_reply_both_come_back(real_cli: RealCLI) -> None:
    with ScriptedModel(
        Reply(ToolCall("Bash", {"command": "echo one"}, id="toolu_one"), ToolCall("Bash", {"command": "exit 3"})),
        "Done.",
    ) as model:
        run(real_cli, model, *ALLOW_ALL)

    one, two = model.requests[-1].tool_results
    assert (one.tool_use_id, one.text, one.is_error) == ("toolu_one", "one", False)
    assert two.is_error
    assert "3" in two.text


def test_after_429_with_retry_after_the_cli_tries_again(real_cli: RealCLI) -> None:
    with ScriptedModel(HTTPFailure(429, retry_after=0.2), Reply("At last.")) as model:
        done = run(real_cli, model)

    assert done.result["result"] == "At last."
    [retry] = done.of("system", "api_retry")
    assert retry["error_status"] == 429
    assert len(model.requests_of("main")) == 2


@pytest.mark.parametrize("status", [500, 529])
def test_after_a_server_error_the_cli_tries_again(real_cli: RealCLI, status: int) -> None:
    with ScriptedModel(HTTPFailure(status, retry_after=0), Reply("At last.")) as model:
        done = run(real_cli, model)

    assert done.result["result"] == "At last."
    assert [frame["error_status"] for frame in done.of("system", "api_retry")] == [status]


def test_401_is_an_error_result(real_cli: RealCLI) -> None:
    with ScriptedModel(HTTPFailure(401, message="invalid x-api-key", retry=False)) as model:
        done = run(real_cli, model)

    assert done.exit_code == 1
    assert done.result["is_error"] is True
    assert done.result["api_error_status"] == 401


@pytest.mark.parametrize("after_events", [0, 1, 3])
def test_after_a_dropped_connection_the_cli_tries_again(real_cli: RealCLI, after_events: int) -> None:
    with ScriptedModel(Dropped(after_events, reply=Reply("Half an answer.", chunk=3)), Reply("Whole answer.")) as model:
        done = run(real_cli, model)

    assert done.result["result"] == "Whole answer."
    assert len(model.requests_of("main")) == 2


@pytest.mark.parametrize("after_events", [0, 4])
def test_a_stall_lasts_until_it_is_released(real_cli: RealCLI, after_events: int) -> None:
    stall = Stall(then=Reply("Released.", chunk=2), after_events=after_events)
    with (
        ScriptedModel(stall) as model,
        subprocess.Popen(
            command(real_cli),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=real_cli.env(model),
            cwd=real_cli.cwd,
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"Say hello")
        process.stdin.close()
        process.stdin = None
        stall.wait_started()
        assert process.poll() is None
        stall.release()
        output, errors = process.communicate(timeout=patience(30))

    done = Run(subprocess.CompletedProcess([], process.returncode, output, errors))
    assert done.result["result"] == "Released."


def test_a_subagent_has_a_script_of_its_own(real_cli: RealCLI) -> None:
    def answer(request: ModelRequest) -> Reply:
        return Reply(f"The answer is {request.tool_results[0].text}.")

    task = {"description": "Count", "prompt": "Count the files.", "subagent_type": "general-purpose"}
    with ScriptedModel(
        Reply(ToolCall("Agent", {**task, "run_in_background": False})),
        Reply("All counted.", expect_text="The answer is 42."),
        subagents={"Count the files": [Reply(ToolCall("Bash", {"command": "echo 42"})), answer]},
    ) as model:
        done = run(real_cli, model, *ALLOW_ALL)

    assert done.result["result"] == "All counted."
    first, second = model.requests_of("subagent")
    assert first.first_prompt == "Count the files."
    assert first.agent_id is not None
    assert (second.agent_id, second.agent_type) == (first.agent_id, "general-purpose")
    assert [request.kind for request in model.requests] == ["main", "subagent", "subagent", "main"]


@pytest.mark.parametrize("hints", ["1", "0"], ids=["with-headers", "by-shape"])
def test_kinds_of_requests_are_told_apart(real_cli: RealCLI, hints: str) -> None:
    environment = {"CLAUDE_CODE_GATEWAY_HINT_HEADERS": hints}
    session = "6a1b3f0e-0000-4000-8000-000000000001"
    task = {"description": "Look", "prompt": "Look around.", "run_in_background": False}
    with ScriptedModel(
        Reply(ToolCall("Agent", task)), "Seen.", subagents={"*": "Nothing here."}, compaction="A short talk."
    ) as model:
        run(real_cli, model, *ALLOW_ALL, "--session-id", session, **environment)
        compacted = run(real_cli, model, "--resume", session, prompt="/compact", **environment)
        titled = ask(
            real_cli, model, {"subtype": "generate_session_title", "description": "Count all files"}, **environment
        )
        asked = ask(
            real_cli, model, {"subtype": "side_question", "question": "Why?"}, "--resume", session, **environment
        )
        counted = ask(real_cli, model, {"subtype": "get_context_usage"}, **environment)

    assert [request.kind for request in model.requests][:4] == ["main", "subagent", "main", "compaction"]
    assert [r.kind for r in model.requests if r.kind in ("main", "subagent", "compaction", "side")][4:] == [
        "side",
        "side",
    ]
    assert len(model.requests_of("count_tokens")) > 5
    assert compacted.of("system", "compact_boundary")
    assert titled["title"] == "scripted"
    assert asked["response"] == "OK"
    assert counted["totalTokens"] > 0


@pytest.mark.parametrize("hints", ["1", "0"], ids=["with-headers", "by-shape"])
def test_a_hook_that_asks_a_model_takes_no_step(real_cli: RealCLI, hints: str) -> None:
    hook = {"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": "May it? $ARGUMENTS"}]}
    settings = json.dumps({"hooks": {"PreToolUse": [hook]}})
    with ScriptedModel(Reply(ToolCall("Bash", {"command": "echo hi"})), Reply("Done.", expect_text="hi")) as model:
        done = run(real_cli, model, *ALLOW_ALL, "--settings", settings, CLAUDE_CODE_GATEWAY_HINT_HEADERS=hints)

    assert done.result["result"] == "Done."
    assert [request.kind for request in model.requests] == ["main", "side", "main"]


def test_structured_output_is_a_tool_call(real_cli: RealCLI) -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    with ScriptedModel(Reply(ToolCall("StructuredOutput", {"n": 4}))) as model:
        done = run(real_cli, model, "--json-schema", schema, CLAUDE_CODE_GATEWAY_HINT_HEADERS="0")

    assert done.result["structured_output"] == {"n": 4}


def test_a_subagent_in_the_background_brings_a_turn_of_its_own(real_cli: RealCLI) -> None:
    stall = Stall(then="Nine files.")
    with ScriptedModel(
        Reply(ToolCall("Agent", {"description": "Count", "prompt": "Count.", "run_in_background": True})),
        Reply("It is being counted.", expect=lambda _: stall.release()),
        Reply("Nine, I hear.", expect_text="Nine files."),
        subagents={"Count": stall},
    ) as model:
        done = run(real_cli, model)

    assert [frame["result"] for frame in done.of("result")] == ["It is being counted.", "Nine, I hear."]


def test_a_full_context_is_compacted_before_the_next_request(real_cli: RealCLI) -> None:
    with ScriptedModel(
        Reply(ToolCall("Bash", {"command": "echo hi"}), usage=Usage(input_tokens=990_000)),
        Reply("Going on.", expect_text="What was said so far."),
        compaction="What was said so far.",
    ) as model:
        done = run(real_cli, model, *ALLOW_ALL)

    assert done.result["result"] == "Going on."
    assert done.of("system", "compact_boundary")
    assert [request.kind for request in model.requests] == ["main", "compaction", "main"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_serves_while_an_event_loop_runs(real_cli: RealCLI, backend: str) -> None:
    async def talk(model: ScriptedModel) -> bytes:
        finished = await anyio.run_process(
            command(real_cli), input=b"Say hello", env=real_cli.env(model), cwd=real_cli.cwd
        )
        return finished.stdout

    with ScriptedModel("Hello.") as model:
        assert b'"result":"Hello."' in anyio.run(talk, model, backend=backend)


def test_a_cli_that_is_killed_while_it_waits_leaves_nothing_behind(real_cli: RealCLI) -> None:
    stall = Stall()
    before = set(threading.enumerate())
    with (
        ScriptedModel(stall) as model,
        subprocess.Popen(
            command(real_cli),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=real_cli.env(model),
            cwd=real_cli.cwd,
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"Say hello")
        process.stdin.close()
        stall.wait_started()
        process.kill()
    assert set(threading.enumerate()) <= before


def ask(cli: RealCLI, model: ScriptedModel, request: dict[str, Any], *arguments: str, **env: str) -> dict[str, Any]:
    """Send one control request to a CLI and return the answer to it."""
    lines = [
        {"type": "control_request", "request_id": "start", "request": {"subtype": "initialize"}},
        {"type": "control_request", "request_id": "question", "request": request},
    ]
    with subprocess.Popen(
        [*command(cli, *arguments)[:1], *command(cli, *arguments)[2:], "--input-format", "stream-json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**cli.env(model), **env},
        cwd=cli.cwd,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.flush()
        for line in process.stdout:
            frame = json.loads(line)
            if frame["type"] == "control_response" and frame["response"]["request_id"] == "question":
                answer = frame["response"]
                break
        else:
            raise AssertionError("the CLI ended without an answer")
        process.stdin.close()
        process.stdout.read()
    assert answer["subtype"] == "success", answer
    payload: dict[str, Any] = answer["response"]
    return payload


def test_a_request_without_a_step_is_refused_at_once(real_cli: RealCLI) -> None:
    with pytest.raises(UnexpectedModelRequestError, match="no step left") as caught, ScriptedModel() as model:
        done = run(real_cli, model, prompt="What now?")

    assert done.exit_code == 1
    assert done.result["is_error"] is True
    assert not done.of("system", "api_retry")
    assert "What now?" in str(caught.value)
    assert [request.kind for request in caught.value.requests] == ["main"]


def test_steps_that_are_left_over_fail_the_test(real_cli: RealCLI) -> None:
    with (
        pytest.raises(UnconsumedStepsError, match="Never said") as caught,
        ScriptedModel("Hi.", "Never said.") as model,
    ):
        run(real_cli, model)

    assert len(caught.value.steps) == 1


def test_an_api_that_stays_down_is_an_error_result(real_cli: RealCLI) -> None:
    with ScriptedModel(Repeat(HTTPFailure(529, retry_after=0))) as model:
        done = run(real_cli, model, CLAUDE_CODE_MAX_RETRIES="2")

    assert done.exit_code == 1
    assert done.result["api_error_status"] == 529
    assert len(model.requests_of("main")) == 3


def test_repeat_answers_every_further_request(real_cli: RealCLI) -> None:
    with ScriptedModel(Repeat(Reply("Again."))) as model:
        assert run(real_cli, model).result["result"] == "Again."
        assert run(real_cli, model).result["result"] == "Again."
