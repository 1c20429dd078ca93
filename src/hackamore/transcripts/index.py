"""Search in all conversations, by a full-text index in the user's cache folder.

The index is a SQLite database with FTS5. It holds words and the places of messages, not their text: hits are read from the conversations.
It can be deleted at any time. Before each search, files that grew are read from the place where the last search stopped, and files that
were replaced are read again. Transactions are short, so that several processes share the work.
"""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hackamore.activity.tree import is_call, is_result
from hackamore.errors import TranscriptError, escape_terminal
from hackamore.messages.base import NO_RAW, repair_surrogates
from hackamore.storage.places import ConversationFile, StrPath, chosen_folders, config_folder, conversation_files
from hackamore.storage.sqlite import Database, StorageError
from hackamore.transcripts.entries import lines_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

SearchRole: TypeAlias = Literal["user", "assistant", "tool"]
"""The writer of a text: a user, the model, or a tool. Calls of tools count as the tool's."""

VERSION = 1
"""The version of the tables. An index of another version is made again."""
TEXT_LENGTH = 32_000
"""The characters of a text that are indexed; the rest of longer ones is left out."""
CONTEXT = 80
"""Characters of context on each side of a match."""
MARK_BYTES = 64
"""Bytes before the place where indexing stopped: if they changed, the file was replaced."""
WAIT_SECONDS = 30.0
"""The time to wait for another process that writes the index."""
RANKED = 10_000
"""The texts that are ranked, of a search without filters: the newest of the index."""
BATCH_BYTES = 16 << 20
"""Bytes of conversations that are indexed in one transaction."""
ROLES: tuple[SearchRole, ...] = ("user", "assistant", "tool")

