"""Changes of conversations on the disk: rename, tag, archive, delete, prune.

The format of the files is the CLI's. Hackamore only appends lines that the CLI itself appends, each call with one write, and writes the
small files that the CLI writes beside a conversation. Another process may append at the same time: a write with O_APPEND is one piece.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import unicodedata
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.errors import SessionInUseError, SessionNotFoundError, StreamWarning, TranscriptError, escape_terminal
from hackamore.storage.files import write_file
from hackamore.storage.places import SessionFiles, StrPath, chosen_folders, locate, sessions_in
from hackamore.transcripts.entries import lines_of
from hackamore.transcripts.listing import TranscriptInfo, info_of, tops_of
from hackamore.transcripts.running import running_sessions
from hackamore.transcripts.stored import StoredFiles, located

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hackamore.options.stores import SessionStore

NAME_LENGTH = 200
"""The most characters of a title or a tag."""


def rename(
    session_id: str,
    title: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> None:
    """Set the title of a conversation, as `/rename` does.

    The CLI shows the title in its list of sessions and above its prompt, and `claude --resume TITLE` finds it.
    If a process works on the session, it may write its own title above the prompt again. A `StreamWarning` (SESSION_IN_USE) reports that;
    `Session.rename_session` is the better way then.

    Args:
        session_id: the session.
        title: the title. Control and invisible characters are left out, line ends become spaces; at most 200 characters count.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has the conversation; None for the disk.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        ValueError: if nothing of the title is left.
        TranscriptError: if the file cannot be written.
        StoreError: if the store fails.
    """
    cleaned = clean_title(title)
    if not cleaned:
        raise ValueError(f"`title` must have a visible character, got {escape_terminal(repr(title), 200)}.")
    files = located(session_id, project, config_dir, store, check=True)
    if store is None and (pid := running_sessions(config_dir).get(files.session_id)) is not None:
        message = (
            f"The process {pid} works on the session {files.session_id}. At its end it may write its own title above the prompt again; "
            "`Session.rename_session` renames a session that runs."
        )
        warnings.warn(StreamWarning("SESSION_IN_USE", message, {"pid": pid}), stacklevel=2)
    append(files, title_lines(cleaned, files.session_id))
    write_beside(files, "custom-title.json", {"customTitle": cleaned})


def tag(
    session_id: str,
    tag: str | None,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> None:
    """Set or remove the tag of a conversation.

    The CLI shows the tag in its list of sessions, as `#tag`. `list(tag=...)` filters by it, and `prune` keeps tagged conversations.

    Args:
        session_id: the session.
        tag: the tag; None to remove it. Control, invisible and unassigned characters are left out, and compatible forms become one
            (Unicode's NFKC); at most 200 characters count.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has the conversation; None for the disk.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        ValueError: if nothing of the tag is left.
        TranscriptError: if the file cannot be written.
        StoreError: if the store fails.
    """
    cleaned = "" if tag is None else clean_tag(tag)
    if tag is not None and not cleaned:
        raise ValueError(
            f"`tag` must have a visible character, or be None to remove the tag; got {escape_terminal(repr(tag), 200)}."
        )
    files = located(session_id, project, config_dir, store, check=True)
    append(files, [{"type": "tag", "tag": cleaned, "sessionId": files.session_id}])


def archive(
    session_id: str, *, archived: bool = True, project: StrPath | None = None, config_dir: StrPath | None = None
) -> None:
    """Mark a conversation as archived, or take the mark away. Its file stays, and it can be resumed.

    The mark is the CLI's own (`archived.json`). A prompt that is sent later takes it away.

    Args:
        session_id: the session.
        archived: False to take the mark away.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the mark cannot be written.
    """
    files = locate(session_id, project=project, config_dir=config_dir)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    write_beside(files, "archived.json", {"archived": archived, "at": now})


class _Mark(msgspec.Struct, gc=False):
    archived: bool
    at: datetime


class _Prompt(msgspec.Struct, gc=False, rename="camel"):
    type: str
    timestamp: datetime
    is_sidechain: bool = False
    is_meta: bool = False


_mark = msgspec.json.Decoder(_Mark).decode
_prompt = msgspec.json.Decoder(_Prompt).decode


def is_archived(info: TranscriptInfo) -> bool:
    """Return whether a conversation is archived: `archive` marked it, and it got no prompt since.

    Args:
        info: the conversation, of `list`, `info` or `find`.

    Returns:
        True if it is archived.
    """
    try:
        mark = _mark((info.files.folder / "archived.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not mark.archived or mark.at.tzinfo is None:
        return False
    return info.modified <= mark.at or not _has_prompt_after(info.path, mark.at)


def _has_prompt_after(path: Path, time: datetime) -> bool:
    with suppress(OSError), path.open("rb", buffering=0) as file:
        for line in lines_of(file):
            if b'"user"' in line.raw and b'"tool_result"' not in line.raw:
                with suppress(ValueError, RecursionError):
                    found = _prompt(line.raw)
                    stamp = found.timestamp if found.timestamp.tzinfo else found.timestamp.replace(tzinfo=UTC)
                    if found.type == "user" and not found.is_sidechain and not found.is_meta and stamp > time:
                        return True
    return False


def delete(
    session_id: str,
    *,
    force: bool = False,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> None:
    """Delete a conversation: its file, and the folder with its subagents and other files.

    Copies of edited files (`file-history`) and the history of prompts stay until the CLI removes them.

    Args:
        session_id: the session.
        force: whether to delete it even if a process works on it. That process may write the file again.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has the conversation; None for the disk.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        SessionInUseError: if a process works on it, and not `force`.
        TranscriptError: if a file cannot be deleted.
        StoreError: if the store fails, or has no method `delete`.
    """
    files = located(session_id, project, config_dir, store, check=True)
    if store is None and not force and (pid := running_sessions(config_dir).get(files.session_id)) is not None:
        raise SessionInUseError(files.session_id, pid)
    _remove(files)


def _remove(files: SessionFiles) -> None:
    if isinstance(files, StoredFiles):
        files.call("delete")
        return
    try:
        os.unlink(files.path)
        if os.path.islink(files.folder):
            os.unlink(files.folder)
        elif os.path.isdir(files.folder):
            shutil.rmtree(files.folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise TranscriptError(
            f"{escape_terminal(str(error.filename))} could not be deleted: {error.strerror}."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """The result of `prune`.

    Attributes:
        sessions: the conversations that were deleted, or would be in a dry run; the oldest first.
        bytes: the size of their files, subagents included.
        tagged: conversations that are old enough, and stay because they have a tag.
        running: conversations that are old enough, and stay because a process works on them.
        failed: conversations that could not be deleted.
        dry_run: True if nothing was deleted.
    """

    sessions: tuple[TranscriptInfo, ...]
    bytes: int
    tagged: tuple[TranscriptInfo, ...] = ()
    running: tuple[TranscriptInfo, ...] = ()
    failed: tuple[TranscriptInfo, ...] = ()
    dry_run: bool = True


def prune(
    *,
    older_than: timedelta,
    project: StrPath | None = None,
    all_projects: bool = False,
    include_worktrees: bool = True,
    keep_tagged: bool = True,
    dry_run: bool = True,
    config_dir: StrPath | None = None,
) -> PruneResult:
    """Delete conversations that did not change for a time. By default, only return the ones that it would delete.

    Args:
        older_than: the time since the last change, of the conversation and its subagents.
        project: the working directory of the project; None for the current one.
        all_projects: whether to look in all projects; `project` must be None then.
        include_worktrees: whether the other worktrees of the project's git repository count.
        keep_tagged: whether conversations with a tag stay.
        dry_run: whether nothing is deleted.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The conversations, and the bytes that their files take.

    Raises:
        ValueError: if `older_than` is negative, or `all_projects` comes with a `project`.

    Example:
        ::

            old = hackamore.transcripts.prune(older_than=timedelta(days=90), all_projects=True)
            print(len(old.sessions), "conversations,", old.bytes, "bytes")
    """
    if older_than < timedelta(0):
        raise ValueError(f"`older_than` must not be negative, got {older_than}.")
    folders = chosen_folders(project, all_projects, include_worktrees=include_worktrees, config_dir=config_dir)
    latest = datetime.now(UTC) - older_than
    running = running_sessions(config_dir)
    chosen: list[tuple[TranscriptInfo, int]] = []
    kept: dict[str, list[TranscriptInfo]] = {"tagged": [], "running": [], "failed": []}
    for folder, directory in folders:
        for files in sessions_in(folder, directory):
            found = info_of(files)
            if found is None or found.modified > latest:
                continue
            size, modified = _extent(files)
            if modified > latest.timestamp():
                continue
            if files.session_id in running:
                kept["running"].append(found)
            elif keep_tagged and (found.tag or _has_tag(files.path)):
                kept["tagged"].append(found)
            else:
                chosen.append((found, size))
    chosen.sort(key=lambda pair: pair[0].modified)
    if not dry_run:
        chosen = [(found, size) for found, size in chosen if _pruned(found, latest, kept["failed"])]
    return PruneResult(
        sessions=tuple(found for found, _ in chosen),
        bytes=sum(size for _, size in chosen),
        tagged=tuple(kept["tagged"]),
        running=tuple(kept["running"]),
        failed=tuple(kept["failed"]),
        dry_run=dry_run,
    )


def _pruned(found: TranscriptInfo, latest: datetime, failed: list[TranscriptInfo]) -> bool:
    """Delete a conversation unless it changed since it was chosen."""
    if _extent(found.files)[1] > latest.timestamp():
        return False
    try:
        _remove(found.files)
    except TranscriptError:
        failed.append(found)
        return False
    return True


def _extent(files: SessionFiles) -> tuple[int, float]:
    """Return the size of all files of a session, and the time of their last change, in seconds."""
    size, modified = 0, 0.0
    with suppress(OSError):
        status = os.stat(files.path)
        size, modified = status.st_size, status.st_mtime
    for folder, _, names in os.walk(files.folder):
        for name in names:
            with suppress(OSError):
                status = os.lstat(os.path.join(folder, name))
                size += status.st_size
                modified = max(modified, status.st_mtime)
    return size, modified


def _has_tag(path: Path) -> bool:
    """Return whether a conversation has a tag anywhere. `TranscriptInfo.tag` sees the last 64 KiB only."""
    tagged = False
    try:
        with path.open("rb", buffering=0) as file:
            for line in lines_of(file):
                if b'"tag"' in line.raw:
                    with suppress(ValueError, RecursionError):
                        tops = tops_of(line.raw)
                        tagged = bool(tops.tag) if tops.type == "tag" else tagged
    except OSError:
        return True  # A conversation that cannot be read is not deleted.
    return tagged


# -- writing ----------------------------------------------------------------------------------------------------------


def title_lines(title: str, session_id: str) -> list[dict[str, Any]]:
    """Return the entries of a title: one for lists, one for the line above the prompt."""
    return [
        {"type": "custom-title", "customTitle": title, "sessionId": session_id},
        {"type": "agent-name", "agentName": title, "sessionId": session_id},
    ]


def append(files: SessionFiles, entries: Iterable[Mapping[str, Any]]) -> None:
    """Append entries to a session's file, in the order of their fields and in one write. The file is not created.

    Raises:
        SessionNotFoundError: if the file vanished.
        TranscriptError: if it cannot be written.
    """
    if isinstance(files, StoredFiles):
        files.call("append", [*entries])
        return
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    try:
        descriptor = os.open(files.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
                lines = b"\n" + lines  # after a line that a killed process left half-written
            if os.write(descriptor, lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise SessionNotFoundError.on_disk(files.session_id, str(files.path.parent)) from None
    except OSError as error:
        raise TranscriptError(f"{escape_terminal(str(files.path))} could not be written: {error.strerror}.") from None


def write_beside(files: SessionFiles, name: str, content: Mapping[str, Any]) -> None:
    """Write a small file in the folder of a session, readable for its user alone. An older one is replaced in one step.

    Raises:
        TranscriptError: if it cannot be written.
    """
    path = files.folder / name
    if isinstance(files, StoredFiles):
        return  # stores have no such files
    try:
        with suppress(FileExistsError):
            os.mkdir(files.folder, 0o700)
        write_file(path, [msgspec.json.encode(content)])
    except OSError as error:
        raise TranscriptError(f"{escape_terminal(str(path))} could not be written: {error.strerror}.") from None


# -- names ------------------------------------------------------------------------------------------------------------

_SPACES = re.compile(r"\s+")
_JOINERS = frozenset("\u200c\u200d")
"""Invisible characters that scripts and emoji need."""


def clean_title(title: str) -> str:
    """Return a title on one line, without control, invisible and unassigned characters, at most 200 characters; possibly empty."""
    spaced = _SPACES.sub(" ", title)
    kept = "".join(each for each in spaced if each in _JOINERS or not _is_unsafe(each))
    return "" if not kept.strip("\u200c\u200d ") else kept.strip()[:NAME_LENGTH].strip()


def clean_tag(tag: str) -> str:
    """Return a tag in Unicode's NFKC form, without control, invisible and unassigned characters, at most 200 characters; possibly empty."""
    before = None
    while tag != before:
        before = tag
        # Removing characters can bring others together that compose, and cutting can end in a space.
        spaced = _SPACES.sub(" ", unicodedata.normalize("NFKC", tag))
        tag = "".join(each for each in spaced if not _is_unsafe(each)).strip()[:NAME_LENGTH].strip()
    return tag


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs")
