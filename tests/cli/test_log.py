"""`--log-level`: records on stderr, one line each; colours: `NO_COLOR` and `FORCE_COLOR`."""

from __future__ import annotations

import json
import re

import pytest

from hackamore.cli.app import COMMANDS
from tests.cli.command import Command
from tests.contract import shows

ANSWER = (["frame", "init"], ["frame", "assistant"], ["frame", "result"])
RECORD = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d (DEBUG|INFO|WARNING|ERROR)( \w+=\S+)* \S")
STARTING = {"run", "acp", "chat", "doctor", "demo", "conformance", "fleet run", "fleet resume"}


@shows("command.log-level")
def test_every_command_that_starts_the_cli_has_it() -> None:
    assert {command.name for command in COMMANDS if "log_level" in command.flags} == STARTING


@shows("command.log-level")
@pytest.mark.parametrize("shape", [["--quiet"], ["--json"], []])
def test_records_are_lines_of_stderr_and_not_of_stdout(hackamore: Command, shape: list[str]) -> None:
    plain = hackamore.plays(*ANSWER)("run", "hi", *shape)
    ran = hackamore.plays(*ANSWER)("run", "hi", *shape, "--log-level", "debug")
    assert (ran.code, ran.out) == (0, plain.out)
    records = [line for line in ran.errors.splitlines() if RECORD.match(line)]
    assert len(records) > 3
    assert [line for line in records if "session_id=5e551011" in line and "pid=" in line]
    others = set(ran.errors.splitlines()) - set(records)
    assert others <= set(plain.errors.splitlines())


@shows("command.log-level")
def test_records_below_the_level_are_left_out_and_no_warning_is_shown_twice(hackamore: Command) -> None:
    steps = (*ANSWER, ["exit", 3])
    plain = hackamore.plays(*steps)("run", "hi", "--json")
    assert plain.errors.count("NONZERO_EXIT_AFTER_RESULT") == 1
    for level, times in (("debug", 1), ("WARNING", 1), ("error", 0)):
        ran = hackamore.plays(*steps)("run", "hi", "--json", "--log-level", level)
        assert ran.errors.count("warning: NONZERO_EXIT_AFTER_RESULT") == 1
        shown = [line for line in ran.errors.splitlines() if RECORD.match(line) and "NONZERO_EXIT" in line]
        assert len(shown) == times
        assert ("DEBUG" in ran.errors) is (level == "debug")
        assert all(json.loads(line) for line in ran.out.splitlines())


def test_an_unknown_level_is_refused(hackamore: Command) -> None:
    ran = hackamore("run", "hi", "--log-level", "loud")
    assert (ran.code, ran.out) == (2, b"")
    assert "--log-level must be one of debug, info, warning, error, got 'loud'." in ran.errors


def test_a_traceback_is_on_the_line_of_its_record(hackamore: Command) -> None:
    ran = hackamore.plays(*ANSWER, ["exit", 3])("doctor", "--log-level", "debug")
    for line in ran.errors.splitlines():
        assert not line.startswith(("Traceback", '  File "'))


@shows("command.colours")
def test_no_color_wins_over_everything(hackamore: Command) -> None:
    hackamore.plays(*ANSWER)
    colours = {"TERM": "xterm-256color"}
    assert b"\x1b[" in hackamore.on_terminal("run", "hi", env=colours).out
    for arguments in (("run", "hi"), ("run", "--help"), ("doctor",), ("run", "hi", "--log-level", "debug")):
        ran = hackamore.on_terminal(*arguments, env={**colours, "NO_COLOR": "1", "FORCE_COLOR": "1"})
        assert b"\x1b[" not in ran.out


@shows("command.colours")
def test_force_color_keeps_colours_in_a_pipe(hackamore: Command) -> None:
    hackamore.plays(*ANSWER)
    colours = {"TERM": "xterm-256color"}
    for arguments in (("doctor",), ("run", "hi")):
        plain, coloured = (hackamore(*arguments, env={**colours, **more}) for more in ({}, {"FORCE_COLOR": "1"}))
        assert b"\x1b[" not in plain.out + plain.err
        assert b"\x1b[" in coloured.out + coloured.err
    assert json.loads(hackamore("doctor", "--json", env={**colours, "FORCE_COLOR": "1"}).out)
