"""Type checkers find wrong hooks, callbacks, options and first turns: `mypy --strict` on one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

PROGRAM = """
from typing import Any

import hackamore
from hackamore import Allow, Deny, HookContext, HookMatcher, HookOutput, Options, PermissionMode, PermissionRequest
from hackamore.hooks import HookInput, Hooks, PostToolUseHookInput, PreToolUseHookInput, StopHookInput


def guard(call: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    return None


async def later(call: PreToolUseHookInput, context: HookContext) -> dict[str, Any]:
    return {}


def at_stop(call: StopHookInput, context: HookContext) -> None:
    return None


def at_all(call: HookInput, context: HookContext) -> HookOutput:
    return HookOutput.proceed()


def says_bool(call: PreToolUseHookInput, context: HookContext) -> bool:
    return True


def permit(request: PermissionRequest) -> Allow | Deny:
    return Allow()


async def permit_later(request: PermissionRequest) -> Allow:
    return Allow()


def permit_bool(request: PermissionRequest) -> bool:
    return True


Options(hooks={"PreToolUse": guard})
Options(hooks={"PreToolUse": [guard, later, at_all], "Stop": at_stop})
Options(hooks={"PreToolUse": [HookMatcher("Bash", guard), HookMatcher(hooks=[guard, later])], "PostToolUse": at_all})
hooks: Hooks = {"Stop": [at_stop, HookMatcher(hooks=at_all)]}
Options(hooks=hooks, can_use_tool=permit)
Options(can_use_tool=permit_later, extra_args={"a": None, "b": "x", "c": ["1", "2"]}, mcp_servers={"shop": []})
mode: PermissionMode = "plan"
Options(permission_mode=mode)


async def first_turns() -> None:
    prompted = await hackamore.start_session("hi")
    print((await prompted.first_turn.result()).text)
    async with hackamore.start_session("hi") as entered:
        turn: hackamore.Turn = entered.first_turn
    silent = await hackamore.start_session()
    print(silent.first_turn.id)  # wrong


async def answers(check: bool) -> None:
    number: int = (await hackamore.run("hi", output_type=int)).output
    turns: int = (await hackamore.run("hi", check=False)).result.num_turns
    async with hackamore.Session(Options(output_format=int | None)) as session:
        asked: hackamore.RunResult[int] = await session.ask("hi", output_type=int)
        turns = asked.result.num_turns
        perhaps: int | None = (await session.ask("hi", output_type=int, check=check)).output
        number = (await session.ask("hi", output_type=int, check=check)).output  # wrong
        number = (await hackamore.run("hi", output_type=int, check=False)).output  # wrong
        text: str = asked.output  # wrong
    with hackamore.sync.Session(Options(output_format=int)) as blocking:
        number = blocking.ask("hi", output_type=int).output


Options(output_format="json")  # wrong
Options(hooks={"Stop": guard})  # wrong
Options(hooks={"Stop": HookMatcher(hooks=[guard])})  # wrong
Options(hooks={"PreToolUs": guard})  # wrong
Options(hooks={"PreToolUse": says_bool})  # wrong
Options(can_use_tool=permit_bool)  # wrong
Options(can_use_tool=guard)  # wrong
Options(permission_mode="yolo")  # wrong
Options(modle="x")  # wrong
Options("sonnet")  # wrong
Options(max_turns="five")  # wrong
other: PermissionMode = "yolo"  # wrong
"""


@pytest.mark.timeout(300)
def test_type_checkers_find_wrong_hooks_callbacks_and_options(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(program)],
        cwd=tmp_path,
        env={"MYPYPATH": str(PROJECT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(line) for line in re.findall(r"^program\.py:(\d+): error:", done.stdout, re.MULTILINE)}
    wanted = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wanted, done.stdout
