"""The question for the version: what a program may answer, and what of it is told."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hackamore import Limits, Options, Timeouts
from hackamore._engine.launch import LaunchPlan, VersionFailure
from hackamore.errors import SpawnError
from hackamore.transports.process.prepare import Preparation, ask_version, child_settings, known_versions
from hackamore.transports.process.short_runs import ShortRun
from tests.support.leaks import nothing_left
from tests.support.patience import patience

SECRET = "hunter2-hunter2"


def plan(script: str) -> LaunchPlan:
    return LaunchPlan(
        argv=("/bin/sh", "-c", script, "--print"),
        environment={"SHOP_TOKEN": SECRET, "PATH": os.defpath},
        program_length=3,
        owners=("",) * 4,
    )


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ('echo "2.1.330 (Claude Code) $0"', "2.1.330 (Claude Code) --version\n"),
        ("echo 2.1.330 >&2", "2.1.330\n"),
        ("echo 2.1.330; exit 3", "2.1.330\n"),
        ("echo log in with $SHOP_TOKEN", "log in with <masked>\n"),
        ("printf 'caf\\351'", "caf\ufffd"),
        ("", ""),
        ("exit 3", VersionFailure("spawn", "it exited with code 3 and printed nothing")),
        ("echo; kill -9 $$", VersionFailure("spawn", "it exited with code -9 and printed nothing")),
        ("read line; echo 2.1.$line", "2.1.\n"),  # its input is empty
        ("yes 12345 | head -n 10000", "12345\n" * 682 + "1234"),
    ],
)
def test_the_answer_is_what_the_program_prints_without_secrets(script: str, answer: object) -> None:
    with nothing_left():
        assert ask_version(plan(script), patience(60), ShortRun("0-mark")) == answer


def test_the_program_has_the_mark_of_the_question() -> None:
    query = ShortRun("0-mark")
    assert ask_version(plan("echo $HACKAMORE_CHILD_ID"), patience(60), query) == "0-mark\n"


def test_a_program_that_does_not_answer_in_time() -> None:
    with nothing_left():
        failure = ask_version(plan("sleep 600 & wait"), 0.25, ShortRun(f"{os.getpid()}-mark"))
    assert failure == VersionFailure("timeout", "no answer within 0.25 s")


def test_a_question_that_is_cancelled() -> None:
    query = ShortRun(f"{os.getpid()}-cancelled")
    timer = threading.Timer(0.05, query.cancel)
    timer.start()
    with nothing_left():
        found = ask_version(plan("sleep 600"), None, query)
        timer.join()
    # It was cancelled before it began, or in the middle.
    assert found in (
        VersionFailure("timeout", "it was cancelled"),
        VersionFailure("spawn", "it exited with code -9 and printed nothing"),
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory"), "does not exist"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (subprocess.SubprocessError("Exception occurred in preexec_fn."), "preexec_fn"),
    ],
)
def test_a_program_that_cannot_be_started(error: Exception, reason: str) -> None:
    class Refused(ShortRun):
        def run(self, *_: object, **__: object) -> Any:
            raise error

    absent = LaunchPlan(argv=("/nowhere/claude",), environment={}, cwd="/nowhere")
    with pytest.raises(SpawnError) as caught:
        ask_version(absent, 1.0, Refused())
    assert caught.value.path == "/nowhere/claude"
    assert reason in str(caught.value)


def test_the_known_versions_are_those_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for name in ("XDG_CACHE_HOME", "HOME"):
        for folder in ("a", "b", "a"):
            monkeypatch.setenv(name, str(tmp_path / folder))
            found.append(known_versions())
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    first, second, third, fourth, fifth, sixth = found
    assert first is third
    assert fourth is sixth
    assert len({id(one) for one in (first, second, fourth, fifth)}) == 4


def test_the_settings_of_a_child_are_those_of_the_options() -> None:
    options = Options(timeouts=Timeouts(stop_grace=1.5, kill_grace=2.5), limits=Limits(stderr_tail=77), stderr=print)
    assert child_settings(options) == {
        "stop_grace": 1.5,
        "kill_grace": 2.5,
        "stderr_tail_bytes": 77,
        "on_stderr": print,
    }


def test_a_preparation_without_a_search_looks_at_nothing(tmp_path: Path) -> None:
    """As with a transport of one's own: the CLI and its folders are elsewhere."""
    preparation = Preparation(Options(cwd="/srv/elsewhere"), None, session=True, find=False)
    assert not preparation.may_block
    assert Preparation(Options(), "hi").may_block
    assert preparation.program == "claude"
    made = preparation.run()
    assert (made.argv[0], made.cwd, made.stdin) == ("claude", "/srv/elsewhere", None)
    other = Preparation(Options(cli_path=tmp_path / "claude"), "hi", find=False)
    assert other.program == str(tmp_path / "claude")
    assert other.run().stdin == b"hi"
    assert other.run().environment["HACKAMORE_CHILD_ID"] != other.run().environment["HACKAMORE_CHILD_ID"]


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_preparation_asks_if_it_is_to_and_warns_nobody_once_it_is_cancelled(
    cancelled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\necho what?\n")
    program.chmod(0o755)
    preparation = Preparation(Options(cli_path=program, version_check="permissive"), "hi")
    if cancelled:
        preparation.cancel()
    assert preparation.cancelled is cancelled
    preparation.run()
    assert [warning.code for warning in preparation.warnings] == ([] if cancelled else ["UNPARSABLE_CLI_VERSION"])
    assert (tmp_path / "asked").exists() is not cancelled
    (tmp_path / "asked").unlink(missing_ok=True)
    Preparation(Options(cli_path=program, version_check="skip"), "hi").run()
    assert not (tmp_path / "asked").exists()
