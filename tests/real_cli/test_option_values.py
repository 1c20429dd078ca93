"""What the values of options really do in the real CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hackamore.sync
from hackamore.testing import Reply, ScriptedModel, ToolCall

if TYPE_CHECKING:
    from tests.real_cli.conftest import Driving


def test_every_beta_that_the_cli_knows_is_sent(driving: Driving) -> None:
    with ScriptedModel("ok") as model:
        hackamore.sync.run("Hi", driving(model, betas=["context-1m-2025-08-07", "unknown-2025-01-01"]))
    assert "context-1m-2025-08-07" in model.requests_of("main")[0].headers["anthropic-beta"]


@pytest.mark.parametrize("rule", ["Bash(grep '\\(' x)", "Bash(grep x\\\\)", "Bash(echo $(date))", " Bash(touch:*) "])
def test_a_deny_rule_that_is_accepted_takes_no_other_with_it(rule: str, driving: Driving) -> None:
    with ScriptedModel("ok") as model:
        hackamore.sync.run("Hi", driving(model, disallowed_tools=[rule, "Write"]))
    assert "Write" not in {tool["name"] for tool in model.requests_of("main")[0].body["tools"]}


def test_every_rule_counts(driving: Driving) -> None:
    call = Reply(ToolCall("Bash", {"command": "touch a,b"}))
    with ScriptedModel(call, "done") as model:
        options = driving(model, allowed_tools=["Read", "Bash(touch a,b)"], disallowed_tools=["Write", "Edit"])
        answer = hackamore.sync.run("Hi", options)
    assert answer.result.permission_denials == []
    tools = {tool["name"] for tool in model.requests_of("main")[0].body["tools"]}
    assert not {"Write", "Edit"} & tools
