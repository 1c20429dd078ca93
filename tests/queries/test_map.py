"""`map` on every shell: order, limits, errors, and agents that end whenever it is left."""

from __future__ import annotations

import gc
import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Options, OptionsError, ProcessError, ResultError, Retry, StreamWarning, sync
from hackamore.options.retry import CONTINUE
from hackamore.testing import Script, SimulatedCLI
from hackamore.transports.process.processes import descendants, identity
from tests.support.leaks import wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

NOW = Retry(backoff=0)
ANSWER = Script().user().says("Done.")


class Gates:
    """A hook that holds each prompt until the test lets it go; it knows which ones are at work."""

    def __init__(self, *held: str) -> None:
        self.seen: list[str] = []
        self.most = 0
        self._open = 0
        self._changed = threading.Condition()
        self._held = set(held)
        self.options = Options(hooks={"UserPromptSubmit": self.enter, "Stop": self.leave})

    def enter(self, given: Any, _: Any) -> None:
        with self._changed:
            self.seen.append(given.prompt)
            self._open += 1
            self.most = max(self.most, self._open)
            self._changed.notify_all()
            self._changed.wait_for(lambda: given.prompt not in self._held, patience(30))

    def leave(self, *_: Any) -> None:
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def release(self, *prompts: str) -> None:
        with self._changed:
            self._held.difference_update(prompts or list(self._held))
            self._changed.notify_all()

    def release_when(self, count: int, *prompts: str) -> threading.Thread:
        """Let prompts go, or all, when so many have come and no other one is at work."""

        def wait() -> None:
            with self._changed:
                assert self._changed.wait_for(
                    lambda: len(self.seen) >= count and self._open <= len(self._held), patience(30)
                )
            self.release(*prompts)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread


def prompts_of(cli: SimulatedCLI, answers: list[hackamore.RunResult[Any]]) -> list[str]:
    """Return the prompt of each answer: by its session."""
    prompts = {session.session_id: session.prompts[0] for session in cli.sessions()}
    return [prompts[answer.session_id or ""] for answer in answers]


def test_answers_come_in_the_order_of_the_prompts(shell: Shell) -> None:
    names = [f"prompt {number}" for number in range(7)]

    async def scenario() -> None:
        gates, cli = Gates(*names[:3]), SimulatedCLI(ANSWER, per_session=True)
        threads = [gates.release_when(3, *names[1:3]), gates.release_when(7)]  # the first one is answered last
        answers = [each async for each in shell.map(names, gates.options, workers=3, transport=cli)]
        for thread in threads:
            thread.join()
        assert prompts_of(cli, answers) == names
        assert gates.most == 3
        assert [answer.text for answer in answers] == ["Done."] * 7
        assert [answer.attempts for answer in answers] == [1] * 7

    shell.play(scenario)


def test_prompts_are_read_a_bounded_number_ahead(shell: Shell) -> None:
    async def scenario() -> None:
        read: list[int] = []

        def endless() -> Iterator[str]:
            for number in itertools.count():
                read.append(number)
                yield f"prompt {number}"

        gates = Gates("prompt 0")
        stream = shell.map(endless(), gates.options, workers=2, transport=SimulatedCLI(ANSWER, per_session=True))
        assert read == []
        async with stream:
            thread = gates.release_when(16)
            async for _ in stream:
                break
            thread.join()
        assert len(read) == 16
        assert gates.most == 2
        assert [each async for each in stream] == []

    shell.play(scenario)


def test_the_first_error_ends_the_rest(shell: Shell) -> None:
    async def scenario() -> None:
        gates = Gates("a", "c")
        stream = shell.map(
            ["a", "", "c", "d"], gates.options, workers=3, transport=SimulatedCLI(ANSWER, per_session=True)
        )
        with pytest.raises(OptionsError, match="empty"):
            async for _ in stream:
                pass
        assert [each async for each in stream] == []
        assert stream.wrapped._works.running == 0  # noqa: SLF001
        assert "d" not in gates.seen
        gates.release()

    shell.play(scenario)


def test_answers_before_an_error_are_given(shell: Shell) -> None:
    async def scenario() -> None:
        given = []
        stream = shell.map(["a", ""], workers=1, transport=SimulatedCLI(ANSWER, per_session=True))
        with pytest.raises(OptionsError, match="empty"):
            async for answer in stream:
                given.append(answer.text)
        assert given == ["Done."]

    shell.play(scenario)


