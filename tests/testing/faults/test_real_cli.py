"""Faults around the pinned CLI: what the simulated one shows holds for the real one."""

from __future__ import annotations

from typing import Any

from hackamore import SessionClosedError
from hackamore.aio.session import Session as AsyncSession
from hackamore.hooks import HookMatcher
from hackamore.sync.session import Session as SyncSession
from hackamore.testing import Reply, ScriptedModel, ToolCall, with_faults
from hackamore.testing.faults import Corrupt, Cut, Delay, Insert, SlowReader, Split
from tests.real_cli.conftest import Driving, driving
from tests.support.leaks import alive
from tests.support.shell import Shell
from tests.support.talking import got, raised

__all__ = ["driving"]


def session_of(shell: Shell, options: Any, source: Any) -> Any:
    return SyncSession(options, transport=source) if shell.blocking else AsyncSession(options, transport=source)


def test_harmless_faults_change_nothing(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        seen: list[str] = []

        def hook(asked: Any, context: Any) -> None:
            seen.append(asked.tool_name)

        call = Reply(ToolCall("Bash", {"command": "echo naïve", "description": "say it"}))
        with ScriptedModel(call, "Done.", "Again.") as model:
            options = driving(
                model,
                hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},
                permission_mode="bypassPermissions",
                include_partial_messages=True,
            )
            source = with_faults(
                None,
                Split(None, most=400),
                Delay(0.0, jitter=0.001, direction="inbound"),
                SlowReader(500, 0.001),
                Corrupt(how="noise", probability=0.2),
                Insert("result", data={"type": "telepathy"}),
            )
            session = session_of(shell, options, source)
            await got(session.start())
            for text in ("Done.", "Again."):
                result = await got((await got(session.send("go"))).result())
                assert result.result == text
            await got(session.stop())
        assert seen == ["Bash"]
        assert session.exit_code == 0
        assert source.applied

    shell.play(scenario)


def test_a_cut_in_the_middle_of_a_frame_leaves_nothing(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("Hello.") as model:
            session = session_of(shell, driving(model), with_faults(None, Cut(matching="assistant", exit_code=-9)))
            await got(session.start())
            pid = session.pid
            assert alive(pid)
            turn = await got(session.send("go"))
            error = await raised(turn.result, SessionClosedError)
            assert (error.expected, error.exit_code) == (False, -9)
            await got(session.stop())
            assert not alive(pid)

    shell.play(scenario)
