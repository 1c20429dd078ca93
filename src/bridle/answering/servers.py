"""The servers of this process that a session has: which one a message is for, and how they are replaced while it runs.

Nothing here waits. A replacement is a generator: it yields what is to be sent and is given the answer, so both shells drive the same one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.errors import BridleError, ControlRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from bridle.answering.object_run import ObjectRun
    from bridle.protocol.results import McpServersChange

__all__ = ["CLOSE_SECONDS", "Entry", "Servers"]

CLOSE_SECONDS = 3.0
"""How long the end of a session waits for the ends of its servers: a second more than they are given."""


class Entry:
    """A server under a name.

    Attributes:
        name: under which the CLI knows it.
        server: the server.
        run: its connection, if it is of the kind that has one.
        crashed: why its last connection ended by itself, if it did.
    """

    __slots__ = ("crashed", "name", "run", "server")

    def __init__(self, name: str, server: Any) -> None:
        self.name = name
        self.server = server
        self.run: ObjectRun | None = None
        self.crashed: str | None = None


class Servers:
    """The servers by name.

    Args:
        servers: those that the session begins with.
        drop: takes an entry that the CLI does not know any more.
    """

    def __init__(self, servers: Mapping[str, Any], drop: Callable[[Entry], None]) -> None:
        self._entries = {name: Entry(name, server) for name, server in servers.items()}
        self._offered: dict[str, Entry] = {}
        self._drop = drop
        # What the CLI was told last, to be told again when a replacement fails half-way.
        self._wire: dict[str, Any] = {name: {"type": "sdk", "name": name} for name in servers}

    def find(self, name: str) -> Entry | None:
        """Return who answers messages for a name: of those that the CLI has accepted, or has just been told of."""
        return self._entries.get(name) or self._offered.get(name)

    def all(self) -> list[Entry]:
        """Return all entries."""
        return [*self._entries.values(), *self._offered.values()]

    def change(
        self, wire: Mapping[str, Any], inside: Mapping[str, Any]
    ) -> Generator[dict[str, Any], McpServersChange, McpServersChange]:
        """Replace the servers. One replacement at a time: the shell sees to that.

        New servers can be reached while the CLI is asked, because it may ask them before it answers. Those that it has are served until
        it has accepted. A name that gets another server is taken away first and given anew: the CLI connects to a name once, and would
        go on with the tools of the server before.

        Args:
            wire: all servers as they are sent.
            inside: those of this process.

        Yields:
            The servers to be sent; the answer is sent in, or what was raised instead is thrown in.

        Returns:
            What changed, in both steps together.
        """
        replaced = {name for name in inside if name in self._entries and self._entries[name].server is not inside[name]}
        first: McpServersChange | None = None
        before = dict(self._wire)
        previous = {name: entry.server for name, entry in self._entries.items()}
        if replaced:
            # Nothing new yet: what the CLI has begun to connect to, the second request would make it connect to again.
            kept = {name: server for name, server in inside.items() if name in self._entries and name not in replaced}
            told = {name: wire[name] for name in wire if name in before and name not in replaced}
            first = yield from self._step(told, kept)
        try:
            change = yield from self._step(dict(wire), dict(inside))
        except ControlRejectedError:
            if first is not None:
                with contextlib.suppress(BridleError):  # what was raised first says more
                    yield from self._step(before, previous)
            raise
        if first is None:
            return change
        added = [*first.added, *change.added]
        removed = [*first.removed, *change.removed]
        return msgspec.structs.replace(change, added=added, removed=removed, errors={**first.errors, **change.errors})

    def _step(
        self, wire: dict[str, Any], inside: Mapping[str, Any]
    ) -> Generator[dict[str, Any], McpServersChange, McpServersChange]:
        offered = {name: Entry(name, server) for name, server in inside.items() if name not in self._entries}
        self._offered = offered
        try:
            change = yield wire
        except ControlRejectedError:
            self._offered = {}
            for entry in offered.values():
                self._drop(entry)
            raise
        except BaseException:
            # Nobody knows whether it was accepted: both can be reached until the next replacement.
            self._entries.update(offered)
            self._offered = {}
            raise
        self._offered = {}
        self._entries.update(offered)
        self._wire = wire
        for name in [name for name in self._entries if name not in inside]:
            self._drop(self._entries.pop(name))
        return change
