"""`Options(policy=...)` on the simulated CLI: the facts that it sees, the ways to pass it, and its decisions in spans and traces."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import hackamore
from hackamore import Budget, Options, tool
from hackamore.cli.flags import build_options
from hackamore.errors import OptionsError
from hackamore.policy import Policy, Rule, Verdict
from hackamore.testing import Script, ScriptError, SimulatedCLI, shell_commands
from hackamore.testing.policies import PolicyVerdicts, shapes
from tests.contract import shows
from tests.support.reaching import reached, reaching
from tests.telemetry.collecting import Collected, attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.shell import Shell

RULES = Policy(
    [
        Rule(name="no push", program="git", verb="push", decision="deny", reason="Pushing is for people."),
        Rule(name="git", program="git", verb=["status", "log"], decision="allow"),
        Rule(name="web", tool="WebSearch", decision="ask"),
        Rule(name="agents", tool=["Agent", "mcp__*"], decision="allow"),
    ]
)


def calls(*commands: str) -> Script:
    script = Script().user("Go.")
    for command in commands:
        script = script.calls("Bash", {"command": command})
    return script


class Noting:
    """A policy that notes the facts about each call."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, dict[str, Any]]] = []

    def decide(self, tool_name: str, tool_input: Mapping[str, Any], **around: Any) -> Verdict:
        self.facts.append((tool_name, around))
        return Verdict("allow", None, "All is fine.")


@shows("policy.enforced.facts")
def test_the_policy_sees_the_cost_the_tags_and_the_annotations(shell: Shell) -> None:
    @tool(annotations={"destructiveHint": True})
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    noting, budget = Noting(), Budget(usd=5, per={"tenant": 1.0, "user": None})
    options = Options(
        policy=noting,
        policy_tags={"tenant": "globex", "team": "a"},
        budget=budget.keyed(tenant="acme", user="ada"),
        mcp_servers={"my shop": [wipe]},
        cwd="/",
    )
    script = calls("ls").says("Half.").user("On.").calls("mcp__my_shop__wipe", {})
    script = script.subagent("look", Script().calls("Bash", {"command": "ls"}).says("found"), kind="finder").says(
        "Done."
    )

    async def scenario() -> None:
        prompts = iter(["Go.", "On."])
        await shell.query(prompts, options, transport=SimulatedCLI(script)).collect()

    shell.play(scenario)
    (first, early), *later = noting.facts
    assert (first, early["agent"], early["annotations"], early["person"]) == ("Bash", None, None, False)
    assert early["tags"] == {"tenant": "globex", "team": "a", "user": "ada"}
    wiped = next(around for name, around in later if name == "mcp__my_shop__wipe")
    assert wiped["annotations"]["destructiveHint"] is True
    assert wiped["spent"] > early["spent"] >= 0
    assert [around["agent"] for name, around in later if name == "Bash"] == ["finder"]


@shows("policy.seen.testing")
def test_denials_are_expected_in_scripts(shell: Shell, policy_verdicts: Any) -> None:
    watched = policy_verdicts(RULES)
    script = calls("git push").expect_denied(rule="no push").calls("Bash", {"command": "make"}).expect_denied()
    script = script.calls("Bash", {"command": "git status"}).says("Done.")

    async def scenario() -> None:
        await shell.run("Go.", Options(policy=watched), transport=cli)

    with SimulatedCLI(script) as cli:
        shell.play(scenario)
    assert isinstance(watched, PolicyVerdicts)
    assert watched.denied("no push") == [{"command": "git push"}]
    assert [call["command"] for call in watched.denied()] == ["git push", "make"]
    with pytest.raises(ScriptError), SimulatedCLI(calls("git push").expect_denied(rule="web").says("Done.")) as cli:
        shell.play(scenario)


@shows("policy.seen.testing")
@reaching
@given(shell_commands("rm important", nested=3))
def test_no_generated_command_is_allowed(command: str) -> None:
    allowed = sorted({"awk", "cat", "echo", "env", "find", "git", "ls", "sed", "tar", "xargs"})
    verdict = Policy([Rule(program=allowed, decision="allow")]).decide("Bash", {"command": command}, cwd="/srv")
    reached()
    assert verdict.decision == "ask"


