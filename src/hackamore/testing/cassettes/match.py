"""Compares what a replayed session sends with what was recorded, and puts its own ids and places into what it gets.

Ids that change with each run (request ids, uuids) and placeholders of redacted values are *tokens*: the first time one of today's
stands where one of the recording's stood, the two become partners, and must be so from then on. Everything else must be equal.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|req_\d+_[0-9a-f]+|<hackamore-[a-z-]+(?:[~-]\d+)?>)"
)
_TOKEN_BYTES = re.compile(_TOKEN.pattern.encode())
_MOST = 12
_LONGEST = 160
_AROUND = 50
_ABSENT: Any = object()


class Matcher:
    """The facts about one replayed session; `live_value` returns what a placeholder of today stands for, or None."""

    def __init__(self, live_value: Callable[[str], str | None]) -> None:
        self._live_value = live_value
        self._to_recorded: dict[str, str] = {}
        self._to_live: dict[str, str] = {}

    def same(self, live: Any, recorded: Any) -> bool:
        """Return whether the two are the same; learn their tokens if they are."""
        return not self.differences(live, recorded, limit=1)

    def differences(self, live: Any, recorded: Any, limit: int = _MOST) -> list[str]:
        """Return where the two differ; if nowhere, their tokens are partners from now on."""
        comparison = _Comparison(self._to_recorded, self._to_live, limit)
        comparison.compare(live, recorded, "")
        if not comparison.found:
            self._to_recorded.update(comparison.forward)
            self._to_live.update(comparison.backward)
        return comparison.found

    def incoming(self, line: bytes, *, is_json: bool) -> bytes:
        """Return a recorded line of the CLI with today's ids, places and values in it."""
        if b"-" not in line and b"req_" not in line:
            return line

        def replaced(found: re.Match[bytes]) -> bytes:
            token = found[0].decode()
            live = self._to_live.get(token, token)
            if live.startswith("<hackamore-"):
                value = self._live_value(live)
                if value is None:
                    return found[0]
                live = json.dumps(value)[1:-1] if is_json else value
            elif live is token:
                return found[0]
            return live.encode("utf-8", "surrogateescape")

        return _TOKEN_BYTES.sub(replaced, line)


class _Comparison:
    """One look at two values; what it learns counts if they turn out to be the same."""

    def __init__(self, to_recorded: dict[str, str], to_live: dict[str, str], limit: int) -> None:
        self.found: list[str] = []
        self.forward: dict[str, str] = {}
        self.backward: dict[str, str] = {}
        self._to_recorded = to_recorded
        self._to_live = to_live
        self._limit = limit

    def compare(self, live: Any, recorded: Any, path: str) -> None:
        if len(self.found) >= self._limit:
            return
        if isinstance(live, str) and isinstance(recorded, str):
            if not self._same_text(live, recorded):
                self.found.append(_difference(path, live, recorded))
        elif isinstance(live, dict) and isinstance(recorded, dict):
            for name in dict.fromkeys((*recorded, *live)):
                inner = f"{path}.{name}" if path else str(name)
                self._part(inner, live.get(name, _ABSENT), recorded.get(name, _ABSENT))
        elif isinstance(live, list) and isinstance(recorded, list):
            for place in range(max(len(live), len(recorded))):
                ours = live[place] if place < len(live) else _ABSENT
                theirs = recorded[place] if place < len(recorded) else _ABSENT
                self._part(f"{path}[{place}]", ours, theirs)
        elif type(live) is not type(recorded) or live != recorded:
            self.found.append(_difference(path, live, recorded))

    def _part(self, path: str, live: Any, recorded: Any) -> None:
        if live is _ABSENT or recorded is _ABSENT:
            self.found.append(_difference(path, live, recorded))
        else:
            self.compare(live, recorded, path)

    def _same_text(self, live: str, recorded: str) -> bool:
        if live == recorded:
            return True
        ours, theirs = _TOKEN.split(live), _TOKEN.split(recorded)
        if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
            return False
        return all(map(self._partners, ours[1::2], theirs[1::2]))

    def _partners(self, live: str, recorded: str) -> bool:
        known = self.forward.get(live) or self._to_recorded.get(live)
        if known is not None:
            return known == recorded
        if live == recorded:
            return True
        taken = self.backward.get(recorded) or self._to_live.get(recorded)
        if taken is not None or _kind(live) != _kind(recorded):
            return False
        self.forward[live], self.backward[recorded] = recorded, live
        return True


def _kind(token: str) -> str:
    if token.startswith("<hackamore-"):
        return re.sub(r"[~-]\d+>$", "-N>", token)
    return "request" if token.startswith("req_") else "uuid"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 30]}... ({len(text):,} characters)"


def _difference(path: str, live: Any, recorded: Any) -> str:
    """Return both sides, cut to where they begin to differ if they are long texts."""
    where = path or "(all of it)"
    if isinstance(live, str) and isinstance(recorded, str) and max(len(live), len(recorded)) > _LONGEST:
        pairs = enumerate(zip(live, recorded, strict=False))
        at = next((place for place, (a, b) in pairs if a != b), min(len(live), len(recorded)))
        begin = max(0, at - _AROUND)
        where += f" (from character {begin})"
        live, recorded = (text[begin : begin + _LONGEST - 2] for text in (live, recorded))  # two quotes come around it
    return f"- {where}: {_shown(recorded)}\n+ {where}: {_shown(live)}"
