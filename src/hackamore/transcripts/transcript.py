"""One conversation on the disk: its messages, turns, subagents, branches and raw entries, read when they are needed.

Opening a conversation reads its file once and keeps the links of the entries, not their content. Messages are read again, one at a time,
when a caller takes them, so that a large conversation needs little memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast, overload

import msgspec
from msgspec import Raw

from hackamore.activity.prices import sum_of
from hackamore.activity.replies import Replies, Reply
from hackamore.activity.tree import answered, typed
from hackamore.errors import DecodeError, SessionNotFoundError, TranscriptError, escape_terminal
from hackamore.messages import AssistantMessage, UserMessage
from hackamore.messages.base import NO_RAW, plain_object
from hackamore.messages.decode import decode
from hackamore.transcripts.chain import Links, Node
from hackamore.transcripts.entries import Entry, decode_entry, lines_of, meta_of
from hackamore.transcripts.listing import TranscriptInfo, info_of
from hackamore.transcripts.stored import located

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hackamore.activity.prices import Tokens
    from hackamore.options.stores import SessionStore
    from hackamore.storage.places import SessionFiles, StrPath, SubagentFiles

TranscriptMessage: TypeAlias = UserMessage | AssistantMessage
"""A message of a conversation: the classes of live messages."""

READ_BYTES = 1 << 18
"""Bytes that are read at a time when messages are taken."""


def read(
    session_id: str,
    *,
    leaf: str | None = None,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> Transcript:
    """Open a conversation and read its links.

    Args:
        session_id: the session.
        leaf: the id (`uuid`) of the message that the conversation ends with, for example of a branch. None for the newest one.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has it, which is also called when `subagents` are used; None for the disk.

    Returns:
        The conversation, as it is at this moment.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the file cannot be read, or the conversation does not have the message `leaf`.
        StoreError: if the store fails.

    Example:
        ::

            conversation = hackamore.transcripts.read(session_id)
            for message in conversation.messages:
                print(message)
    """
    return Transcript(located(session_id, project, config_dir, store), leaf=leaf)


def list_subagents(
    session_id: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> list[str]:
    """Return the ids of the subagents of a session, those of nested ones included. No conversation is read.

    Args:
        session_id: the session.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has them; None for the disk. A store without `list_subkeys` lists none.

    Returns:
        The ids, each once.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        StoreError: if the store fails.
    """
    return [*dict.fromkeys(each.agent_id for each in located(session_id, project, config_dir, store).subagents())]


def read_subagent(
    session_id: str,
    agent_id: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> Subagent:
    """Open the conversation of one subagent, also of a nested one. The others, and that of the session, are not read.

    Args:
        session_id: the session.
        agent_id: the id of the subagent.
        project: the working directory of the session's project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has it; None for the disk.

    Returns:
        The conversation, with the type and the call of the subagent.

    Raises:
        SessionNotFoundError: if there is no file of this session, or of this subagent.
        TranscriptError: if the file cannot be read.
        StoreError: if the store fails.
    """
    files = located(session_id, project, config_dir, store)
    found = next((each for each in files.subagents() if each.agent_id == agent_id), None)
    return Subagent(found or files.subagent(agent_id), session_id)


# -- reading the file -------------------------------------------------------------------------------------------------


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    tool_use_id: str | None = None
    text: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    content: str | list[_Block] = ""


class _Link(msgspec.Struct, gc=False, rename="camel"):
    """The part of a line that the links are made of. Subagents and teams are compared by truth, so that odd values count."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    timestamp: str = ""
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    team_name: Any = None
    agent_id: str | None = None
    session_id: str | None = None
    request_id: Any = None
    is_api_error_message: Any = None
    tool_use_result: Raw = NO_RAW
    source_tool_assistant: str | None = msgspec.field(default=None, name="sourceToolAssistantUUID")
    message: _Message | None = None


class _Kind(msgspec.Struct, gc=False):
    type: str = ""
    uuid: str | None = None


_LINKED = frozenset({"user", "assistant", "progress", "system", "attachment"})
_link: Callable[[bytes], _Link] = msgspec.json.Decoder(_Link).decode
_kind: Callable[[bytes], _Kind] = msgspec.json.Decoder(_Kind).decode