def test_without_check_errors_stand_in_their_places(shell: Shell) -> None:
    async def scenario() -> None:
        cli = SimulatedCLI(ANSWER, per_session=True)
        answers = [each async for each in shell.map(["a", "", "c"], check=False, transport=cli)]
        assert [type(answer) for answer in answers] == [hackamore.RunResult, OptionsError, hackamore.RunResult]
        failing = SimulatedCLI(Script().user().api_error(400, "no"), per_session=True)
        errors = [each async for each in shell.map(["a", "b"], check=False, transport=failing)]
        assert [type(error) for error in errors] == [ResultError, ResultError]

    shell.play(scenario)


def test_a_prompt_of_a_wrong_type_ends_all(shell: Shell) -> None:
    async def scenario() -> None:
        wrong: Any = ["a", 5]
        with pytest.raises(TypeError):
            async for _ in shell.map(wrong, workers=1, check=False, transport=SimulatedCLI(ANSWER, per_session=True)):
                pass

    shell.play(scenario)


def test_an_error_of_the_prompts_ends_all(shell: Shell) -> None:
    def failing() -> Iterator[str]:
        yield "a"
        raise LookupError("no more")

    async def scenario() -> None:
        async with shell.map(failing(), workers=1, transport=SimulatedCLI(ANSWER, per_session=True)) as stream:
            with pytest.raises(LookupError, match="no more"):
                async for _ in stream:
                    pass

    shell.play(scenario)


def test_failed_attempts_are_repeated(shell: Shell) -> None:
    async def scenario() -> None:
        script = Script().user().api_error(529, "busy").user(CONTINUE).says("Done.")
        cli = SimulatedCLI(script, per_session=True)
        answers = [each async for each in shell.map(["a", "b", "c"], retry=NOW, transport=cli)]
        assert [answer.attempts for answer in answers] == [2, 2, 2]
        crashing = SimulatedCLI(Script().user().crash(), per_session=True)
        with pytest.raises(ProcessError) as caught:
            async for _ in shell.map(["a"], retry=None, transport=crashing):
                pass
        assert caught.value.attempts == 1

    shell.play(scenario)


def test_a_wait_before_another_attempt_ends_with_the_stream(shell: Shell) -> None:
    async def scenario() -> None:
        waiting = threading.Event()

        def told(warning: StreamWarning) -> None:
            if warning.code == "RETRYING":
                waiting.set()

        script = Script().user().api_error(529, "busy")
        stream = shell.map(
            ["a"],
            Options(on_warning=told),
            retry=Retry(backoff=10_000, max_delay=10_000),
            transport=SimulatedCLI(script, per_session=True),
        )

        async def read() -> list[Any]:
            return [each async for each in stream]

        async def close() -> None:
            while not waiting.is_set():
                await shell.let_others_run()
            await stream.close()

        given, closed = await shell.meanwhile(read, close)
        assert (given, closed) == ([], None)

    shell.play(scenario)


def test_answers_are_objects_of_a_type(shell: Shell) -> None:
    async def scenario() -> None:
        script = Script().user().calls("StructuredOutput", {"value": 4})
        answers = [
            each
            async for each in shell.map(["a", "b"], output_type=int, transport=SimulatedCLI(script, per_session=True))
        ]
        assert [answer.output for answer in answers] == [4, 4]

    shell.play(scenario)


