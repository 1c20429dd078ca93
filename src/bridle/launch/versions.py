"""Which version the CLI is, whether that will do, and remembering the answer.

The shells run `claude --version`; this module judges what came of it. The table of contract section 6 is `check`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bridle.errors import (
    StreamWarning,
    UnknownVersionError,
    UnsupportedCLIVersionError,
    VersionDetectionError,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "MINIMUM_ONE_SHOT",
    "MINIMUM_SESSION",
    "Version",
    "VersionCache",
    "VersionFailure",
    "check",
    "parse_version",
]

Version: TypeAlias = tuple[int, int, int]

MINIMUM_ONE_SHOT: Version = (1, 0, 0)
"""The lowest CLI version for one-shot queries."""

MINIMUM_SESSION: Version = (2, 0, 0)
"""The lowest CLI version for sessions."""

# Nine digits are enough for a date, and bound the work that a hostile output can make. ASCII only: `\d` knows other
# digits.
_VERSION = re.compile(r"(?<![0-9.])([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")


class VersionFailure(NamedTuple):
    """Why there is no answer to `claude --version`.

    Attributes:
        kind: `spawn` if it could not be run, `timeout` if it did not answer in time.
        reason: what the operating system said, or how long was waited.
    """

    kind: Literal["spawn", "timeout"]
    reason: str


def parse_version(text: str) -> Version | None:
    """Return the first `d.d.d` in `text`, or None. What is around it (`v`, a name, a pre-release tag) is ignored."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def dotted(version: Version) -> str:
    """Return `2.1.0` for `(2, 1, 0)`."""
    return ".".join(map(str, version))


def check(
    answer: str | VersionFailure,
    policy: Literal["strict", "permissive", "skip"] = "strict",
    minimum: Version = MINIMUM_ONE_SHOT,
) -> list[StreamWarning]:
    """Judge the answer to `claude --version`; return warnings if work may go on.

    Args:
        answer: what it printed, or why it printed nothing.
        policy: the option `version_check`. With `skip` nothing is judged.
        minimum: the lowest version that will do.

    Raises:
        UnsupportedCLIVersionError: it is too old.
        UnknownVersionError: no version in the output, with `strict`.
        VersionDetectionError: it could not be run, with `strict`.
    """
    if policy == "skip":
        return []
    if isinstance(answer, VersionFailure):
        if answer.kind == "spawn" and policy == "strict":
            raise VersionDetectionError(answer.reason)
        message = f"The version of the Claude Code CLI is unknown: {printable(answer.reason, 300)}"
        return [StreamWarning("VERSION_DETECTION_FAILED", message, {"kind": answer.kind, "reason": answer.reason})]
    version = parse_version(answer)
    if version is None:
        if policy == "strict":
            raise UnknownVersionError(answer)
        message = f"No version number in the output of `claude --version`: {printable(answer, 300)!r}"
        return [StreamWarning("UNPARSABLE_CLI_VERSION", message, {"output": answer})]
    if version < minimum:
        raise UnsupportedCLIVersionError(dotted(version), dotted(minimum))
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
        """Return the cache in `bridle/versions.json` of `$XDG_CACHE_HOME` or `~/.cache`; in memory without both."""
        folder = environment.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(folder):
            home = environment.get("HOME", "")
            folder = os.path.join(home, ".cache") if os.path.isabs(home) else ""
        return cls(os.path.join(folder, "bridle", "versions.json") if folder else None)

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
        version = parse_version(text)
        if key is None or version is None or self._known.get(key) == dotted(version):
            return
        self._known[key] = dotted(version)
        if self.file is not None:
            # Others may have written meanwhile: merge, newest last.
            merged = {**self._read(), **self._known}
            merged[key] = merged.pop(key)
            self._write(dict(list(merged.items())[-self.LIMIT :]))

    def _read(self) -> dict[str, str]:
        import msgspec

        try:
            with open(self.file or "", "rb") as source:
                content: Any = msgspec.json.decode(source.read(1024 * 1024))
        except (OSError, ValueError, RecursionError):
            return {}
        entries = content.get("versions") if isinstance(content, dict) else None
        if not isinstance(entries, dict):
            return {}
        return {key: text for key, text in entries.items() if isinstance(text, str) and parse_version(text)}

    def _write(self, entries: dict[str, str]) -> None:
        import msgspec

        assert self.file is not None  # noqa: S101 - for the type checker
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
    return f"{facts.st_size}:{facts.st_mtime_ns}:{os.fsencode(real).decode('utf-8', 'backslashreplace')}"
