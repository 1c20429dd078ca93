"""`check_session_store`: a store that does all that is asked for conforms; each thing that a store may do wrong is told."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from hackamore.testing import check_session_store
from hackamore.testing.conformance import Finding

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_750_000_000_000
Place = tuple[str, str, str]


def place_of(key: Any) -> Place:
    return key["project_key"], key["session_id"], key.get("subpath", "")


class Right:
    """A store in memory with all optional methods; a wrong one overrides one of them."""

    def __init__(self) -> None:
        self.kept: dict[Place, list[Any]] = {}

    def append(self, key: Any, entries: list[Any]) -> None:
        if entries:
            self.kept.setdefault(self.place(key), []).extend(copy.deepcopy(entries))

    def load(self, key: Any) -> Any:
        return copy.deepcopy(self.kept.get(self.place(key)))

    def place(self, key: Any) -> Place:
        return place_of(key)

    def list_sessions(self, project_key: str) -> list[Any]:
        sessions = [session for project, session, part in self.kept if project == project_key and not part]
        return [{"session_id": session, "mtime": NOW} for session in sessions]

    def list_subkeys(self, key: Any) -> list[str]:
        mine = place_of(key)[:2]
        return [place[2] for place in self.kept if place[:2] == mine and place[2]]

    def delete(self, key: Any) -> None:
        project, session, part = self.place(key)
        for place in list(self.kept):
            if place[:2] == (project, session) and (not part or place[2] == part):
                del self.kept[place]

    def list_session_summaries(self, project_key: str) -> list[Any]:
        return [{**each, "data": {}} for each in Right.list_sessions(self, project_key)]


def wrong(**methods: Any) -> type[Right]:
    return type("Wrong", (Right,), methods)


def loads(change: Callable[[list[Any]], Any]) -> type[Right]:
    """A store whose transcripts come back changed."""

    def load(self: Right, key: Any) -> Any:
        found = Right.load(self, key)
        return None if found is None else change(found)

    return wrong(load=load)


def places(change: Callable[[Place], Place]) -> type[Right]:
    """A store that takes transcripts for the same one."""
    return wrong(place=lambda self, key: change(place_of(key)))


def lists(method: str, change: Callable[[list[Any]], Any]) -> type[Right]:
    """A store whose list is changed."""
    return wrong(**{method: lambda self, key: change(getattr(Right, method)(self, key))})


def entries(change: Callable[..., Any], *arguments: Any) -> type[Right]:
    """A store whose entries come back changed."""
    return loads(lambda found: [change(each, *arguments) for each in found])


def text_through(entry: Any, code: Callable[[str], str]) -> Any:
    return {**entry, "text": code(entry["text"])}


def numbers_through(entry: Any, code: Callable[[float], float]) -> Any:
    return {**entry, "numbers": list(map(code, entry["numbers"]))}


def with_none(value: Any, name: str) -> Any:
    """A JSON value in which one member is None."""
    if isinstance(value, dict):
        return {key: None if key == name else with_none(each, name) for key, each in value.items()}
    return value


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(each) for key, each in value.items() if each is not None}
    return value


class Replaces(Right):
    def append(self, key: Any, entries: list[Any]) -> None:
        self.kept[place_of(key)] = copy.deepcopy(entries)


class GivesItself(Right):
    def load(self, key: Any) -> Any:
        return self.kept.get(place_of(key))


class KeepsWhatIsGiven(Right):
    def append(self, key: Any, entries: list[Any]) -> None:
        if entries:
            self.kept.setdefault(place_of(key), []).extend(entries)


class ChangesWhatIsGiven(Right):
    def append(self, key: Any, entries: list[Any]) -> None:
        super().append(key, entries)
        for each in entries:
            each["stored"] = True


class PutsRepeatedFirst(Right):
    def append(self, key: Any, entries: list[Any]) -> None:
        there = self.kept.get(place_of(key), [])
        super().append(key, entries)
        if entries and entries[0] in there:
            self.kept[place_of(key)] = [*copy.deepcopy(entries), *there]


class Disturbs(Right):
    """An append that waits writes to the place of the last one."""

    async def append(self, key: Any, entries: list[Any]) -> None:  # type: ignore[override]
        self.last = key
        await anyio.lowlevel.checkpoint()
        super().append(self.last, entries)


class DeletesOnlyTheMainTranscript(Right):
    def delete(self, key: Any) -> None:
        self.kept.pop(place_of(key), None)


class DeletesAllParts(Right):
    def delete(self, key: Any) -> None:
        for place in list(self.kept):
            if place[:2] == place_of(key)[:2] and (place[2] or not place_of(key)[2]):
                del self.kept[place]


class DeletesTheSession(Right):
    def delete(self, key: Any) -> None:
        super().delete({**key, "subpath": ""})


class DeletesTheMainTranscriptWithAPart(Right):
    def delete(self, key: Any) -> None:
        super().delete(key)
        self.kept.pop((*place_of(key)[:2], ""), None)


class DeletesTheProject(Right):
    def delete(self, key: Any) -> None:
        super().delete(key)
        if "subpath" not in key:
            for place in [place for place in self.kept if place[0] == key["project_key"]]:
                del self.kept[place]


class DeletesInAllProjects(Right):
    def delete(self, key: Any) -> None:
        super().delete(key)
        if "subpath" not in key:
            for place in [place for place in self.kept if place[1] == key["session_id"]]:
                del self.kept[place]


class RefusesUnknown(Right):
    def delete(self, key: Any) -> None:
        if place_of(key) not in self.kept:
            raise KeyError("no such session")
        super().delete(key)


class KeepsATombstone(Right):
    def delete(self, key: Any) -> None:
        super().delete(key)
        self.gone = {*getattr(self, "gone", ()), place_of(key)}

    def append(self, key: Any, entries: list[Any]) -> None:
        if place_of(key) not in getattr(self, "gone", ()):
            super().append(key, entries)


class ListsDeleted(Right):
    def delete(self, key: Any) -> None:
        before = self.list_sessions(key["project_key"])
        super().delete(key)
        self.before = [] if "subpath" in key else before

    def list_sessions(self, project_key: str) -> list[Any]:
        return getattr(self, "before", None) or super().list_sessions(project_key)


class ListsDeletedParts(Right):
    def delete(self, key: Any) -> None:
        before = self.list_subkeys(key)
        super().delete(key)
        self.before = before

    def list_subkeys(self, key: Any) -> list[str]:
        return getattr(self, "before", None) or super().list_subkeys(key)


class OneList(Right):
    def list_sessions(self, project_key: str) -> list[Any]:
        return [found for project in {place[0] for place in self.kept} for found in Right.list_sessions(self, project)]


class ListsPartsOfAll(Right):
    def list_subkeys(self, key: Any) -> list[str]:
        return [part for _, _, part in self.kept if part]


def all_places(self: Right, project_key: str) -> list[Any]:
    places = [place for place in self.kept if place[0] == project_key]
    return [{"session_id": session + part, "mtime": NOW, "data": {}} for _, session, part in places]


CODES: tuple[Callable[[str], str], ...] = (
    lambda text: text.encode("ascii", "replace").decode(),
    lambda text: text.encode("latin-1", "replace").decode("latin-1"),
    lambda text: "".join(each for each in text if ord(each) < 0x10000),
    lambda text: text.replace('"', "'"),
    lambda text: text.replace("\\", "/"),
    lambda text: text.replace("\n", " "),
    lambda text: text.replace("\u2028", "\n"),
)
NUMBERS: tuple[Callable[[float], float], ...] = (
    *(int, abs, float),
    lambda number: round(number, 3),
    lambda number: min(number, 2**31),
)
MEMBERS = ("list", "dict", "text", "true", "deep", "numbers", "empty", "uuid", "timestamp", "type", "n")
WRONG: list[tuple[str, type[Right], str]] = [
    ("order", loads(lambda found: found[::-1]), "loaded [{"),
    ("order", loads(lambda found: sorted(found, key=lambda each: int(each["n"]))), "loaded [{"),
    ("order", Replaces, "loaded [{"),
    *(("values", entries(text_through, code), "loaded [{") for code in CODES),
    *(("values", entries(numbers_through, code), "loaded [{") for code in NUMBERS),
    *(("values", entries(with_none, name), "loaded [{") for name in MEMBERS),
    ("values", entries(without_none), "loaded [{"),
    ("values", entries(lambda entry: {**entry, "empty": {**entry["empty"], "true": 1}}), "'true': 1}"),
    ("nul", entries(text_through, lambda text: text.partition("\0")[0]), "'text': 'a'"),
    ("large", loads(lambda found: found[:1_000]), "loaded [{"),
    ("large", loads(lambda found: found[:2_001]), "loaded [{"),
    ("large", loads(lambda found: [{**each, "text": each.get("text", "")[: 1 << 20]} for each in found]), "loaded [{"),
    (
        *("unknown", wrong(load=lambda self, key: Right.load(self, key) or [])),
        "a session that was never appended to is not None",
    ),
    (
        "unknown",
        wrong(load=lambda self, key: Right.load(self, key) or ([] if self.kept else None)),
        "a part that was never appended to is not None",
    ),
    ("nothing", Replaces, "loaded []"),
    ("apart", places(lambda place: ("", *place[1:])), "loaded [{"),
    ("apart", places(lambda place: (place[0].replace("_", "-").rstrip("-"), *place[1:])), "loaded [{"),
    ("apart", places(lambda place: (place[0].removesuffix("-2"), *place[1:])), "loaded [{"),
    ("apart", places(lambda place: (place[0], "", place[2])), "loaded [{"),
    ("apart", places(lambda place: (*place[:2], "")), "loaded [{"),
    ("apart", places(lambda place: (*place[:2], place[2].removesuffix("0"))), "loaded [{"),
    ("apart", places(lambda place: (*place[:2], place[2].removesuffix("/deeper"))), "loaded [{"),
    ("own-copy", KeepsWhatIsGiven, "loaded [{"),
    ("own-copy", GivesItself, "'more'"),
    ("own-copy", ChangesWhatIsGiven, "`append` changed the entry that it was given"),
    ("again", Replaces, "loaded [{"),
    ("again", PutsRepeatedFirst, "loaded [{"),
    ("many", Disturbs, "loaded ["),
    ("listed", OneList, "not exactly the sessions of the project are listed"),
    ("listed", lists("list_sessions", lambda found: found[1:]), "not exactly the sessions of the project are listed"),
    (
        "listed",
        lists("list_sessions", lambda found: found or [{"session_id": "s", "mtime": NOW}]),
        "is not an empty list",
    ),
    (
        *("listed", lists("list_sessions", lambda found: [{**each, "mtime": NOW // 1_000} for each in found])),
        "`mtime` is not in milliseconds: [1750000000, 1750000000, 1750000000]",
    ),
    ("parts-not-listed", wrong(list_sessions=all_places), "a part of a session is listed as a session"),
    ("subkeys", lists("list_subkeys", lambda found: found or ["x"]), "an unknown session has parts"),
    (
        "subkeys",
        wrong(list_subkeys=lambda self, key: [place[2] for place in self.kept if place[:2] == place_of(key)[:2]]),
        "the main transcript is listed as a part",
    ),
    ("subkeys", ListsPartsOfAll, "'subagents/agent-x'"),
    (
        "subkeys",
        lists("list_subkeys", lambda found: [each for each in found if each.count("/") < 2]),
        "the parts are [",
    ),
    ("deleted", RefusesUnknown, "KeyError: 'no such session'"),
    ("deleted", wrong(delete=lambda self, key: None), "a deleted part can be loaded"),
    ("deleted", DeletesAllParts, "the deletion of a part removed another one"),
    ("deleted", DeletesTheSession, "the deletion of a part removed another one"),
    ("deleted", DeletesTheMainTranscriptWithAPart, "the deletion of a part removed the main transcript"),
    ("deleted", DeletesOnlyTheMainTranscript, "a part of a deleted session can be loaded"),
    ("deleted", DeletesTheProject, "the deletion of a session removed another one"),
    ("deleted", DeletesInAllProjects, "the deletion of a session removed another one"),
    ("deleted", ListsDeleted, "a deleted session is listed"),
    (
        "deleted",
        ListsDeletedParts,
        "after the deletion of a part the others are ['subagents/agent-1', 'subagents/agent-2']",
    ),
    ("deleted", KeepsATombstone, "loaded None instead of [{"),
    ("summaries", wrong(list_session_summaries=all_places), "not exactly the sessions have summaries"),
    ("summaries", lists("list_session_summaries", lambda found: []), "not exactly the sessions have summaries"),
    (
        *("summaries", lists("list_session_summaries", lambda found: [{**each, "mtime": 1} for each in found])),
        "`mtime` is not in milliseconds: 1",
    ),
    (
        *("summaries", lists("list_session_summaries", lambda found: [{**each, "data": "{}"} for each in found])),
        "`data` is a str",
    ),
    (
        *("summaries", lists("list_session_summaries", lambda found: [{**each, "mtime": NOW - 1} for each in found])),
        "`mtime` is earlier than in `list_sessions`",
    ),
]


@pytest.mark.parametrize(("check", "store", "detail"), WRONG)
def test_what_a_store_does_wrong_is_told(check: str, store: type[Right], detail: str) -> None:
    report = check_session_store(store, only=[check])
    [finding] = report.findings
    assert (finding.check, finding.status) == (check, "fails")
    assert detail in finding.detail
    assert len(finding.detail) < 1_500


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_store_that_does_all_that_is_asked_for_conforms(backend: str) -> None:
    made: list[Right] = []
    seen: list[Finding] = []

    async def factory() -> Right:
        made.append(Right())
        return made[-1]

    report = check_session_store(factory, backend=backend, on_finding=seen.append)
    assert {(finding.group, finding.status, finding.where) for finding in seen} == {("store", "holds", "")}
    assert report.findings == seen
    assert len(made) == len(seen) == 15
    assert report.ok
    for store in made:
        assert all(project.startswith("-check-") for project, _, _ in store.kept)
    assert len({project.removesuffix("-2").rstrip("_") for store in made for project, _, _ in store.kept}) == 15


@pytest.mark.parametrize(
    ("method", "checks"),
    [
        ("list_sessions", ["listed", "parts-not-listed"]),
        ("list_subkeys", ["subkeys"]),
        ("delete", ["deleted"]),
        ("list_session_summaries", ["summaries"]),
    ],
)
def test_an_optional_method_may_be_missing(method: str, checks: list[str]) -> None:
    report = check_session_store(wrong(**{method: None}))
    assert [(each.check, each.detail) for each in report.of("skipped")] == [
        (check, f"the store has no `{method}`") for check in checks
    ]
    assert not report.of("fails")


def test_a_store_conforms_if_it_has_what_sessions_need() -> None:
    check_session_store(KeepsWhatIsGiven).raise_for_failures()  # sessions work with it
    for store in (Replaces, object):
        with pytest.raises(AssertionError, match="Session store does not conform"):
            check_session_store(store).raise_for_failures()
    assert check_session_store(object, only=["order"]).findings[0].detail == (
        "it must be an object with the methods `append(key, entries)` and `load(key)`; `append` is missing"
    )


def test_one_check_that_hangs_is_given_up() -> None:
    async def hangs(self: Right, key: Any) -> Any:
        await anyio.sleep_forever()

    [finding] = check_session_store(wrong(load=hangs), only=["order"], seconds=0.01).findings
    assert (finding.status, finding.detail) == ("fails", "it took longer than 0.01 s")


def test_names_of_no_check_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`only` has names of no check: a, b$"):
        check_session_store(Right, only=["b", "order", "a"])
    [finding] = check_session_store(lambda: Right, only=["order"]).findings
    assert finding.detail == "it must be a store, not its class: write `Right(...)`"
