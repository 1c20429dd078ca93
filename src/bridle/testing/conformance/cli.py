"""`check_cli`: what Bridle relies on in a Claude Code CLI, and where that CLI drifts from what Bridle knows.

The CLI is real; the model is a script on 127.0.0.1; home, configuration and working directory are temporary; the environment is not
inherited, and the key is no key. Nothing leaves the machine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bridle.launch import MINIMUM_SESSION, find_cli, parse_version
from bridle.options.bounds import Timeouts
from bridle.testing.conformance.drift import Drift
from bridle.testing.conformance.report import Failed, Finding, Report, Skipped, Status
from bridle.testing.errors import ScriptError
from bridle.testing.faults import with_faults
from bridle.testing.faults.flow import FrameStage, Item, Selection, Stage
from bridle.testing.model.isolation import isolated_options
from bridle.transports.process.short_runs import run_with_descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from bridle.options.options import Options
    from bridle.sync import QueryStream, Session
    from bridle.testing.faults import FaultySource
    from bridle.testing.faults.frames import Note
    from bridle.testing.model.scripted_model import ScriptedModel

__all__ = ["CLI_CHECKS", "Bench", "CLICheck", "check_cli", "cli_check"]


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
        """Return its stage."""
        return _Listening(self.see)


@dataclass
class Bench:
    """Where checks run a CLI: isolated, and with everything that it writes looked at.

    Attributes:
        cli_path: the CLI.
        folder: what it sees as its machine.
        drift: what was seen so far that is not modelled.
        hooks: the hook events that fired so far.
        facts: what one check found out for a later one.
        seconds: how long an answer may take.
    """

    cli_path: str
    folder: Path
    seconds: float = 60.0
    drift: Drift = field(default_factory=Drift)
    hooks: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)

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
            model,
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
        from bridle.sync import query

        return query(prompt, self.options(model, **fields), transport=self._tapped())

    def session(self, model: ScriptedModel, **fields: Any) -> Session:
        """Return a session whose lines are looked at."""
        from bridle.sync import Session

        return Session(self.options(model, **fields), transport=self._tapped())

    def _tapped(self) -> FaultySource:
        return with_faults(None, _Tap(self.drift.see))

    def run(self, *arguments: str, seconds: float = 30.0) -> subprocess.CompletedProcess[bytes]:
        """Run the CLI with these arguments and no input.

        Raises:
            Failed: it did not end.
        """
        from bridle.launch import build_plan

        options = self.options()
        plan = build_plan(options, prompt="-", cli_path=self.cli_path, session=False, base_environment={}, child_id="")
        program = plan.argv[: plan.program_length]
        try:
            return run_with_descendants(
                [*program, *arguments], seconds, env=plan.environment, cwd=plan.cwd, stderr=subprocess.PIPE
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"`{' '.join(arguments)}` had not ended after {seconds:g} s") from None


class Drifted(Exception):  # noqa: N818 - it ends a check, and reaches nobody
    """It works, but not as Bridle knows it; the text says how."""


class CLICheck(NamedTuple):
    """One behaviour of the CLI, and how it is shown.

    Attributes:
        group: what it belongs to.
        name: of the check.
        behaviour: what is expected.
        required: False for what Bridle can do without.
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
# Where one prompt is not answered, no more are waited for.
_NEEDS = {"one-shot": ("plain_answer",), "session": ("conversation",), "control": ("conversation",)}


def cli_check(group: str, behaviour: str, *, required: bool = True) -> Callable[[Any], Any]:
    """Add a function to the checks."""

    def add(function: Callable[[Bench], str | None]) -> Any:
        name = function.__name__
        needs = (*(("version",) if name != "version" else ()), *_NEEDS.get(group, ()))
        CLI_CHECKS.append(
            CLICheck(group, name, behaviour, required, function, tuple(needed for needed in needs if needed != name))
        )
        return function

    return add


def check_cli(
    cli_path: str | os.PathLike[str] | None = None,
    *,
    only: Sequence[str] = (),
    seconds: float = 60.0,
    on_finding: Callable[[Finding], object] | None = None,
) -> Report:
    """Return what a CLI does of what Bridle relies on, and where it drifts.

    It takes about half a minute. No account is used and nothing leaves the machine.

    Args:
        cli_path: the CLI; it is looked for otherwise.
        only: names of checks, or of groups of them, if not all are wanted.
        seconds: how long an answer may take.
        on_finding: called with each finding as it is made.

    Raises:
        CLINotFoundError: there is no CLI there.
    """
    from bridle.testing.conformance import behaviours, drift_findings  # add the checks

    found = find_cli(cli_path, os.environ, os.path.expanduser("~")).path
    report = Report(f"Claude Code CLI {found}")
    checks = [check for check in CLI_CHECKS if not only or check.name in only or check.group in only]
    assert behaviours.__all__ and drift_findings.__all__  # noqa: S101, PT018 - loaded for their checks
    with tempfile.TemporaryDirectory(prefix="bridle-conformance-", ignore_cleanup_errors=True) as folder:
        bench = Bench(found, Path(folder), seconds)
        failed: set[str] = set()
        for check in checks:
            status, detail, took = _run(bench, check, failed)
            if status == "fails":
                failed.add(check.name)
            finding = Finding(check.group, check.name, check.behaviour, status, detail, check.required, seconds=took)
            report.findings.append(finding)
            if on_finding is not None:
                on_finding(finding)
        version = bench.facts.get("version")
    if version:
        report.subject += f", version {version}"
    return report


def _run(bench: Bench, check: CLICheck, failed: set[str]) -> tuple[Status, str, float]:
    missing = failed.intersection(check.needs)
    if missing:
        return "skipped", f"the check {sorted(missing)[0]} failed", 0.0
    began = time.monotonic()
    status: Status = "holds"
    detail = ""
    try:
        detail = check.run(bench) or ""
    except Skipped as reason:
        status, detail = "skipped", str(reason)
    except Drifted as reason:
        status, detail = "drift", str(reason)
    except Failed as failure:
        status, detail = "fails", str(failure)
    except ScriptError as error:
        status, detail = "fails", f"the CLI asked its model for something else: {error}"
    except Exception as error:  # whatever an odd CLI makes of a check is told, and does not end the others
        status, detail = "fails", f"{type(error).__name__}: {error}"
    return status, detail, round(time.monotonic() - began, 2)


@cli_check("start", f"`--version` says a version, {'.'.join(map(str, MINIMUM_SESSION))} or newer")
def version(bench: Bench) -> None:
    """Ask for the version."""
    done = bench.run("--version")
    said = done.stdout.decode("utf-8", "replace").strip()
    found = parse_version(said)
    if found is None:
        raise Failed(f"it printed {said[:200]!r} and exited with {done.returncode}")
    bench.facts["version"] = ".".join(map(str, found))
    if found < MINIMUM_SESSION:
        raise Failed(f"it is {bench.facts['version']}")
