"""What one unit of work costs beside more and more of something: each function returns seconds for a unit, beside `count` others.

python bench/growth_rows.py NAME COUNT...
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from typing import TYPE_CHECKING, Any, cast

from bridle.fleet.journal import open_journal
from bridle.fleet.states import Happening
from bridle.fleet.task import Spec
from bridle.session.readers import Progress, Readers
from bridle.storage.holders import holder_name
from bridle.traces.reading import read_session
from bridle.transcripts import forking
from bridle.transcripts.places import SessionFiles
from bridle.transcripts.transcript import Transcript, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bridle.fleet.journal import Journal
    from bridle.messages import Message
    from bridle.session.core import SessionCore

ME = holder_name()


def median(call: Callable[[], object], times: int = 21) -> float:
    """Return the median of the seconds of some calls, by the clock of the process: others may be busy."""
    took = []
    for _ in range(times):
        began = time.process_time()
        call()
        took.append(time.process_time() - began)
    return sorted(took)[times // 2]


def _filled(folder: str, names: list[str]) -> Journal:
    journal = open_journal(f"{folder}/fleet.journal")
    journal.store.look(lambda cursor: cursor.rows("PRAGMA synchronous = OFF"))
    journal.add([(name, Spec(prompt="Fix the finding.")) for name in names])
    return journal


def lease(count: int) -> float:
    """A lease of one task and its end, with `count` tasks of other fleets in the journal."""
    with tempfile.TemporaryDirectory() as folder:
        journal = _filled(folder, [*map(str, range(count)), *(own := [f"own-{number}" for number in range(100)])])

        def one() -> None:
            [found] = journal.lease(ME, 1, own, time.time())
            journal.finish(found, ME, Happening.GIVEN_BACK)

        with closing(journal):
            return median(one)


def progress(count: int) -> float:
    """What `run.progress()` asks the journal of a fleet, with `count` tasks."""
    with tempfile.TemporaryDirectory() as folder, closing(_filled(folder, [*map(str, range(count))])) as journal:
        return median(lambda: (journal.counts(), journal.spent()))


def _opened(folder: str, entries: Iterable[tuple[str, str | None, str]]) -> Transcript:
    """Open a conversation of these entries: id, parent, and type."""
    path = Path(folder, "conversation.jsonl")
    with path.open("w") as file:
        for name, parent, kind in entries:
            message = {"role": kind, "content": "Fix the finding.", **({"id": name} if kind == "assistant" else {})}
            file.write(json.dumps({"type": kind, "uuid": name, "parentUuid": parent, "message": message}) + "\n")
    return Transcript(SessionFiles("conversation", path, folder))


def _rewound(folder: str, turns: int) -> Transcript:
    """Open a conversation that was rewound after every fourth turn."""
    entries: list[tuple[str, str | None, str]] = []
    last = None
    for number in range(turns):
        entries += [(f"u{number}", last, "user"), (f"a{number}", f"u{number}", "assistant")]
        if number % 4 or not last:
            last = f"a{number}"
    return _opened(folder, entries)


def branches(count: int) -> float:
    """The branches of a conversation of `count` turns with a dead end for every fourth one."""
    with tempfile.TemporaryDirectory() as folder:
        conversation = _rewound(folder, count)
        return median(lambda: (vars(conversation).pop("branches", None), conversation.branches), 3)


def way_of_a_message(count: int) -> float:
    """Find the oldest dead end among those of `count` turns, as a fork at a message does."""
    with tempfile.TemporaryDirectory() as folder:
        conversation = _rewound(folder, count)
        return median(lambda: forking._up_to(conversation, "a4"), 3)  # noqa: SLF001 - without the copy


def leaves(count: int) -> float:
    """Find the ends of a conversation with `count` notes in a row behind its message, each with a note of its own."""
    with tempfile.TemporaryDirectory() as folder:
        entries: list[tuple[str, str | None, str]] = [("p0", None, "user")]
        for number in range(count):
            entries += [(f"p{number + 1}", f"p{number}", "progress"), (f"n{number}", f"p{number}", "progress")]
        return median(source_of(_opened(folder, entries)).links.leaves, 3)


def parallel_calls(count: int) -> float:
    """Read a conversation of `count` replies with two calls each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "conversation.jsonl")
        last = None
        with path.open("w") as file:
            for number in range(count):
                for name, parent, kind, block in (
                    (f"a{number}", last, "assistant", {"type": "tool_use", "id": f"t{number}"}),
                    (f"b{number}", f"a{number}", "assistant", {"type": "tool_use", "id": f"s{number}"}),
                    (f"s{number}", f"b{number}", "user", {"type": "tool_result", "tool_use_id": f"s{number}"}),
                    (f"t{number}", f"a{number}", "user", {"type": "tool_result", "tool_use_id": f"t{number}"}),
                ):
                    message = {"role": kind, "content": [block], "id": f"m{number}"}
                    file.write(
                        json.dumps({"type": kind, "uuid": name, "parentUuid": parent, "message": message}) + "\n"
                    )
                last = f"t{number}"
        links = source_of(Transcript(SessionFiles("conversation", path, folder))).links
        return median(lambda: links.conversation(links.current_leaf()), 3)


def unread_turns(count: int) -> float:
    """The message of a new turn beyond half of the buffer, with `count` unread turns."""
    limits = SimpleNamespace(buffered_bytes=(count + 100) * 2000 * 3 // 2)
    connection = SimpleNamespace(in_flight_bytes=0, over=False)
    readers = Readers(
        cast(
            "SessionCore[Any]",
            SimpleNamespace(options=SimpleNamespace(limits=limits), connection=connection, warn=lambda *_, **__: None),
        )
    )
    message = cast("Message", SimpleNamespace(raw=b"x" * 2000))
    kept: list[Progress] = []

    def one() -> None:
        kept.append(turn := Progress(str(len(kept))))
        readers.sent(turn)
        readers.messages([message], (turn.id,))

    for _ in range(count):
        one()
    return median(one)


def traced_subagents(count: int) -> float:
    """Read the trace of a conversation with `count` subagents."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "conversation.jsonl")
        inside = Path(folder, "conversation", "subagents")
        inside.mkdir(parents=True)
        with path.open("w") as file:
            for number in range(count):
                call = {"type": "tool_use", "id": f"t{number}", "name": "Agent", "input": {}}
                message = {"role": "assistant", "id": f"m{number}", "content": [call]}
                line = {"type": "assistant", "uuid": f"u{number}", "message": message}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                (inside / f"agent-{number}.jsonl").write_text('{"type":"assistant","message":{"content":"Done."}}\n')
                (inside / f"agent-{number}.meta.json").write_text(json.dumps({"toolUseId": f"t{number}"}))
        return median(lambda: read_session(SessionFiles("conversation", path), "Many subagents"), 3)


ROWS = {
    function.__name__: function
    for function in (
        lease,
        progress,
        branches,
        way_of_a_message,
        leaves,
        parallel_calls,
        unread_turns,
        traced_subagents,
    )
}


def main() -> None:
    """Print a line for each count."""
    for count in sys.argv[2:]:
        print(f"{sys.argv[1]:16} {count:>7} {ROWS[sys.argv[1]](int(count)) * 1000:10.3f} ms")


if __name__ == "__main__":
    main()
