"""Conversations as documents: Markdown to read, JSON for programs, JSONL to import again.

All texts of a conversation are data: of models, tools, files and web pages. Markdown shows characters that control a terminal or change the
direction of text as `\\u202e`.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from hackamore.activity.tree import CALLS, RESULTS
from hackamore.activity.words import clean
from hackamore.errors import DecodeError, SessionExistsError, SessionNotFoundError, TranscriptError, escape_terminal
from hackamore.messages import AssistantMessage, TextBlock, ThinkingBlock
from hackamore.storage.places import (
    SessionFiles,
    StrPath,
    SubagentFiles,
    config_folder,
    is_session_id,
    locate,
    project_key,
)
from hackamore.transcripts.entries import decode_entry, fields_of, lines_of, meta_of
from hackamore.transcripts.forking import create_file
from hackamore.transcripts.stored import METADATA, ask, located, wait
from hackamore.transcripts.transcript import Subagent, Transcript, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from hackamore.messages.content import ContentBlock
    from hackamore.options.stores import SessionStore, StoreKey
    from hackamore.transcripts.listing import TranscriptInfo
    from hackamore.transcripts.transcript import TranscriptMessage

ExportFormat = Literal["markdown", "json", "jsonl"]
"""A format of `export`."""


def export(
    session_id: str,
    format: ExportFormat = "markdown",  # noqa: A002 - the word that users look for
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> str:
    """Return a conversation as a document, subagents included.

    Args:
        session_id: the session.
        format: `markdown` to read; `json` for programs: facts and messages as one object; `jsonl` for `import_`: all lines as the CLI
            wrote them.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has the conversation; None for the disk.

    Returns:
        The document. Write it as UTF-8.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if a file cannot be read.
        ValueError: if the format is unknown.
        StoreError: if the store fails.

    Example:
        ::

            Path("talk.md").write_text(hackamore.transcripts.export(session_id), encoding="utf-8")
    """
    return b"".join(export_pieces(located(session_id, project, config_dir, store), format)).decode("utf-8", "replace")


def export_pieces(files: SessionFiles, format: ExportFormat) -> Iterator[bytes]:  # noqa: A002
    """Return a document in pieces of UTF-8, so that a large conversation needs little memory.

    Raises:
        SessionNotFoundError: if the file vanished.
        TranscriptError: if a file cannot be read.
        ValueError: if the format is unknown.
    """
    if format not in _FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(_FORMATS)}, got {escape_terminal(repr(format), 100)}.")
    return _FORMATS[format](Transcript(files))


# -- parts that people read ---------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A block of a message. `kind` is prompt, text, thinking, call, result, error or other."""

    kind: str
    name: str
    text: str


def _parts(message: TranscriptMessage) -> Iterator[_Part]:
    own = "text" if isinstance(message, AssistantMessage) else "prompt"
    content: Any = message.content
    if isinstance(content, str):
        yield _Part(own, "", content)
        return
    for block in content or ():
        yield _part(block, own)


def _part(block: ContentBlock, own: str) -> _Part:
    match block:
        case TextBlock():
            return _Part(own, "", block.text)
        case ThinkingBlock():
            return _Part("thinking", "", block.thinking)
        case _ if isinstance(block, CALLS):
            return _Part("call", block.name, _call_text(block))
        case _ if isinstance(block, RESULTS):
            return _Part("error" if block.is_error else "result", "", block.text)
        case _:
            return _Part("other", block.type, "")


def _call_text(block: Any) -> str:
    try:
        arguments = block.input
    except DecodeError:
        return ""
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


def _facts(info: TranscriptInfo) -> list[tuple[str, str]]:
    facts = [
        ("session", info.session_id),
        ("folder", info.cwd or ""),
        ("branch", info.git_branch or ""),
        ("model", info.model or ""),
        ("tag", info.tag or ""),
        ("created", f"{info.created:%Y-%m-%d %H:%M:%S %Z}" if info.created else ""),
        ("modified", f"{info.modified:%Y-%m-%d %H:%M:%S %Z}"),
    ]
    return [(name, _one_line(value)) for name, value in facts if value]


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _title(info: TranscriptInfo) -> str:
    return _one_line(info.title) or "Conversation"


