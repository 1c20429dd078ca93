"""Placeholders, and the folders and the name by which a recording would tell whose machine it comes from."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["PLACEHOLDER", "WORD", "Places", "Vault"]

PLACEHOLDER = re.compile(r"<bridle-[a-z-]+(?:[~-]\d+)?>")

# Or after the letter of an escape: JSON is often quoted in JSON.
WORD = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
"""Where a word begins."""

_TEMPORARY = r"(?:/(?:pytest-of-[^/\s\"']+/pytest-\d+|tmp[A-Za-z0-9_]{6,}|tmp\.[A-Za-z0-9]{6,})(?![A-Za-z0-9_]))"
_NOT_PERSONAL = frozenset(
    {"root", "user", "users", "admin", "home", "runner", "ubuntu", "debian", "nobody", "claude", "app", "node", "test"}
)


class Vault:
    """The placeholders of one recording: the same value gets the same one, whichever session it comes from.

    Args:
        mark: what stands before the number; a replay marks those of its own values with another sign.
    """

    def __init__(self, mark: str = "-") -> None:
        self._mark = mark
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.RLock()
        self.values: dict[str, str] = {}

    def placeholder(self, kind: str, value: str) -> str:
        """Return the placeholder of a value."""
        with self._lock:
            known = self._known.get((kind, value))
            if known is None:
                number = self._counts[kind] = self._counts.get(kind, 0) + 1
                known = self._known[kind, value] = f"<bridle-{kind}{self._mark}{number}>"
                self.values[known] = value
            return known

    def counts(self) -> dict[str, int]:
        """Return how many values of each kind were replaced."""
        with self._lock:
            return dict(self._counts)


def _existing(find: Callable[[], str]) -> str:
    """Return what `find` finds; nothing where the working directory was deleted, or no folder can be written."""
    try:
        return find()
    except OSError:
        return ""


class Places:
    """The folders of one session: its working directory, its home, temporary folders; and the user's name."""

    def __init__(self, vault: Vault, cwd: str | None, environment: Mapping[str, str]) -> None:
        self._vault = vault
        found: dict[str, str] = {}  # what stands in texts -> its placeholder
        self.live: dict[str, str] = {}  # a placeholder -> what stands for it here
        self.add(found, "cwd", [cwd or _existing(os.getcwd)])
        self.add(found, "config", [environment.get("CLAUDE_CONFIG_DIR", "")])
        self.add(found, "home", [environment.get("HOME", ""), os.path.expanduser("~")])
        self.add(found, "temp", [environment.get("TMPDIR", ""), _existing(tempfile.gettempdir), "/tmp", "/var/tmp"])  # noqa: S108
        if "<bridle-home>" in self.live:
            self.live.setdefault("<bridle-config>", self.live["<bridle-home>"] + "/.claude")
        self._found = found
        ordered = sorted(found, key=len, reverse=True)
        # A whole folder only: `/home/ann` does not stand in `/home/anna`, nor in `/mnt/home/ann`.
        self._pattern = re.compile(
            r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))("
            + "|".join(map(re.escape, ordered))
            + rf")(?![A-Za-z0-9_])({_TEMPORARY})?"
            if ordered
            else r"(?!)"
        )
        name = (
            os.path.basename(environment.get("HOME", ""))
            if environment.get("HOME", "").startswith(("/home/", "/Users/"))
            else ""
        )
        names = {environment.get("USER", ""), environment.get("LOGNAME", ""), os.environ.get("USER", ""), name}
        personal = sorted({known for known in names if len(known) > 2 and known.lower() not in _NOT_PERSONAL})
        self.signs = (*ordered, *personal)
        """One of these stands in every text that `replace` changes."""
        if personal:
            self.live["<bridle-user>"] = environment.get("USER") or personal[0]
        self._user = (
            re.compile(WORD + r"(?:" + "|".join(map(re.escape, personal)) + r")(?![A-Za-z0-9])") if personal else None
        )

    def add(self, found: dict[str, str], kind: str, folders: Iterable[str]) -> None:
        """Take folders of one kind: as they are, with links resolved, and as the CLI spells them in names of its own files."""
        for folder in folders:
            plain = folder.rstrip("/")
            if not plain.startswith("/"):
                continue  # `/` stands everywhere
            for spelling in dict.fromkeys((plain, os.path.realpath(plain))):
                found.setdefault(spelling, f"<bridle-{kind}>")
                self.live.setdefault(f"<bridle-{kind}>", spelling)
                slug = re.sub(r"[^A-Za-z0-9]", "-", spelling)
                if spelling.count("/") > 1:  # `-root` alone stands in many words
                    found.setdefault(slug, f"<bridle-{kind}-slug>")
                    self.live.setdefault(f"<bridle-{kind}-slug>", slug)

    def replace(self, text: str) -> str:
        """Return the text with placeholders for places and the user's name."""
        if any(folder in text for folder in self._found):
            text = self._pattern.sub(self._placeholder, text)
        if self._user is not None:
            text = self._user.sub("<bridle-user>", text)
        return text

    def _placeholder(self, found: re.Match[str]) -> str:
        place, below = self._found[found[1]], found[2]
        if below is None:
            return place
        # The name of a temporary folder is another one each time: a replay learns it from what is sent.
        return self._vault.placeholder("folder", found[0]) if place == "<bridle-temp>" else place + below
