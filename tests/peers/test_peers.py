"""Programs on the official clients see the same on the simulated CLI and on the real one, and the CLIs send them the same."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.fidelity.frames import Rules, compare
from tests.peers.features import CLIENTS, FEATURES, Feature
from tests.peers.running import EVENTS, NODE_PACKAGES, PROGRAMS, PYTHON_PACKAGES, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]
RUNS = 3
"""Chance orders some frames of the real CLI: one of its runs has to agree."""
ALWAYS_DIFFERENT = {"*.response.request_id": "chosen by the client"}


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """Return the name of a client whose package is installed."""
    name: str = request.param
    package = PYTHON_PACKAGES / "claude_agent_sdk" if name == "python" else NODE_PACKAGES / "@anthropic-ai"
    if not package.is_dir():
        pytest.skip(f"the official {name} package is not installed; `./dev ci` installs it into .dev")
    if name == "typescript" and shutil.which("node") is None:
        pytest.skip("there is no Node.js")
    return name


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_users_of_official_clients_see_the_same(
    client: str, feature: Feature, claude_path: str, tmp_path: Path
) -> None:
    simulated = run(client, feature, "simulated", tmp_path / "simulated", claude_path)
    for attempt in range(RUNS):
        real = run(client, feature, "real", tmp_path / f"real{attempt}", claude_path)
        differences = [] if real.seen == simulated.seen else [f"seen:\n{real.seen}\n{simulated.seen}"]
        rules = Rules({**ALWAYS_DIFFERENT, **feature.wire}, feature.lacks)
        assert len(real.processes) == len(simulated.processes)
        for theirs, ours in zip(real.processes, simulated.processes, strict=True):
            differences += compare(theirs, ours, rules).differences
        if not differences:
            break
    assert not differences, "\n".join(differences)


def test_there_are_all_hooks() -> None:
    assert len(EVENTS) == 33
    assert os.path.isfile(PROGRAMS / "peer.mjs")
