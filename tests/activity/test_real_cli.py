"""The meters beside the CLI's own count: what it reports, and what it leaves on the disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Budget, Options, traces, transcripts
from hackamore.budgets import PRICES, Tokens
from hackamore.fleet.recovery import recover
from hackamore.messages import ResultMessage
from hackamore.telemetry import names
from hackamore.testing import HTTPFailure, Reply, ScriptedModel, ToolCall, Usage
from tests.activity.readers import calls_of_spans, calls_of_trace
from tests.telemetry.collecting import Collected

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI

pytestmark = pytest.mark.real_cli

OPUS = "claude-opus-5-5"


def written(total: int, short: int, long: int) -> dict[str, Any]:
    return {
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_creation_input_tokens": total,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
    }


def test_every_meter_counts_as_the_cli(real_cli: RealCLI, tmp_path: Path) -> None:
    """Two kinds of cache writes, also with totals that do not fit; a subagent; a refused request, of which the CLI writes itself."""
    agent = ToolCall(
        "Agent",
        {"description": "d", "prompt": "Look.", "subagent_type": "general-purpose"} | {"run_in_background": False},
    )
    replies: list[Any] = [
        Reply("one", ToolCall("Bash", {"command": "true"}), usage=written(300, 100, 200)),
        Reply("two", usage=written(0, 100, 200)),
        Reply("three", usage=written(100, 100, 200)),
        Reply("four", usage=written(1000, 100, 200)),
        *[HTTPFailure(400)] * 6,
        Reply("five", agent, usage=Usage(100, 10, 0, 5000)),
        Reply("six", usage=Usage(100, 10)),
    ]
    looks = [
        Reply("I look.", ToolCall("Bash", {"command": "true"}), usage=Usage(1000, 100)),
        Reply("Seen.", usage=Usage(2000, 200)),
    ]
    budget, collected, path = Budget(usd=10.0), Collected(), tmp_path / "run.jsonl"
    results: list[ResultMessage] = []

    async def scenario() -> tuple[str, str]:
        with ScriptedModel(*replies, subagents={"*": looks}) as model:
            env = real_cli.env(model)
            options = Options(
                cli_path=real_cli.cli_path,
                cwd=real_cli.cwd,
                env=env,
                inherit_env=False,
                permission_mode="bypassPermissions",
                model=OPUS,
                budget=budget,
                telemetry=collected.telemetry(),
                trace=path,
            )
            async with hackamore.Session(options) as session:
                for number in range(5):
                    turn = await session.send(f"Prompt {number}")
                    results.extend([message async for message in turn if isinstance(message, ResultMessage)])
                return env["CLAUDE_CONFIG_DIR"], session.session_id or ""

    folder, session_id = anyio.run(scenario)
    (used,) = results[-1].model_usage.values()
    tokens = Tokens(input=3600, output=360, cache_read=5000, cache_write_5m=1000, cache_write_1h=700)
    cost = PRICES[OPUS].cost(tokens)
    assert (used.input_tokens, used.output_tokens, used.cache_read_input_tokens) == (3600, 360, 5000)
    assert used.cache_creation_input_tokens == tokens.cache_write
    assert used.cache_creation_ephemeral_1h_input_tokens == tokens.cache_write_1h
    assert used.cost_usd == pytest.approx(cost)

    assert budget.spent.usd == pytest.approx(cost)
    assert budget.spent.tokens == tokens.total
    measured = {each[names.TOKEN_TYPE]: amount for each, (_, amount) in collected.points(names.TOKEN_USAGE.name)}
    assert measured == {"input": tokens.total - tokens.output, "output": tokens.output}
    assert sum(amount for _, amount in collected.points(names.COST_SPENT.name)) == pytest.approx(cost)
    shown = traces.read(path).builder.sessions[0].finished().usage
    assert shown == {"input": 3600, "output": 360, "cache_read": 5000, "cache_write": tokens.cache_write}

    kept = transcripts.read(session_id, config_dir=folder).usage
    assert kept == replace(tokens, replies=8)
    report = transcripts.usage(config_dir=folder)
    assert report.total.tokens == kept
    assert report.total.cost == pytest.approx(cost)
    found = recover(session_id, folder, "Prompt 4", {}, wants_output=False, killed=False)
    assert found is not None
    assert found.usd / 1e9 == pytest.approx(cost)
    assert found.tokens == tokens.total


def test_every_reader_sees_the_calls_and_prompts_of_the_cli(real_cli: RealCLI, tmp_path: Path) -> None:
    """Tools of the API have their results in the reply; a compaction and commands leave texts that no user typed."""
    look = ToolCall(
        "Agent",
        {"description": "d", "prompt": "Look.", "subagent_type": "general-purpose", "run_in_background": False},
        id="toolu_agent",
    )
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    replies = [
        Reply("I search.", search, found, "Tea."),
        Reply(
            ToolCall("Bash", {"command": "false"}, id="toolu_bash"),
            ToolCall("Read", {"file_path": "/none"}, id="toolu_read"),
        ),
        Reply(look),
        Reply("Seen."),
        Reply("Done."),
    ]
    inside = [Reply(ToolCall("Bash", {"command": "true"}, id="toolu_inside")), Reply("I looked.")]
    collected, path = Collected(), tmp_path / "run.jsonl"

    async def scenario() -> tuple[str, str]:
        with ScriptedModel(*replies, subagents={"*": inside}, compaction="A short talk.") as model:
            env = real_cli.env(model)
            options = Options(
                cli_path=real_cli.cli_path,
                cwd=real_cli.cwd,
                env=env,
                inherit_env=False,
                permission_mode="bypassPermissions",
                model=OPUS,
                telemetry=collected.telemetry(),
                trace=path,
            )
            async with hackamore.Session(options) as session:
                for prompt in ("One", "Two", "/compact", "Three"):
                    await (await session.send(prompt)).result()
                return env["CLAUDE_CONFIG_DIR"], session.session_id or ""

    folder, session_id = anyio.run(scenario)
    calls = {
        "srvtoolu_1": {"agent": "", "end": "ok"},
        "toolu_bash": {"agent": "", "end": "failed"},
        "toolu_read": {"agent": "", "end": "failed"},
        "toolu_agent": {"agent": "", "end": "ok"},
        "toolu_inside": {"agent": "toolu_agent", "end": "ok"},
    }
    assert calls_of_spans(collected) == calls
    assert calls_of_trace(traces.read(path)) == calls
    conversation = transcripts.read(session_id, config_dir=folder)
    stored = traces.read(conversation.path)
    assert calls_of_trace(stored) == calls
    prompts = [item.title for item in stored.items if item.kind == "prompt"]
    assert [prompts[0], prompts[1], prompts[-1]] == ["One", "Two", "Three"]
    assert prompts[2:] == [" ".join(turn.prompt.text.split()) for turn in conversation.turns if turn.prompt is not None]
    stop = stored.builder.sessions[0].finished().stop
    assert stop is not None
    assert stop.title == "The conversation ends with a reply"
