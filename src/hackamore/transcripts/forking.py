"""A new conversation from a part of another one, in a file of its own.

The copy is a straight line: each entry follows the one before it, as in the branches that the CLI makes itself. Every entry gets a new id,
and ids that name entries change with them. Contents of messages stay byte for byte.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from dataclasses import replace
from itertools import chain as joined
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from hackamore.errors import TranscriptError, escape_terminal
from hackamore.transcripts.changes import clean_title, title_lines, write_beside
from hackamore.transcripts.entries import fields_of
from hackamore.transcripts.listing import PROMPT_LENGTH, info_of, prompt_of
from hackamore.transcripts.stored import StoredFiles, located
from hackamore.transcripts.transcript import Transcript, TranscriptMessage, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from hackamore.options.stores import SessionStore
    from hackamore.storage.places import StrPath
    from hackamore.transcripts.chain import Node

_CARRIED = frozenset({"content-replacement", "memory-mode", "relocated", "atis-latch"})
"""Entries beside the messages that the next request depends on. The CLI's own branches have them too."""

_UNCHANGED = frozenset({"message", "toolUseResult"})
"""Contents: an id in them is data."""

_QUOTED_ID = re.compile(rb'"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"')
_encode = msgspec.json.encode


def fork(
    session_id: str,
    *,
    at: str | TranscriptMessage | None = None,
    title: str | None = None,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> str:
    """Copy a conversation up to a message into a new session. Resume it with `Options(resume=...)`.

    The original does not change. Subagents' own conversations are not copied; their results are. Files that tools changed stay as they
    are: `rewind_files` works in the original session only.

    Args:
        session_id: the session.
        at: the last message of the copy, or its id (`uuid`). None for the whole conversation.
        title: the title of the copy. None for the title of the original with `(fork)` behind it.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has it, and gets the copy; None for the disk.

    Returns:
        The id of the new session, in the same project.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the conversation has no such message or is empty, or a file cannot be read or written.
        ValueError: if nothing of `title` is left without control and invisible characters.
        StoreError: if the store fails.

    Example:
        ::

            third = hackamore.transcripts.read(session_id).messages[2]
            options = Options(resume=hackamore.transcripts.fork(session_id, at=third))
    """
    if title is not None and not clean_title(title):
        raise ValueError(f"`title` must have a visible character, got {escape_terminal(repr(title), 200)}.")
    files = located(session_id, project, config_dir, store)
    transcript = Transcript(files)
    chosen = _up_to(transcript, at)
    if not any(node.is_message for node in chosen):
        raise TranscriptError(f"The session {files.session_id} has no message to fork at.")
    info = info_of(files)
    own = title if title is not None else f"{(info.title if info else '')[:150]} (fork)"
    new_id = str(uuid.uuid4())
    copy = replace(files, session_id=new_id, path=files.path.with_name(f"{new_id}.jsonl"))
    named = title_lines(clean_title(own), copy.session_id)
    lines = _copied(transcript, chosen, copy.session_id)
    if isinstance(copy, StoredFiles):
        copy = replace(copy, key={**copy.key, "session_id": new_id})
        copy.call("append", [*map(msgspec.json.decode, lines), *named])
        return new_id
    create_file(copy.path, joined(lines, map(_encode, named)))
    write_beside(copy, "custom-title.json", {"customTitle": named[0]["customTitle"]})
    return copy.session_id


def _up_to(transcript: Transcript, at: str | TranscriptMessage | None) -> list[Node]:
    links = source_of(transcript).links
    current = links.current_leaf()
    if at is None:
        return _kept(_with_preserved(transcript, links.conversation(current)))
    wanted = at if isinstance(at, str) else at.uuid or ""
    others = (leaf for leaf in reversed(links.leaves()) if not leaf.sidechain)
    leaves = [current, *others] if current is not None and wanted in links.by_uuid else []
    # A message that a compaction kept belongs to the branch before it, where readers see it.
    for preserved in (False, True):
        sought = _anchors(transcript, wanted) if preserved and leaves else {wanted}
        for leaf, new in links.paths(leaves):
            if any(node.uuid in sought for node in new):
                way = _with_preserved(transcript, links.conversation(leaf))
                for number, node in enumerate(way):
                    if node.uuid == wanted:
                        return _kept(way[: number + 1])
    raise TranscriptError(
        f"The session {transcript.session_id} has no message {escape_terminal(repr(wanted), 200)}. Its messages have their ids as `uuid`: "
        "`hackamore.transcripts.read(session_id).messages`."
    )


class _Preserved(msgspec.Struct, gc=False, rename="camel"):
    anchor_uuid: str
    uuids: list[str] = []
    all_uuids: list[str] | None = None


class _Compaction(msgspec.Struct, gc=False, rename="camel"):
    preserved_messages: _Preserved | None = None


class _Boundary(msgspec.Struct, gc=False, rename="camel"):
    compact_metadata: _Compaction


_boundary = msgspec.json.Decoder(_Boundary).decode


def _preserved(transcript: Transcript, boundary: Node) -> tuple[str, list[str]]:
    """Return the entry that the messages follow which a compaction kept, and their ids."""
    ((_, line),) = source_of(transcript).lines(iter([boundary]))
    try:
        preserved = _boundary(line).compact_metadata.preserved_messages
    except (ValueError, RecursionError):
        return "", []
    if preserved is None:
        return "", []
    return preserved.anchor_uuid, preserved.uuids if preserved.all_uuids is None else preserved.all_uuids


def _anchors(transcript: Transcript, wanted: str) -> set[str]:
    """Return the entries that this message follows, of the compactions that kept it."""
    links = source_of(transcript).links
    boundaries = (node for node in links.nodes if node.kind == "system" and node.parent not in links.by_uuid)
    return {anchor for anchor, kept in (_preserved(transcript, each) for each in boundaries) if wanted in kept}


def _with_preserved(transcript: Transcript, way: list[Node]) -> list[Node]:
    """Put back the messages that a compaction kept as they were. They stand before it in the file, and follow its summary in requests."""
    if not way or way[0].kind != "system":
        return way
    anchor, wanted = _preserved(transcript, way[0])
    anchors = [number for number, node in enumerate(way) if node.uuid == anchor]
    if not anchors:
        return way
    present = {node.uuid for node in way}
    before = source_of(transcript).links.by_uuid
    missing = [before[each] for each in wanted if each in before and each not in present]
    return [*way[: anchors[0] + 1], *missing, *way[anchors[0] + 1 :]]


def _without_preserved(compaction: Raw) -> Raw:
    """Return the notes of a compaction without the list of messages that it kept: in the copy they follow the summary."""
    notes = fields_of(compaction)
    return _raw({name: raw for name, raw in notes.items() if name not in ("preservedSegment", "preservedMessages")})


def _kept(way: Iterable[Node]) -> list[Node]:
    return [node for node in way if not node.sidechain and node.kind != "progress"]


def _copied(transcript: Transcript, chosen: list[Node], session_id: str) -> Iterator[bytes]:
    renamed = {node.uuid.lower().encode(): str(uuid.uuid4()).encode() for node in chosen}
    ids = {node.uuid: renamed[node.uuid.lower().encode()].decode() for node in chosen}
    session = _raw(session_id)
    calls = {call for node in chosen for call in node.calls}
    parent: str | None = None
    last_prompt = ""
    for node, line in source_of(transcript).lines(iter(chosen)):
        fields = fields_of(line)
        own = ids[node.uuid]
        changed = {
            name: raw if name in _UNCHANGED else Raw(_QUOTED_ID.sub(lambda found: _renamed(found, renamed), bytes(raw)))
            for name, raw in fields.items()
        }
        if node.kind == "assistant" and "requestRef" in fields and "requestSessionId" not in fields:
            # The request that it names is noted in the file of the original.
            changed["requestSessionId"] = fields.get("sessionId", session)
        changed |= {
            "parentUuid": _raw(parent),
            "uuid": _raw(own),
            "sessionId": session,
            "forkedFrom": _raw({"sessionId": transcript.session_id, "messageUuid": node.uuid}),
        }
        changed.pop("logicalParentUuid", None)
        if "compactMetadata" in changed:
            with suppress(ValueError, RecursionError):
                changed["compactMetadata"] = _without_preserved(changed["compactMetadata"])
        yield _encode(changed)
        parent = own
        if node.prompt:
            last_prompt = _prompt_text(line) or last_prompt
    for entry in transcript.entries:
        if entry.type in _CARRIED and not entry.agent_id and not entry.is_sidechain:
            with suppress(ValueError, RecursionError):
                carried = fields_of(entry.raw)
                if entry.type == "content-replacement":
                    carried["replacements"] = _of_calls(carried.get("replacements", Raw(b"[]")), calls)
                yield _encode(carried | {"sessionId": session})
    yield _encode({"type": "last-prompt", "lastPrompt": last_prompt, "leafUuid": parent, "sessionId": session_id})


def _raw(value: object) -> Raw:
    return Raw(_encode(value))


def _renamed(found: re.Match[bytes], renamed: Mapping[bytes, bytes]) -> bytes:
    new = renamed.get(found[1].lower())
    return found[0] if new is None else b'"%b"' % new


def _of_calls(replacements: Raw, calls: set[str]) -> Raw:
    items = msgspec.json.decode(replacements)
    if not isinstance(items, list):
        return replacements
    return _raw([each for each in items if not isinstance(each, dict) or each.get("toolUseId", None) in (None, *calls)])


def _prompt_text(line: bytes) -> str:
    try:
        content = prompt_of(line).message.content
    except (ValueError, RecursionError):
        return ""
    texts = [content] if isinstance(content, str) else [each.text for each in content]
    return " ".join(text for text in texts if isinstance(text, str))[:PROMPT_LENGTH]


def create_file(path: Path, lines: Iterable[bytes]) -> None:
    """Create a session's file, readable for its user alone. Nothing is left of it if that fails.

    Raises:
        FileExistsError: if it exists.
        TranscriptError: if it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                for line in lines:
                    file.write(line + b"\n")
        except BaseException:
            with suppress(OSError):
                os.unlink(path)
            raise
    except FileExistsError:
        raise
    except OSError as error:
        raise TranscriptError(f"{escape_terminal(str(path))} could not be written: {error.strerror}.") from None
