"""`run_session_store_conformance`: the contracts of a session store, as plain assertions.

`hackamore.testing.check_session_store` checks more.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from hackamore.compat.claude_agent_sdk._internal.session_store_validation import _store_implements
from hackamore.compat.claude_agent_sdk._internal.session_summary import fold_session_summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["run_session_store_conformance"]

_OPTIONAL = frozenset({"delete", "list_session_summaries", "list_sessions", "list_subkeys"})
_EARLIEST = 1e12  # times are milliseconds since 1970


def _key(session_id: str = "one", subpath: str | None = None, project: str = "project") -> Any:
    key = {"project_key": project, "session_id": session_id}
    return key if subpath is None else {**key, "subpath": subpath}


def _entry(**fields: Any) -> dict[str, Any]:
    return {"type": "x", **fields}


async def run_session_store_conformance(
    make_store: Callable[[], Any | Awaitable[Any]], *, skip_optional: frozenset[str] = frozenset()
) -> None:
    """Check a store; each contract gets a new one.

    Args:
        make_store: returns an empty store, or an awaitable of one.
        skip_optional: optional methods to leave out, although the store has them.

    Raises:
        AssertionError: a contract does not hold.
    """
    unknown = skip_optional - _OPTIONAL
    assert not unknown, f"unknown optional methods in skip_optional: {unknown}"
    store = await _made(make_store)
    has = {name: name not in skip_optional and _store_implements(store, name) for name in _OPTIONAL}
    for contract, needed in _CONTRACTS:
        if all(has[name] for name in needed):
            await contract(await _made(make_store), has)


async def _made(make_store: Callable[[], Any]) -> Any:
    store = make_store()
    return await store if inspect.isawaitable(store) else store


# ruff: noqa: S101


async def _keeps_order(store: Any, _: Any) -> None:
    await store.append(_key(), [_entry(uuid="b", n=1), _entry(uuid="a", n=2)])
    await store.append(_key(), [])
    await store.append(_key(), [_entry(uuid="c", n=3)])
    assert await store.load(_key()) == [_entry(uuid="b", n=1), _entry(uuid="a", n=2), _entry(uuid="c", n=3)]


async def _knows_nothing_else(store: Any, _: Any) -> None:
    assert await store.load(_key("missing")) is None
    await store.append(_key(), [_entry(n=1)])
    assert await store.load(_key(subpath="missing")) is None


async def _separates_transcripts(store: Any, _: Any) -> None:
    places = [_key(), _key(subpath="subagents/agent-1"), _key(project="other")]
    for number, place in enumerate(places):
        await store.append(place, [_entry(n=number)])
    for number, place in enumerate(places):
        assert await store.load(place) == [_entry(n=number)]


async def _lists_sessions(store: Any, _: Any) -> None:
    for place in (_key("a"), _key("b"), _key("b", "subagents/agent-1"), _key("c", project="other")):
        await store.append(place, [_entry(n=1)])
    listed = await store.list_sessions("project")
    assert sorted(each["session_id"] for each in listed) == ["a", "b"]
    assert all(math.isfinite(each["mtime"]) and each["mtime"] > _EARLIEST for each in listed)
    assert await store.list_sessions("missing") == []


async def _lists_summaries(store: Any, has: dict[str, bool]) -> None:
    await store.append(_key(), [_entry(timestamp="2024-01-01T00:00:00.000Z", customTitle="first")])
    await store.append(_key(), [_entry(timestamp="2024-01-01T00:00:02.000Z", customTitle="second")])
    await store.append(_key("c", project="other"), [_entry(timestamp="2024-01-01T00:00:00.000Z")])
    (summary,) = await store.list_session_summaries("project")
    assert summary["session_id"] == "one"
    assert math.isfinite(summary["mtime"])
    assert summary["mtime"] > _EARLIEST
    assert isinstance(summary["data"], dict)
    if has["list_sessions"]:
        (listed,) = await store.list_sessions("project")
        assert summary["mtime"] >= listed["mtime"]
    folded = fold_session_summary(summary, _key(), [_entry(timestamp="2024-01-01T00:00:03.000Z")])
    assert (folded["session_id"], folded["mtime"]) == ("one", summary["mtime"])
    await store.append(_key(subpath="subagents/agent-1"), [_entry(customTitle="of a subagent")])
    (after,) = await store.list_session_summaries("project")
    assert after["data"] == summary["data"]
    assert await store.list_session_summaries("missing") == []
    if has["delete"]:
        await store.delete(_key())
        assert await store.list_session_summaries("project") == []


async def _deletes(store: Any, has: dict[str, bool]) -> None:
    await store.delete(_key("missing"))
    gone = [_key(), _key(subpath="subagents/agent-1"), _key(subpath="subagents/agent-2")]
    kept = [_key("two"), _key(project="other")]
    for place in (*gone, *kept):
        await store.append(place, [_entry(n=1)])
    await store.delete(gone[1])
    assert await store.load(gone[1]) is None
    assert await store.load(gone[2]) == [_entry(n=1)]
    assert await store.load(gone[0]) == [_entry(n=1)]
    await store.delete(gone[0])
    assert [await store.load(place) for place in gone] == [None] * 3
    assert [await store.load(place) for place in kept] == [[_entry(n=1)]] * 2
    if has["list_subkeys"]:
        assert await store.list_subkeys(_key()) == []
    if has["list_sessions"]:
        assert [each["session_id"] for each in await store.list_sessions("project")] == ["two"]


async def _lists_subkeys(store: Any, _: Any) -> None:
    for place in (_key(), _key(subpath="subagents/agent-1"), _key(subpath="subagents/agent-2"), _key("two", "sub/x")):
        await store.append(place, [_entry(n=1)])
    assert sorted(await store.list_subkeys(_key())) == ["subagents/agent-1", "subagents/agent-2"]
    assert await store.list_subkeys(_key("missing")) == []


_CONTRACTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (_keeps_order, ()),
    (_knows_nothing_else, ()),
    (_separates_transcripts, ()),
    (_lists_sessions, ("list_sessions",)),
    (_lists_summaries, ("list_session_summaries",)),
    (_deletes, ("delete",)),
    (_lists_subkeys, ("list_subkeys",)),
)