def _subagents(transcript: Transcript) -> Iterator[tuple[Subagent, str]]:
    for each in transcript.subagents.values():
        yield each, _one_line(f"Subagent {each.agent_type or ''} {each.agent_id}")


_HEADS = {
    "prompt": "User",
    "text": "Assistant",
    "thinking": "Thinking",
    "call": "Tool",
    "result": "Result",
    "error": "Result (error)",
    "other": "Content",
}


def _head(part: _Part) -> str:
    return f"{_HEADS[part.kind]}: {_one_line(part.name)}" if part.name else _HEADS[part.kind]


# -- Markdown -----------------------------------------------------------------------------------------------------------

_TICKS = re.compile(r"`+")
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|~&-])")


def _markdown(transcript: Transcript) -> Iterator[bytes]:
    info = transcript.info
    facts = "".join(f"- {name}: {_code(value)}\n" for name, value in _facts(info))
    yield f"# {_escaped(_title(info))}\n\n{facts}".encode()
    yield from _markdown_messages(transcript, "##")
    for subagent, title in _subagents(transcript):
        yield f"\n## {_escaped(title)}\n".encode()
        yield from _markdown_messages(subagent, "###")


def _markdown_messages(conversation: Transcript | Subagent, level: str) -> Iterator[bytes]:
    for message in conversation.messages:
        for part in _parts(message):
            text = clean(part.text).strip("\n")
            # Texts of the model are Markdown; all others are shown as they are.
            body = _inert(text) if part.kind == "text" else _fenced(text) if text else ""
            yield f"\n{level} {_escaped(_head(part))}\n\n{body}\n".encode()


_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)", re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_ACTIVE = re.compile(r"<|!(?=\[)")


def _inert(text: str) -> str:
    """Return Markdown without HTML and images, and without a code block that stays open."""
    lines = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        ticks = (found[1] or found[2]) if found is not None else ""
        if fence:
            if ticks.startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif ticks:
            fence = ticks
        else:
            line = _outside_spans(line)  # noqa: PLW2901
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines)


def _outside_spans(line: str) -> str:
    parts, at = [], 0
    for span in _SPAN.finditer(line):
        parts += [_ACTIVE.sub(_disarmed, line[at : span.start()]), span[0]]
        at = span.end()
    return "".join([*parts, _ACTIVE.sub(_disarmed, line[at:])])


def _disarmed(found: re.Match[str]) -> str:
    return "\\<" if found[0] == "<" else "!\\"


def _fenced(text: str) -> str:
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _code(text: str) -> str:
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"`{text}`"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


# -- JSON ---------------------------------------------------------------------------------------------------------------

_NULL = Raw(b"null")
_KEPT = {
    "type": "type",
    "uuid": "uuid",
    "parentUuid": "parent_uuid",
    "timestamp": "timestamp",
    "isMeta": "is_meta",
    "message": "message",
}


def _json(transcript: Transcript) -> Iterator[bytes]:
    info = transcript.info
    names = ("session_id", "title", "tag", "cwd", "git_branch", "model", "created", "modified", "bytes")
    facts = {name: getattr(info, name) for name in names} | {"usage": msgspec.to_builtins(transcript.usage)}
    yield msgspec.json.encode(facts)[:-1] + b',"messages":['
    yield from _json_messages(transcript)
    yield b'],"subagents":['
    for number, each in enumerate(transcript.subagents.values()):
        named = {"agent_id": each.agent_id, "agent_type": each.agent_type, "tool_use_id": each.tool_use_id}
        yield b"," * (number > 0) + msgspec.json.encode(named)[:-1] + b',"messages":['
        yield from _json_messages(each)
        yield b"]}"
    yield b"]}\n"


