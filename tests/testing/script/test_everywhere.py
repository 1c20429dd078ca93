"""One script, unchanged: in memory, as a program, and on the real CLI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Allow, Deny, HookMatcher, Options, sync, tool, tool_server
from hackamore.messages import ResultError
from hackamore.testing import Script, SimulatedCLI, UnexpectedModelRequestError
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RealCLI


class Agent:
    """The code under test: a hook, a permission rule of its own, a tool."""

    def __init__(self) -> None:
        self.trace: list[str] = []

        @tool
        def price(article: str) -> float:
            """Return a price."""
            self.trace.append(f"price of {article}")
            return 2.5

        self.options = Options(
            hooks={"PreToolUse": [HookMatcher(hooks=[self.watch])]},
            can_use_tool=self.decide,
            mcp_servers={"shop": tool_server("shop", [price])},
        )

    def watch(self, hook_input: Any, context: Any) -> None:
        self.trace.append(hook_input.tool_name)

    def decide(self, request: Any) -> Allow | Deny:
        return Deny("not the cache") if "cache" in str(request.input) else Allow()


def script() -> Script:
    script = Script().user("Buy tea and clean up").calls("mcp__shop__price", {"article": "tea"}).expect_result("2.5")
    script.calls("Bash", {"command": "rm -r cache"}).expect_permission("Bash", decision="deny")
    script.expect_hook("PreToolUse").expect_result("not the cache", error=True)
    return script.says("Tea costs 2.50, and the cache is still there.")


TRACE = ["mcp__shop__price", "price of tea", "Bash"]


def ask(agent: Agent, **changes: Any) -> str:
    transport = changes.pop("transport", None)
    return sync.run("Buy tea and clean up", agent.options.replace(**changes), transport=transport).text


def test_in_memory_in_less_than_fifty_milliseconds() -> None:
    times = []
    for _ in range(10):
        agent = Agent()
        began = time.perf_counter()
        with SimulatedCLI(script()) as cli:
            assert ask(agent, transport=cli).startswith("Tea costs")
        times.append(time.perf_counter() - began)
        assert agent.trace == TRACE
    assert min(times) < patience(0.05)


def test_as_a_program(tmp_path: Path) -> None:
    agent = Agent()
    with SimulatedCLI(script()) as cli:
        assert ask(agent, cli_path=cli.install(tmp_path)).startswith("Tea costs")
    assert agent.trace == TRACE


def test_on_the_real_cli(real_cli: RealCLI) -> None:
    agent = Agent()
    with script().model() as model:
        place: dict[str, Any] = {
            "cli_path": real_cli.cli_path,
            "cwd": real_cli.cwd,
            "env": real_cli.env(model),
            "inherit_env": False,
        }
        assert ask(agent, **place).startswith("Tea costs")
    assert agent.trace == TRACE


@pytest.mark.parametrize(
    ("expect", "shown"),
    [
        (lambda s: s.expect_result("something else"), "expect_result 'something else'"),
        (lambda s: s.expect_permission("Bash", decision="deny"), "error=True"),
    ],
)
def test_what_does_not_hold_is_noticed_on_the_real_cli(
    expect: Callable[[Script], object], shown: str, real_cli: RealCLI
) -> None:
    wrong = Script().user("go").calls("Bash", {"command": "echo hi"})
    expect(wrong)
    wrong.says("Done.")
    with pytest.raises((UnexpectedModelRequestError, ResultError)) as caught, wrong.model() as model:
        place: dict[str, Any] = {
            "cli_path": real_cli.cli_path,
            "cwd": real_cli.cwd,
            "env": real_cli.env(model),
            "inherit_env": False,
        }
        sync.run("go", Options(**place))
    assert shown in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
