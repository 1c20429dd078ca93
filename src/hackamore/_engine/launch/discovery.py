"""Where the Claude Code CLI is, and which version it is. Looks at the file system, and never into the working directory; runs nothing.

The shells run `claude --version`; this module judges what came of it (`check`), and remembers the answer.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hackamore._engine.launch.versions import CLIVersion
from hackamore.errors import (
    CLINotFoundError,
    SpawnError,
    StreamWarning,
    UnknownVersionError,
    UnsupportedCLIVersionError,
    VersionDetectionError,
    escape_terminal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["FoundCLI", "MINIMUM_ONE_SHOT", "MINIMUM_SESSION", "VersionCache", "VersionFailure", "check", "find_cli"]

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


class FoundCLI(NamedTuple):
    """A Claude Code CLI on this machine.

    Attributes:
        path: its absolute path.
        source: how it was found: by the option or variable of that name, in PATH, or in one of the other places.
    """

    path: str
    source: Literal[
        "cli_path", "HACKAMORE_CLI_PATH", "PATH", "install-cli", "install-place", "node-modules", "claude-agent-sdk"
    ]


def find_cli(
    cli_path: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    *,
    python_path: Sequence[str] | None = None,
    system_places: Sequence[str] | None = None,
) -> FoundCLI:
    """Find the Claude Code CLI that a query or session would start. Nothing is started.

    Args:
        cli_path: the option; it alone is looked at if it is set. A name without a slash is looked up in PATH.
        environment: HACKAMORE_CLI_PATH, PATH and HOME are read; None means the variables of this process.
        home: the home folder; None means HOME, or that of this user if HOME is not set.
        python_path: where installed Python packages are; None means `sys.path`.
        system_places: absolute paths outside of the home folder to look at; None means those of this platform.

    Returns:
        The path and how it was found.

    Raises:
        CLINotFoundError: none was found; `searched` lists the places.
        SpawnError: the path that was given is a folder, or is not executable.
    """
    if environment is None:
        environment, home = os.environ, home or os.path.expanduser("~")
    home = home or environment.get("HOME") or ""
    if not os.path.isabs(home):
        home = ""  # a relative one is the working directory, where nothing is looked for
    named = environment.get("HACKAMORE_CLI_PATH")
    if cli_path is not None and os.fspath(cli_path) != named:
        return FoundCLI(_explicit(os.fspath(cli_path), "cli_path", environment, home), "cli_path")
    if named:  # `Options.load` reads the variable as well: an equal option comes from there
        return FoundCLI(_explicit(named, "HACKAMORE_CLI_PATH", environment, home), "HACKAMORE_CLI_PATH")
    searched: list[str] = []
    for candidate, source in _candidates(environment, home, python_path, system_places):
        if candidate in searched:
            continue
        searched.append(candidate)
        if _is_executable(candidate):
            return FoundCLI(candidate, source)
    raise CLINotFoundError(searched)


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program in the absolute entries of PATH, or None."""
    return next((place for place in _in_path(name, environment) if _is_executable(place)), None)


def _candidates(
    environment: Mapping[str, str], home: str, python_path: Sequence[str] | None, system_places: Sequence[str] | None
) -> Iterator[tuple[str, Literal["PATH", "install-cli", "install-place", "node-modules", "claude-agent-sdk"]]]:
    for place in _in_path(_PROGRAM, environment):
        yield place, "PATH"
    from hackamore.storage.places import installed_cli  # here: most CLIs are found before

    if place_of_own := installed_cli(environment, home):
        yield place_of_own, "install-cli"
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
            raise CLINotFoundError(
                places,
                message=f"`{source}` is {escape_terminal(given)!r}, and no folder in PATH has a program with this name.",
            )
        return found
    path = os.path.abspath(given)
    if _is_executable(path) or (os.path.isfile(path) and path.endswith(SCRIPT_SUFFIXES)):
        return path
    shown = escape_terminal(path)
    if os.path.isdir(path):
        example = os.path.join(shown, _PROGRAM)
        hint = f"`{source}` must be the path of the program itself, for example {example!r}."
        raise SpawnError(path, os.strerror(errno.EISDIR), errno=errno.EISDIR, hint=hint)
    if os.path.exists(path):
        import shlex

        hint = f"The file is not executable. Run `chmod +x {shlex.quote(shown)}`, or set `{source}` to another program."
        raise SpawnError(path, os.strerror(errno.EACCES), errno=errno.EACCES, hint=hint)
    problem = "is a broken symbolic link" if os.path.islink(path) else "does not exist"
    fix = f"Correct the path, or leave `{source}` unset to search PATH."
    raise CLINotFoundError([path], message=f"`{source}` is {shown!r}, which {problem}.", hint=fix)


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # a folder has that bit as well


