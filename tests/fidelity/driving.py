"""Runs one script on the real CLI and on the simulated one, with the same host, and records what they send."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal

from hackamore import Options, sync
from hackamore.testing import SimulatedCLI
from hackamore.testing.errors import ScriptError
from hackamore.testing.model.environment import isolated_environment
from hackamore.testing.script.steps import UserSays
from tests.fidelity.frames import Recording
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hackamore._engine.launch import LaunchPlan
    from hackamore.testing import Script
    from hackamore.transports.base import AsyncTransport, SyncTransport
    from tests.fidelity.case import Case


ISOLATED = Options(env={"PATH": "/usr/bin:/bin", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, inherit_env=False)
"""Options for the simulated CLI."""


def real_options(cli: str, home: Path) -> Options:
    """Return options for the real CLI, isolated in a home."""
    environment = {name: value for name, value in isolated_environment("", home).items() if value is not None}
    environment |= {"LANG": "C.UTF-8", "IS_SANDBOX": "1", "PATH": "/usr/bin:/bin"}
    return Options(cli_path=cli, env=environment, inherit_env=False, version_check="skip")


class Tee:
    """A transport that writes down what passes, and sends other answers than its host, if a case has some."""

    def __init__(self, inner: SyncTransport, recording: Recording, answers: tuple[str, Any] | None) -> None:
        self._inner = inner
        self._recording = recording
        self._answers = answers
        self._asked: set[str] = set()
        self._rest = b""

    @property
    def pid(self) -> int | None:
        return self._inner.pid

    @property
    def stderr_tail(self) -> bytes:
        return self._inner.stderr_tail

    def abandon(self) -> None:
        self._inner.abandon()

    def start(self, plan: LaunchPlan) -> None:
        self._inner.start(plan)

    def send(self, data: bytes) -> None:
        if self._asked:
            data = b"".join(self._replaced(line) + b"\n" for line in data.splitlines())
        self._recording.sent += [frame for line in data.splitlines() if (frame := _frame(line)) is not None]
        self._inner.send(data)

    def end_input(self) -> None:
        self._inner.end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        data = self._inner.receive(timeout)
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
            frames = [frame for line in lines if (frame := _frame(line)) is not None]
            self._recording.received += frames
            self._asked |= {frame["request_id"] for frame in frames if self._replaces(frame)}
        return data

    def _replaces(self, frame: dict[str, Any]) -> bool:
        request = frame.get("request")
        if self._answers is None or frame.get("type") != "control_request" or not isinstance(request, dict):
            return False
        return self._answers[0] in (request["subtype"], request.get("input", {}).get("hook_event_name"))

    def _replaced(self, line: bytes) -> bytes:
        frame = _frame(line) or {}
        response = frame.get("response", {})
        if self._answers is None or response.get("request_id") not in self._asked:
            return line
        return json.dumps({**frame, "response": {**response, "response": self._answers[1]}}).encode()

    def wait_exit(self, timeout: float | None = None) -> int | None:
        code = self._inner.wait_exit(timeout)
        if code is not None:
            self._recording.exit_code = code
        return code

    def stop(self, *, turn_open: bool) -> None:
        self._inner.stop(turn_open=turn_open)


def _frame(line: bytes) -> dict[str, Any] | None:
    try:
        frame = json.loads(line)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None


class Teed:
    """A source of transports which write down what passes: around a local child, or around a source."""

    def __init__(
        self, recording: Recording, inner: SimulatedCLI | None, answers: tuple[str, Any] | None = None
    ) -> None:
        self._answers = answers
        self._recording = recording
        self.base = inner

    def around_async(self, child: AsyncTransport) -> AsyncTransport:
        raise AssertionError("recordings are made without an event loop")

    def around_sync(self, child: SyncTransport) -> SyncTransport:
        return Tee(child, self._recording, self._answers)

    def for_async(self) -> AsyncTransport:
        raise AssertionError("recordings are made without an event loop")

    def for_sync(self) -> SyncTransport:
        assert self.base is not None
        return Tee(self.base.for_sync(), self._recording, self._answers)


class Host:
    """What a case's own steps may use.

    Attributes:
        session: the session; None in a one-shot.
        folder: the working directory.
        real: whether this is the real CLI.
    """

    def __init__(self, script: Script, folder: Path, *, real: bool) -> None:
        self.script = script
        self.folder = folder
        self.real = real
        self.session: Any = None
        self.transport: Any = None
        self.sessions = ExitStack()
        self.options: Options = Options()
        self.asked = threading.Event()
        self.answer = threading.Event()

    def again(self, **changes: Any) -> None:
        """Start a session, with other options than the last one."""
        self.session = self.sessions.enter_context(
            sync.Session(self.options.replace(**changes), transport=self.transport)
        )

    def wait_for_file(self, name: str) -> None:
        """Wait until a tool of the real CLI has made a file; the simulated one makes none."""
        until = time.monotonic() + patience(20)
        while self.real and not (self.folder / name).exists():
            assert time.monotonic() < until
            threading.Event().wait(0.005)

    def prompts(self) -> list[str]:
        return [step.text or "go" for step in self.script.steps if isinstance(step, UserSays)] or ["go"]

    def talk(self) -> None:
        """Send every prompt of the script, each after the last one was answered and everything is quiet."""
        for prompt in self.prompts():
            self.session.send(prompt).result()
            self.session.wait_idle()

    def interrupt_when(self, condition: Callable[[Any], bool], prompt: str = "go") -> None:
        """Send a prompt and interrupt as soon as a message fits."""
        turn = self.session.send(prompt)
        for message in turn:
            if condition(message):
                break
        self.session.interrupt()
        turn.result()
        self.session.wait_idle()


How = Literal["real", "memory", "program"]


def play(case: Case, folder: Path, options: Options, *, how: How, home: Path) -> Recording:
    """Run a case; return what passed.

    Args:
        case: what is run.
        folder: the working directory, empty.
        options: isolated options; the real CLI's, or those for none.
        how: on the real CLI, on the simulated one in memory, or on it as a program.
        home: what is isolated: its path is not compared.
    """
    script = case.script(folder)
    recording = Recording()
    recording.places = [(str(folder), "<cwd>"), (str(folder).replace("/", "-"), "<cwd>"), (str(home), "<home>")]
    host = Host(script, folder, real=how == "real")
    # A CLI that ends because of an answer leaves steps of the script.
    with suppress(*((ScriptError,) if case.answers else ())), ExitStack() as stack:
        if how == "real":
            model = stack.enter_context(script.model())
            options = options.replace(env={**options.env, **model.env})
            transport = Teed(recording, None, case.answers)
        else:
            cli = stack.enter_context(SimulatedCLI(script, time_scale=0))
            transport = Teed(recording, cli if how == "memory" else None, case.answers)
            if how == "program":
                options = options.replace(cli_path=cli.install(folder.with_name("program")))
        host.options = options.replace(cwd=folder, **case.options(host))
        case.run(host, transport)
    return recording
