# Generated from the functions of hackamore.transcripts by scripts/make_sync.py. Do not edit: edit those and run `./dev format`.
"""The functions of `hackamore.transcripts`, to await on asyncio and trio: each call runs in a worker thread.

::

    from hackamore.transcripts import aio

    for each in await aio.list(limit=10):
        print(each.modified, each.title)

A cancelled call leaves its thread to finish alone. A `Transcript` reads its file when its attributes are used: `stream` yields its messages
without blocking the event loop, and `call` runs any other function in a thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hackamore import transcripts
from hackamore.transcripts.awaiting import call, direct, stream

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from datetime import datetime, timedelta, tzinfo
    from typing import Literal

    from hackamore.activity.prices import Price
    from hackamore.options.stores import SessionStore
    from hackamore.storage.places import (
        StrPath,
    )
    from hackamore.transcripts.accounting import UsageReport
    from hackamore.transcripts.changes import PruneResult
    from hackamore.transcripts.export import ExportFormat
    from hackamore.transcripts.index import SearchHit, SearchRole
    from hackamore.transcripts.listing import (
        TranscriptInfo,
    )
    from hackamore.transcripts.transcript import (
        Subagent,
        Transcript,
        TranscriptMessage,
    )

__all__ = [
    "archive",
    "call",
    "copy_to_store",
    "delete",
    "export",
    "find",
    "fork",
    "import_",
    "info",
    "is_archived",
    "list",
    "list_subagents",
    "prune",
    "read",
    "read_subagent",
    "rename",
    "search",
    "stream",
    "tag",
    "usage",
]


async def usage(
    by: Literal["day", "project", "model", "session"] = "day",
    *,
    project: StrPath | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    prices: Mapping[str, Price] | None = None,
    zone: tzinfo | None = None,
    config_dir: StrPath | None = None,
) -> UsageReport:
    """Return tokens and estimated cost of the conversations on the disk, subagents included.

    Each reply counts once, for the conversation that it was made in: a fork copies replies. Requests that leave no reply in the files,
    such as compactions and titles, do not count. The files are read from the beginning, one line at a time.

    Args:
        by: the key of the rows.
        project: the working directory of a project; other worktrees of its repository count. None for all projects.
        since: only replies at this time or later. A time without a zone is local time.
        until: only replies before this time.
        prices: prices by model. Other models have the prices that follow from the costs that the CLI recorded.
        zone: the time zone of the days; None for the local one.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The report. Models without a known price are in `unpriced`, with their tokens.

    Raises:
        ValueError: if `by` has another value.

    Example:
        ::

            report = await hackamore.transcripts.aio.usage(by="day")
            for row in report.rows:
                print(row.key, row.tokens.total, f"${row.cost:.2f}")
    """
    return await call(
        partial(
            transcripts.usage,
            by,
            project=project,
            since=since,
            until=until,
            prices=prices,
            zone=zone,
            config_dir=config_dir,
        )
    )


async def rename(
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
    return await call(
        partial(transcripts.rename, session_id, title, project=project, config_dir=config_dir, store=store)
    )


async def tag(
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
    return await call(partial(transcripts.tag, session_id, tag, project=project, config_dir=config_dir, store=store))


async def archive(
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
    return await call(
        partial(transcripts.archive, session_id, archived=archived, project=project, config_dir=config_dir)
    )


async def is_archived(info: TranscriptInfo) -> bool:
    """Return whether a conversation is archived: `archive` marked it, and it got no prompt since.

    Args:
        info: the conversation, of `list`, `info` or `find`.

    Returns:
        True if it is archived.
    """
    return await call(partial(transcripts.is_archived, info))


async def delete(
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
    return await call(
        partial(transcripts.delete, session_id, force=force, project=project, config_dir=config_dir, store=store)
    )


async def prune(
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

            old = await hackamore.transcripts.aio.prune(older_than=timedelta(days=90), all_projects=True)
            print(len(old.sessions), "conversations,", old.bytes, "bytes")
    """
    return await call(
        partial(
            transcripts.prune,
            older_than=older_than,
            project=project,
            all_projects=all_projects,
            include_worktrees=include_worktrees,
            keep_tagged=keep_tagged,
            dry_run=dry_run,
            config_dir=config_dir,
        )
    )