_TABLES = (
    """CREATE TABLE files (
    id INTEGER PRIMARY KEY, path TEXT UNIQUE, session_id TEXT, agent_id TEXT, folder TEXT,
    inode INTEGER, size INTEGER, modified INTEGER, done INTEGER, mark BLOB
)""",
    """CREATE TABLE texts (
    id INTEGER PRIMARY KEY, file INTEGER, offset INTEGER, length INTEGER, part INTEGER, role INTEGER, tool TEXT, time REAL
)""",
    "CREATE TABLE calls (file INTEGER, call TEXT, tool TEXT, PRIMARY KEY (file, call)) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize=\"unicode61 remove_diacritics 2\")",
    # Words are collected in memory first. With the default of 1 MB, indexing takes twice as long.
    f"INSERT INTO words (words, rank) VALUES ('hashsize', {BATCH_BYTES})",  # noqa: S608
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A text in a conversation that has all words.

    Attributes:
        session_id: the session.
        agent_id: the subagent whose conversation has it; None for the main conversation.
        uuid: the id of the message; None if it has none.
        role: the writer of the text.
        tool: the tool, of calls and results.
        timestamp: the time of the message; None if it is unknown.
        context: the part of the text around the first match, on one line.
        match: where the first match begins and ends in `context`.
        score: how well it fits; higher is better. Scores of different searches cannot be compared.
        path: the file.
        offset: the place of the message in the file, in bytes.
    """

    session_id: str
    agent_id: str | None
    uuid: str | None
    role: SearchRole
    tool: str | None
    timestamp: datetime | None
    context: str
    match: tuple[int, int]
    score: float
    path: Path
    offset: int


def search(
    text: str,
    *,
    project: StrPath | None = None,
    role: SearchRole | None = None,
    tool: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 20,
    refresh: bool = True,
    config_dir: StrPath | None = None,
    cache_dir: StrPath | None = None,
) -> list[SearchHit]:
    """Return the texts of all conversations that have all words of `text`, the best first.

    The first search makes the index, at some 20 MB a second; later ones add what changed. Case and accents do not
    count. The first 32,000 characters of a text are indexed. Of more than 10,000
    texts with the words, a search without filters ranks those that were indexed last.

    Args:
        text: words, in any order. Words in double quotes have to follow each other. Other characters have no special meaning.
        project: the working directory of a project; other worktrees of its repository count. None for all projects.
        role: only texts of this writer.
        tool: only calls and results of this tool.
        since: only messages at this time or later. A time without a zone is local time.
        until: only messages before this time.
        limit: the most texts to return.
        refresh: whether to bring the index up to date first.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        cache_dir: the folder of the index; None for `hackamore` in `XDG_CACHE_HOME`, and without that in `~/.cache`.

    Returns:
        The texts. A message that several files have, as after a fork, comes once.

    Raises:
        ValueError: if `text` has neither a letter nor a digit, `limit` is negative, or `role` has another value.
        TranscriptError: if the index cannot be written, or another process writes it for more than 30 seconds.

    Example:
        ::

            for hit in hackamore.transcripts.search("connection refused", role="tool"):
                print(hit.session_id, hit.context)
    """
    phrases = _phrases(text)
    if not phrases:
        raise ValueError(f"`text` must have a letter or a digit, got {text!r}.")
    if limit < 0:
        raise ValueError(f"`limit` must be at least 0, got {limit}.")
    if role is not None and role not in ROLES:
        raise ValueError(f"`role` must be 'user', 'assistant', 'tool' or None, got {role!r}.")
    folders = [folder for folder, _ in chosen_folders(project, project is None, config_dir=config_dir)]
    where = ["files.path IS NOT NULL"]
    values: list[Any] = [" AND ".join(f'"{_spaced(phrase)}"' for phrase in phrases)]
    if project is not None:
        where.append(f"files.folder IN ({', '.join('?' * len(folders))})")
        values += [str(folder) for folder in folders]
    for condition, value in (
        ("texts.role = ?", ROLES.index(role) if role is not None else None),
        ("texts.tool = ?", tool),
        ("texts.time >= ?", since.timestamp() if since is not None else None),
        ("texts.time < ?", until.timestamp() if until is not None else None),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    filtered = len(values) > 1
    for last_try in (False, True):
        place = _place(config_dir, cache_dir)
        index = Database(str(place), _TABLES, VERSION, WAIT_SECONDS, migrations={})
        try:
            with suppress(OSError):  # then the index cannot be made
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if refresh:
                _refresh(index, folders, complete=project is None)
            return index.look(
                lambda opened: _found(opened, " AND ".join(where), values, phrases, limit, filtered=filtered)
            )
        except StorageError as error:
            if last_try or error.problem not in ("damaged", "moved", "version"):
                raise _failed(place, error) from error.__cause__
            if error.problem != "moved":  # another program replaced it
                _replace(place)
        finally:
            index.close()
    raise AssertionError("unreachable")


def _found(
    index: sqlite3.Connection, where: str, values: list[Any], phrases: list[str], limit: int, *, filtered: bool
) -> list[SearchHit]:
    match, *others = values
    first, most = 0, -1
    if not filtered:
        # To rank a text takes longer than to find it.
        newest = (
            "SELECT words.rowid FROM words JOIN texts ON texts.id = words.rowid JOIN files ON files.id = texts.file "
            "WHERE words MATCH ? AND files.path IS NOT NULL ORDER BY words.rowid DESC LIMIT 1 OFFSET ?"
        )
        (first,), most = index.execute(newest, (match, RANKED)).fetchone() or (0,), max(10 * limit, 200)
    query = (
        "SELECT files.path, files.session_id, files.agent_id, texts.offset, texts.length, texts.part, texts.role, texts.tool, "  # noqa: S608
        "texts.time, -best.rank FROM (SELECT rowid, rank FROM words WHERE words MATCH ? AND rowid > ? ORDER BY rank LIMIT ?) AS best "
        f"JOIN texts ON texts.id = best.rowid JOIN files ON files.id = texts.file WHERE {where} ORDER BY best.rank"
    )  # `where` is made above, without values
    while True:
        with closing(index.execute(query, [match, first, most, *others])) as rows:
            found = _hits(rows, phrases, limit)
        if len(found) >= limit or most < 0:
            return found
        most = -1


def _failed(place: Path, error: StorageError) -> TranscriptError:
    if error.problem == "busy":
        failed = TranscriptError(
            f"Another process has been writing the index of conversations for {WAIT_SECONDS:g} s ({place}). Try again, or pass "
            "`refresh=False` to search the index as it is."
        )
        failed.retryable = True
        return failed
    return TranscriptError(
        f"The index of conversations ({escape_terminal(str(place))}) {escape_terminal(str(error))} Or pass another folder as `cache_dir`. "
        "The index can be deleted."
    )


# -- the database -----------------------------------------------------------------------------------------------------


def _place(config_dir: StrPath | None, cache_dir: StrPath | None) -> Path:
    if cache_dir is None:
        named = os.environ.get("XDG_CACHE_HOME", "")
        cache_dir = os.path.join(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "hackamore")
    of = sha256(os.fsencode(os.path.realpath(config_folder(config_dir)))).hexdigest()[:16]
    folder = Path(cache_dir)
    return max(folder.glob(f"conversations-{of}*.db"), key=_number, default=folder / f"conversations-{of}.db")


def _number(place: Path) -> int:
    number = place.stem.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


def _replace(place: Path) -> None:
    """Make an empty index next to one that cannot be used, and delete that.

    The new one has the next number: under the same name, programs that still use the old file would change and delete its log.
    """
    first = place.name.partition(".")[0]
    new = Database(str(place.with_name(f"{first}.{_number(place) + 1}.db")), _TABLES, VERSION, WAIT_SECONDS)
    with closing(new), suppress(StorageError):  # then the next try says why
        new.look(lambda _: None)
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            os.unlink(f"{place}{ending}")


def _refresh(index: Database, folders: Iterable[Path], *, complete: bool) -> None:
    """Bring the index up to date with the files of some folders, or of all if `complete`."""
    files = "SELECT path, inode, size, modified FROM files WHERE path IS NOT NULL"
    known = {row[0]: row[1:] for row in index.look(lambda opened: opened.execute(files).fetchall())}
    present = set()
    changed: list[tuple[ConversationFile, str]] = []
    for folder in folders:
        for file in conversation_files(folder):
            present.add(file.path)
            if known.get(file.path) != (file.inode, file.size, file.modified):
                changed.append((file, str(folder)))

    def add_some(opened: sqlite3.Connection) -> None:
        size = 0
        while changed and size < BATCH_BYTES:
            file, place = changed.pop()
            size += file.size
            with suppress(OSError), open(file.path, "rb", buffering=0) as lines:
                _index_lines(opened, file, place, lines)

    while changed:
        index.transaction(add_some)
    if complete and (gone := [(path,) for path in known if path not in present]):
        forget = "UPDATE files SET path = NULL WHERE path = ?"
        index.transaction(lambda opened: opened.executemany(forget, gone))
        index.look(_compact)


def _compact(index: sqlite3.Connection) -> None:
    """Refuse an index in which most texts are of files that vanished: FTS5 cannot forget them without their words."""
    dead, everything = index.execute(
        "SELECT coalesce(sum(files.path IS NULL), 0), count(*) FROM texts JOIN files ON files.id = texts.file"
    ).fetchone()
    if dead > 10_000 and dead * 2 > everything:
        raise StorageError("has most of its texts from files that are gone.")


def _index_lines(index: sqlite3.Connection, file: ConversationFile, folder: str, opened: BinaryIO) -> None:
    status = os.fstat(opened.fileno())
    # The row may be newer than the caller's: another process can have indexed the file meanwhile.
    row = index.execute("SELECT id, inode, done, mark FROM files WHERE path = ?", (file.path,)).fetchone()
    if row is not None:
        number, inode, start, mark = row
        before = os.pread(opened.fileno(), len(mark), start - len(mark))
        if inode != status.st_ino or status.st_size < start or before != mark:
            index.execute("UPDATE files SET path = NULL WHERE id = ?", (number,))
            row = None
    if row is None:
        names = (file.path, file.session_id, file.agent_id, folder)
        start = 0
        number = index.execute(
            "INSERT INTO files (path, session_id, agent_id, folder) VALUES (?, ?, ?, ?)", names
        ).lastrowid
    try:
        done, mark = _index_rest(index, number, start, opened)
    except OSError:
        index.execute("UPDATE files SET path = NULL WHERE id = ?", (number,))
        return
    index.execute(
        "UPDATE files SET inode = ?, size = ?, modified = ?, done = ?, mark = ? WHERE id = ?",
        (status.st_ino, status.st_size, status.st_mtime_ns, done, mark, number),
    )


def _index_rest(index: sqlite3.Connection, number: int, start: int, opened: BinaryIO) -> tuple[int, bytes]:
    """Index a file from `start` on; return the end of the last complete line, and the bytes before it."""
    opened.seek(start)
    tools = dict(index.execute("SELECT call, tool FROM calls WHERE file = ?", (number,)))
    ids = count(index.execute("SELECT coalesce(max(id), 0) + 1 FROM texts").fetchone()[0])
    done = start
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []
    for line in lines_of(opened, start):
        end = line.offset + len(line.raw) + 1
        if end > opened.tell():
            break  # its line end is not written yet
        done = end
        for part in _parts(line.raw, tools):
            each = next(ids)
            rows.append((each, number, line.offset, len(line.raw), part.number, part.role, part.tool, part.time))
            words.append((each, _spaced(part.text)))
        if len(rows) >= 1000:
            _write(index, rows, words)
    _write(index, rows, words)
    index.execute("DELETE FROM calls WHERE file = ?", (number,))
    index.executemany("INSERT INTO calls VALUES (?, ?, ?)", [(number, *pair) for pair in tools.items()])
    length = min(MARK_BYTES, done)
    return done, os.pread(opened.fileno(), length, done - length)


def _write(index: sqlite3.Connection, rows: list[tuple[Any, ...]], words: list[tuple[int, str]]) -> None:
    index.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    index.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
    rows.clear()
    words.clear()


# -- the texts of a line ----------------------------------------------------------------------------------------------


class _Part(msgspec.Struct, gc=False):
    number: int
    role: int
    tool: str | None
    time: float | None
    text: str
    uuid: str | None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    id: str | None = None
    name: str = ""
    input: Raw = NO_RAW
    tool_use_id: str | None = None
    content: Raw = NO_RAW


class _Body(msgspec.Struct, gc=False):
    content: str | list[_Block] = ""


class _Message(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    uuid: str | None = None
    timestamp: str = ""
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    message: _Body | None = None


_decode: Callable[[bytes], _Message] = msgspec.json.Decoder(_Message).decode


def _parts(raw: bytes, tools: dict[str, str]) -> Iterator[_Part]:
    """Yield the texts of a line. `tools` has the tool of each call whose result did not come yet, and is kept up to date."""
    if b'"message"' not in raw:
        return
    try:
        entry = _decode(raw)
    except (ValueError, RecursionError):
        try:
            entry = _decode(repair_surrogates(raw))
        except (ValueError, RecursionError):
            return
    if entry.message is None or entry.is_meta or entry.type not in ("user", "assistant"):
        return
    writer = 0 if entry.type == "user" and not entry.is_compact_summary else 1
    time: float | None = None
    with suppress(ValueError):
        time = datetime.fromisoformat(entry.timestamp).timestamp()
    content = entry.message.content
    blocks = [_Block(type="text", text=content)] if isinstance(content, str) else content
    for number, block in enumerate(blocks):
        role, tool, text = writer, None, ""
        if block.type == "text":
            text = block.text
        elif is_call(block.type):
            role, tool, text = 2, block.name, "\n".join([block.name, *_strings(_plain(block.input))])
            if block.id is not None:
                tools[block.id] = block.name
        elif is_result(block.type):
            role, tool, text = 2, tools.pop(block.tool_use_id or "", None), "\n".join(_result(_plain(block.content)))
        if text:
            yield _Part(number, role, tool, time, text[:TEXT_LENGTH], entry.uuid)


def _plain(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (ValueError, RecursionError):
        return None


def _result(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for each in content:
            if isinstance(each, dict) and each.get("type") == "text":
                yield from _strings(each.get("text"))


def _strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += reversed(each.values())
        elif isinstance(each, list):
            waiting += reversed(each)


# -- words ------------------------------------------------------------------------------------------------------------

_WORDS = re.compile(r'"([^"]*)"?|([^\s"]+)')
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")
"""Characters of scripts that are written without spaces, or with endings: each one is a word of the index."""


def _phrases(text: str) -> list[str]:
    """Return the words and quoted phrases of a query that have a letter or a digit."""
    found = (quoted or word for quoted, word in _WORDS.findall(text.replace("\0", " ")))
    return [phrase for phrase in found if any(map(str.isalnum, phrase))]


def _spaced(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def _folded(text: str) -> str:
    """Return `text` without case and accents, each character at its place."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := unicodedata.normalize("NFD", each)[0].lower()) == 1 else each for each in text)


_SPLIT = re.compile(r"[^\w]+|_")


def _context(text: str, phrases: list[str]) -> tuple[str, tuple[int, int]]:
    """Return the part of a text around the first match, and the place of the match in it."""
    folded = _folded(text)
    at, length = 0, 0
    for phrase in phrases:
        words = [re.escape(word) for word in _SPLIT.split(_folded(phrase)) if word]
        found = re.search(r"(?<![^\W_])" + r"[\W_]+".join(words) + r"(?![^\W_])", folded) or re.search(
            words[0] if words else "$", folded
        )
        if found is not None:
            at, length = found.start(), found.end() - found.start()
            break
    length = min(length, CONTEXT)
    begin, end = max(at - CONTEXT, 0), at + length + CONTEXT
    left = ("\u2026" if begin else "") + " ".join(text[begin:at].split(" ")).replace("\n", " ")
    match = text[at : at + length].replace("\n", " ")
    right = text[at + length : end].replace("\n", " ") + ("\u2026" if end < len(text) else "")
    return left + match + right, (len(left), len(left) + len(match))


def _hits(rows: Iterable[tuple[Any, ...]], phrases: list[str], limit: int) -> list[SearchHit]:
    found: list[SearchHit] = []
    seen: set[tuple[str, int]] = set()
    for path, session_id, agent_id, offset, length, number, role, tool, time, score in rows:
        if len(found) >= limit:
            break
        try:
            with open(path, "rb", buffering=0) as file:
                raw = os.pread(file.fileno(), length, offset)
        except OSError:
            continue
        part = next((part for part in _parts(raw, {}) if part.number == number), None)
        if part is None:
            continue
        if part.uuid is not None:
            if (part.uuid, number) in seen:
                continue
            seen.add((part.uuid, number))
        context, match = _context(part.text, phrases)
        found.append(
            SearchHit(
                session_id=session_id,
                agent_id=agent_id,
                uuid=part.uuid,
                role=ROLES[role],
                tool=tool,
                timestamp=datetime.fromtimestamp(time, UTC) if time is not None else None,
                context=context,
                match=match,
                score=score,
                path=Path(path),
                offset=offset,
            )
        )
    return found
