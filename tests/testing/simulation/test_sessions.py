"""One script for each session: counts of sessions, processes that are killed, and any number of processes at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options, RateLimitedError, Retry, sync, tool
from hackamore.errors import HackamoreError, ProcessError, SessionNotFoundError
from hackamore.testing import Script, ScriptError, SimulatedCLI, SimulatedSession
from tests.support.patience import patience
from tests.support.query_fixtures import leaves_nothing, shell
from tests.support.seeds import seeded
from tests.support.talking import raised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.support.shell import Shell

__all__ = ["leaves_nothing", "shell"]

A_REPLY = 0.00014
"""The price of a reply, in US dollars."""


def new_id() -> str:
    return str(uuid.uuid4())


@pytest.fixture(params=["simulated", "real"])
def on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Script], Options]]:
    """Return a function: the options by which a script runs as a program, on the simulated CLI and on the real one."""
    left: list[Any] = []

    def options(script: Script) -> Options:
        if request.param == "simulated":
            cli = SimulatedCLI(script, per_session=True)
            left.append(cli)
            return Options(cli_path=cli.install(tmp_path / "cli", real_tools=True), permission_mode="bypassPermissions")
        real: RealCLI = request.getfixturevalue("real_cli")
        model = script.model()
        left.append(model)
        model.__enter__()
        place: dict[str, Any] = {"cli_path": real.cli_path, "cwd": real.cwd, "env": real.env(model)}
        return Options(inherit_env=False, permission_mode="bypassPermissions", **place)

    yield options
    for kept in left:
        if isinstance(kept, SimulatedCLI):
            kept.check()
        else:
            kept.__exit__(None, None, None)


# -- the same on the real CLI -------------------------------------------------------------------------------------------


def test_a_process_killed_during_a_tool_is_resumed_where_it_was(on: Callable[[Script], Options]) -> None:
    """The rest of the turn answers the next prompt, and the total forgets what the killed process has cost."""
    processes: list[sync.Session] = []

    @tool
    def die() -> str:
        """Kill the CLI."""
        pid = processes[-1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return "never"

    script = Script().user("one").says("One.").user("two").calls("mcp__life__die", {}).says("Gone on.")
    options = on(script).replace(session_id=new_id(), mcp_servers={"life": [die]})
    first = sync.Session(options)
    processes.append(first)
    with pytest.raises(HackamoreError, match="SIGKILL"), first:
        assert first.send("one").result().total_cost_usd == pytest.approx(A_REPLY)
        first.send("two").result()
    with sync.Session(options.replace(session_id=None, resume=options.session_id)) as second:
        result = second.send("continue").result()
    assert (result.result, result.session_id) == ("Gone on.", options.session_id)
    assert result.total_cost_usd == pytest.approx(A_REPLY)


def test_a_command_that_ends_with_its_process_is_not_followed_by_a_reply(on: Callable[[Script], Options]) -> None:
    script = Script().user().calls("Bash", {"command": "kill -TERM $PPID; kill -TERM $$"}).says("Done.")
    options = on(script).replace(session_id=new_id())
    with pytest.raises(ProcessError):
        sync.run("Begin", options)
    assert sync.run("Go on", options.replace(session_id=None, resume=options.session_id)).text == "Done."


def test_totals_go_on_after_an_orderly_end_and_not_after_a_kill(on: Callable[[Script], Options]) -> None:
    options = on(Script().user().says("1").user().says("2").user().says("3")).replace(session_id=new_id())
    again = options.replace(session_id=None, resume=options.session_id)
    costs = []
    for place, kill in ((options, False), (again, True), (again, False)):
        session = sync.Session(place)
        with session:
            costs.append(session.send("go").result().total_cost_usd)
            if kill:
                assert session.pid is not None
                os.kill(session.pid, signal.SIGKILL)
                with pytest.raises(HackamoreError, match="SIGKILL"):
                    session.finish()
    assert costs == pytest.approx([A_REPLY, 2 * A_REPLY, 2 * A_REPLY])


def test_a_session_without_a_prompt_does_not_exist(on: Callable[[Script], Options]) -> None:
    options = on(Script().user("go").says("Here.")).replace(session_id=new_id())
    again = options.replace(session_id=None, resume=options.session_id)
    with sync.Session(options) as session:
        assert session.pid is not None
    with pytest.raises(SessionNotFoundError):
        sync.run("go", again)
    assert sync.run("go", options).text == "Here."
    with pytest.raises(ProcessError, match="already in use"):
        sync.run("go", options)


def test_a_limit_of_the_plan_ends_the_turn(on: Callable[[Script], Options]) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    options = on(Script().user("go").usage_limited(resets_at))
    login = {"ANTHROPIC_API_KEY": None, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-of-a-test"}
    with pytest.raises(RateLimitedError) as caught:
        sync.run("go", options.replace(env={**(options.env or {}), **login}))
    error = caught.value
    assert (error.resets_at, error.kind, error.retryable) == (resets_at, "five_hour", True)
    assert (error.result.api_error, error.result.api_error_status) == ("usage_limit_reached", 429)
    clock = f"{resets_at:%I:%M%p}".lstrip("0").replace(":00", "").lower()
    assert error.result.text == f"You've hit your 5-hour limit · resets {clock} (UTC)"


def test_prompts_before_the_reset_fail_in_every_session(tmp_path: Path) -> None:
    resets_at = datetime.now(UTC) + timedelta(hours=1)
    cli = SimulatedCLI(Script().user().usage_limited(resets_at, kind="seven_day").says("Done."), per_session=True)
    options = Options(cli_path=cli.install(tmp_path))
    for _ in range(2):
        with pytest.raises(RateLimitedError) as caught:
            sync.run("go", options)
        with pytest.raises(RateLimitedError, match="'seven_day' resets at"):
            sync.run("go on", options.replace(resume=caught.value.session_id))
    assert [(session.prompts, session.replies, session.finished) for session in cli.sessions()] == [
        (("go", "go on"), 0, False)
    ] * 2
    with pytest.raises(ValueError, match="time zone"):
        Script().usage_limited(datetime(2026, 1, 1))


@pytest.mark.parametrize("follows", [True, False])
def test_a_limit_that_has_reset_has_no_effect(*, follows: bool) -> None:
    """The next prompt takes the next `user` step, or is answered by the rest of the turn."""
    resets_at = datetime.now(UTC) + timedelta(seconds=patience(0.5))
    script = Script().user("go").usage_limited(resets_at)
    with SimulatedCLI(script.user().says("Done.") if follows else script.says("Done.")) as cli:
        first = sync.run("go", transport=cli, check=False)
        assert first.result is not None
        assert first.result.rate_limit is not None
        again = Options(resume=first.session_id)
        answer = sync.run("go on", again, transport=cli, retry=Retry(attempts=3, backoff=0))
    assert answer.text == "Done."
    with SimulatedCLI(Script().user().usage_limited(datetime.now(UTC)).says("Done.")) as cli:
        assert sync.run("go", transport=cli).text == "Done."


# -- counts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_program", [False, True])
def test_sessions_are_counted(shell: Shell, tmp_path: Path, *, as_program: bool) -> None:
    script = Script().user("one").calls("Bash", {"command": "ls"}).says("One.").user("two").says("Two.")
    cli = SimulatedCLI(script, per_session=True)
    options = Options(permission_mode="bypassPermissions", cli_path=cli.install(tmp_path) if as_program else None)
    transport = None if as_program else cli

    async def scenario() -> None:
        assert cli.sessions() == []
        ids = [(await shell.run("one", options, transport=transport)).session_id for _ in range(3)]
        assert [session.finished for session in cli.sessions()] == [False] * 3
        with pytest.raises(ScriptError, match="'two'"):
            cli.check()
        for session_id in ids:
            await shell.run("two", options.replace(resume=session_id), transport=transport)
        cli.check()
        unknown = options.replace(resume="unknown")
        await raised(lambda: shell.run("two", unknown, transport=transport), SessionNotFoundError)
        assert [(session.session_id, session.prompts, session.replies) for session in cli.sessions()] == [
            (session_id, ("one", "two"), 3) for session_id in ids
        ]
        newest = options.replace(continue_conversation=True)
        last = await shell.run("three", newest, transport=transport, check=False)
        assert last.session_id == ids[-1]
        with pytest.raises(ScriptError, match="'three' came after the end"):
            cli.check()

    shell.play(scenario)


def test_a_fork_goes_on_in_a_session_of_its_own(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script().user("one").says("One.").user("two").says("Two."), per_session=True)
    options = Options(cli_path=cli.install(tmp_path))
    first = sync.run("one", options).session_id
    assert sync.run("two", options.replace(resume=first, fork_session=True)).text == "Two."
    assert sync.run("two", options.replace(resume=first)).text == "Two."
    cli.check()
    assert [(session.prompts, session.replies) for session in cli.sessions()] == [(("one", "two"), 2), (("two",), 1)]


def test_earlier_sessions_can_be_resumed(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script().user("one").says("One."), per_session=True, sessions=["earlier", "../odd"])
    options = Options(cli_path=cli.install(tmp_path / "cli"))
    for session_id in ("earlier", "../odd"):
        assert sync.run("one", options.replace(resume=session_id)).session_id == session_id
    assert [session.session_id for session in cli.sessions()] == ["../odd", "earlier"]
    assert [path.name for path in tmp_path.iterdir()] == ["cli"]


# -- kills --------------------------------------------------------------------------------------------------------------


class Client:
    """A process of the program, line by line."""

    def __init__(self, program: Path, *arguments: str) -> None:
        flags = ["--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        self.process = subprocess.Popen(
            [program, *flags, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def send(self, prompt: str) -> None:
        assert self.process.stdin is not None
        frame = {"type": "user", "message": {"role": "user", "content": prompt}}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def replies(frames: list[dict[str, Any]]) -> set[str]:
    return {frame["message"]["id"] for frame in frames if frame["type"] == "assistant"}


def test_storms_of_kills_lose_no_count(tmp_path: Path) -> None:
    """Each session is killed at random moments and resumed, until it is finished; the count is never below what was seen."""
    script = Script(forever=True).user().calls("Bash", {"command": "ls"}, result="x").slow(1)
    cli = SimulatedCLI(script.calls("Bash", {"command": "pwd"}).slow(1).says("Done."), per_session=True)
    program = cli.install(tmp_path)

    def serve(number: int) -> tuple[str, int, int, int]:
        chance = random.Random(seeded(number))
        session_id, begun, processes, prompts, seen = new_id(), False, 0, 0, 0
        while True:
            client = Client(program, *(("--resume", session_id) if begun else ("--session-id", session_id)))
            processes += 1
            frames: list[dict[str, Any]] = []
            lines = chance.randrange(8)
            if lines:  # else it is killed during its start
                client.send("go")
                prompts += 1
            while len(frames) < lines and (frame := client.receive()) is not None:
                frames.append(frame)
                begun = begun or frame["type"] == "assistant"
                if frame["type"] == "result":
                    assert not frame["is_error"], frame
                    client.kill()
                    return session_id, seen + len(replies(frames)), processes, prompts
            client.kill()
            seen += len(replies(frames))
            counted = next((session for session in cli.sessions() if session.session_id == session_id), None)
            assert seen <= (0 if counted is None else counted.replies)
            begun = counted is not None and counted.prompts != ()

    with ThreadPoolExecutor(4) as pool:
        served = {session_id: rest for session_id, *rest in pool.map(serve, range(8))}
    cli.check()
    found = cli.sessions()
    assert sorted(served) == [session.session_id for session in found]
    for session in found:
        seen, processes, prompts = served[session.session_id]
        assert session.finished
        assert max(seen, 3) <= session.replies
        assert session.cost_usd == pytest.approx(session.replies * A_REPLY)
        assert session.processes <= processes
        assert len(session.prompts) <= prompts


def test_a_script_for_ever_begins_again_after_a_kill_behind_its_end(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script(forever=True).user().says("Done."), per_session=True)
    program, session_id = cli.install(tmp_path), new_id()
    client = Client(program, "--session-id", session_id)
    client.send("go")
    while (frame := client.receive()) is not None and frame["type"] != "assistant":
        pass
    client.kill()  # its state has the result, and the host has not seen it
    again = sync.run("go on", Options(cli_path=program, resume=session_id))
    assert again.text == "Done."
    assert cli.sessions() == [
        SimulatedSession(
            session_id=session_id,
            prompts=("go", "go on"),
            replies=2,
            input_tokens=20,
            output_tokens=10,
            cost_usd=2 * A_REPLY,
            processes=2,
            finished=True,
        )
    ]


def test_two_processes_of_one_session_add_their_counts(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script(forever=True).user().says("Done."), per_session=True)
    program = cli.install(tmp_path)
    session_id = sync.run("go", Options(cli_path=program)).session_id
    clients = [Client(program, "--resume", str(session_id)) for _ in range(3)]
    for number in range(4):
        for client in clients:
            client.send(f"prompt {number}")
        for client in clients:
            while (frame := client.receive()) is not None and frame["type"] != "result":
                pass
    for client in clients:
        client.kill()
    [session] = cli.sessions()
    assert (session.replies, session.processes, len(session.prompts)) == (13, 4, 13)
    assert session.cost_usd == pytest.approx(13 * A_REPLY)


def test_a_session_begins_without_a_look_at_the_others() -> None:
    looks = []

    class Others(dict[str, Any]):
        def values(self) -> Any:
            looks.append(len(self))
            return super().values()

    cli = SimulatedCLI(Script().user("one").says("One."), per_session=True)
    cli._runs = Others()  # noqa: SLF001 - counts the looks
    for _ in range(2):
        assert sync.run("one", transport=cli).text == "One."
    assert looks == []
