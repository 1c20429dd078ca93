"""The session of a conversation where it is kept: on the disk, and in a session store. Calls are yielded, and made by the shell."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hackamore._engine.storing.resume import Step, load_steps, user_config, write_parts
from hackamore.errors import SessionNotFoundError, StoreError
from hackamore.storage.places import project_key
from hackamore.transcripts import changes
from hackamore.transcripts.export import export
from hackamore.transcripts.stores import implements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from hackamore.options.options import Options
    from hackamore.pool.registry import Record
    from hackamore.transcripts.export import ExportFormat

ConversationState = Literal["held", "live", "hibernated", "elsewhere"]
"""The states of `PooledConversation`."""


class PooledConversation(msgspec.Struct, frozen=True):
    """A conversation in the list of a pool.

    Attributes:
        key: its key.
        session_id: its session.
        cwd: the working directory of the session.
        state: `held` (a caller of this pool has it), `live` (it has a process in this pool), `hibernated`, or `elsewhere` (another
            program has its lease, or had it and was killed).
    """

    key: str
    session_id: str
    cwd: str
    state: ConversationState


def export_steps(
    options: Options,
    record: Record,
    format: ExportFormat,  # noqa: A002 - the word of `hackamore.transcripts`
    make_folder: Callable[[], str],
    remove_folder: Callable[[str], None],
) -> Generator[Step, Any, str]:
    """Yield the calls that read a session; return it as a document. A store has all of it, the disk of this host maybe not."""
    config, _ = user_config(options)
    if options.session_store is not None:
        key, parts = yield from load_steps(options.session_store, project_key(record.cwd), record.session_id, [])
        if parts[""]:
            folder = make_folder()
            try:
                yield Step(write_parts, (folder, key["project_key"], record.session_id, parts))
                document: str = yield Step(partial(export, record.session_id, format, config_dir=folder), ())
            finally:
                remove_folder(folder)
            return document
    document = yield Step(partial(export, record.session_id, format, config_dir=config), ())
    return document


def delete_steps(options: Options, record: Record) -> Generator[Step, Any, None]:
    """Yield the calls that delete a session from the disk, and from the store with its subagents.

    Raises:
        StoreError: the store has no method for that; nothing was deleted.
    """
    store: Any = options.session_store
    config, _ = user_config(options)
    if store is not None:
        if not implements(store, "delete"):
            raise StoreError(
                "delete", f"{type(store).__name__} has no such method. Add it to the store.", record.session_id
            )
        key, parts = yield from load_steps(store, project_key(record.cwd), record.session_id, [])
        for subpath in parts:
            if subpath:
                yield Step(store.delete, ({**key, "subpath": subpath},), "delete")
        yield Step(store.delete, (key,), "delete")
    yield Step(_delete, (record.session_id, config))


def _delete(session_id: str, config: Path) -> None:
    with suppress(SessionNotFoundError):  # it had no prompt, or was kept on another host
        changes.delete(session_id, config_dir=config)