def _node(raw: bytes, offset: int) -> Node | None:
    try:
        link = _link(raw)
    except (ValueError, RecursionError):
        slow = _link_slowly(raw)
        if slow is None:
            return None
        link = slow
    if link.uuid is None or link.type not in _LINKED:
        return None
    message = link.message
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    first: str | None = None
    if message is not None:
        if isinstance(message.content, str):
            first = message.content
        else:
            for block in message.content:
                if block.type == "tool_use" and block.id is not None:
                    calls = (*calls, block.id)
                elif block.type == "tool_result":
                    results = (*results, block.tool_use_id or "")
                elif first is None:
                    first = block.text if block.type == "text" else ""
    is_user = link.type == "user"
    meta, team = bool(link.is_meta), bool(link.team_name)
    # By place: with names it takes three times as long.
    return Node(
        link.uuid,
        link.parent_uuid or None,
        link.logical_parent_uuid,
        link.type,
        offset,
        len(raw),
        link.timestamp,
        (message.id or None) if message is not None and link.type == "assistant" else None,
        calls if link.type == "assistant" else (),
        results if is_user else (),
        link.source_tool_assistant,
        link.agent_id,
        link.session_id and sys.intern(link.session_id),
        bool(link.is_sidechain),
        meta,
        team,
        is_user and first is not None and typed(first, results, meta, team, link.is_compact_summary),
        bool(link.tool_use_result) or link.request_id is not None or link.is_api_error_message is not None,
    )


def _link_slowly(raw: bytes) -> _Link | None:
    """Return the links of a line with fields of the wrong shape, which count as absent."""
    entry = decode_entry(raw)
    if entry is None:
        return None
    link = _Link(
        type=entry.type,
        uuid=entry.uuid,
        parent_uuid=entry.parent_uuid,
        timestamp=entry.timestamp or "",
        is_sidechain=entry.is_sidechain,
        is_meta=entry.is_meta,
        is_compact_summary=entry.is_compact_summary,
        team_name=entry.team_name,
        agent_id=entry.agent_id,
        session_id=entry.session_id,
        request_id="",  # it may have any of the fields
    )
    try:
        data = plain_object(entry.message_raw)
    except DecodeError:
        return link
    content = data.get("content")
    if isinstance(content, list):
        content = [
            msgspec.convert({name: text for name, text in block.items() if isinstance(text, str)}, _Block)
            for block in content
            if isinstance(block, dict)
        ]
    message_id = data.get("id")
    link.message = _Message(
        id=message_id if isinstance(message_id, str) else None,
        content=content if isinstance(content, str | list) else "",
    )
    return link


