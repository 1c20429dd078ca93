"""The protocol of session stores, which is that of `claude-agent-sdk`, and the check of a store that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

import msgspec

from hackamore.errors import StoreError, escape_terminal, text_of, without_passwords

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import TypeAlias

FlushMode = Literal["batched", "eager"]
"""When entries go to the store: `batched` at each result and when there are many, `eager` as soon as they come."""


class StoreKey(TypedDict):
    """The place of one transcript in a store.

    Attributes:
        project_key: the project: the folder that the CLI uses for a working directory.
        session_id: the id of the session.
        subpath: the part of the session, such as `subagents/agent-1`; missing for the main transcript.
    """

    project_key: str
    session_id: str
    subpath: NotRequired[str]


class StoreListEntry(TypedDict):
    """One session of a project.

    Attributes:
        session_id: the id of the session.
        mtime: the time of its last append, in milliseconds since 1970.
    """

    session_id: str
    mtime: int


class StoreSummary(TypedDict):
    """The summary of one session, as `fold_session_summary` of `claude-agent-sdk` makes it.

    Attributes:
        session_id: the id of the session.
        mtime: the time of its last append, in milliseconds since 1970.
        data: facts about the session; opaque to a store.
    """

    session_id: str
    mtime: int
    data: dict[str, Any]


if TYPE_CHECKING:
    Lists: TypeAlias = Sequence[Any] | Awaitable[Sequence[Any]]


class SessionStore(Protocol):
    """A place for transcripts besides the disk.

    Two methods are required. `list_sessions(project_key)`, `list_session_summaries(project_key)`, `delete(key)` and `list_subkeys(key)`
    are optional and recognised by being there. Each method may be an `async def` or a plain function; plain ones run in a thread.
    """

    def append(self, key: StoreKey, entries: list[Any], /) -> Awaitable[None] | None:
        """Add entries (dicts) to the end of a transcript, all or none. An entry with a `uuid` that is there already may be left out."""

    def load(self, key: StoreKey, /) -> Awaitable[list[Any] | None] | list[Any] | None:
        """Return all entries in the order of their appends; None if there are none."""


def implements(store: object, name: str) -> bool:
    """Return whether a store has a method: a default that it inherits from a `Protocol` class does not count."""
    for kind in type(store).__mro__:
        if name in vars(kind):
            own = not getattr(kind, "_is_protocol", False)
            return own and callable(getattr(store, name, None))
    return callable(getattr(store, name, None))


def problem_with(store: object) -> str:
    """Return why an object cannot be a store; "" if it can."""
    if isinstance(store, type):
        return f"must be a store, not its class: write `{store.__name__}(...)`"
    missing = [name for name in ("append", "load") if not implements(store, name)]
    if missing:
        return f"must be an object with the methods `append(key, entries)` and `load(key)`; `{missing[0]}` is missing"
    return ""


# -- the answers of a store -------------------------------------------------------------------------------------------


def entries_of(loaded: object, operation: str, session_id: str) -> list[Any]:
    """Return the entries that a store loaded, each once; raise `StoreError` if it did not return a list of entries."""
    if loaded is None:
        return []
    if not isinstance(loaded, (list, tuple)):
        what = type(loaded).__name__
        raise unusable(operation, f"it returned a {what}, and not a list of entries or None.", session_id)
    known: set[str] = set()
    entries = []
    for entry in loaded:
        if not isinstance(entry, dict):
            raise unusable(operation, f"an entry is a {type(entry).__name__}, and not a dict.", session_id)
        uuid = entry.get("uuid")
        if isinstance(uuid, str):
            if uuid in known:  # appended twice: stores take entries at least once
                continue
            known.add(uuid)
        entries.append(entry)
    return entries


def encoded(entry: Any, session_id: str, *, halves: bool = False) -> bytes:
    """Return an entry as a line without its end; raise `StoreError` if it is not JSON, or has half a character and not `halves`."""
    try:
        return msgspec.json.encode(entry)
    except (TypeError, ValueError, RecursionError) as error:
        if halves and isinstance(error, UnicodeEncodeError):
            import json

            return json.dumps(entry, separators=(",", ":")).encode()
        message = f"an entry cannot be written as JSON: {type(error).__name__}: {escape_terminal(str(error), 300)}."
        raise unusable("load", message, session_id) from error


def unusable(operation: str, message: str, session_id: str | None) -> StoreError:
    """Return the error for something that a store returns each time."""
    error = StoreError(operation, message, session_id)
    error.retryable = False
    return error


def failed(operation: str, error: BaseException, session_id: str | None) -> StoreError:
    """Return the error for an exception of a store, without passwords in its text."""
    return StoreError(operation, f"{type(error).__name__}: {without_passwords(text_of(error))}", session_id)