def _json_messages(conversation: Transcript | Subagent) -> Iterator[bytes]:
    for number, message in enumerate(conversation.messages):
        fields = fields_of(message.raw)
        kept = {new: fields.get(old, _NULL) for old, new in _KEPT.items()}
        yield b"," * (number > 0) + b"\n" + msgspec.json.encode(kept)


# -- JSONL, there and back ----------------------------------------------------------------------------------------------

_SUBAGENT = "hackamore-subagent"
"""The type of the lines that stand before the lines of each subagent."""

BATCH_BYTES = 1 << 20
"""The size of the lines after which an append to a store ends."""

_entry: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode
_AGENT_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_FOLDER = re.compile(r"subagents(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}){0,8}")


def _jsonl(transcript: Transcript) -> Iterator[bytes]:
    with source_of(transcript).opened() as file:
        for line in lines_of(file):
            yield line.raw + b"\n"
    for files in transcript.files.subagents():
        folder = files.path.parent.relative_to(transcript.files.folder).as_posix()
        head = {"type": _SUBAGENT, "agentId": files.agent_id, "folder": folder, "meta": meta_of(files)}
        with suppress(OSError), files.open() as file:
            yield msgspec.json.encode(head) + b"\n"
            for line in lines_of(file):
                yield line.raw + b"\n"


_FORMATS = {"markdown": _markdown, "json": _json, "jsonl": _jsonl}


class _SubagentHead(msgspec.Struct, gc=False, rename="camel"):
    agent_id: str
    folder: str
    meta: dict[str, Any] = {}


_subagent_head = msgspec.json.Decoder(_SubagentHead).decode


def import_(
    source: StrPath, *, project: StrPath | None = None, new_id: bool = False, config_dir: StrPath | None = None
) -> str:
    """Import a conversation that `export` wrote as JSONL, or a session's file of another host. It can be resumed in the project.

    Paths inside the conversation stay as they are: they name files of the host that it comes from.

    Args:
        source: the file.
        project: the working directory to import it for. None for the current one.
        new_id: whether the session gets a new id. False keeps its id.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The session id.

    Raises:
        TranscriptError: if the file cannot be read, holds no conversation, has a line that is not a JSON object, or the session cannot be
            written.
        SessionExistsError: if a session of this id is on the disk, in any project.
    """
    shown = escape_terminal(os.fspath(source), 300)
    try:
        with open(source, "rb", buffering=0) as file:
            session_id = _check(file, shown)
            if new_id:
                own = str(uuid.uuid4())
            else:
                own = session_id
                with suppress(SessionNotFoundError):
                    locate(own, config_dir=config_dir)
                    raise SessionExistsError(own)
            folder = config_folder(config_dir) / "projects" / project_key(project)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            file.seek(0)
            return _write(file, SessionFiles(own, folder / f"{own}.jsonl"))
    except FileExistsError:
        raise SessionExistsError(own) from None
    except OSError as error:
        reason = escape_terminal(f"{error.strerror} ({error.filename or source})", 600)
        raise TranscriptError(f"{shown} could not be imported: {reason}.") from None


