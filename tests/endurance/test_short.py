"""Short forms of the long runs: `./dev fuzz --frames`, `./dev fuzz --deaths`, `./dev soak`. HACKAMORE_TEST_SEED repeats one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract import shows
from tests.endurance import deaths, frames, messages, redaction
from tests.endurance.soak import Soak, report
from tests.support.leaks import nothing_left
from tests.support.light import light
from tests.support.seeds import seeded
from tests.support.shell import Backend
from tests.support.sizes import size
from tests.support.talking import steps

SEED = str(seeded(1))


@shows("bad.random")
def test_damaged_frames() -> None:
    figures = frames.run_cases(SEED, range(76))
    assert not figures.failures, figures.failures[0]
    assert figures.frames == 76 * frames.FRAMES_OF_A_CASE
    assert sum(figures.sessions.values()) == 4
    assert figures.session_frames >= 4


@shows("recordings.masked")
@pytest.mark.timeout(600)
def test_hostile_texts_leave_no_secret_in_traces_cassettes_and_pages() -> None:
    """Values under `env`, `headers` and `apiKeyHelper` are masked, wherever a text is cut."""
    count = size("recordings with hostile texts")
    figures = redaction.run(SEED, range(count))
    assert not figures.failures, figures.failures[0]
    assert (figures.lines, figures.files) == (100 * count, 6 * count)


def with_a_light_cli(death: deaths.Death, folder: Path) -> tuple[dict[str, Any], str, Any]:
    options = light(folder)()
    made = {"cli_path": str(options.cli_path), "cwd": str(folder), "env": dict(options.env), "version_check": "skip"}
    return made, steps(["text", "a"], ["grandchild", str(folder / "mark")], ["hang"]), lambda: None


@shows("process.host-ends")
@pytest.mark.timeout(180)
def test_deaths_with_a_light_cli() -> None:
    """The CLI or its host is killed at a random moment; neither they nor their shells stay."""
    told: list[str] = []
    with nothing_left():
        found = deaths.run_settings(
            with_a_light_cli, SEED, range(12), workers=3, told=lambda number, death: told.append(str(death))
        )
    assert [death for death in found if death.problems] == []
    assert len({death.way for death in found}) > 1
    assert len(told) == 12


@shows("process.host-ends")
@pytest.mark.timeout(180)
def test_deaths_of_the_real_cli(claude_path: str) -> None:
    """The same with the real one: killed in the middle of a call, it leaves no shell."""
    with nothing_left():
        found = deaths.run_all(claude_path, SEED, range(4), workers=2, minutes=None, told=lambda number, death: None)
    assert [death for death in found if death.problems] == []
    assert json.dumps(deaths.table(found))


@pytest.mark.timeout(180)
def test_a_short_soak_ends_with_nothing_open() -> None:
    lines: list[str] = []
    soak = Soak(SEED, None, each_round=2, told=lines.append, trace=False)
    with nothing_left():
        found = soak.run(6.0)
    assert soak.problems == []
    assert [one.name for one in found if one.grows and one.name in {"descriptors", "threads", "children"}] == []
    assert len(lines) == len(soak.samples)
    assert "| resident |" in report(soak, found)


@shows("session.reader.flat")
@pytest.mark.parametrize("cursors", [False, True])
@pytest.mark.parametrize("shell", messages.SHELLS)
def test_many_messages_leave_nothing(shell: Backend, cursors: bool) -> None:
    """Turn after turn, with and without cursors, the same number of blocks is alive."""
    found = messages.measure(messages.Case(shell, cursors, 10, 10_000))
    assert [one.messages for one in found.samples] == [1_000, 10_000]
    assert found.samples[-1].blocks - found.samples[0].blocks < 2_000  # one for each message would be 9,000
