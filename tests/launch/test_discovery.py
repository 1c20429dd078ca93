"""Finding the CLI: the order of contract section 6, and never the working directory."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hackamore._engine.launch.discovery import FoundCLI, find_cli, find_program
from hackamore.errors import CLINotFoundError, SpawnError, StartError

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return str(path)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return one CLI in each kind of place; the working directory has some too."""
    work = tmp_path / "work"
    for trap in ("claude", "bin/claude", "node_modules/.bin/claude", "claude_agent_sdk/_bundled/claude"):
        program(work / trap)
    monkeypatch.chdir(work)
    home = tmp_path / "home"
    return {
        "cli_path": program(tmp_path / "given" / "my-claude"),
        "HACKAMORE_CLI_PATH": program(tmp_path / "named" / "claude"),
        "PATH": program(tmp_path / "path" / "claude"),
        "install-cli": program(home / ".local" / "share" / "hackamore" / "claude" / "current" / "claude"),
        "install-place": program(home / ".local" / "bin" / "claude"),
        "node-modules": program(home / "node_modules" / ".bin" / "claude"),
        "claude-agent-sdk": program(tmp_path / "site-packages" / "claude_agent_sdk" / "_bundled" / "claude"),
    }


def look(places: dict[str, str], tmp_path: Path, **changes: Any) -> FoundCLI:
    environment = {
        "HOME": str(tmp_path / "home"),
        # One that is listed twice does not end the search.
        "PATH": os.pathsep.join(["", ".", "bin", *(str(tmp_path / name) for name in ("none", "none", "path"))]),
    }
    if os.path.exists(places["HACKAMORE_CLI_PATH"]):
        environment["HACKAMORE_CLI_PATH"] = places["HACKAMORE_CLI_PATH"]
    cli_path = places["cli_path"] if os.path.exists(places["cli_path"]) else None
    arguments: dict[str, Any] = {
        "python_path": ["", ".", str(tmp_path / "work"), "site-packages", str(tmp_path / "site-packages")],
        "system_places": (),
        **changes,
    }
    return find_cli(cli_path, environment, **arguments)


def test_places_are_looked_at_in_order(places: dict[str, str], tmp_path: Path) -> None:
    for source, path in places.items():
        assert look(places, tmp_path) == (path, source)
        os.unlink(path)
    with pytest.raises(CLINotFoundError) as caught:
        look(places, tmp_path)
    searched = caught.value.searched
    assert str(tmp_path / "path" / "claude") in searched
    assert str(tmp_path / "home" / ".claude" / "local" / "claude") in searched
    assert all(os.path.isabs(place) and str(tmp_path / "work") not in place for place in searched)
    assert len(set(searched)) == len(searched)
    assert "npm install" in str(caught.value)


def test_the_working_directory_is_never_looked_at(places: dict[str, str], tmp_path: Path) -> None:
    for path in places.values():
        os.unlink(path)
    for changes in ({}, {"home": "."}, {"home": ""}):
        with pytest.raises(CLINotFoundError):
            look(places, tmp_path, **changes)
    with pytest.raises(CLINotFoundError):
        find_cli(None, {"PATH": "", "HOME": ""}, python_path=[], system_places=())
    with pytest.raises(CLINotFoundError):
        find_cli("claude", {"PATH": f"{os.pathsep}."}, python_path=[], system_places=())


def test_what_cannot_be_run_is_passed_over(places: dict[str, str], tmp_path: Path) -> None:
    os.unlink(places["cli_path"])
    os.unlink(places["HACKAMORE_CLI_PATH"])
    os.unlink(places["PATH"])
    os.mkdir(places["PATH"])
    os.chmod(places["install-cli"], 0o644)
    os.chmod(places["install-place"], 0o644)
    assert look(places, tmp_path).source == "node-modules"


def test_system_places_come_before_node_modules(places: dict[str, str], tmp_path: Path) -> None:
    for source in ("cli_path", "HACKAMORE_CLI_PATH", "PATH", "install-cli", "install-place"):
        os.unlink(places[source])
    system = program(tmp_path / "opt" / "claude")
    assert look(places, tmp_path, system_places=(system,)) == (system, "install-place")


def test_the_home_argument_wins_over_the_variable(places: dict[str, str], tmp_path: Path) -> None:
    other = program(tmp_path / "other" / ".claude" / "local" / "claude")
    environment = {"HOME": str(tmp_path / "home"), "PATH": ""}
    assert find_cli(None, environment, str(tmp_path / "other"), python_path=[], system_places=()).path == other


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.symlink_to("nowhere"), "broken symbolic link"),
    ],
)
def test_a_given_path_that_is_no_program_says_why(tmp_path: Path, make: Any, problem: str) -> None:
    path = tmp_path / "claude"
    make(path)
    with pytest.raises(CLINotFoundError, match=problem) as caught:
        find_cli(path, {"PATH": "/bin"})
    assert caught.value.searched == (str(path),)
    with pytest.raises(CLINotFoundError, match="HACKAMORE_CLI_PATH"):
        find_cli(None, {"HACKAMORE_CLI_PATH": str(path)})


@pytest.mark.parametrize(
    ("make", "number", "hint"),
    [
        (lambda path: path.mkdir(), errno.EISDIR, "program itself"),
        (lambda path: path.touch(0o644), errno.EACCES, "chmod"),
    ],
)
def test_a_given_path_that_cannot_be_started_is_a_spawn_error(
    tmp_path: Path, make: Any, number: int, hint: str
) -> None:
    path = tmp_path / "claude"
    make(path)
    with pytest.raises(SpawnError, match=hint) as caught:
        find_cli(path, {"PATH": "/bin"})
    assert (caught.value.path, caught.value.errno) == (str(path), number)


