"""Which entries go to the store, and when. No clock, no IO: the shells append, and pass the time.

The CLI reports the entries that it wrote to its transcripts (`transcript_mirror`). They are kept as bytes, by file, until an occasion of
the table `FLUSHES` makes them due. Then the entries of all files are cut off, and appended one file after the other. One append runs at
a time (table `WRITER`), so the order within a file is that of the CLI.

The copy of a file in the store is at any time the beginning of the file on the disk. After a failed append the entries stay first in line
for the next occasion, and nothing is appended behind them. A file that cannot be copied any more (another writer, too much waits) is
not copied any further: the next resume heals the copy from the disk.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from hackamore.messages.base import plain

if TYPE_CHECKING:
    from hackamore.options.stores import FlushMode, StoreKey


# Batches and rests are those of the official package (0.2.184): a store that works with it sees nothing new.
BATCH_ENTRIES = 500
"""Entries after which a batch is due."""
BATCH_BYTES = 1024 * 1024
"""Bytes of entries, as JSON, after which a batch is due."""
RESTS = (0.2, 0.8)
"""Seconds before the second and the third attempt of an append."""
ATTEMPTS = len(RESTS) + 1


class Occasion(Enum):
    """An occasion on which entries may be due."""

    ENTRIES = auto()
    AMOUNT = auto()
    """`BATCH_ENTRIES` or `BATCH_BYTES` were reached."""
    RESULT = auto()
    END = auto()


FLUSHES: dict[tuple[FlushMode, Occasion], bool] = {
    ("batched", Occasion.ENTRIES): False,
    ("batched", Occasion.AMOUNT): True,
    ("batched", Occasion.RESULT): True,
    ("batched", Occasion.END): True,
    ("eager", Occasion.ENTRIES): True,
    ("eager", Occasion.AMOUNT): True,
    ("eager", Occasion.RESULT): True,
    ("eager", Occasion.END): True,
}
"""Whether everything that has come is due on an occasion."""


class Writer(Enum):
    IDLE = auto()
    WRITING = auto()
    RESTING = auto()
    """An attempt failed; the next one waits for its time."""


class Trigger(Enum):
    BEGIN = auto()
    TOOK = auto()
    FAILED = auto()
    RESTED = auto()
    GIVEN_UP = auto()


WRITER: dict[tuple[Writer, Trigger], Writer] = {
    (Writer.IDLE, Trigger.BEGIN): Writer.WRITING,
    (Writer.WRITING, Trigger.TOOK): Writer.IDLE,
    (Writer.WRITING, Trigger.FAILED): Writer.RESTING,
    (Writer.WRITING, Trigger.GIVEN_UP): Writer.IDLE,
    (Writer.RESTING, Trigger.RESTED): Writer.WRITING,
    (Writer.RESTING, Trigger.GIVEN_UP): Writer.IDLE,
}
"""The next state; a combination that is not listed is an error of the caller."""


class _File:
    """One transcript: the entries that were not cut off for an append yet."""

    __slots__ = ("entries", "given_up", "key", "size")

    def __init__(self, key: StoreKey) -> None:
        self.key: StoreKey = key
        self.entries: list[Raw] = []
        self.size: int = 0
        self.given_up: bool = False


class Append:
    """One append to the store: all entries of one file that were due, `size` bytes as JSON."""

    __slots__ = ("_entries", "_file", "attempts", "key", "size")

    def __init__(self, file: _File) -> None:
        self._file = file
        self._entries, file.entries = file.entries, []
        self.key: StoreKey = file.key
        self.size: int = file.size
        file.size = 0
        self.attempts: int = 0

    def entries(self) -> list[Any]:
        """Return the entries: fresh objects at each call, because a store may change them."""
        return [plain(entry) for entry in self._entries]

    def put_back(self) -> None:
        """Put the entries back to the front of their file."""
        file = self._file
        if file.given_up:
            return
        file.entries[:0] = self._entries
        file.size += self.size

    def give_up(self) -> int:
        """Copy nothing more of the file; return the bytes that wait no longer."""
        file = self._file
        size, file.given_up, file.entries, file.size = self.size + file.size, True, [], 0
        return size


class Problem(NamedTuple):
    """Entries that the store did not take. `key` is None if the file has none; with `given_up` nothing more of it is copied."""

    key: StoreKey | None
    error: str
    given_up: bool
    exception: BaseException | None = None


_split = msgspec.json.Decoder(list[Raw]).decode  # bytes until an append: `most_bytes` is what waits in memory


class Mirror:
    """The entries of one session on their way to a store. `most_bytes` may wait before it is `full`."""

    def __init__(self, flush: FlushMode, most_bytes: int, project_key: str | None = None) -> None:
        self.writer: Writer = Writer.IDLE
        self.waiting: int = 0  # the bytes that the store has not taken
        self.problems: deque[Problem] = deque()  # the failures since they were last taken
        self._flush = flush
        self._most_bytes = most_bytes
        self.project_key = (
            project_key  # the project under which the store keeps the session; None: the one that the CLI uses
        )
        self._files: dict[str, _File] = {}
        self._strange: set[str] = set()  # each is reported once
        self._fresh_entries = self._fresh_bytes = 0
        self._due = False
        self._round: deque[Append] = deque()
        self._current: Append | None = None
        self._seen = self._cut = self._settled = 0

    # -- entries come in ----------------------------------------------------------------------------------------------------

    def take(self, path: str | None, entries: Raw | bytes) -> None:
        """Take entries that the CLI wrote to a file: a JSON list."""
        file = self._file(path or "")
        if file is None or file.given_up or not entries:
            return
        try:
            split = _split(entries)
        except (ValueError, RecursionError) as error:
            self._lose(file, f"the CLI reported entries that are not a JSON list: {error}")
            return
        if not split:
            return
        size = len(entries)
        file.entries += split
        file.size += size
        self.waiting += size
        self._seen += 1
        self._fresh_entries += len(split)
        self._fresh_bytes += size
        many = self._fresh_entries >= BATCH_ENTRIES or self._fresh_bytes >= BATCH_BYTES
        self.flush_on(Occasion.AMOUNT if many else Occasion.ENTRIES)

    def flush_on(self, occasion: Occasion) -> int:
        """Make everything due, if the occasion asks for it; return a mark of what has come so far, for `settled`."""
        if FLUSHES[self._flush, occasion]:
            self._due = True
        return self._seen

    def _file(self, path: str) -> _File | None:
        file = self._files.get(path)
        if file is None and path not in self._strange:
            key = key_of(path, self.project_key)
            if key is None:
                self._strange.add(path)
                self.problems.append(Problem(None, f"{path!r} is not the path of a transcript", given_up=True))
            else:
                file = self._files[path] = _File(key)
        return file

    def _lose(self, file: _File, reason: str) -> None:
        self.waiting -= file.size
        file.given_up, file.entries, file.size = True, [], 0
        self.problems.append(Problem(file.key, reason, given_up=True))

    # -- how it stands -------------------------------------------------------------------------------------------------

    def settled(self, mark: int) -> bool:
        """Return whether everything before a mark was appended, or has failed."""
        return self._settled >= mark

    @property
    def idle(self) -> bool:
        """True while nothing is due and no append runs."""
        return not self._due and self._current is None and not self._round

    @property
    def full(self) -> bool:
        """True while so much waits that no more is to be read, and an append runs that may change it."""
        return self.waiting >= self._most_bytes and not self.idle

    # -- the writer ----------------------------------------------------------------------------------------------------

    def begin(self) -> Append | None:
        """Return the next append, if one is due and none runs. `took` or `failed` says how it ended."""
        if self.writer is not Writer.IDLE:
            return None
        if not self._round:
            self._settled = self._cut
            if not self._due:
                return None
            self._due = False
            self._cut = self._seen
            self._fresh_entries = self._fresh_bytes = 0
            self._round.extend(Append(file) for file in self._files.values() if file.entries)
            if not self._round:
                self._settled = self._cut
                return None
        self._current = self._round.popleft()
        self._move_writer(Trigger.BEGIN)
        return self._attempt()

    def _attempt(self) -> Append | None:
        if self._current is not None:
            self._current.attempts += 1
        return self._current

    def took(self) -> None:
        self._move_writer(Trigger.TOOK)
        if self._current is not None:
            self.waiting -= self._current.size
        self._over()

    def failed(
        self, error: str, exception: BaseException | None = None, *, again: bool, lost: bool = False
    ) -> float | None:
        """Record a failed attempt; return the seconds after which `rested` is to be called, None if no further attempt follows now.

        Without `again` the entries wait for the next occasion; `lost` means that no attempt can succeed any more.
        """
        current = self._current
        if current is None:
            return None
        if again and not lost and current.attempts < ATTEMPTS:
            self._move_writer(Trigger.FAILED)
            return RESTS[current.attempts - 1]
        self._move_writer(Trigger.GIVEN_UP)
        self._fail(current, error, exception, lost=lost)
        return None

    def rested(self) -> Append | None:
        self._move_writer(Trigger.RESTED)
        return self._attempt()

    def abandon(self, reason: str) -> None:
        """Drop everything that waits, as a problem of each file: no time is left for it."""
        if self.writer is not Writer.IDLE:
            self._move_writer(Trigger.GIVEN_UP)
        left = [self._current] if self._current is not None else []
        left += self._round
        self._round.clear()
        for append in reversed(left):  # each goes to the front: the oldest last
            append.put_back()
        for file in self._files.values():
            if file.entries:
                self._lose(file, reason)
        self._due = False
        self._cut = self._seen
        self._over()

    def _fail(self, current: Append, error: str, exception: BaseException | None, *, lost: bool) -> None:
        key = current.key
        if lost or self.waiting * 2 > self._most_bytes:  # a store that is down must not fill the memory
            reason = (
                error
                if lost
                else f"{error}; {self.waiting:,} bytes wait, and nothing more of this transcript is copied"
            )
            self.waiting -= current.give_up()
            self.problems.append(Problem(key, reason, True, exception))
        else:
            current.put_back()
            self.problems.append(Problem(key, error, False, exception))
        self._over()

    def _over(self) -> None:
        self._current = None
        if not self._round:
            self._settled = self._cut

    def _move_writer(self, trigger: Trigger) -> None:
        self.writer = WRITER[self.writer, trigger]


def key_of(path: str, project_key: str | None = None) -> StoreKey | None:
    """Return the place in a store of `.../projects/PROJECT/SESSION.jsonl` or `.../PROJECT/SESSION/SUBPATH.jsonl`; None for another path."""
    parts = path.replace("\\", "/").split("/")  # the session may be of Windows
    if not parts[-1].endswith(".jsonl") or "projects" not in parts[:-2]:
        return None
    # The last one: the configuration folder may itself stand below a folder `projects`.
    at = len(parts) - 3 - parts[:-2][::-1].index("projects")
    project, session, *rest = (*parts[at + 1 : -1], parts[-1].removesuffix(".jsonl"))
    if not project or not session or any(part in ("", ".", "..") for part in rest):
        return None
    key: StoreKey = {"project_key": project_key or project, "session_id": session}
    if rest:
        key["subpath"] = "/".join(rest)
    return key
