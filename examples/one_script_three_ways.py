"""One script, three CLIs: simulated in memory, simulated as a process, and the real one with a scripted model."""

from __future__ import annotations

import tempfile
import time

import hackamore.sync
from hackamore import Allow, HookContext, HookMatcher, HookOutput, Options, hooks, tool
from hackamore.testing import Script, SimulatedCLI

PROMPT = "Tidy up. What does tea cost?"


@tool
def price(article: str) -> float:
    """Return the price of an article in euros."""
    return {"tea": 4.5}[article]


def no_deleting(call: hooks.PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    return HookOutput.deny("Nothing is deleted.") if "rm " in call.tool_input["command"] else None


def agent() -> Options:
    """The agent under test: a hook, a permission rule, a tool."""
    return Options(
        hooks={"PreToolUse": HookMatcher("Bash", no_deleting)},
        can_use_tool=lambda request: Allow(),
        mcp_servers={"shop": [price]},
    )


def script() -> Script:
    """What the user asks and the model does, and what must come of it."""
    lines = Script().user(PROMPT)
    lines.calls("Bash", {"command": "rm -r stock"}).expect_result("Nothing is deleted", error=True)
    lines.calls("mcp__shop__price", {"article": "tea"}).expect_result("4.5")
    return lines.says("4.50 euros.")


def in_memory() -> str:
    with SimulatedCLI(script()) as cli:
        return hackamore.sync.run(PROMPT, agent(), transport=cli).text


def as_a_process() -> str:
    with tempfile.TemporaryDirectory() as folder, SimulatedCLI(script()) as cli:
        return hackamore.sync.run(PROMPT, agent().replace(cli_path=cli.install(folder))).text


def on_the_real_cli() -> str:
    with tempfile.TemporaryDirectory() as folder, script().model() as model:
        return hackamore.sync.run(PROMPT, agent().replace(env=model.env, cwd=folder)).text


if __name__ == "__main__":
    in_memory()  # the first time loads the modules
    for way in (in_memory, as_a_process, on_the_real_cli):
        began = time.perf_counter()
        answer = way()
        print(f"{way.__name__:16} {answer}  ({(time.perf_counter() - began) * 1_000:.0f} ms)")
        assert answer == "4.50 euros."
