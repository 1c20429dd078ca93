"""`check_session_store`: what any session store must do, shown on yours.

Each check makes a store, and uses keys of its own: a factory may return the same database each time.
"""

from __future__ import annotations

import inspect
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.options.stores import implements, problem_with
from hackamore.testing.conformance.report import Failed, Finding, Report, Skipped, expect, outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hackamore.options.stores import StoreKey
    from hackamore.testing.conformance.report import Status

CHECK_SECONDS = 60.0
_EARLIEST = 1_000_000_000_000
"""A time in milliseconds is later than this; one in seconds is not."""


class Subject:
    """A store under check, and keys that no other check uses."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.project: str = f"-check-{secrets.token_hex(6)}"
        self.session: str = self.new_id()

    @staticmethod
    def new_id() -> str:
        """Return a new session id."""
        text = secrets.token_hex(16)
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def key(self, subpath: str = "", *, session: str = "", project: str = "") -> StoreKey:
        """Return a key."""
        key: StoreKey = {"project_key": project or self.project, "session_id": session or self.session}
        if subpath:
            key["subpath"] = subpath
        return key

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, which may be async."""
        outcome = getattr(self.store, method)(*arguments)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def append(self, key: StoreKey, *entries: dict[str, Any]) -> None:
        """Append entries."""
        await self.call("append", key, list(entries))

    async def expect_entries(self, key: StoreKey, *entries: dict[str, Any]) -> None:
        """Check the entries of a transcript."""
        found = await self.call("load", key)
        given, texts = list(entries), [json.dumps(each, sort_keys=True) for each in (found, entries)]  # 1 == True
        expect(found == given and texts[0] == texts[1], f"loaded {_short(found)} instead of {_short(given)}")

    async def sessions(self, project: str = "") -> list[str]:
        """Return the listed sessions."""
        return [each["session_id"] for each in await self.call("list_sessions", project or self.project)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} ..."


def entry(number: int, **more: Any) -> dict[str, Any]:
    """Return an entry with a uuid of its own."""
    uuid = f"{number:08x}-0000-4000-8000-{secrets.token_hex(6)}"
    return {"type": "user", "uuid": uuid, "timestamp": "2026-01-01T00:00:00.000Z", "n": number, **more}


async def _order(subject: Subject) -> None:
    batches = [[entry(2), entry(1)], [entry(9)], [entry(4), entry(3), entry(8)]]
    for batch in batches:
        await subject.append(subject.key(), *batch)
    await subject.expect_entries(subject.key(), *(each for batch in batches for each in batch))


async def _values(subject: Subject) -> None:
    deep: Any = "end"
    for _ in range(50):
        deep = {"in": [deep]}
    odd = entry(
        1,
        text='quotes " and \\ and \n, é, \u4e2d\u6587, \U0001f600, \u2028',
        empty={"list": [], "dict": {}, "text": "", "none": None, "true": True},
        numbers=[0, -1, 1.5, 1e-7, 2**53],
        deep=deep,
    )
    await subject.append(subject.key(), odd)
    await subject.expect_entries(subject.key(), odd)


async def _nul(subject: Subject) -> None:
    await subject.append(subject.key(), printed := entry(1, text="a\x00b"))
    await subject.expect_entries(subject.key(), printed)


async def _large(subject: Subject) -> None:
    entries = [entry(number, text="x" * 500) for number in range(2_000)] + [entry(2_000, text="y" * 3_000_000)]
    await subject.append(subject.key(), *entries)
    await subject.append(subject.key(), entry_after := entry(2_001))
    await subject.expect_entries(subject.key(), *entries, entry_after)


async def _unknown(subject: Subject) -> None:
    expect(await subject.call("load", subject.key()) is None, "a session that was never appended to is not None")
    await subject.append(subject.key(), entry(1))
    expect(await subject.call("load", subject.key("no")) is None, "a part that was never appended to is not None")


async def _nothing(subject: Subject) -> None:
    await subject.append(subject.key())
    await subject.append(subject.key(), one := entry(1))
    await subject.append(subject.key())
    await subject.expect_entries(subject.key(), one)


async def _apart(subject: Subject) -> None:
    keys = [
        subject.key(),
        subject.key("subagents/agent-1"),
        subject.key("subagents/agent-10"),
        subject.key("subagents/agent-1/deeper"),
        subject.key(session=subject.new_id()),
        subject.key(project=f"{subject.project}-2"),
        subject.key(project=f"{subject.project}_"),
    ]
    entries = [entry(number) for number in range(len(keys))]
    for key, each in zip(keys, entries, strict=True):
        await subject.append(key, each)
    for key, each in zip(keys, entries, strict=True):
        await subject.expect_entries(key, each)


