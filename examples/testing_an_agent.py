"""Test an agent under pytest: the real CLI and its real tools, with a script in place of the model. No account needed.

Run it with `pytest testing_an_agent.py`. The fixture `scripted_model` comes with Hackamore.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import hackamore.sync
from hackamore import AuthenticationError, Options
from hackamore.testing import HTTPFailure, Reply, ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def count_files(options: Options) -> int:
    """Return how many files the agent counts: the code under test."""
    answer = hackamore.sync.run("Count the files here. Answer with the number only.", options)
    return int(answer.text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "one.txt").touch()
    (folder / "two.txt").touch()
    return folder


def test_it_counts_with_the_shell(scripted_model: Callable[..., ScriptedModel], tmp_path: Path, project: Path) -> None:
    model = scripted_model(
        Reply(ToolCall("Bash", {"command": "ls | wc -l"})),
        # The shell really ran, so its output must be in the next request.
        Reply("2", expect_text="2"),
    )
    options = Options(env=model.isolated_env(tmp_path), cwd=project, allowed_tools=["Bash"])
    assert count_files(options) == 2
    assert "Count the files" in model.requests[0].prompt_text


def test_a_refused_key_is_an_error(scripted_model: Callable[..., ScriptedModel], tmp_path: Path) -> None:
    model = scripted_model(HTTPFailure(401, retry=False))
    with pytest.raises(AuthenticationError) as caught:
        count_files(Options(env=model.isolated_env(tmp_path), cwd=tmp_path))
    assert (caught.value.status, caught.value.key_source) == (401, "ANTHROPIC_API_KEY")


if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]))