def test_prompts_may_be_read_asynchronously() -> None:
    async def prompts() -> AsyncIterator[str]:
        for name in ("a", "b", "c"):
            await anyio.lowlevel.checkpoint()
            yield name

    async def scenario() -> None:
        cli = SimulatedCLI(ANSWER, per_session=True)
        answers = [each async for each in hackamore.map(prompts(), workers=2, transport=cli)]
        assert prompts_of(cli, answers) == ["a", "b", "c"]

    for backend in ("asyncio", "trio"):
        anyio.run(scenario, backend=backend)
    wrong: Any = prompts()
    with pytest.raises(TypeError, match="must be a list or an iterator of prompts"):
        sync.map(wrong)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"prompts": "one"}, "must be a list or an iterator of prompts, got 'one'"),
        ({"prompts": 5}, "must be a list or an iterator of prompts"),
        ({"prompts": {"a": "b"}}, "must be a list or an iterator of prompts"),
        ({"options": {}}, "`options` must be a hackamore.Options"),
        ({"workers": 0}, "`workers`"),
        ({"workers": "8"}, "`workers`"),
        ({"retry": 3}, "`retry` must be a hackamore.Retry"),
        ({"transport": object()}, "`transport` must be a `TransportSource`"),
        ({"options": Options(session_id="00000000-0000-4000-8000-000000000000")}, "`session_id`.*same session"),
        ({"options": Options(resume="00000000-0000-4000-8000-000000000000")}, "`resume`.*fork_session=True"),
        ({"options": Options(continue_conversation=True)}, "`continue_conversation`.*fork_session=True"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(arguments: dict[str, Any], expected: str) -> None:
    given = {"prompts": ["a"], **arguments}
    for function in (hackamore.map, sync.map):
        with pytest.raises((TypeError, OptionsError), match=expected):
            function(**given)


def test_each_prompt_may_fork_one_conversation() -> None:
    earlier = "00000000-0000-4000-8000-000000000000"
    cli = SimulatedCLI(ANSWER, sessions=[earlier], per_session=True)
    answers = list(sync.map(["a", "b"], Options(resume=earlier, fork_session=True), transport=cli))
    assert len({answer.session_id for answer in answers} | {earlier}) == 3


def test_the_other_shell_is_named() -> None:
    stream: Any = hackamore.map(["a"])
    with pytest.raises(TypeError, match="async for"):
        iter(stream).__next__()
    blocking: Any = sync.map(["a"])
    with pytest.raises(TypeError, match=r"hackamore\.map"):
        blocking.__aiter__()


# -- real processes ----------------------------------------------------------------------------------------------------


def hanging(folder: Path) -> Options:
    """Return options for CLIs that never answer."""
    program = SimulatedCLI(Script().user().hang(), per_session=True).install(folder)
    return Options(cli_path=program)


def test_leaving_the_block_ends_the_processes(shell: Shell, tmp_path: Path) -> None:
    async def scenario() -> None:
        stream = shell.map([f"prompt {number}" for number in range(5)], hanging(tmp_path / "cli"), workers=3)

        async def read() -> list[Any]:
            return [each async for each in stream]

        async def leave() -> None:
            async with stream:
                while stream.wrapped._works is None or stream.wrapped._works.running < 3:  # noqa: SLF001
                    await shell.let_others_run()

        given, left = await shell.meanwhile(read, leave)
        assert (given, left) == ([], None)
        assert stream.wrapped._works.running == 0  # noqa: SLF001

    shell.play(scenario)


def test_a_forgotten_stream_ends_its_processes(shell: Shell, tmp_path: Path) -> None:
    async def scenario() -> None:
        gates = Gates("b", "c")
        options = gates.options.replace(cli_path=SimulatedCLI(ANSWER, per_session=True).install(tmp_path / "cli"))
        stream = shell.map(["a", "b", "c"], options, workers=3)
        async for answer in stream:
            assert answer.text == "Done."
            break
        works = stream.wrapped._works  # noqa: SLF001
        del stream
        gc.collect()
        while works.running:
            await shell.let_others_run()
        gates.release()

    shell.play(scenario)


def test_cancelling_the_reader_ends_the_processes(tmp_path: Path) -> None:
    async def scenario(folder: Path) -> None:
        stream = hackamore.map(["a", "b"], hanging(folder), workers=2)
        async with anyio.create_task_group() as group:

            async def read() -> None:
                async with stream:
                    async for _ in stream:
                        pass

            group.start_soon(read)
            while stream._works is None or stream._works.running < 2:  # noqa: SLF001
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert stream._works is not None  # noqa: SLF001
        assert stream._works.running == 0  # noqa: SLF001

    for backend in ("asyncio", "trio"):
        anyio.run(scenario, tmp_path / backend, backend=backend)


PROGRAM = """
import os
import sys
import anyio
import hackamore
from hackamore import Options, sync

def works(*_):  # in one piece: two threads write
    os.write(1, b"works\\n")

options = Options(cli_path=sys.argv[2], hooks={"UserPromptSubmit": works})

async def main():
    async for _ in hackamore.map(["a", "b"], options):
        pass

try:
    if sys.argv[1] == "threads":
        for _ in sync.map(["a", "b"], options):
            pass
    else:
        anyio.run(main, backend=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a program after a test that failed."""
    try:
        yield
    except BaseException:
        process.kill()
        raise


def test_an_interrupt_ends_the_processes(shell: Shell, tmp_path: Path) -> None:
    program = SimulatedCLI(Script().user().hang(), per_session=True).install(tmp_path / "cli")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, shell.backend, str(program)], stdout=subprocess.PIPE, text=True
    )
    with process, ended(process):
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["works\n", "works\n"]
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(patience(30)) == 0
    assert len(children) > 2  # two CLIs and the watchdog
    for who in children:
        wait_gone(who[0], patience(15))
        assert identity(who[0]) != who