class _Source:
    """A file, and the identity that it had when its links were read."""

    def __init__(self, files: SessionFiles | SubagentFiles, session_id: str) -> None:
        self._files = files
        self.path: Path = files.path
        self.session_id = session_id
        self.nodes: list[Node] = []
        self.size: int = 0
        with self.opened() as file:
            self._identity, _ = _identify(file)
            for line in lines_of(file):
                if (node := _node(line.raw, line.offset)) is not None:
                    self.nodes.append(node)
            self.size = file.tell()
        self.links: Links = Links(self.nodes)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file, and close it after the block."""
        try:
            with self._files.open() as file:
                yield file
        except FileNotFoundError:
            raise SessionNotFoundError.on_disk(self.session_id, str(self.path.parent)) from None
        except OSError as error:
            raise TranscriptError(f"{escape_terminal(str(self.path))} could not be read: {error}.") from None

    def entries(self) -> Iterator[Entry]:
        """Yield all entries that the file has now."""
        with self.opened() as file:
            for line in lines_of(file):
                entry = decode_entry(line.raw, line.offset)
                if entry is not None:
                    yield entry

    def lines(self, nodes: Iterator[Node]) -> Iterator[tuple[Node, bytes]]:
        """Yield entries with their lines."""
        buffer, start = b"", 0
        with self.opened() as file:
            identity, size = _identify(file)
            if identity != self._identity or size < self.size:
                raise TranscriptError(
                    f"{escape_terminal(str(self.path))} was replaced after it was opened. Call `read` again for its present content."
                )
            for node in nodes:
                at = node.offset - start
                if at < 0 or at + node.length > len(buffer):
                    start, at = node.offset, 0
                    file.seek(start)
                    buffer = file.read(max(node.length, READ_BYTES))
                    while len(buffer) < node.length and (more := file.read(node.length)):
                        buffer += more
                yield node, buffer[at : at + node.length]


def _identify(file: BinaryIO) -> tuple[object, int]:
    """Return the identity of a file, and its size."""
    if isinstance(file, BytesIO):
        return None, file.getbuffer().nbytes
    status = os.fstat(file.fileno())
    return (status.st_dev, status.st_ino), status.st_size


class _Names(msgspec.Struct, gc=False, rename="camel"):
    """Fields that have other names in the file than in live messages, and that no link has."""

    tool_use_result: Raw = NO_RAW
    request_id: Any = None
    is_api_error_message: Any = None


_names: Callable[[bytes], _Names] = msgspec.json.Decoder(_Names).decode
_force = msgspec.structs.force_setattr


def _message(raw: bytes, node: Node, parent_tool_use_id: str | None) -> TranscriptMessage:
    message = cast("TranscriptMessage", decode(raw, _ignore))
    if node.session_id is not None:
        _force(message, "session_id", node.session_id)
    if node.agent_id is not None:
        _force(message, "agent_id", node.agent_id)
    if parent_tool_use_id is not None:
        _force(message, "parent_tool_use_id", parent_tool_use_id)
    if node.meta and isinstance(message, UserMessage):
        _force(message, "is_synthetic", True)
    if not node.renamed:
        return message
    try:
        names = _names(raw)
    except (ValueError, RecursionError):
        return message
    if isinstance(message, UserMessage):
        if names.tool_use_result:
            _force(message, "tool_use_result_raw", names.tool_use_result)
    else:
        if isinstance(names.request_id, str):
            _force(message, "request_id", names.request_id)
        if names.is_api_error_message is True:
            _force(message, "is_api_error_message", True)
    return message


def _ignore(_: object) -> None:
    """Drop a warning: the bytes of the field stay in `raw`."""


# -- views ------------------------------------------------------------------------------------------------------------


class Messages(Sequence[TranscriptMessage]):
    """The messages of a conversation, oldest first, read from the disk as they are taken.

    Iterating reads the file once and keeps one message. `len()`, indexes and slices work; a slice is a view as well.
    """

    __slots__ = ("_nodes", "_parent", "_source")

    def __init__(self, source: _Source, nodes: Sequence[Node], parent_tool_use_id: str | None) -> None:
        self._source = source
        self._nodes = nodes
        self._parent = parent_tool_use_id

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[TranscriptMessage]:
        return self._read(iter(self._nodes))

    def __reversed__(self) -> Iterator[TranscriptMessage]:
        return self._read(reversed(self._nodes))

    def _read(self, nodes: Iterator[Node]) -> Iterator[TranscriptMessage]:
        for node, raw in self._source.lines(nodes):
            yield _message(raw, node, self._parent)

    @overload
    def __getitem__(self, place: int) -> TranscriptMessage: ...
    @overload
    def __getitem__(self, place: slice) -> Messages: ...
    def __getitem__(self, place: int | slice) -> TranscriptMessage | Messages:
        if isinstance(place, slice):
            return Messages(self._source, self._nodes[place], self._parent)
        (message,) = self._read(iter([self._nodes[place]]))
        return message

    def __repr__(self) -> str:
        return f"<Messages: {len(self)} of session {self._source.session_id}>"


class Entries:
    """All entries of a file, of every branch and type, in the order of the file. Each iteration reads the file as it is then."""

    __slots__ = ("_source",)

    def __init__(self, source: _Source) -> None:
        self._source = source

    def __iter__(self) -> Iterator[Entry]:
        return self._source.entries()


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """A prompt, and all messages up to the next one.

    Attributes:
        messages: the messages, the prompt included.
        has_prompt: True if the first message is the prompt. The beginning of a conversation, such as the summary of a compaction, has none.
    """

    messages: Messages
    has_prompt: bool

    @property
    def prompt(self) -> UserMessage | None:
        """The prompt."""
        return cast("UserMessage", self.messages[0]) if self.has_prompt else None

    @property
    def text(self) -> str:
        """The text of the last reply with text; empty if there is none."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage) and message.text:
                return message.text
        return ""

    @property
    def usage(self) -> Tokens:
        """Tokens of the replies of this turn, without subagents."""
        return _tokens(self.messages)


