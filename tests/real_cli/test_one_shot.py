"""One-shot queries against the real CLI, on asyncio, trio and without an event loop."""

from __future__ import annotations

import dataclasses
import enum
import json
import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

import hackamore
from hackamore import (
    AssistantMessage,
    Options,
    OptionsError,
    OutputError,
    ResultError,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    Timeouts,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from hackamore.messages import APIRetryMessage, InitMessage
from hackamore.testing import HTTPFailure, Reply, ScriptedModel, Stall, Text, Thinking, ToolCall, Usage
from tests.contract import shows
from tests.support.patience import patience
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving


def test_a_plain_answer(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply("Hello.", usage=Usage(input_tokens=11, output_tokens=7))) as model:
            stream = shell.query("Say hello", driving(model))
            messages = [message async for message in stream]
            assert isinstance(messages[0], InitMessage)
            assert messages[0].claude_code_version
            (assistant,) = [message for message in messages if isinstance(message, AssistantMessage)]
            assert assistant.content == [TextBlock(text="Hello.")]
            result = messages[-1]
            assert isinstance(result, ResultMessage)
            assert (result.result, result.is_error, result.num_turns) == ("Hello.", False, 1)
            assert result.usage is not None
            assert result.usage.output_tokens == 7
            assert stream.session_id == result.session_id
            assert stream.warnings == []
            assert model.requests[0].prompt_text == "Say hello"

    shell.play(scenario)


def test_a_tool_call_that_runs(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        steps = (
            Reply("Looking.", ToolCall("Bash", {"command": "echo made > made.txt; cat made.txt"}, id="toolu_1")),
            "It says made.",
        )
        with ScriptedModel(*steps) as model:
            answer = await shell.run("Make a file", driving(model, allowed_tools=["Bash"]))
            assert answer.text == "It says made."
            assert (real_cli.cwd / "made.txt").read_text() == "made\n"
            blocks = [b for m in answer.messages if isinstance(m, AssistantMessage) for b in m.content]
            (call,) = [block for block in blocks if isinstance(block, ToolUseBlock)]
            assert call.name == "Bash"
            assert call.input["command"].startswith("echo made")
            (carrier,) = [m for m in answer.messages if isinstance(m, UserMessage)]
            assert isinstance(carrier.content, list)
            (outcome,) = carrier.content
            assert isinstance(outcome, ToolResultBlock)
            assert outcome.tool_use_id == "toolu_1"
            assert outcome.content == "made"

    shell.play(scenario)


def test_a_denied_tool_is_not_run(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("Bash", {"command": "touch made.txt"})), "I may not.") as model:
            answer = await shell.run("Make a file", driving(model))
            assert [denial.tool_name for denial in answer.result.permission_denials] == ["Bash"]
            assert not (real_cli.cwd / "made.txt").exists()

    shell.play(scenario)


def test_a_disallowed_tool_does_not_exist(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("Fine.") as model:
            await shell.run("Hi", driving(model, allowed_tools=["Read"], disallowed_tools=["Bash", "Write"]))
            assert "Bash" not in model.requests[0].tools
            assert "Write" not in model.requests[0].tools
            assert "Read" in model.requests[0].tools

    shell.play(scenario)


def test_a_restricted_run_has_no_tools_that_run_code(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("Fine.") as model:
            await shell.run("Hi", driving(model, restricted=True, bare=True))
            assert "Bash" not in model.requests[0].tools
            assert "Read" in model.requests[0].tools

    shell.play(scenario)


@shows("launch.requests.entry-point")
def test_the_cli_knows_its_sdk(driving: Driving) -> None:
    """With an unknown entry point the CLI offers one more agent, in each request."""
    agents, names = [], []
    for name in (None, "sdk-py-of-another"):
        with ScriptedModel("Fine.") as model:
            env = {} if name is None else {"CLAUDE_CODE_ENTRYPOINT": name}
            hackamore.sync.run("Hi", driving(model, env=env, client_app="shop/1.2"))
            agents.append(json.dumps(model.requests[0].body))
            names.append(model.requests[0].headers["x-client-app"])
    assert len(agents[0]) < len(agents[1]) - 500
    assert "claude-code-guide" not in agents[0]
    assert names == ["shop/1.2", "shop/1.2"]


def test_resuming_an_unknown_session_is_an_error_result(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        unknown = str(uuid.uuid4())
        with ScriptedModel() as model:
            with pytest.raises(hackamore.SessionNotFoundError, match="No conversation found") as caught:
                await shell.run("Hi", driving(model, resume=unknown))
            assert unknown in str(caught.value)
            stream = shell.query("Hi", driving(model, resume=unknown))
            collected = await stream.collect()
            assert collected.terminal_error is None
            assert collected.warnings == []
            assert collected.result is not None
            assert collected.result.subtype == "error_during_execution"
            assert unknown in collected.result.errors[0]

    shell.play(scenario)


def test_not_logged_in_is_an_error_result(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model:
            nobody = {"ANTHROPIC_API_KEY": None, "ANTHROPIC_AUTH_TOKEN": None}
            with pytest.raises(hackamore.AuthenticationError) as caught:
                await shell.run("Hi", driving(model, env=nobody))
            assert caught.value.result is not None
            assert caught.value.result.terminal_reason == "api_error"
            assert "login" in str(caught.value).lower()

    shell.play(scenario)


def test_a_429_and_then_an_answer(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(HTTPFailure(429, retry_after=0), "Now it works.") as model:
            answer = await shell.run("Hi", driving(model))
            assert answer.text == "Now it works."
            (retry,) = [message for message in answer.messages if isinstance(message, APIRetryMessage)]
            assert retry.error_status == 429
            assert retry.attempt == 1

    shell.play(scenario)


def test_an_api_that_is_down_meets_the_deadline_of_the_turn(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model:
            nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
            stream = shell.query("Hi", driving(model, env=nowhere, timeouts=Timeouts(turn=patience(3))))
            collected = await stream.collect()
            assert isinstance(collected.terminal_error, hackamore.TurnTimeoutError)
            assert any(isinstance(message, APIRetryMessage) for message in collected.messages)

    shell.play(scenario)


def test_an_api_that_is_down_is_an_error_result_when_the_cli_gives_up(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model:
            nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "CLAUDE_CODE_MAX_RETRIES": "1"}
            with pytest.raises(ResultError) as caught:
                await shell.run("Hi", driving(model, env=nowhere))
            assert caught.value.result.terminal_reason == "api_error"

    shell.play(scenario)


def test_partial_messages(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(Thinking("Hm."), Text("Piece by piece."), chunk=3)) as model:
            answer = await shell.run("Hi", driving(model, include_partial_messages=True))
            events = [message for message in answer.messages if isinstance(message, StreamEvent)]
            assert "".join(event.text_delta or "" for event in events) == "Piece by piece."
            assert events[0].event["type"] == "message_start"
            blocks = [b for m in answer.messages if isinstance(m, AssistantMessage) for b in m.content]
            assert any(isinstance(block, ThinkingBlock) for block in blocks)

    shell.play(scenario)


# -- structured output --------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct):
    name: str
    count: int


class StructAnswer(msgspec.Struct):
    parts: list[Part]
    color: Color
    note: str | None = None


@dataclasses.dataclass
class DataclassAnswer:
    name: str
    kind: Literal["a", "b"]


class DictAnswer(TypedDict):
    name: str


class ModelAnswer(pydantic.BaseModel):
    name: str
    parent: ModelAnswer | None = None


class TupleAnswer(NamedTuple):
    name: str
    number: int = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float


class PydanticCircle(pydantic.BaseModel):
    kind: Literal["circle"] = "circle"
    centre: tuple[int, int] = (0, 0)


class PydanticSquare(pydantic.BaseModel):
    kind: Literal["square"] = "square"


class PydanticShape(pydantic.BaseModel):
    shape: Annotated[PydanticCircle | PydanticSquare, pydantic.Field(discriminator="kind")]


class Defaults(msgspec.Struct):
    count: int = 0


OUTPUTS: list[tuple[Any, Any, Any]] = [
    (StructAnswer, {"parts": [{"name": "x", "count": 2}], "color": "red"}, StructAnswer([Part("x", 2)], Color.RED)),
    (DataclassAnswer, {"name": "n", "kind": "b"}, DataclassAnswer("n", "b")),
    (DictAnswer, {"name": "n"}, {"name": "n"}),
    (ModelAnswer, {"name": "n", "parent": {"name": "p"}}, ModelAnswer(name="n", parent=ModelAnswer(name="p"))),
    (list[int], {"value": [1, 2]}, [1, 2]),
    (int, {"value": 42}, 42),
    (TupleAnswer, {"value": ["n", 2]}, TupleAnswer("n", 2)),
    (tuple[int, str], {"value": [1, "a"]}, (1, "a")),
    (Circle | Square, {"value": {"type": "square", "side": 2.0}}, Square(2.0)),
    (
        PydanticShape,
        {"shape": {"kind": "circle", "centre": [1, 2]}},
        PydanticShape(shape=PydanticCircle(centre=(1, 2))),
    ),
    (Defaults, {"result": {"count": 5}}, Defaults(5)),
]


OUTPUT_TYPES = ("output_type", "said", "expected")
OUTPUT_ON_EVERY_SHELL = 3


@pytest.mark.parametrize(
    OUTPUT_TYPES, OUTPUTS[:OUTPUT_ON_EVERY_SHELL], ids=lambda value: getattr(value, "__name__", "")
)
def test_typed_output(shell: Shell, driving: Driving, output_type: Any, said: Any, expected: Any) -> None:
    check_typed_output(shell, driving, output_type, said, expected)


@pytest.mark.parametrize(
    OUTPUT_TYPES, OUTPUTS[OUTPUT_ON_EVERY_SHELL:], ids=lambda value: getattr(value, "__name__", "")
)
def test_more_types_of_output(driving: Driving, output_type: Any, said: Any, expected: Any) -> None:
    """On one shell: what is made of the output does not depend on it."""
    check_typed_output(Shell("asyncio"), driving, output_type, said, expected)


def check_typed_output(shell: Shell, driving: Driving, output_type: Any, said: Any, expected: Any) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("StructuredOutput", said))) as model:
            answer = await shell.run("Fill it in", driving(model), output_type=output_type)
            assert answer.output == expected
            assert type(answer.output) is type(expected)

    shell.play(scenario)


def test_output_format_gives_plain_values(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
        with ScriptedModel(Reply(ToolCall("StructuredOutput", {"n": 1.5}))) as model:
            answer = await shell.run(
                "Fill it in", driving(model, output_format={"type": "json_schema", "schema": schema})
            )
            assert answer.output == {"n": 1.5}
            assert answer.result.structured_output == {"n": 1.5}

    shell.play(scenario)


def test_output_that_does_not_come_is_an_error(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        from hackamore.testing import Repeat

        with ScriptedModel(Repeat("I would rather talk.")) as model, pytest.raises((OutputError, ResultError)):
            await shell.run("Fill it in", driving(model, max_turns=3), output_type=DictAnswer)

    shell.play(scenario)


# -- turns and sessions ----------------------------------------------------------------------------------------------------------


def test_max_turns(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("Bash", {"command": "true"}))) as model:
            with pytest.raises(ResultError) as caught:
                await shell.run("Hi", driving(model, max_turns=1, allowed_tools=["Bash"]))
            assert caught.value.result.subtype == "error_max_turns"

    shell.play(scenario)


def test_a_chosen_session_is_resumed_and_forked(shell: Shell, driving: Driving) -> None:
    chosen = str(uuid.uuid4())

    async def scenario() -> None:
        with ScriptedModel("I shall remember.", "It was 17.", "It was 17, still.") as model:
            first = await shell.run("Remember 17", driving(model, session_id=chosen))
            assert first.session_id == chosen
            second = await shell.run("What was it?", driving(model, resume=chosen))
            assert second.session_id == chosen
            assert model.requests_of("main")[1].prompts == ("Remember 17", "What was it?")
            third = await shell.run("And now?", driving(model, resume=chosen, fork_session=True))
            assert third.session_id != chosen
            assert model.requests_of("main")[2].prompts == ("Remember 17", "What was it?", "And now?")
            # Each has what the ones before it cost in it, as docs/messages.md says.
            assert 0 < (first.cost or 0) < (second.cost or 0) < (third.cost or 0)

    shell.play(scenario)


def test_a_session_id_in_use_is_explained(shell: Shell, driving: Driving) -> None:
    chosen = str(uuid.uuid4())

    async def scenario() -> None:
        with ScriptedModel("One.") as model:
            await shell.run("Hi", driving(model, session_id=chosen))
            with pytest.raises(hackamore.ProcessError, match="already in use") as caught:
                await shell.run("Hi", driving(model, session_id=chosen))
            assert any("resume" in advice for advice in caught.value.diagnostic.troubleshooting)

    shell.play(scenario)


def test_an_unknown_flag_is_an_unsupported_version(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model, pytest.raises(hackamore.UnsupportedCLIVersionError, match="--from-the-future"):
            await shell.run("Hi", driving(model, extra_args={"from-the-future": None}))

    shell.play(scenario)


# -- prompts ----------------------------------------------------------------------------------------------------------------------


AWKWARD = {
    "quotes": "\"double\" 'single' `back` $HOME %PATH% \\ backslash",
    "newlines": "one\ntwo\n\nthree\r\nfour",
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "line separators": "a\u2028b\u2029c\u0085d",
    "dashes": "--print -p --model x",
    "one dash": "-",
    "hash and bang": "#not a memory\n!not a command",
    "braces": '{"type":"user"}',
    "ansi": "\x1b[31mred\x1b[0m \x07",
    "slash inside": "what is /etc/hosts?",
    "unknown command": "/no-such-command at all",
    "at in a word": "mail me at a@b.example",
}
# What a shell does with a prompt does not depend on what it says: one shell sends all of them, the others some.
SHARES = {"asyncio": slice(None), "trio": slice(0, None, 3), "threads": slice(1, None, 3)}


@pytest.mark.parametrize("channel", ["stdin", "argv"])
def test_awkward_prompts_arrive_as_they_are(shell: Shell, driving: Driving, channel: str) -> None:
    async def scenario() -> None:
        for name in sorted(AWKWARD)[SHARES[shell.backend]]:
            prompt = AWKWARD[name]
            with ScriptedModel("Yes.") as model:
                await shell.run(prompt, driving(model, prompt_channel=channel))
                assert model.requests[0].prompt_text == prompt, name

    shell.play(scenario)


def test_a_file_named_with_at_is_read_by_the_cli(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    """A fact about the CLI that callers must know: `@file` in a prompt is expanded."""
    (real_cli.cwd / "note.txt").write_text("the secret word is heron")

    async def scenario() -> None:
        with ScriptedModel("Yes.") as model:
            await shell.run("read @note.txt", driving(model))
            assert "heron" in json.dumps(model.requests[0].body)

    shell.play(scenario)


def test_nul_and_lone_surrogates_are_refused(shell: Shell, driving: Driving) -> None:
    with ScriptedModel() as model:
        for prompt in ("a\0b", "a\ud800b", "", " \n"):
            with pytest.raises((OptionsError, TypeError, ValueError), match="prompt"):
                shell.query(prompt, driving(model))


def test_a_prompt_of_300_kilobytes(shell: Shell, driving: Driving) -> None:
    prompt = "".join(f"line {number} \u00e9\n" for number in range(24_000)).strip()
    assert len(prompt.encode()) > 300_000

    async def scenario() -> None:
        with ScriptedModel("Long.") as model:
            await shell.run(prompt, driving(model))
            assert model.requests[0].prompt_text == prompt

    shell.play(scenario)


def test_the_environment_is_what_was_asked_for(shell: Shell, driving: Driving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_THE_HOST", "1")

    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("Bash", {"command": "env"})), "Done.") as model:
            await shell.run("Hi", driving(model, allowed_tools=["Bash"], env={"WANTED": "yes"}))
            (outcome,) = model.requests_of("main")[1].tool_results
            assert "WANTED=yes" in outcome.text
            assert "FROM_THE_HOST" not in outcome.text
            assert "HACKAMORE_CHILD_ID=" in outcome.text

    shell.play(scenario)


def test_stopping_while_the_model_is_silent(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        stall = Stall()
        with ScriptedModel(stall) as model:
            stream = shell.query("Hi", driving(model))
            assert isinstance(await stream.next_item(), InitMessage)
            stall.wait_started()
            began = time.monotonic()
            await stream.close()
            assert time.monotonic() - began < patience(4)
            stall.release()

    shell.play(scenario)


def test_debug_file_is_written(shell: Shell, driving: Driving, tmp_path: Path) -> None:
    async def scenario() -> None:
        log = tmp_path / "debug.log"
        with ScriptedModel("Hi.") as model:
            await shell.run("Hi", driving(model, debug_file=log))
        assert log.stat().st_size > 0

    shell.play(scenario)


def test_options_load_drives_it_too(shell: Shell, driving: Driving, tmp_path: Path) -> None:
    file = tmp_path / "hackamore.toml"
    file.write_text('max_turns = 1\nappend_system_prompt = "Speak like a heron."\n')

    async def scenario() -> None:
        with ScriptedModel("Hi.") as model:
            base = driving(model)
            options = Options.load(
                file, cli_path=base.cli_path, cwd=base.cwd, env=dict(base.env), inherit_env=False, environment={}
            )
            await shell.run("Hi", options)
            assert "Speak like a heron." in model.requests[0].system_text

    shell.play(scenario)
