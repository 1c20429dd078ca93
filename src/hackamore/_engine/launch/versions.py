"""Versions of the Claude Code CLI: comparing them, and the version that added each flag.

Starts nothing and reads no file.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["CLIVersion", "FLAGS", "FirstSeen", "version_meets_minimum"]

# Nine digits are enough for a date, and limit the work that a hostile output can cause. ASCII only: `\d` matches other digits.
_VERSION = re.compile(r"(?<![0-9.])([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")


class CLIVersion(NamedTuple):
    """A version of the Claude Code CLI. Versions compare as tuples: `CLIVersion(2, 1, 9) < CLIVersion(2, 1, 10)`.

    Attributes:
        major: first number.
        minor: second number.
        patch: third number.
    """

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> CLIVersion | None:
        """Return the first `major.minor.patch` in a text, or None.

        A leading `v`, a program name and a pre-release tag are ignored.

        Args:
            text: any text, such as the output of `claude --version`.

        Returns:
            The version; None if the text contains none.

        Example:
            >>> CLIVersion.parse("2.1.330 (Claude Code)")
            CLIVersion(major=2, minor=1, patch=330)
        """
        found = _VERSION.search(text)
        return cls(int(found[1]), int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def version_meets_minimum(version: str | tuple[int, int, int], minimum: str | tuple[int, int, int]) -> bool:
    """Return True if a version is the minimum or newer.

    Args:
        version: a version, or a text that contains one, such as the output of `claude --version`.
        minimum: the lowest accepted version, in the same form.

    Returns:
        False if the version is older.

    Raises:
        ValueError: a text contains no version.

    Example:
        >>> version_meets_minimum("2.1.330 (Claude Code)", "2.0.0")
        True
    """
    return _version(version) >= _version(minimum)


def _version(given: str | tuple[int, int, int]) -> tuple[int, int, int]:
    if not isinstance(given, str):
        return given
    found = CLIVersion.parse(given)
    if found is None:
        raise ValueError(f"{given[:100]!r} contains no version; pass a text like '2.1.330'.")
    return found


class FirstSeen(NamedTuple):
    """The newest version that was seen to refuse a flag, and the oldest that was seen to accept it."""

    without: CLIVersion
    known: CLIVersion


_SEEN = """
--session-id --settings --strict-mcp-config --system-prompt-file: 1.0.33 1.0.61
--replay-user-messages: 1.0.33 2.0.0
--fork-session --include-partial-messages --resume-session-at --setting-sources: 1.0.100 2.0.0
--max-thinking-tokens: 2.0.0 2.0.12
--allow-dangerously-skip-permissions --plugin-dir: 2.0.20 2.0.27
--max-budget-usd: 2.0.27 2.0.30
--json-schema --tools: 2.0.30 2.0.45
--agent --betas: 2.0.45 2.0.60
--no-session-persistence: 2.0.60 2.1.0
--debug-file: 2.1.0 2.1.30
--effort --thinking: 2.1.30 2.1.70
--exclude-dynamic-system-prompt-sections --include-hook-events --task-budget --thinking-display: 2.1.70 2.1.112
--await-initialize --forward-subagent-text --managed-settings --permission-prompts --plugin-dir-no-mcp: 2.1.112 2.1.328
--project-config-root --prompt-suggestions --resume-drops-turn --system-prompt-snapshot: 2.1.112 2.1.328
--append-system-prompt-file --autocompact --bare --brief --chrome --disable-slash-commands --name --no-chrome: 2.0.0 2.1.328
--plugin-url --restricted --safe-mode --worktree: 2.0.0 2.1.328
"""


def _table() -> dict[str, FirstSeen]:
    table = {}
    for line in _SEEN.strip().splitlines():
        flags, _, versions = line.partition(":")
        without, known = (CLIVersion(*map(int, text.split("."))) for text in versions.split())
        table.update(dict.fromkeys(flags.split(), FirstSeen(without, known)))
    return table


FLAGS: dict[str, FirstSeen] = _table()
"""The versions that added the flags. CLI 1.0.33 accepts every flag of Hackamore that is not listed here."""