@dataclass(frozen=True, slots=True)
class Branch:
    """A path through the conversation. A second one begins where the user went back to an earlier message.

    Attributes:
        leaf: the id of its last message, for `read(..., leaf=...)`.
        current: True for the path that the conversation continues.
        compacted: True for the messages that a compaction replaced with a summary.
    """

    leaf: str
    current: bool
    compacted: bool
    _read: Callable[[str], Messages] = field(repr=False, compare=False)

    @property
    def messages(self) -> Messages:
        """Its messages, from the beginning. Each call finds them; no branch keeps them."""
        return self._read(self.leaf)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that tools of the conversation changed.

    Attributes:
        path: the path, as the tool call named it.
        changes: successful tool calls that changed it.
        created: True if the first one created it.
    """

    path: str
    changes: int
    created: bool


class _Conversation:
    """The part that conversations and subagents share."""

    def __init__(self, source: _Source, leaf: Node | None, parent_tool_use_id: str | None, *, subagent: bool) -> None:
        self._source = source
        self._leaf = leaf
        self._parent = parent_tool_use_id
        self._is_subagent = subagent

    def _visible(self, nodes: Sequence[Node]) -> list[Node]:
        every = self._is_subagent
        return [node for node in nodes if node.is_message and (every or not (node.hidden or node.sidechain))]

    def _view(self, nodes: Sequence[Node]) -> Messages:
        return Messages(self._source, nodes, self._parent)

    def _messages_to(self, leaf: str) -> Messages:
        links = self._source.links
        return self._view(self._visible(links.conversation(links.by_uuid[leaf])))

    @cached_property
    def _shown(self) -> list[Node]:
        return self._visible(self._source.links.conversation(self._leaf))

    @property
    def path(self) -> Path:
        """The file."""
        return self._source.path

    @property
    def leaf(self) -> str | None:
        """The id (`uuid`) of the last message; None if there is no message."""
        return self._leaf.uuid if self._leaf is not None else None

    @property
    def messages(self) -> Messages:
        """The messages of the user and the model, oldest first, in the classes of live messages."""
        return self._view(self._shown)

    @property
    def entries(self) -> Entries:
        """All entries of the file, of every branch, with their bytes."""
        return Entries(self._source)

    @property
    def turns(self) -> list[TranscriptTurn]:
        """The turns, oldest first."""
        nodes = self._shown
        starts = [number for number, node in enumerate(nodes) if node.prompt]
        if nodes and (not starts or starts[0]):
            starts.insert(0, 0)
        ends = [*starts[1:], len(nodes)]
        return [
            TranscriptTurn(self._view(nodes[start:end]), nodes[start].prompt)
            for start, end in zip(starts, ends, strict=bool(nodes))
        ]


class Subagent(_Conversation):
    """The conversation of a subagent.

    Attributes:
        agent_id: the id of the subagent.
        agent_type: its type, such as `general-purpose`; None if it is unknown.
        tool_use_id: the call that started it; None if it is unknown.
        parent_agent_id: the subagent that started it; None for the main conversation.
        meta: everything that the CLI noted of it, as plain values.
    """

    def __init__(self, files: SubagentFiles, session_id: str) -> None:
        self.agent_id: str = files.agent_id
        self.meta: dict[str, Any] = meta_of(files)
        self.agent_type: str | None = self._named("agentType")
        self.tool_use_id: str | None = self._named("toolUseId")
        self.parent_agent_id: str | None = self._named("parentAgentId")
        source = _Source(files, session_id)
        super().__init__(source, source.links.current_leaf(subagent=True), self.tool_use_id, subagent=True)

    def _named(self, name: str) -> str | None:
        value = self.meta.get(name)
        return value if isinstance(value, str) else None

    @property
    def usage(self) -> Tokens:
        """Tokens of all replies in its file, each reply counted once."""
        return _tokens(_replies(self._source, self._parent))

    def __repr__(self) -> str:
        return f"<Subagent {self.agent_id} ({self.agent_type}): {len(self._shown)} messages>"


class Transcript(_Conversation):
    """A conversation on the disk or in a store, as it was when it was opened. `read` makes it.

    Attributes:
        session_id: the session.
        files: its files.
    """

    def __init__(self, files: SessionFiles, *, leaf: str | None = None) -> None:
        self.session_id: str = files.session_id
        self.files: SessionFiles = files
        source = _Source(files, files.session_id)
        end = source.links.current_leaf() if leaf is None else source.links.by_uuid.get(leaf)
        if leaf is not None and end is None:
            raise TranscriptError(
                f"Session {files.session_id} has no message {escape_terminal(repr(leaf), 200)}. `branches` lists the ends of its "
                "branches; every message has its id as `uuid`."
            )
        super().__init__(source, end, None, subagent=False)

    @property
    def info(self) -> TranscriptInfo:
        """Title, directory and times, as `info` returns them now.

        Raises:
            SessionNotFoundError: if the file vanished.
        """
        found = info_of(self.files)
        if found is None:
            raise SessionNotFoundError.on_disk(self.session_id, str(self.files.path.parent))
        return found

    @cached_property
    def subagents(self) -> dict[str, Subagent]:
        """The subagents by id. The links of all of them are read at the first use; a file that vanished is left out."""
        found = {}
        for files in self.files.subagents():
            try:
                found[files.agent_id] = Subagent(files, self.session_id)
            except (SessionNotFoundError, TranscriptError):
                continue
        return found

    @cached_property
    def branches(self) -> list[Branch]:
        """The paths through the conversation: the current one first, then the others, newest first."""
        links = self._source.links
        replaced = {node.logical_parent for node in links.nodes if node.logical_parent}
        ends = [node for node in links.leaves() if not node.sidechain and not node.hidden]
        current = links.current_leaf()
        found: list[Branch] = []
        covered: set[str] = set()
        behind: set[str | None] = set()
        asked = (
            end for end in [*([current] if current is not None else []), *reversed(ends)] if end.uuid not in covered
        )
        for end, new in links.paths(asked):
            compacted = new[0].parent in behind
            for node in new:
                covered.add(node.uuid)
                if compacted := compacted or node.uuid in replaced:
                    behind.add(node.uuid)
            found.append(Branch(end.uuid, not found, compacted and bool(found), self._messages_to))
        return found

    @property
    def usage(self) -> Tokens:
        """Tokens of all replies, subagents and other branches included, each reply counted once."""
        return _tokens(message for source, parent in self._sources() for message in _replies(source, parent))

    def _sources(self) -> Iterator[tuple[_Source, str | None]]:
        yield self._source, None
        for each in self.subagents.values():
            yield each._source, each.tool_use_id  # noqa: SLF001 - of the same base

    @property
    def files_changed(self) -> list[FileChange]:
        """Files that `Write`, `Edit`, `MultiEdit` and `NotebookEdit` changed, subagents included, in the order of the first change.

        Changes by shell commands are not known. The current branch counts.
        """
        found: dict[str, FileChange] = {}
        for messages in (self.messages, *(each.messages for each in self.subagents.values())):
            for call, result, message in answered(messages):
                path = call.input.get(argument) if (argument := _CHANGING.get(call.name)) else None
                if not isinstance(path, str) or result.is_error:
                    continue
                before = found.get(path)
                details = message.tool_use_result if isinstance(message, UserMessage) else None
                created = isinstance(details, dict) and details.get("type") == "create"
                found[path] = FileChange(
                    path, before.changes + 1 if before else 1, before.created if before else created
                )
        return list(found.values())

    def __repr__(self) -> str:
        return f"<Transcript {self.session_id}: {len(self._shown)} messages>"


def source_of(conversation: Transcript | Subagent) -> _Source:
    """Return the links of a conversation, and its lines: for rooms that copy entries."""
    return conversation._source  # noqa: SLF001 - of this room


_CHANGING = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}


def _replies(source: _Source, parent: str | None) -> Iterator[TranscriptMessage]:
    nodes = (node for node in source.nodes if node.kind == "assistant")
    return (_message(raw, node, parent) for node, raw in source.lines(nodes))


def _tokens(messages: Messages | Iterator[TranscriptMessage]) -> Tokens:
    replies = Replies(Reply)
    for message in messages:
        replies.message(message)
    return sum_of(reply.tokens for reply in replies)
