"""Which entries go to a store, and when: the mirror alone, without a clock or IO."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import DecodeError
from hackamore._engine.storing.mirror import (
    ATTEMPTS,
    BATCH_BYTES,
    BATCH_ENTRIES,
    FLUSHES,
    RESTS,
    WRITER,
    Append,
    Mirror,
    Occasion,
    Trigger,
    Writer,
    key_of,
)
from hackamore.options.stores import FlushMode
from tests.support.seeds import seeded

MAIN = "/home/u/.claude/projects/-work/11111111-2222-4333-8444-555555555555.jsonl"
SUB = "/home/u/.claude/projects/-work/11111111-2222-4333-8444-555555555555/subagents/agent-a.jsonl"
LARGE = 64 * 1024 * 1024


def entries(*numbers: int, fill: int = 0) -> bytes:
    return json.dumps([{"type": "user", "n": number, "fill": "x" * fill} for number in numbers]).encode()


def numbers(append: Append | None) -> list[int]:
    assert append is not None
    return [entry["n"] for entry in append.entries()]


def test_the_table_of_flushes_is_complete() -> None:
    assert set(FLUSHES) == {(flush, occasion) for flush in ("batched", "eager") for occasion in Occasion}


def test_batched_entries_wait_for_a_result() -> None:
    mirror = Mirror("batched", LARGE)
    mirror.take(MAIN, entries(1, 2))
    mirror.take(SUB, entries(10))
    mirror.take(MAIN, entries(3))
    assert mirror.begin() is None
    mark = mirror.flush_on(Occasion.RESULT)
    main = mirror.begin()
    assert numbers(main) == [1, 2, 3]  # one append for a file, whatever came in between
    assert mirror.begin() is None  # one at a time
    mirror.take(MAIN, entries(4))  # of the next batch
    mirror.took()
    assert not mirror.settled(mark)
    assert numbers(mirror.begin()) == [10]
    mirror.took()
    assert mirror.settled(mark)
    assert mirror.begin() is None
    assert not mirror.full
    assert mirror.idle


@pytest.mark.parametrize("many", ["entries", "bytes"])
def test_many_entries_do_not_wait(many: str) -> None:
    mirror = Mirror("batched", LARGE)
    if many == "entries":
        for number in range(BATCH_ENTRIES - 1):
            mirror.take(MAIN, entries(number))
        assert mirror.begin() is None
        mirror.take(MAIN, entries(BATCH_ENTRIES))
    else:
        mirror.take(MAIN, entries(1, fill=BATCH_BYTES // 2))
        assert mirror.begin() is None
        mirror.take(MAIN, entries(2, fill=BATCH_BYTES // 2))
    append = mirror.begin()
    assert append is not None
    assert len(append.entries()) == (BATCH_ENTRIES if many == "entries" else 2)


def test_eager_entries_do_not_wait_and_are_coalesced_behind_an_append() -> None:
    mirror = Mirror("eager", LARGE)
    mirror.take(MAIN, entries(1))
    assert numbers(mirror.begin()) == [1]
    mirror.take(MAIN, entries(2))
    mirror.take(MAIN, entries(3))
    mirror.took()
    assert numbers(mirror.begin()) == [2, 3]


def test_an_append_is_tried_three_times_and_then_waits_for_the_next_occasion() -> None:
    mirror = Mirror("batched", LARGE)
    mirror.take(MAIN, entries(1))
    mark = mirror.flush_on(Occasion.RESULT)
    append = mirror.begin()
    rests = []
    for _ in range(ATTEMPTS):
        rest = mirror.failed("no", again=True)
        if rest is not None:
            rests.append(rest)
            assert mirror.writer is Writer.RESTING
            assert mirror.begin() is None
            assert mirror.rested() is append
    assert tuple(rests) == RESTS == (0.2, 0.8)
    (problem,) = mirror.problems
    assert (problem.error, problem.given_up) == ("no", False)
    assert problem.key == {"project_key": "-work", "session_id": "11111111-2222-4333-8444-555555555555"}
    assert mirror.settled(mark)  # the result is not held back any longer
    assert mirror.begin() is None
    mirror.take(MAIN, entries(2))
    mirror.flush_on(Occasion.RESULT)
    assert numbers(mirror.begin()) == [1, 2]  # nothing is appended behind a hole


def test_a_timeout_is_not_tried_again_at_once() -> None:
    mirror = Mirror("batched", LARGE)
    mirror.take(MAIN, entries(1))
    mirror.flush_on(Occasion.RESULT)
    mirror.begin()
    assert mirror.failed("late", again=False) is None
    assert not mirror.problems[0].given_up
    assert mirror.idle


@pytest.mark.parametrize("flush", ["batched", "eager"])
def test_what_could_not_be_appended_has_a_last_attempt_at_the_end(flush: FlushMode) -> None:
    mirror = Mirror(flush, LARGE)
    mirror.take(MAIN, entries(1))
    mirror.flush_on(Occasion.RESULT)
    mirror.begin()
    mirror.failed("late", again=False)
    assert mirror.begin() is None
    mirror.flush_on(Occasion.END)
    assert numbers(mirror.begin()) == [1]


def test_a_conflict_gives_the_file_up_and_no_other() -> None:
    mirror = Mirror("eager", LARGE)
    mirror.take(MAIN, entries(1))
    mirror.begin()
    mirror.failed("two writers", again=True, lost=True)
    mirror.take(MAIN, entries(2))
    mirror.take(SUB, entries(3))
    assert numbers(mirror.begin()) == [3]
    mirror.took()
    assert mirror.begin() is None
    assert [problem.given_up for problem in mirror.problems] == [True]
    assert mirror.waiting == 0


def test_memory_is_bounded_while_the_store_is_slow_and_when_it_fails() -> None:
    mirror = Mirror("eager", 10_000)
    mirror.take(MAIN, entries(1))
    mirror.begin()
    assert not mirror.full
    mirror.take(MAIN, entries(2, fill=10_000))
    assert mirror.full  # nothing more is read now
    mirror.failed("no", again=False)
    assert [problem.given_up for problem in mirror.problems] == [
        True
    ]  # too much for another try: loud, and the rest of the file too
    assert mirror.waiting == 0
    assert not mirror.full


@pytest.mark.parametrize(("most", "full", "given_up"), [(100, True, True), (101, False, True), (199, False, True)])
def test_the_limits_of_what_waits(most: int, *, full: bool, given_up: bool) -> None:
    mirror = Mirror("eager", most)
    mirror.take(MAIN, b'["' + b"x" * 96 + b'"]')
    assert mirror.waiting == 100
    mirror.begin()
    assert mirror.full is full
    mirror.failed("no", again=False)
    (problem,) = mirror.problems
    assert problem.given_up is given_up
    assert problem.error == "no; 100 bytes wait, and nothing more of this transcript is copied"
    assert problem.key == key_of(MAIN)


def test_half_of_the_limit_may_wait_for_another_try() -> None:
    mirror = Mirror("eager", 200)
    mirror.take(MAIN, b'["' + b"x" * 96 + b'"]')
    mirror.begin()
    mirror.failed("no", again=False)
    assert [(problem.error, problem.given_up) for problem in mirror.problems] == [("no", False)]
    assert (mirror.waiting, mirror.full) == (100, False)
    mirror.take(MAIN, entries(2))
    append = mirror.begin()
    assert append is not None
    assert append.size == mirror.waiting == 100 + len(entries(2))  # all of them count in the next try
    mirror.took()
    assert mirror.waiting == 0


def test_an_empty_report_is_nothing() -> None:
    mirror = Mirror("eager", LARGE)
    for nothing in (b"", b"[]"):
        mirror.take(MAIN, nothing)
    assert (mirror.begin(), mirror.flush_on(Occasion.END), [*mirror.problems]) == (None, 0, [])
    assert mirror.settled(0)


def test_what_is_left_at_the_end_is_told() -> None:
    mirror = Mirror("batched", LARGE)
    mirror.take(MAIN, entries(1))
    mirror.take(SUB, entries(2))
    mirror.flush_on(Occasion.END)
    mirror.begin()
    mirror.abandon("no time")
    assert mirror.idle
    assert mirror.waiting == 0
    assert [(problem.key, problem.error, problem.given_up) for problem in mirror.problems] == [
        (key_of(path), "no time", True) for path in (MAIN, SUB)
    ]
    mirror.take(MAIN, entries(3))
    assert mirror.begin() is None  # nothing is appended behind a hole


@pytest.mark.parametrize("raw", [b"[1, {", b"{}", b"null"])
def test_entries_that_are_no_list_are_told(raw: bytes) -> None:
    mirror = Mirror("eager", LARGE)
    mirror.take(MAIN, raw)
    assert mirror.begin() is None
    (problem,) = mirror.problems
    assert "JSON list" in problem.error
    assert problem.given_up


def test_a_file_that_is_no_transcript_is_told_once() -> None:
    mirror = Mirror("eager", LARGE)
    mirror.take("/etc/passwd", entries(1))
    mirror.take("/etc/passwd", entries(2))
    mirror.take(None, entries(2))
    assert mirror.begin() is None
    assert [(problem.key, problem.error, problem.given_up) for problem in mirror.problems] == [
        (None, f"{path!r} is not the path of a transcript", True) for path in ("/etc/passwd", "")
    ]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (MAIN, ("-work", "11111111-2222-4333-8444-555555555555", None)),
        (SUB, ("-work", "11111111-2222-4333-8444-555555555555", "subagents/agent-a")),
        ("/projects/x/.claude/projects/-w/s.jsonl", ("-w", "s", None)),
        ("C:\\u\\.claude\\projects\\C--w\\s\\subagents\\agent-b.jsonl", ("C--w", "s", "subagents/agent-b")),
        ("/c/projects/-w/s.json", None),
        ("/c/projects/s.jsonl", None),
        ("/c/projects/-w/s/../x.jsonl", None),
        ("/c/projects/-w/s//x.jsonl", None),
        ("/c/projects/-w/s/./x.jsonl", None),
        ("/c/projects//s.jsonl", None),
        ("/c/projects/-w/.jsonl", None),
        ("projects/-w/s.jsonl", ("-w", "s", None)),
        ("-w/s.jsonl", None),
        ("", None),
    ],
)
def test_a_path_becomes_a_key(path: str, key: tuple[str, str, str | None] | None) -> None:
    found = key_of(path)
    assert (found and (found["project_key"], found["session_id"], found.get("subpath"))) == key
    if key is not None:
        moved = key_of(path, "-other")
        assert moved is not None
        assert moved["project_key"] == "-other"


@pytest.mark.parametrize("project", [None, "-other"])
def test_a_session_is_kept_in_the_project_that_it_was_resumed_from(project: str | None) -> None:
    mirror = Mirror("eager", LARGE, project)
    for path in (MAIN, SUB):
        mirror.take(path, entries(1))
        append = mirror.begin()
        assert append is not None
        assert append.key == key_of(path, project or "-work")
        mirror.took()


IDLE, WRITING, RESTING = Writer
BEGIN, TOOK, FAILED, RESTED, GIVEN_UP = Trigger
CALLS: dict[str, tuple[Callable[[Mirror], object], Trigger]] = {
    "begin": (Mirror.begin, BEGIN),
    "took": (Mirror.took, TOOK),
    "failed": (lambda mirror: mirror.failed("no", again=True), FAILED),
    "failed for good": (lambda mirror: mirror.failed("no", again=False), GIVEN_UP),
    "rested": (Mirror.rested, RESTED),
    "abandon": (lambda mirror: mirror.abandon("no time"), GIVEN_UP),
}
LEADS: dict[Writer, dict[str, Writer | None]] = {  # None: an error of the caller
    IDLE: {"begin": WRITING, "took": None, "failed": IDLE, "failed for good": IDLE, "rested": None, "abandon": IDLE},
    WRITING: {
        "begin": WRITING,
        "took": IDLE,
        "failed": RESTING,
        "failed for good": IDLE,
        "rested": None,
        "abandon": IDLE,
    },
    RESTING: {
        "begin": RESTING,
        "took": None,
        "failed": None,
        "failed for good": IDLE,
        "rested": WRITING,
        "abandon": IDLE,
    },
}


def writer_in(state: Writer) -> Mirror:
    mirror = Mirror("eager", LARGE)
    mirror.take(MAIN, entries(1))
    if state is not IDLE:
        mirror.begin()
    if state is RESTING:
        mirror.failed("no", again=True)
    assert mirror.writer is state
    return mirror


def test_each_call_of_the_writer_leads_where_it_should_and_no_cell_is_left_over() -> None:
    used: set[tuple[Writer, Trigger]] = set()
    for state, calls in LEADS.items():
        assert calls.keys() == CALLS.keys()
        for name, following in calls.items():
            mirror = writer_in(state)
            call, trigger = CALLS[name]
            if following is None:
                with pytest.raises(KeyError):
                    call(mirror)
                assert mirror.writer is state
                continue
            call(mirror)
            assert mirror.writer is following, (state, name)
            if following is not state:
                used.add((state, trigger))
    assert used == set(WRITER)


@pytest.mark.parametrize("lost", [True, False])
def test_a_problem_has_the_exception_of_the_store(lost: bool) -> None:
    mirror = writer_in(WRITING)
    raised = OSError("no space")
    mirror.failed("no space", raised, again=False, lost=lost)
    (problem,) = mirror.problems
    assert (problem.exception, problem.error, problem.given_up) == (raised, "no space", lost)


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_is_at_any_time_the_beginning_of_its_file(seed: int) -> None:
    """Whatever fails, and whenever: entries arrive in order and once, or not at all."""
    chance = random.Random(seeded(seed))
    mirror = Mirror(chance.choice(["batched", "eager"]), 20_000)
    files: dict[str, list[int]] = {MAIN: [], SUB: []}
    store: dict[str, list[int]] = {MAIN: [], SUB: []}
    held: list[tuple[int, dict[str, int]]] = []
    running: Append | None = None
    problems: list[Any] = []
    number = 0
    for _ in range(400):
        match chance.randrange(6):
            case 0 | 1:
                if not mirror.full:
                    path = chance.choice([MAIN, SUB])
                    new = list(range(number, number + chance.randrange(4)))
                    number += len(new)
                    files[path] += new
                    mirror.take(path, entries(*new, fill=chance.choice([0, 0, 3_000])))
            case 2:
                held.append((mirror.flush_on(Occasion.RESULT), {path: len(of) for path, of in files.items()}))
            case 3 | 4:
                if running is None and mirror.writer is Writer.IDLE:
                    running = mirror.begin()
                elif running is not None:
                    store[SUB if "subpath" in running.key else MAIN] += numbers(running)
                    mirror.took()
                    running = None
            case 5:
                if running is not None and mirror.failed("no", again=chance.random() < 0.8) is None:
                    running = None
                elif running is not None:
                    assert mirror.rested() is running
        problems += mirror.problems
        mirror.problems.clear()
        for path, copied in store.items():
            assert copied == files[path][: len(copied)]
        while held and running is None and mirror.settled(held[0][0]):
            _, sizes = held.pop(0)
            if not problems:
                assert all(len(store[path]) >= size for path, size in sizes.items())
    assert mirror.waiting <= 20_000 + 15_000


def test_an_entry_that_is_nested_too_deep_is_an_error_of_hackamore() -> None:
    mirror = Mirror("eager", LARGE)
    mirror.take(MAIN, b'[{"n": ' + b"[" * 900 + b"]" * 900 + b"}]")
    append = mirror.begin()
    assert append is not None

    def deeper(levels: int) -> Any:
        return append.entries() if not levels else deeper(levels - 1)

    with pytest.raises(DecodeError, match="nested too deep"):
        deeper(600)
