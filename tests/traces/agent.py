"""A run of the real CLI with everything that a trace can show: tools, edits, permissions, hooks, a subagent, a background task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hackamore
from hackamore import Options
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow, Deny
from hackamore.testing import Repeat, Reply, ScriptedModel, Thinking, ToolCall, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI

PROGRAM = "\n".join(f"def step_{number}(value):\n    return value + {number}\n" for number in range(12))
TASK = {
    "description": "Count the steps",
    "prompt": "Count the steps of program.py.",
    "subagent_type": "general-purpose",
}


def steps(calls: int, folder: Path, *, background: bool) -> list[Reply | Repeat]:
    program = str(folder / "program.py")
    fixed: list[Reply] = [
        Reply(
            Thinking("I will write the program first."),
            "I will write it.",
            ToolCall("Write", {"file_path": program, "content": PROGRAM}),
            usage=Usage(input_tokens=900, cache_creation_input_tokens=14_000, output_tokens=210),
        ),
        Reply(
            ToolCall(
                "Edit",
                {"file_path": program, "old_string": "return value + 3\n", "new_string": "return value * 3  # <b>\n"},
            ),
            usage=Usage(input_tokens=40, cache_read_input_tokens=14_900, output_tokens=80),
        ),
        Reply(ToolCall("Bash", {"command": "touch denied.txt", "description": "Try something"})),
        Reply(ToolCall("Agent", {**TASK, "run_in_background": False})),
        Reply(
            ToolCall(
                "Bash", {"command": "sleep 0.3; echo ready", "run_in_background": background, "description": "Wait"}
            ),
            usage=Usage(input_tokens=60, cache_read_input_tokens=16_000, output_tokens=95),
        ),
    ]
    rest = []
    for number in range(calls - 6):
        call = ToolCall("Bash", {"command": f"echo line {number}; seq {number % 40}", "description": f"Step {number}"})
        if number % 5 == 4:
            call = ToolCall("Read", {"file_path": program, "limit": number % 30 + 1})
        if number % 37 == 36:
            call = ToolCall("Bash", {"command": "ls /does/not/exist", "description": "A mistake"})
        texts = [f"Step {number} of the plan."] if number % 7 == 0 else []
        rest.append(
            Reply(
                *texts,
                call,
                usage=Usage(
                    input_tokens=40 + number % 13 * 9,
                    cache_read_input_tokens=16_000 + 160 * number,
                    cache_creation_input_tokens=300 if number % 9 == 0 else 0,
                    output_tokens=60 + number % 31 * 11,
                ),
            )
        )
    # A background task that ends late begins one more turn.
    return [*fixed, *rest, Reply("All steps are done: **12** of them.", usage=Usage(50, 400)), Repeat("It is ready.")]


async def hook(_given: Any, _context: Any) -> HookOutput | None:
    return None


async def permission(request: Any) -> Allow | Deny:
    if "denied" in str(request.input.get("command", "")):
        return Deny("Files named denied are not written.")
    return Allow()


async def run_agent(real_cli: RealCLI, trace: Path, calls: int = 200, *, background: bool = True) -> None:
    """Run it."""
    model = ScriptedModel(
        *steps(calls, real_cli.cwd, background=background),
        subagents={
            "Count the steps": [Reply(ToolCall("Bash", {"command": "grep -c def program.py"})), "There are 12."]
        },
    )
    with model:
        options = Options(
            cli_path=real_cli.cli_path,
            cwd=real_cli.cwd,
            env=real_cli.env(model),
            inherit_env=False,
            trace=trace,
            can_use_tool=permission,
            hooks={"PreToolUse": [HookMatcher("Bash", hook)], "PostToolUse": [HookMatcher(None, hook)]},
            allowed_tools=["Bash(echo:*)", "Bash(grep:*)"],
        )
        async with hackamore.Session(options) as session:
            turn = await session.send("Write a program with twelve steps, and try them.")
            await turn.result()
            await session.finish()