def test_each_shape_has_its_payload_and_others_are_refused() -> None:
    assert all("important" in shape.around("rm important") for shape in shapes())
    for payload in ("rm", "rm a b", "rm 'a'", "rm $a"):
        with pytest.raises(ValueError, match=r"two words|one word"):
            shell_commands(payload)


@shows("policy.enforced.run")
def test_the_command_pools_and_maps_use_the_option(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[[rule]]\nname = "here"\ntool = "Write"\npath = "{repo}/**"\ndecision = "allow"\n')
    options = build_options({"policy": file, "cwd": str(tmp_path)}, partial=False)  # of `run` and `chat --policy FILE`
    assert isinstance(options.policy, Policy)
    assert options.policy.roots["repo"] == str(tmp_path)
    script = Script().user().calls("Write", {"file_path": "/etc/canary", "content": "x"}).expect_denied().says("Done.")

    async def mapped() -> None:
        async with shell.map(
            ["one", "two"], options.replace(cwd=None), transport=SimulatedCLI(script, per_session=True)
        ) as stream:
            assert [item.text async for item in stream] == ["Done.", "Done."]

    async def pooled() -> None:
        async with (
            hackamore.SessionPool(options.replace(cwd=None), transport=cli) as pool,
            pool.conversation("a") as session,
        ):
            await (await session.send("Go.")).result()

    shell.play(mapped)
    if not shell.blocking:
        with SimulatedCLI(script) as cli:
            shell.play(pooled)
    sent = pickle.loads(pickle.dumps(options.policy))  # as to workers of fleets in other processes
    assert sent.decide("Write", {"file_path": str(tmp_path / "a")}).rule == "here"
    with pytest.raises(OptionsError, match=r"Policy\.load"):
        Options(policy="policy.toml")  # type: ignore[arg-type]


@shows("policy.enforced.output")
def test_the_tool_of_an_output_format_is_allowed_unless_a_rule_names_it(shell: Shell) -> None:
    async def scenario(policy: Policy, answer: object) -> None:
        script = Script().user().calls("StructuredOutput", {"n": 5})
        if answer is None:
            script = script.expect_denied().says("No.")
        options = Options(policy=policy, output_format={"type": "json_schema", "schema": {"type": "object"}})
        result = await shell.run("Go.", options, transport=SimulatedCLI(script), check=False)
        assert result.result.structured_output == answer

    shell.play(scenario, Policy([]), {"n": 5})
    shell.play(scenario, Policy([Rule(tool="StructuredOutput", decision="deny")]), None)


@shows("policy.seen.spans")
@pytest.mark.parametrize("content", [True, False])
def test_the_span_of_the_hook_has_the_rule_and_with_content_the_part(shell: Shell, content: bool) -> None:
    collected = Collected()
    options = Options(policy=RULES, telemetry=collected.telemetry(content=content))

    async def scenario() -> None:
        await shell.run("Go.", options, transport=SimulatedCLI(calls("git status; git push").says("Done.")))

    shell.play(scenario)
    told = attributes(collected.one("hackamore.hook PreToolUse"))
    assert told["hackamore.decision"] == "deny"
    assert told["hackamore.decision.rule"] == "no push"
    assert told["hackamore.decision.reason"] == "policy"
    assert told["hackamore.policy.not_understood"] is False
    assert told.get("hackamore.policy.part") == ("git push" if content else None)


@shows("policy.seen.trace")
def test_a_trace_has_the_rule_the_part_and_the_change(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    options = Options(policy=RULES, trace=file)

    async def scenario() -> None:
        await shell.run("Go.", options, transport=SimulatedCLI(calls("git status; git push").says("Done.")))

    shell.play(scenario)
    text = file.read_text()
    assert "Policy, rule 'no push': Pushing is for people." in text
    assert "git push  ('no push'" in text
    assert "to change this" in text
