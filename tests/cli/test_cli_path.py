"""A wrong path of the CLI: the text names the path, the problem and the fix, and speaks of the flag on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hackamore.sync
from hackamore import Options
from hackamore.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command

WRONG = {
    "missing": ("does not exist", "Correct the path"),
    "folder": ("Is a directory", "must be the path of the program itself"),
    "plain": ("is not executable", "Run `chmod +x"),
    "interpreter": ("names the interpreter '/nowhere/python', which does not exist", "Install the interpreter"),
    "empty": ("Exec format error", "not a program for this machine"),
}


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("hello\n")
    for name, text in (("interpreter", "#!/nowhere/python -u\n"), ("empty", "\x7fELF")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", WRONG)
def test_the_library_names_the_option(wrong: Path, name: str) -> None:
    with pytest.raises(StartError) as caught:
        hackamore.sync.run("hello", Options(cli_path=wrong / name))
    text = str(caught.value)
    for part in (*WRONG[name], str(wrong / name), "`cli_path"):
        assert part in text


@pytest.mark.parametrize(
    ("command", "name"),
    [*(("run", name) for name in WRONG), *(("doctor", name) for name in ("missing", "folder", "plain"))],
)
def test_the_command_names_the_flag(hackamore: Command, wrong: Path, command: str, name: str) -> None:
    ran = hackamore(command, "--cli-path", str(wrong / name), *(["hello"] if command == "run" else []))
    said = " ".join((ran.text + ran.errors).split())
    assert ran.code == 3
    for part in (*WRONG[name], "--cli-path"):
        assert part in said
    assert "cli_path" not in said
