"""Test an agent under pytest without any CLI: hooks, permission rules and tools, in milliseconds.

Run it with `pytest simulated_agent.py`. The same scripts run on the real CLI: see `testing_an_agent.py` and
docs/guides/testing/simulated-cli.md.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import hackamore.sync
from hackamore import Allow, Deny, Options, ProcessError, tool
from hackamore.testing import Script, ScriptError, SimulatedCLI


class Shopkeeper:
    """The code under test: an agent that buys, with a budget, and leaves a trace of its tools."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.trace: list[str] = []
        self.options = Options(
            hooks={"PreToolUse": self._note},
            can_use_tool=self._decide,
            mcp_servers={"shop": [self._make_tool()]},
        )

    def _make_tool(self) -> hackamore.Tool[..., str]:
        @tool
        def buy(article: str, price: float) -> str:
            """Buy an article."""
            self.budget -= price
            return f"bought {article}, {self.budget:.2f} left"

        return buy

    def _note(self, hook_input: object, context: object) -> None:
        self.trace.append(getattr(hook_input, "tool_name", ""))

    def _decide(self, request: hackamore.PermissionRequest) -> Allow | Deny:
        if request.tool_name != "mcp__shop__buy":
            return Deny("only the shop")
        return Allow() if request.input["price"] <= self.budget else Deny("too expensive")


def test_it_buys_what_it_can_afford() -> None:
    keeper = Shopkeeper(10)
    script = Script().user("Buy tea").calls("mcp__shop__buy", {"article": "tea", "price": 2.5})
    script.expect_permission("mcp__shop__buy", decision="allow").expect_result("7.50 left").says("Done.")
    with SimulatedCLI(script) as cli:
        assert hackamore.sync.run("Buy tea", keeper.options, transport=cli).text == "Done."
    assert (keeper.budget, keeper.trace) == (7.5, ["mcp__shop__buy"])


def test_it_buys_nothing_else() -> None:
    keeper = Shopkeeper(10)
    script = Script().user("Buy a car").calls("mcp__shop__buy", {"article": "car", "price": 9_000})
    script.expect_result("too expensive", error=True)
    script.calls("Bash", {"command": "rm -r /"}).expect_permission("Bash", decision="deny").says("No.")
    with SimulatedCLI(script) as cli:
        hackamore.sync.run("Buy a car", keeper.options, transport=cli)
    assert keeper.budget == 10


def test_a_crash_is_an_error() -> None:
    script = Script().user().crash(3, stderr="out of memory")
    with SimulatedCLI(script) as cli, pytest.raises(ProcessError, match="out of memory"):
        hackamore.sync.run("Buy tea", transport=cli)


def test_another_prompt_is_noticed() -> None:
    cli = SimulatedCLI(Script().user("Buy tea").says("Done."))
    with pytest.raises(hackamore.ResultError):
        hackamore.sync.run("Buy coffee", transport=cli)
    with pytest.raises(ScriptError, match="Buy coffee"):
        cli.check()


if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]))
