"""The conversation among the entries of a file: choose the leaf, walk back along the parents, put parallel tool calls back.

Pure functions of `Node`. The CLI writes one entry for each block of a reply, each a child of the one before. The result of a call is
a child of that call's entry. With several calls in one reply the entries fork, and the walk from the leaf passes only one of the results.
`logicalParentUuid` is not followed: after a compaction the summary stands for all earlier entries.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain as joined
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Node(msgspec.Struct, gc=False):
    """An entry with an id: its links, without its content."""

    uuid: str
    parent: str | None  # the entry that it follows
    logical_parent: str | None  # the entry before a compaction, of the entry after it
    kind: str  # `user`, `assistant`, or another type
    offset: int  # the place of its line in the file, in bytes
    length: int  # the bytes of its line
    timestamp: str  # when it was written; empty if it is unknown
    message_id: str | None  # the id of the reply that it is a part of
    calls: tuple[str, ...]  # the ids of the tool calls in it
    results: tuple[str, ...]  # the ids of the tool calls whose results are in it
    source: str | None  # the entry with the call whose result it is
    agent_id: str | None
    session_id: str | None
    sidechain: bool  # True in the conversation of a subagent
    meta: bool  # True for input that no user typed
    team: bool  # True for messages of a team
    prompt: bool  # True if it starts a turn
    renamed: bool  # True if fields of the line have other names than in live messages

    @property
    def hidden(self) -> bool:
        """Whether it is not a part of the conversation that users see."""
        return self.meta or self.team

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the user or the model."""
        return self.kind in ("user", "assistant")


class Links:
    """The entries of a file by id, in the order of the file. An id that comes again replaces the entry."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.by_uuid: dict[str, Node] = {node.uuid: node for node in nodes}

    def leaves(self) -> list[Node]:
        """Return the ends of all branches: the last message of each path, in the order of the file."""
        by_uuid = self.by_uuid
        parents = {node.parent for node in by_uuid.values()}
        found: dict[str, Node] = {}
        seen: set[str] = set()
        for node in by_uuid.values():
            here: Node | None = None if node.uuid in parents else node
            while here is not None and here.uuid not in seen:
                if here.is_message:
                    found[here.uuid] = here
                    break
                seen.add(here.uuid)
                here = by_uuid.get(here.parent) if here.parent else None
        return sorted(found.values(), key=lambda node: node.offset)

    def current_leaf(self, *, subagent: bool = False) -> Node | None:
        """Return the end of the conversation: the last leaf that neither a subagent nor a team wrote; of a subagent's the last message."""
        if subagent:
            return next((node for node in reversed(self.nodes) if node.is_message), None)
        found = self.leaves()
        main = [node for node in found if not node.sidechain and not node.hidden]
        return next(reversed(main or found), None)

    def conversation(self, leaf: Node | None) -> list[Node]:
        """Return the entries of all types from the beginning to `leaf`, with the parallel tool calls and results beside the way."""
        return next((new for _, new in self.paths([] if leaf is None else [leaf])), [])

    def paths(self, leaves: Iterable[Node]) -> Iterator[tuple[Node, list[Node]]]:
        """Yield leaves with the entries of their conversations that no earlier one had: what paths share is walked once."""
        ways = _Ways()
        for leaf in leaves:
            way: list[Node] = []
            here: Node | None = leaf
            while here is not None and here.uuid not in ways.places:
                ways.places[here.uuid] = (len(ways.forks), -len(way))
                way.append(here)
                here = self.by_uuid.get(here.parent) if here.parent else None
            fork = ways.places[here.uuid] if here is not None else (-1, 0)
            ways.forks.append(fork if fork[0] < len(ways.forks) else (-1, 0))  # a circle has no beginning
            way.reverse()
            yield leaf, self._with_parallel_calls(way, ways)

    @cached_property
    def _parts(self) -> _Parts:
        replies: dict[str, list[Node]] = {}
        owners: dict[str, Node | None] = {}
        results: list[Node] = []
        for node in self.by_uuid.values():
            if node.message_id:
                replies.setdefault(node.message_id, []).append(node)
                for call in node.calls:
                    owner = owners.get(call, node)
                    owners[call] = node if owner is not None and owner.message_id == node.message_id else None
            elif node.results and node.parent:
                results.append(node)
        return _Parts(replies, owners, _results_beside(self.by_uuid, results, owners))

    def _with_parallel_calls(self, way: list[Node], ways: _Ways) -> list[Node]:
        last_of = {node.message_id: node for node in way if node.message_id}
        if not last_of:
            return way
        replies, owners, beside = self._parts
        added: dict[str, list[Node]] = {}
        seen: set[str] = set()
        for message_id, last in last_of.items():
            parts = replies[message_id]
            near = {node.uuid: node for part in parts for node in beside.get(part.uuid, ())}
            passed = {uuid for uuid in near if ways.newest_passes(uuid)}
            candidates = [node for node in near.values() if node.uuid not in passed and node.uuid not in seen]
            if len(parts) == 1 and not candidates:
                continue
            own = {part.uuid for part in parts}
            calls = sorted(
                (part for part in parts if not ways.newest_passes(part.uuid)), key=lambda node: node.timestamp
            )
            found = [node for node in candidates if node.parent in own]
            here = {call for node in joined(found, map(near.__getitem__, passed)) for call in node.results}
            # A result whose parent is another entry belongs here if it is the only one of a call of this reply.
            strays = sorted((node for node in candidates if node.parent not in own), key=lambda node: node.offset)
            for node in strays:
                owned = (owners.get(call) for call in node.results if call not in here)
                if any(owner is not None and owner.uuid in own for owner in owned):
                    found.append(node)
                    here.update(node.results)
            found.sort(key=lambda node: node.timestamp)
            if calls or found:
                added[last.uuid] = [*calls, *found]
                seen.update(node.uuid for node in found)
        return [part for node in way for part in (node, *added.get(node.uuid, ()))]


class _Ways:
    """The ways to some leaves, each kept up to where it meets an earlier one.

    Attributes:
        places: the way of each entry, and its steps before the end of that way, as a number below zero.
        forks: the place where each way meets an earlier one.
    """

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.forks: list[tuple[int, int]] = []

    def newest_passes(self, uuid: str) -> bool:
        """Return whether the newest way passes this entry, earlier ways up to the forks included."""
        way, end = len(self.forks) - 1, 0
        number, step = self.places.get(uuid, (way + 1, 0))
        while way > number:
            way, end = self.forks[way]
        return way == number and step <= end


class _Parts(NamedTuple):
    """Where the parts of parallel calls are found, once for all branches.

    Attributes:
        owners: the entry of each call; None if two replies claim it.
        beside: results by the entries that they may belong to.
    """

    replies: dict[str, list[Node]]
    owners: dict[str, Node | None]
    beside: dict[str, list[Node]]


def _results_beside(
    by_uuid: dict[str, Node], results: Sequence[Node], owners: dict[str, Node | None]
) -> dict[str, list[Node]]:
    """Return tool results by the entries that they may belong to: the parent, the named source, the entry with the call."""
    beside: dict[str, list[Node]] = {}
    for node in results:
        near = [by_uuid.get(node.source) if node.source else None, *(owners.get(call) for call in node.results)]
        places = [node.parent] + [
            other.uuid
            for other in near
            if other is not None and other.sidechain == node.sidechain and other.agent_id == node.agent_id
        ]
        for place in dict.fromkeys(places):
            beside.setdefault(place or "", []).append(node)
    return beside