async def _own_copy(subject: Subject) -> None:
    given = entry(1, inner={"list": [1]})
    before = {**given, "inner": {"list": [1]}}
    await subject.append(subject.key(), given)
    expect(given == before, "`append` changed the entry that it was given")
    given["inner"]["list"].append(2)
    await subject.expect_entries(subject.key(), before)
    loaded = await subject.call("load", subject.key())
    loaded.append("more")
    await subject.expect_entries(subject.key(), before)


async def _again(subject: Subject) -> None:
    first, second = [entry(1), entry(2)], [entry(3)]
    await subject.append(subject.key(), *first)
    await subject.append(subject.key(), *second)
    await subject.append(subject.key(), *second)  # the answer to the first attempt was lost
    found = await subject.call("load", subject.key())
    once = [*first, *second]
    expect(found in (once, [*once, *second]), f"loaded {_short(found)}")


async def _many(subject: Subject) -> None:
    import anyio

    async def fill(session: str) -> None:
        for number in range(5):
            await subject.append(subject.key(session=session), {**entry(number), "of": session})

    ids = [subject.new_id() for _ in range(8)]
    async with anyio.create_task_group() as group:
        for each in ids:
            group.start_soon(fill, each)
    for each in ids:
        found = await subject.call("load", subject.key(session=each))
        seen = [(one["of"], one["n"]) for one in found]
        expect(seen == [(each, number) for number in range(5)], f"loaded {_short(seen)}")


async def _listed(subject: Subject) -> None:
    ids = [subject.new_id() for _ in range(3)]
    for each in ids:
        await subject.append(subject.key(session=each), entry(1))
    await subject.append(subject.key(session=ids[0], project=f"{subject.project}-2"), entry(1))
    expect(sorted(await subject.sessions()) == sorted(ids), "not exactly the sessions of the project are listed")
    expect(await subject.sessions(f"{subject.project}-3") == [], "a project without sessions is not an empty list")
    times = [each["mtime"] for each in await subject.call("list_sessions", subject.project)]
    expect(all(time > _EARLIEST for time in times), f"`mtime` is not in milliseconds: {times}")


async def _parts_not_listed(subject: Subject) -> None:
    await subject.append(subject.key(), entry(1))
    await subject.append(subject.key("subagents/agent-1"), entry(2))
    expect(await subject.sessions() == [subject.session], "a part of a session is listed as a session")


async def _subkeys(subject: Subject) -> None:
    expect(list(await subject.call("list_subkeys", subject.key())) == [], "an unknown session has parts")
    await subject.append(subject.key(), entry(1))
    expect(list(await subject.call("list_subkeys", subject.key())) == [], "the main transcript is listed as a part")
    parts = ["subagents/agent-1", "subagents/agent-2", "subagents/workflows/run-1/agent-3"]
    for part in parts:
        await subject.append(subject.key(part), entry(1))
    await subject.append(subject.key("subagents/agent-x", session=subject.new_id()), entry(1))
    found = sorted(await subject.call("list_subkeys", subject.key()))
    expect(found == parts, f"the parts are {found} instead of {parts}")


async def _deleted(subject: Subject) -> None:
    other = subject.new_id()
    await subject.call("delete", subject.key(session=subject.new_id()))  # unknown: nothing happens
    keys = [subject.key(), subject.key("subagents/agent-1"), subject.key("subagents/agent-2")]
    kept = [subject.key(session=other), subject.key(project=f"{subject.project}-2")]
    for key in (*keys, *kept):
        await subject.append(key, entry(1))
    await subject.call("delete", keys[1])
    expect(await subject.call("load", keys[1]) is None, "a deleted part can be loaded")
    expect(len(await subject.call("load", keys[2]) or ()) == 1, "the deletion of a part removed another one")
    expect(len(await subject.call("load", keys[0]) or ()) == 1, "the deletion of a part removed the main transcript")
    if implements(subject.store, "list_subkeys"):
        found = list(await subject.call("list_subkeys", keys[0]))
        expect(found == ["subagents/agent-2"], f"after the deletion of a part the others are {found}")
    await subject.call("delete", keys[0])
    for key in keys:
        expect(await subject.call("load", key) is None, "a part of a deleted session can be loaded")
    for key in kept:
        expect(len(await subject.call("load", key) or ()) == 1, "the deletion of a session removed another one")
    if implements(subject.store, "list_sessions"):
        expect(await subject.sessions() == [other], "a deleted session is listed")
    await subject.append(keys[0], one := entry(7))
    await subject.expect_entries(keys[0], one)


