"""Where the Claude Code CLI is. Looks at the file system, runs nothing, and never looks into the working directory."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

from bridle.errors import CLINotFoundError, SpawnError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["HOME_PLACES", "SCRIPT_SUFFIXES", "SYSTEM_PLACES", "Found", "find_cli", "find_program"]

SCRIPT_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx")
"""A CLI with one of these names is run by a JavaScript runtime and need not be executable itself."""

_PROGRAM = "claude"
HOME_PLACES = (
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
    ".bun/bin/claude",
    ".volta/bin/claude",
    ".yarn/bin/claude",
)
SYSTEM_PLACES: Sequence[str] = ("/usr/local/bin/claude", "/opt/homebrew/bin/claude", "/usr/bin/claude")
"""Places outside of the home folder, read at each search."""


class Found(NamedTuple):
    """A CLI, and how it was found.

    Attributes:
        path: the executable, absolute.
        source: `cli_path`, `BRIDLE_CLI_PATH`, `PATH`, `install-place`, `node-modules` or `claude-agent-sdk`.
    """

    path: str
    source: Literal["cli_path", "BRIDLE_CLI_PATH", "PATH", "install-place", "node-modules", "claude-agent-sdk"]


def find_cli(
    cli_path: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
    home: str | None = None,
    *,
    python_path: Sequence[str] | None = None,
    system_places: Sequence[str] | None = None,
) -> Found:
    """Return the Claude Code CLI to use.

    Args:
        cli_path: the option; it alone is looked at if it is set. A name without a slash is looked up in PATH.
        environment: of this process; BRIDLE_CLI_PATH, PATH and HOME are read.
        home: the home folder; None means HOME.
        python_path: where installed Python packages are; None means `sys.path`.
        system_places: absolute paths outside of the home folder to look at; None means `SYSTEM_PLACES`.

    Raises:
        CLINotFoundError: none was found; `searched` lists the places.
        SpawnError: the path that was given is a folder, or is not executable.
    """
    home = home or environment.get("HOME") or ""
    if not os.path.isabs(home):
        home = ""
    if cli_path is not None:
        return Found(_explicit(os.fspath(cli_path), "cli_path", environment, home), "cli_path")
    if named := environment.get("BRIDLE_CLI_PATH"):
        return Found(_explicit(named, "BRIDLE_CLI_PATH", environment, home), "BRIDLE_CLI_PATH")
    searched: list[str] = []
    for candidate, source in _candidates(environment, home, python_path, system_places):
        if candidate in searched:
            continue
        searched.append(candidate)
        if _is_executable(candidate):
            return Found(candidate, source)
    raise CLINotFoundError(searched)


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program in the absolute entries of PATH, or None."""
    return next((place for place in _in_path(name, environment) if _is_executable(place)), None)


def _candidates(
    environment: Mapping[str, str], home: str, python_path: Sequence[str] | None, system_places: Sequence[str] | None
) -> Iterator[tuple[str, Literal["PATH", "install-place", "node-modules", "claude-agent-sdk"]]]:
    for place in _in_path(_PROGRAM, environment):
        yield place, "PATH"
    if home:
        for place in HOME_PLACES:
            yield os.path.join(home, place), "install-place"
    for place in SYSTEM_PLACES if system_places is None else system_places:
        yield place, "install-place"
    if home:
        yield os.path.join(home, "node_modules", ".bin", _PROGRAM), "node-modules"
    for folder in sys.path if python_path is None else python_path:
        # `python -m` puts the working directory into sys.path, so only folders that installers write to count.
        if os.path.isabs(folder) and os.path.basename(os.path.normpath(folder)) in ("site-packages", "dist-packages"):
            yield os.path.join(folder, "claude_agent_sdk", "_bundled", _PROGRAM), "claude-agent-sdk"


def _in_path(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        # An empty or relative entry means the working directory, which may be a stranger's checkout.
        if os.path.isabs(folder):
            yield os.path.join(folder, name)


def _explicit(given: str, source: str, environment: Mapping[str, str], home: str) -> str:
    if given == "~" or given.startswith("~/"):
        given = os.path.join(home, given[2:]) if home else given
    if os.sep not in given:
        found = find_program(given, environment)
        if found is None:
            places = list(_in_path(given, environment))
            raise CLINotFoundError(places, message=f"{source} names the program {given!r}, which PATH does not have.")
        return found
    path = os.path.abspath(given)
    if _is_executable(path) or (os.path.isfile(path) and path.endswith(SCRIPT_SUFFIXES)):
        return path
    if os.path.isdir(path):
        raise SpawnError(
            path, os.strerror(errno.EISDIR), errno=errno.EISDIR, hint=f"{source} must name the file itself."
        )
    if os.path.exists(path):
        raise SpawnError(
            path, os.strerror(errno.EACCES), errno=errno.EACCES, hint="It is not executable: `chmod +x` it."
        )
    problem = "is a broken symbolic link" if os.path.islink(path) else "does not exist"
    raise CLINotFoundError([path], message=f"The CLI named by {source} {problem}.")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
