"""Names that Hackamore has as constants, against the pinned CLI: its program and a session of it."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import hackamore
import hackamore.sync
from hackamore import BUILTIN_TOOL_NAMES, Options
from hackamore.hooks import EXIT_REASONS, SessionEndHookInput
from hackamore.messages import InitMessage
from hackamore.testing import ScriptedModel
from tests.support.talking import got

if TYPE_CHECKING:
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


def test_the_program_names_each_tool_and_the_reasons_of_an_exit(claude_path: str) -> None:
    with Path(claude_path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
        assert [name for name in BUILTIN_TOOL_NAMES if program.find(f'"{name}"'.encode()) < 0] == []
        assert program.find(json.dumps(EXIT_REASONS, separators=(",", ":")).encode()) > 0


def test_a_session_has_no_other_tools_and_ends_for_a_known_reason(driving: Driving) -> None:
    ends: list[SessionEndHookInput] = []
    with ScriptedModel("Fine.") as model:
        answer = hackamore.sync.run("Hi", driving(model, hooks={"SessionEnd": lambda call, _: ends.append(call)}))
        (init,) = [message for message in answer.messages if isinstance(message, InitMessage)]
        offered = set(model.requests[0].tools)
    assert offered - {"DeferredToolPlaceholder"} <= set(
        BUILTIN_TOOL_NAMES
    )  # which stands for tools that `ToolSearch` loads
    assert set(init.tools) - {"Task"} <= set(BUILTIN_TOOL_NAMES)  # `Task` is what `Agent` was called before
    assert [end.reason for end in ends if end.reason not in EXIT_REASONS] == []


def test_settings_are_resolved_without_a_session(shell: Shell, real_cli: RealCLI, driving: Driving) -> None:
    """By the CLI itself, from its files and the options, lowest source first; the model is not asked."""
    project = real_cli.cwd / ".claude"
    project.mkdir()
    (project / "settings.json").write_text(json.dumps({"model": "opus", "cleanupPeriodDays": 9}))
    resolve = hackamore.sync.resolve_settings if shell.blocking else hackamore.resolve_settings

    async def scenario() -> None:
        with ScriptedModel() as model:
            report = await got(resolve(driving(model, settings={"model": "haiku"})))
            assert not model.requests
        assert (report.effective["model"], report.effective["cleanupPeriodDays"]) == ("haiku", 9)
        assert [source["source"] for source in report.sources] == ["projectSettings", "flagSettings"]
        assert isinstance(Options(settings=report.effective), Options)

    shell.play(scenario)
