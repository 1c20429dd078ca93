"""Conversations in session stores: their entries become files in memory, which the readers of files read.

The async functions run in the event loop of the store's caller. `wait` runs them for the functions that block.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.errors import SessionNotFoundError, StoreError
from hackamore.options.bounds import Timeouts
from hackamore.options.stores import encoded, entries_of, failed, implements, unusable
from hackamore.storage.places import SessionFiles, StrPath, SubagentFiles, locate, project_key, real_directory
from hackamore.transcripts.stores.keys import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hackamore.options.stores import SessionStore, StoreKey

METADATA = "agent_metadata"
"""The type of the entries that stand for the file `agent-<id>.meta.json`. The last one counts."""
called: ContextVar[str] = ContextVar("called", default="")
"""The function of `awaiting` that calls: `call` from a thread, whose caller's event loop runs async stores, or `direct` from that loop."""


def wait(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """Call an async function from a thread, in the event loop of the awaiting caller or in the one for blocking programs."""
    if called.get() == "direct":
        return function(*arguments)
    if called.get():
        from anyio import from_thread

        return from_thread.run(function, *arguments)
    from hackamore.runtime import private_loop

    return private_loop.run(function, *arguments)


async def ask(store: SessionStore, operation: str, *arguments: Any, session_id: str | None = None) -> Any:
    """Call a method of a store; a plain one runs in a thread.

    Raises:
        StoreError: the store has no such method, or it raised, or it did not return in time.
    """
    from anyio import fail_after

    seconds = Timeouts().store
    if not implements(store, operation):
        raise unusable(operation, f"{type(store).__name__} has no such method. Add it to the store.", session_id)
    function = getattr(store, operation)
    call = function if inspect.iscoroutinefunction(function) else partial(in_thread, function)
    try:
        with fail_after(seconds):
            found = await call(*arguments)
            return await found if inspect.isawaitable(found) else found
    except StoreError:  # the store says more, such as a conflict
        raise
    except TimeoutError as error:
        raise StoreError(operation, str(error) or f"it did not return within {seconds} s.", session_id) from error
    except Exception as error:
        raise failed(operation, error, session_id) from error


async def load(store: SessionStore, key: StoreKey) -> list[Any]:
    """Return the entries of a transcript, each once; none if the store has none."""
    session_id = key["session_id"]
    return entries_of(await ask(store, "load", key, session_id=session_id), "load", session_id)


async def _find(store: SessionStore, session_id: str, project: StrPath | None, check: bool) -> StoreKey:
    key: StoreKey = {"project_key": project_key(project), "session_id": session_id}
    if project is None and implements(store, "find_session"):
        found = await ask(store, "find_session", session_id, session_id=session_id)
        try:
            others = [str(each["project_key"]) for each in found or ()]
        except (TypeError, LookupError):
            raise unusable("find_session", "it did not return a list of keys.", session_id) from None
        if others and key["project_key"] not in others:
            key["project_key"] = others[0]
    if check and implements(store, "list_sessions"):
        listed = await ask(store, "list_sessions", key["project_key"], session_id=session_id)
        check = all(each["session_id"] != session_id for each in listed)
    elif check:
        check = not await load(store, key)
    if check:
        raise _not_found(key)
    return key


def _not_found(key: StoreKey) -> SessionNotFoundError:
    return SessionNotFoundError.on_disk(key["session_id"], f"project {key['project_key']!r} of the session store")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A transcript of a store, as a file in memory that is loaded when it is first opened."""

    store: SessionStore
    key: StoreKey
    loaded: list[Any] | None = None

    @cached_property
    def content(self) -> bytes:
        """The lines of the file."""
        kept = (each for each in self.entries if each.get("type") != METADATA)
        return b"".join(encoded(each, self.key["session_id"], halves=True) + b"\n" for each in kept)

    @cached_property
    def entries(self) -> list[Any]:
        """The entries that the store has."""
        found: list[Any] = wait(load, self.store, self.key) if self.loaded is None else self.loaded
        return found

    def call(self, operation: str, *arguments: Any) -> Any:
        """Call a method of the store with the key of the transcript."""
        return wait(partial(ask, self.store, operation, self.key, *arguments, session_id=self.key["session_id"]))

    def open(self) -> BytesIO:
        """Open the file; raise SessionNotFoundError if the store does not have it."""
        if not self.content:
            raise _not_found(self.key)
        return BytesIO(self.content)


@dataclass(frozen=True)
class StoredSubagent(Stored, SubagentFiles):
    """The transcript of a subagent, and its notes."""

    def read_meta(self) -> bytes:
        """Return the notes as JSON."""
        notes = [each for each in self.entries if each.get("type") == METADATA]
        meta = {name: value for name, value in notes[-1].items() if name != "type"} if notes else {}
        return encoded(meta, self.key["session_id"])


@dataclass(frozen=True)
class StoredFiles(Stored, SessionFiles):
    """A session of a store. `modified` is the time of its last change in seconds since 1970, if the store said it."""

    modified: float | None = None

    def subagents(self) -> list[StoredSubagent]:
        """Return the subagents, those in nested folders included, ordered by path."""
        subpaths = self.call("list_subkeys") if implements(self.store, "list_subkeys") else []
        places = [
            each.removeprefix("subagents/").rpartition("agent-") for each in subpaths if each.startswith("subagents/")
        ]
        found = [self.subagent(name, folder) for folder, agent, name in places if agent and name and "/" not in name]
        return sorted(found, key=lambda each: (each.path.parent, each.path.name))

    def subagent(self, agent_id: str, folder: str = "") -> StoredSubagent:
        """Return a subagent, in a nested folder or not."""
        subpath = f"subagents/{folder}agent-{agent_id}"
        key: StoreKey = {**self.key, "subpath": subpath}
        return StoredSubagent(agent_id, self.folder / f"{subpath}.jsonl", store=self.store, key=key)


def files_of(store: SessionStore, key: StoreKey, project: StrPath | None, **known: Any) -> StoredFiles:
    """Return a session of a store, as files in memory."""
    path = Path(key["project_key"], f"{key['session_id']}.jsonl")
    directory = None if project is None else real_directory(project)
    return StoredFiles(key["session_id"], path, directory, store=store, key=key, **known)


def located(
    session_id: str,
    project: StrPath | None,
    config_dir: StrPath | None,
    store: SessionStore | None,
    *,
    check: bool = False,
) -> SessionFiles:
    """Return the files of a session, on the disk or in a store: without a project, in any that `find_session` of the store names.

    Raises:
        SessionNotFoundError: the disk does not have it, or, with `check`, the store.
    """
    if store is None:
        return locate(session_id, project=project, config_dir=config_dir)
    return files_of(store, wait(_find, store, session_id, project, check), project)