MINIMUM_ONE_SHOT = CLIVersion(1, 0, 0)
"""The lowest CLI version for one-shot queries."""

MINIMUM_SESSION = CLIVersion(2, 0, 0)
"""The lowest CLI version for sessions."""


class VersionFailure(NamedTuple):
    """Why there is no answer to `claude --version`: the text of the operating system, or the time that was waited."""

    kind: Literal["spawn", "timeout"]
    reason: str


def check(
    answer: str | VersionFailure,
    policy: Literal["strict", "permissive", "skip"] = "strict",
    minimum: tuple[int, int, int] = MINIMUM_ONE_SHOT,
) -> list[StreamWarning]:
    """Judge the answer to `claude --version` by the option `version_check`; return warnings if work may continue, else raise."""
    if policy == "skip":
        return []
    if isinstance(answer, VersionFailure):
        if answer.kind == "spawn" and policy == "strict":  # a timeout only warns: the machine is slow
            raise VersionDetectionError(answer.reason)
        message = f"The version of the Claude Code CLI is unknown: {escape_terminal(answer.reason, 300)}"
        return [StreamWarning("VERSION_DETECTION_FAILED", message, {"kind": answer.kind, "reason": answer.reason})]
    version = CLIVersion.parse(answer)
    if version is None:
        if policy == "strict":
            raise UnknownVersionError(answer)
        message = f"No version number in the output of `claude --version`: {escape_terminal(answer, 300)!r}"
        return [StreamWarning("UNPARSABLE_CLI_VERSION", message, {"output": answer})]
    if version < minimum:
        raise UnsupportedCLIVersionError(str(version), str(CLIVersion(*minimum)))
    return []


class VersionCache:
    """Remembers versions by the executable's real path, size and time of change: in memory, and in a file.

    A file that is broken, or a folder that cannot be written, costs one `claude --version` and nothing else.
    """

    LIMIT = 32
    """Executables that the file remembers; the oldest are forgotten."""

    def __init__(self, file: str | None = None) -> None:
        self.file = file
        self._known: dict[str, str] = {}
        self._loaded = file is None

    @classmethod
    def in_user_folder(cls, environment: Mapping[str, str]) -> VersionCache:
        """Return the cache in `hackamore/versions.json` of `$XDG_CACHE_HOME` or `~/.cache`; in memory without both."""
        folder = environment.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(folder):
            home = environment.get("HOME", "")
            folder = os.path.join(home, ".cache") if os.path.isabs(home) else ""
        return cls(os.path.join(folder, "hackamore", "versions.json") if folder else None)

    def get(self, cli_path: str) -> str | None:
        """Return the remembered version text of this executable, or None if it is new or has changed."""
        key = _identity(cli_path)
        if key is None:
            return None
        if key not in self._known and not self._loaded:
            self._loaded = True
            self._known = {**self._read(), **self._known}
        return self._known.get(key)

    def put(self, cli_path: str, text: str) -> None:
        """Remember the version in `text` for this executable; text without a version is not remembered."""
        key = _identity(cli_path)
        version = CLIVersion.parse(text)
        if key is None or version is None or self._known.get(key) == str(version):  # no write at each start
            return
        self._known[key] = str(version)
        if self.file is not None:
            # Others may have written meanwhile: merge, newest last.
            merged = {**self._read(), **self._known}
            merged[key] = merged.pop(key)
            self._write(dict(list(merged.items())[-self.LIMIT :]))

    def _read(self) -> dict[str, str]:
        import msgspec

        try:  # a damaged cache of any size costs a version check
            with open(self.file or "", "rb") as source:
                content: Any = msgspec.json.decode(source.read(1024 * 1024))
        except (OSError, ValueError, RecursionError):
            return {}
        entries = content.get("versions") if isinstance(content, dict) else None
        if not isinstance(entries, dict):
            return {}
        return {key: text for key, text in entries.items() if isinstance(text, str) and CLIVersion.parse(text)}

    def _write(self, entries: dict[str, str]) -> None:
        import msgspec

        assert self.file is not None  # noqa: S101 - for the type checker
        # Two programs may write at the same time: each replaces the file as a whole.
        new = f"{self.file}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
            with open(new, "xb") as target:
                target.write(msgspec.json.encode({"versions": entries}))
            os.replace(new, self.file)
        except OSError:
            with suppress(OSError):
                os.unlink(new)


def _identity(cli_path: str) -> str | None:
    try:
        real = os.path.realpath(cli_path, strict=True)
        facts = os.stat(real)
    except OSError:
        return None
    # File names need not be Unicode, and the cache is JSON.
    return f"{facts.st_size}:{facts.st_mtime_ns}:{os.fsencode(real).decode('utf-8', 'backslashreplace')}"