async def _summaries(subject: Subject) -> None:
    await subject.append(subject.key(), entry(1, customTitle="first"))
    await subject.append(subject.key(), entry(2, customTitle="second"))
    await subject.append(subject.key("subagents/agent-1"), entry(3, customTitle="not this"))
    found = await subject.call("list_session_summaries", subject.project)
    expect([each["session_id"] for each in found] == [subject.session], "not exactly the sessions have summaries")
    expect(found[0]["mtime"] > _EARLIEST, f"`mtime` is not in milliseconds: {found[0]['mtime']}")
    expect(isinstance(found[0]["data"], dict), f"`data` is a {type(found[0]['data']).__name__}")
    if implements(subject.store, "list_sessions"):
        (listed,) = await subject.call("list_sessions", subject.project)
        expect(found[0]["mtime"] >= listed["mtime"], "`mtime` is earlier than in `list_sessions`")


class StoreCheck(NamedTuple):
    """One check.

    Attributes:
        name: its name, stable between versions.
        needs: the optional method that it is about; "" for none.
        required: False if sessions work without it.
    """

    name: str
    behaviour: str
    run: Callable[[Subject], Awaitable[None]]
    needs: str = ""
    required: bool = True


STORE_CHECKS: tuple[StoreCheck, ...] = (
    StoreCheck("order", "entries are loaded in the order of their appends", _order),
    StoreCheck("values", "any JSON value comes back as it was", _values),
    StoreCheck("nul", "a NUL character, which a tool may print, comes back as it was", _nul),
    StoreCheck("large", "a large transcript and a large entry come back whole", _large),
    StoreCheck("unknown", "a transcript that was never appended to is None", _unknown),
    StoreCheck("nothing", "an append of nothing changes nothing", _nothing),
    StoreCheck("apart", "projects, sessions and parts are kept apart", _apart),
    StoreCheck(
        "own-copy", "later changes of a given or loaded entry do not reach the store", _own_copy, required=False
    ),
    StoreCheck("again", "an append that is repeated keeps the order, and may be left out", _again),
    StoreCheck("many", "appends to several sessions at the same time do not disturb each other", _many),
    StoreCheck("listed", "the sessions of a project are listed, with times in milliseconds", _listed, "list_sessions"),
    StoreCheck("parts-not-listed", "parts are not listed as sessions", _parts_not_listed, "list_sessions"),
    StoreCheck("subkeys", "the parts of a session are listed, without the main transcript", _subkeys, "list_subkeys"),
    StoreCheck("deleted", "a deletion removes a session with its parts, or one part", _deleted, "delete"),
    StoreCheck("summaries", "each session has one summary", _summaries, "list_session_summaries"),
)


def check_session_store(
    factory: Callable[[], Any],
    *,
    only: Sequence[str] = (),
    backend: str = "asyncio",
    seconds: float = CHECK_SECONDS,
    on_finding: Callable[[Finding], object] | None = None,
) -> Report:
    """Return what a session store does of what `Options(session_store=...)` asks for.

    ::

        def test_it_conforms():
            check_session_store(lambda: MyStore(url)).raise_for_failures()

    The checks write sessions under projects whose names begin with `-check-`, and leave them there.

    Args:
        factory: returns a store, or an awaitable of one; called once for each check. It may return stores over the same data.
        only: names of checks, if not all are wanted.
        backend: the event loop of the checks, `asyncio` or `trio`.
        seconds: how long one check may take.
        on_finding: called with each finding as it is made.

    Returns:
        The report. A check of an optional method that the store lacks is skipped.

    Raises:
        ValueError: `only` has an unknown name.
    """
    unknown = set(only) - {check.name for check in STORE_CHECKS}
    if unknown:
        raise ValueError(f"`only` has names of no check: {', '.join(sorted(unknown))}")
    report = Report("Session store")
    for check in STORE_CHECKS:
        if only and check.name not in only:
            continue
        began = time.monotonic()
        status, detail = _outcome(factory, check, backend, seconds)
        taken = round(time.monotonic() - began, 3)
        finding = Finding("store", check.name, check.behaviour, status, detail, check.required, seconds=taken)
        report.findings.append(finding)
        if on_finding is not None:
            on_finding(finding)
    return report


def _outcome(factory: Callable[[], Any], check: StoreCheck, backend: str, seconds: float) -> tuple[Status, str]:
    import anyio

    async def run() -> None:
        made = factory()
        store = await made if inspect.isawaitable(made) else made
        if problem := problem_with(store):
            raise Failed(f"it {problem}")
        if check.needs and not implements(store, check.needs):
            raise Skipped(f"the store has no `{check.needs}`")
        with anyio.fail_after(seconds):
            await check.run(Subject(store))

    def words(error: Exception) -> str:
        late = isinstance(error, TimeoutError)
        return f"it took longer than {seconds:g} s" if late else f"{type(error).__name__}: {error}"

    return outcome(lambda: anyio.run(run, backend=backend), words)