async def export(
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

            Path("talk.md").write_text(await hackamore.transcripts.aio.export(session_id), encoding="utf-8")
    """
    return await call(
        partial(transcripts.export, session_id, format, project=project, config_dir=config_dir, store=store)
    )


async def import_(
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
    return await call(partial(transcripts.import_, source, project=project, new_id=new_id, config_dir=config_dir))


async def copy_to_store(
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

            await hackamore.transcripts.aio.copy_to_store(session_id, store)
            options = Options(session_store=store, resume=session_id)
    """
    return await call(
        partial(
            transcripts.copy_to_store,
            session_id,
            store,
            include_subagents=include_subagents,
            batch_size=batch_size,
            project=project,
            config_dir=config_dir,
        )
    )


async def fork(
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

            third = await hackamore.transcripts.aio.read(session_id).messages[2]
            options = Options(resume=await hackamore.transcripts.aio.fork(session_id, at=third))
    """
    return await call(
        partial(transcripts.fork, session_id, at=at, title=title, project=project, config_dir=config_dir, store=store)
    )


async def search(
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
) -> builtins.list[SearchHit]:
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

            for hit in await hackamore.transcripts.aio.search("connection refused", role="tool"):
                print(hit.session_id, hit.context)
    """
    return await call(
        partial(
            transcripts.search,
            text,
            project=project,
            role=role,
            tool=tool,
            since=since,
            until=until,
            limit=limit,
            refresh=refresh,
            config_dir=config_dir,
            cache_dir=cache_dir,
        )
    )


async def info(
    session_id: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> TranscriptInfo:
    """Return one conversation, with a title or without.

    Args:
        session_id: the session.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has it; None for the disk.

    Returns:
        The conversation.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the file cannot be read.
        StoreError: if the store fails.
    """
    return await call(partial(transcripts.info, session_id, project=project, config_dir=config_dir, store=store))


async def find(prefix: str, *, project: StrPath | None = None, config_dir: StrPath | None = None) -> TranscriptInfo:
    """Return the one conversation whose session id begins with `prefix`.

    Args:
        prefix: the beginning of the session id, or all of it.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The conversation.

    Raises:
        SessionNotFoundError: if no session id begins with it, or it is empty.
        AmbiguousSessionError: if several do; the error lists them.
        TranscriptError: if the file cannot be read.
    """
    return await call(partial(transcripts.find, prefix, project=project, config_dir=config_dir))


async def list(
    project: StrPath | None = None,
    *,
    all_projects: bool = False,
    include_worktrees: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
    tag: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> builtins.list[TranscriptInfo]:
    """Return the conversations of a project, newest first.

    Conversations of subagents, and files without a title, a prompt or a summary are left out. If several projects have the same session,
    the newest file counts. At most 128 KiB of each file are read. A store with summaries loads no conversation that has a current one. A
    conversation that cannot be loaded has an empty title.

    Args:
        project: the working directory of the project; None for the current one.
        all_projects: whether to list the conversations of all projects; `project` must be None then.
        include_worktrees: whether the other worktrees of the project's git repository count.
        since: only conversations that changed at this time or later. A time without a zone is local time.
        until: only conversations that changed before this time.
        tag: only conversations with this tag.
        limit: the most conversations to return; None for all.
        offset: conversations to leave out at the beginning.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store to list, one project of it; None for the disk.

    Returns:
        The conversations. Empty if the project has none.

    Raises:
        ValueError: if `limit` or `offset` is negative, or `all_projects` comes with a `project` or a store.
        StoreError: if the store fails, or has neither `list_sessions` nor `list_session_summaries`.

    Example:
        ::

            for each in await hackamore.transcripts.aio.list(limit=10):
                print(each.modified, each.title)
    """
    return await (call if store is None else direct)(
        partial(
            transcripts.list,
            project,
            all_projects=all_projects,
            include_worktrees=include_worktrees,
            since=since,
            until=until,
            tag=tag,
            limit=limit,
            offset=offset,
            config_dir=config_dir,
            store=store,
        )
    )


async def read(
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

            conversation = await hackamore.transcripts.aio.read(session_id)
            for message in conversation.messages:
                print(message)
    """
    return await call(
        partial(transcripts.read, session_id, leaf=leaf, project=project, config_dir=config_dir, store=store)
    )


async def list_subagents(
    session_id: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> builtins.list[str]:
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
    return await call(
        partial(transcripts.list_subagents, session_id, project=project, config_dir=config_dir, store=store)
    )


async def read_subagent(
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
    return await call(
        partial(transcripts.read_subagent, session_id, agent_id, project=project, config_dir=config_dir, store=store)
    )