def test_a_given_relative_path_is_meant(places: dict[str, str], tmp_path: Path) -> None:
    assert find_cli("./claude", {}).path == str(tmp_path / "work" / "claude")
    assert find_cli("bin/claude", {}).path == str(tmp_path / "work" / "bin" / "claude")


def test_a_given_name_is_looked_up_in_path(places: dict[str, str], tmp_path: Path) -> None:
    environment = {"PATH": os.pathsep.join([".", str(tmp_path / "given")])}
    assert find_cli("my-claude", environment) == (places["cli_path"], "cli_path")
    with pytest.raises(CLINotFoundError, match="no folder in PATH has") as caught:
        find_cli("no-claude", environment)
    assert caught.value.searched == (str(tmp_path / "given" / "no-claude"),)


def test_a_tilde_is_the_home_folder(places: dict[str, str], tmp_path: Path) -> None:
    assert find_cli("~/.local/bin/claude", {"HOME": str(tmp_path / "home")}).path == places["install-place"]


def test_a_tilde_without_a_home_folder_is_a_name(tmp_path: Path) -> None:
    for given in ("~", "~/claude"):
        with pytest.raises(CLINotFoundError, match="~"):
            find_cli(given, {"HOME": "", "PATH": str(tmp_path)})


@pytest.mark.parametrize("suffix", ["js", "mjs", "cjs", "ts", "mts", "cts", "tsx", "jsx"])
def test_a_script_need_not_be_executable(tmp_path: Path, suffix: str) -> None:
    script = program(tmp_path / f"cli.{suffix}", 0o644)
    assert find_cli(script, {}).path == script


@pytest.mark.parametrize(
    "place", [".local/bin", ".claude/local", ".npm-global/bin", ".bun/bin", ".volta/bin", ".yarn/bin"]
)
def test_each_place_where_installers_put_it_is_looked_at(tmp_path: Path, place: str) -> None:
    path = program(tmp_path / place / "claude")
    environment = {"HOME": str(tmp_path), "PATH": ""}
    assert find_cli(None, environment, python_path=[], system_places=()) == (path, "install-place")


def test_an_installed_cli_is_in_the_folder_for_data(tmp_path: Path) -> None:
    named = program(tmp_path / "data" / "hackamore" / "claude" / "current" / "claude")
    usual = program(tmp_path / ".local" / "share" / "hackamore" / "claude" / "current" / "claude")
    for folder, path in ((str(tmp_path / "data"), named), ("data", usual), ("", usual)):
        environment = {"HOME": str(tmp_path), "PATH": "", "XDG_DATA_HOME": folder}
        assert find_cli(None, environment, python_path=[], system_places=()) == (path, "install-cli")


def test_an_option_that_repeats_the_variable_is_named_after_it(tmp_path: Path) -> None:
    path = program(tmp_path / "claude")
    assert find_cli(path, {"HACKAMORE_CLI_PATH": path}) == (path, "HACKAMORE_CLI_PATH")
    environment = {"HACKAMORE_CLI_PATH": f"~/{os.path.basename(path)}", "HOME": os.path.dirname(path)}
    assert find_cli(None, environment) == (path, "HACKAMORE_CLI_PATH")
    assert find_cli(path, {"HACKAMORE_CLI_PATH": f"{path}-2"}) == (path, "cli_path")


def test_only_installed_packages_count(tmp_path: Path) -> None:
    program(tmp_path / "checkout" / "claude_agent_sdk" / "_bundled" / "claude")
    with pytest.raises(CLINotFoundError):
        find_cli(None, {"PATH": ""}, python_path=[str(tmp_path / "checkout")], system_places=())


def test_the_official_package_is_not_imported(tmp_path: Path) -> None:
    path = program(tmp_path / "dist-packages" / "claude_agent_sdk" / "_bundled" / "claude")
    assert find_cli(None, {"PATH": ""}, python_path=[str(tmp_path / "dist-packages")], system_places=()).path == path
    assert "claude_agent_sdk" not in sys.modules


def test_find_program_skips_relative_entries(places: dict[str, str], tmp_path: Path) -> None:
    assert find_program("claude", {"PATH": f".{os.pathsep}bin"}) is None
    assert find_program("claude", {"PATH": f".{os.pathsep}{tmp_path / 'path'}"}) == places["PATH"]


def test_an_error_names_the_option_or_variable_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "folder\x1b").mkdir()
    (tmp_path / "a file").touch(0o644)
    for number, source in enumerate(("cli_path", "HACKAMORE_CLI_PATH")):
        for given, problem, hint in (
            (
                tmp_path / "absent",
                f"`{source}` is '{tmp_path}/absent', which does not exist.",
                f"Correct the path, or leave `{source}` unset to search PATH.",
            ),
            (
                tmp_path / "a file",
                "Permission denied",
                "The file is not executable. "
                f"Run `chmod +x '{tmp_path}/a file'`, or set `{source}` to another program.",
            ),
            (
                tmp_path / "folder\x1b",
                "Is a directory",
                f"`{source}` must be the path of the program itself, for example '{tmp_path}/folder\\\\x1b/claude'.",
            ),
            ("no-claude", f"`{source}` is 'no-claude', and no folder in PATH has a program with this name.", ""),
        ):
            with pytest.raises(StartError) as caught:
                find_cli(
                    None if number else given, {"PATH": "/nowhere", "HACKAMORE_CLI_PATH": str(given) if number else ""}
                )
            assert problem in str(caught.value)
            assert hint in str(caught.value)
