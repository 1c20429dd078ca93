"""The bench on which checks run a CLI, and the list of the checks.

The CLI is real; the model is a script on 127.0.0.1; home, configuration and working directory are temporary; the environment is not
inherited, and the key is not a real one. Nothing leaves the machine.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hackamore._engine.protocol.control import row_for
from hackamore._engine.protocol.control_table import Direction
from hackamore.errors import DecodeError
from hackamore.messages import ControlRequest, decode
from hackamore.options.bounds import Timeouts
from hackamore.testing.conformance.report import Failed
from hackamore.testing.faults import Delay, with_faults
from hackamore.testing.faults.flow import FrameStage, Item, Selection, Stage
from hackamore.testing.model.environment import isolated_options
from hackamore.transports.process.prepare import plan_for
from hackamore.transports.process.short_runs import run_with_descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from random import Random

    from hackamore.errors import StreamWarning
    from hackamore.options.options import Options
    from hackamore.sync import QueryStream, Session
    from hackamore.testing.faults import FaultySource
    from hackamore.testing.faults.kinds import Note
    from hackamore.testing.model.scripted_model import ScriptedModel


class _Listening(FrameStage):
    def __init__(self, see: Callable[[bytes], None]) -> None:
        super().__init__(Selection(None, None))
        self._see = see

    def chosen(self, frame: bytes) -> Iterable[Item]:
        self._see(frame)
        return [frame]


@dataclass(frozen=True)
class _Tap:
    """No fault: looks at every line that the CLI writes."""

    see: Callable[[bytes], None]
    direction: Literal["inbound"] = "inbound"

    def stage(self, random: Random, note: Note) -> Stage:
        return _Listening(self.see)


@dataclass
class Bench:
    """Where checks run a CLI: isolated, and with everything that it writes looked at."""

    cli_path: str
    folder: Path  # the folder that it sees as its machine
    seconds: float = 60.0  # how long an answer may take
    see: Callable[[bytes], None] | None = None  # called with each line of the CLI
    bad_lines: list[str] = field(default_factory=list)  # lines so far that are not frames
    dropped: Counter[str] = field(default_factory=Counter)  # warnings about fields of another shape than the class says
    unknown_requests: Counter[str] = field(default_factory=Counter)
    hooks: set[str] = field(default_factory=set)  # the hook events that fired so far
    facts: dict[str, Any] = field(default_factory=dict)  # facts that one check leaves for a later one

    @property
    def project(self) -> Path:
        """The working directory of the CLI."""
        return self.folder / "project"

    def options(self, model: ScriptedModel | None = None, **fields: Any) -> Options:
        """Return options for the CLI in its isolation."""
        # IS_SANDBOX: as root, which containers are, the CLI refuses to run tools unasked.
        return isolated_options(
            self.folder,
            self.cli_path,
            None if model is None else model.url,
            {
                "version_check": "skip",
                "timeouts": Timeouts(
                    turn=self.seconds,
                    initialize=self.seconds,
                    control=self.seconds / 2,
                    after_result=self.seconds / 4,
                    background=self.seconds / 2,
                ),
                "setting_sources": [],
                **fields,
                "env": {"IS_SANDBOX": "1", **fields.get("env", {})},
            },
        )

    def query(self, model: ScriptedModel, prompt: str = "Go", **fields: Any) -> QueryStream:
        """Return a one-shot whose lines are looked at."""
        from hackamore.sync import query

        return query(prompt, self.options(model, **fields), transport=self._tapped())

    def session(self, model: ScriptedModel, *, late: float = 0.0, **fields: Any) -> Session:
        """Return a session whose lines are looked at; the CLI gets `initialize` after `late` seconds."""
        from hackamore.sync import Session

        return Session(self.options(model, **fields), transport=self._tapped(late))

    def take(self, line: bytes) -> None:
        """Check one line of the CLI's output."""
        if self.see is not None:
            self.see(line)
        if not line.strip():
            return
        try:
            frame = decode(line.rstrip(b"\r\n"), self._warned)
        except DecodeError as error:
            self.bad_lines.append(str(error))
            return
        if isinstance(frame, ControlRequest):
            row = row_for(frame.subtype)
            if row is None or row.direction is Direction.HOST_TO_CLI:
                self.unknown_requests[str(frame.subtype)] += 1

    def _warned(self, warning: StreamWarning) -> None:
        self.dropped[str(warning)] += 1

    def _tapped(self, late: float = 0.0) -> FaultySource:
        return with_faults(None, _Tap(self.take), *([Delay(late, nth=1, direction="outbound")] if late else []))

    def run(self, *arguments: str, seconds: float = 30.0) -> subprocess.CompletedProcess[bytes]:
        """Run the CLI with these arguments and no input; raise `Failed` if it does not end."""
        plan, _ = plan_for(self.options(), "-", self.cli_path)
        program = plan.argv[: plan.program_length]
        try:
            return run_with_descendants(
                [*program, *arguments], seconds, env=plan.environment, cwd=plan.cwd, stderr=subprocess.PIPE
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"`{' '.join(arguments)}` had not ended after {seconds:g} s") from None


class CLICheck(NamedTuple):
    """One behaviour of the CLI, and how it is shown.

    Attributes:
        required: False for what Hackamore can do without.
        run: shows it, or raises; may return what was seen.
        needs: names of checks that must not have failed before.
    """

    group: str
    name: str
    behaviour: str
    required: bool
    run: Callable[[Bench], str | None]
    needs: tuple[str, ...] = ()


CLI_CHECKS: list[CLICheck] = []
# If one prompt gets no answer, further ones are not tried.
_NEEDS = {"one-shot": ("plain_answer",)} | dict.fromkeys(("session", "approvals", "control"), ("conversation",))


def cli_check(group: str, behaviour: str, *, required: bool = True) -> Callable[[Any], Any]:
    """Add a function to the checks."""

    def add(function: Callable[[Bench], str | None]) -> Any:
        name = function.__name__.lstrip("_")
        needs = (*(("version",) if name != "version" else ()), *_NEEDS.get(group, ()))
        CLI_CHECKS.append(
            CLICheck(group, name, behaviour, required, function, tuple(needed for needed in needs if needed != name))
        )
        return function

    return add