def copy_to_store(
    session_id: str,
    store: SessionStore,
    *,
    include_subagents: bool = True,
    batch_size: int = 500,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
) -> int:
    """Copy a conversation on the disk into a store, as sessions with this store write it. A damaged line is left out.

    The store may have a part of it: an entry with a `uuid` counts once.

    Args:
        session_id: the session.
        store: the store.
        include_subagents: whether the conversations of its subagents are copied, with the notes of the CLI on them.
        batch_size: the most entries of one append, which also ends after 1 MiB.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The entries that were appended.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if a file cannot be read.
        StoreError: if the store fails. It may have a part of the conversation then.

    Example:
        ::

            hackamore.transcripts.copy_to_store(session_id, store)
            options = Options(session_store=store, resume=session_id)
    """
    files = locate(session_id, project=project, config_dir=config_dir)
    key: StoreKey = {"project_key": files.project_key, "session_id": session_id}
    count = 0
    parts: list[SessionFiles | SubagentFiles] = [files, *(files.subagents() if include_subagents else ())]
    for part in parts:
        if part is not files:
            key = {**key, "subpath": part.path.relative_to(files.folder).with_suffix("").as_posix()}
        try:
            for batch in _batches(part, max(batch_size, 1)):
                wait(partial(ask, store, "append", key, batch, session_id=session_id))
                count += len(batch)
        except OSError as error:
            raise TranscriptError(f"{escape_terminal(str(part.path))} could not be read: {error.strerror}.") from None
    return count


def _batches(part: SessionFiles | SubagentFiles, most: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    with part.open() as file:
        for line in lines_of(file):
            with suppress(ValueError, RecursionError):
                batch.append(_entry(line.raw))
                size += len(line.raw)
            if len(batch) >= most or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if isinstance(part, SubagentFiles) and (meta := meta_of(part)):
        batch.append({**meta, "type": METADATA})
    if batch:
        yield batch


def _check(file: Any, shown: str) -> str:
    """Return the session id. Nothing is written before all lines are looked at."""
    session_id: str | None = None
    messages = 0
    for number, line in enumerate(lines_of(file), 1):
        entry = decode_entry(line.raw)
        if entry is None:
            raise TranscriptError(f"{shown} is not an export: line {number} is not a JSON object.")
        if entry.type == _SUBAGENT:
            try:
                head = _subagent_head(line.raw)
            except (ValueError, RecursionError):
                head = _SubagentHead("", "")
            if not _AGENT_ID.fullmatch(head.agent_id) or not _FOLDER.fullmatch(head.folder):
                raise TranscriptError(f"{shown} is not an export: line {number} names no subagent.")
        elif entry.session_id is not None and session_id is None:
            session_id = entry.session_id
        messages += entry.type in ("user", "assistant")
    if session_id is None or not is_session_id(session_id) or not messages:
        raise TranscriptError(f"{shown} holds no conversation. Pass a file of `export(session_id, 'jsonl')`.")
    return session_id


def _write(file: Any, files: SessionFiles) -> str:
    parts = _split(file, msgspec.json.encode(files.session_id))
    created: list[Path] = []
    try:
        for head, lines in parts:
            path = files.path
            if head is not None:
                folder = files.folder / head.folder
                os.makedirs(folder, mode=0o700, exist_ok=True)
                path = folder / f"agent-{head.agent_id}.jsonl"
                if head.meta:
                    create_file(path.with_suffix(".meta.json"), [msgspec.json.encode(head.meta)])
                    created.append(path.with_suffix(".meta.json"))
            create_file(path, lines)
            created.append(path)
    except BaseException:
        for path in created:
            with suppress(OSError):
                os.unlink(path)
        raise
    return files.session_id


def _split(file: Any, session_id: bytes) -> Iterator[tuple[_SubagentHead | None, Iterable[bytes]]]:
    """Yield the main conversation and the subagents, each with its lines, which must be taken before the next part."""
    waiting: list[_SubagentHead | None] = [None]
    every = lines_of(file)

    def lines() -> Iterator[bytes]:
        for line in every:
            if b'"hackamore-subagent"' in line.raw and (entry := decode_entry(line.raw)) and entry.type == _SUBAGENT:
                waiting.append(_subagent_head(line.raw))
                return
            yield _with_session(line.raw, session_id)

    while waiting:
        yield waiting.pop(), lines()


def _with_session(raw: bytes, session_id: bytes) -> bytes:
    fields = fields_of(raw)
    named = fields.get("sessionId")
    if named is None or bytes(named) == session_id:
        return raw
    return msgspec.json.encode(fields | {"sessionId": Raw(session_id)})
