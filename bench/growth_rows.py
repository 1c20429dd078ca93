"""What one unit of work costs beside more and more of something: each function returns seconds for a unit, beside `count` others.

python bench/growth_rows.py NAME COUNT...
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from typing import TYPE_CHECKING, Any, cast

import anyio

import hackamore
from hackamore import traces, transcripts
from hackamore._engine.answering.jobs import Callee, Job, Jobs, JobState, RpcCall
from hackamore._engine.launch.plan import LaunchPlan
from hackamore._engine.session.readers import Progress, Readers
from hackamore.budgets.ledger import Bounds, Ledger
from hackamore.fleet.journal import open_journal
from hackamore.fleet.states import Trigger
from hackamore.fleet.task import Spec
from hackamore.options.observing import CallbackCall
from hackamore.pool.registry import MemoryRegistry
from hackamore.storage.holders import holder_name
from hackamore.storage.places import SessionFiles
from hackamore.testing import Script, SimulatedCLI
from hackamore.testing.script.run import ScriptRun
from hackamore.traces.reading import read_session
from hackamore.transcripts import forking
from hackamore.transcripts.stores import SQLiteStore
from hackamore.transcripts.transcript import Transcript, source_of
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hackamore._engine.answering.jobs import JobParts
    from hackamore._engine.session.core import SessionCore
    from hackamore.fleet.journal import Journal
    from hackamore.messages import Message

ME = holder_name()
FREE = Bounds(None, None)


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
            journal.finish(found, ME, Trigger.GIVEN_BACK)

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
    exchanges = SimpleNamespace(in_flight=SimpleNamespace(size=0))
    connection = SimpleNamespace(exchanges=exchanges, state=SimpleNamespace(over=False))
    warnings = SimpleNamespace(add=lambda *_, **__: None)
    readers = Readers(
        cast(
            "SessionCore[Any]",
            SimpleNamespace(options=SimpleNamespace(limits=limits), connection=connection, warnings=warnings),
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


def reserve(count: int) -> float:
    """Reserve a model call, charge it and release it, with `count` open turns."""
    limits = [("", FREE), ("tenant=a", FREE)]
    with closing(Ledger(None)) as ledger:
        for number in range(count):
            ledger.reserve(str(number), limits, 10, (100, 100))

        def one() -> None:
            ledger.reserve("one", limits, 10, (100, 100))
            ledger.charge(["one"], limits, 3, 4)
            ledger.release("one")

        return median(one)


def accounts(count: int) -> float:
    """Read the accounts of `count` tenants, each with an open turn."""
    with closing(Ledger(None)) as ledger:
        for number in range(count):
            ledger.reserve(str(number), [(f"tenant={number}", FREE)], 10, (100, 100))
        return median(ledger.rows, 3)


def registered(count: int) -> float:
    """Take and release a conversation of a pool, with `count` others in the registry."""
    registry = MemoryRegistry()
    for number in range(count):
        registry.acquire(f"user-{number}", ME)

    def one() -> None:
        registry.acquire("one", ME)
        registry.release("one", ME)

    return median(one)


def redaction(count: int) -> float:
    """Redact a tool result of `count` bytes that holds words such as key, auth and task-1."""
    redactor = Redactor(Vault())
    redactor.prepare(LaunchPlan(argv=("claude",), environment={}, cwd="/srv"))
    text = "The author of task-1 has a key to pass, auth and token.\n" * (count // 57 + 1)
    return median(lambda: redactor.text(text[:count]), 3)


def secret_variables(count: int) -> float:
    """Redact a message of a session with `count` secret variables."""
    redactor = Redactor(Vault())
    secrets = {f"SHOP_{number}_KEY": f"s3cr3T-{number}-{number * 7919:x}Q" for number in range(count)}
    redactor.prepare(LaunchPlan(argv=("claude",), environment=secrets, cwd="/srv"))
    line = json.dumps({"type": "user", "text": "The author sets a token: nothing else. " * 20}).encode()
    return median(lambda: redactor.line(line, inbound=True), 101)


def usage_by_session(count: int) -> float:
    """The usage of `count` conversations, one by one."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "projects", "-srv-project")
        project.mkdir(parents=True)
        for number in range(count):
            usage = {"input_tokens": 10, "output_tokens": 5}
            message = {"role": "assistant", "model": "claude-x", "id": f"m{number}", "content": "Done.", "usage": usage}
            line = {"type": "assistant", "uuid": f"u{number}", "timestamp": "2026-11-01T12:00:00Z", "message": message}
            Path(project, f"{uuid.UUID(int=number)}.jsonl").write_text(json.dumps(line) + "\n")
        return median(lambda: transcripts.usage(by="session", config_dir=folder), 3)


def stored(count: int) -> float:
    """Append an entry of 1 kB to a session in a SQLite file that has `count` of them."""
    key: Any = {"project_key": "-srv", "session_id": str(uuid.UUID(int=1))}

    async def scenario(path: Path) -> float:
        with SQLiteStore(path) as store:
            for start in range(0, count, 100):
                await store.append(key, [_entry(number) for number in range(start, min(start + 100, count))])
            took = []
            for number in range(21):
                began = time.process_time()
                await store.append(key, [_entry(count + number)])
                took.append(time.process_time() - began)
            return sorted(took)[10]

    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(scenario, Path(folder, "sessions.db"))


def _entry(number: int) -> Any:
    return {"type": "user", "uuid": str(uuid.UUID(int=number)), "text": "x" * 1000}


def turns(count: int) -> float:
    """`count` turns of one session with a simulated CLI."""
    script = Script()
    for _ in range(count):
        script.user().says("Done.")

    async def scenario() -> float:
        async with hackamore.Session(hackamore.Options(), transport=SimulatedCLI(script)) as session:
            began = time.process_time()
            for _ in range(count):
                await (await session.send("Hello.")).result()
            return time.process_time() - began

    return anyio.run(scenario)


def page(count: int) -> float:
    """The page of a conversation with `count` tool calls."""
    with tempfile.TemporaryDirectory() as folder:
        entries: list[dict[str, Any]] = []
        for number in range(count):
            call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a file\n" * 50}
            entries += [
                {"type": "assistant", "message": {"role": "assistant", "id": f"m{number}", "content": [call]}},
                {"type": "user", "message": {"role": "user", "content": [result]}},
            ]
        path, last = Path(folder, f"{uuid.UUID(int=1)}.jsonl"), None
        with path.open("w") as file:
            for number, entry in enumerate(entries):
                file.write(json.dumps({**entry, "uuid": f"u{number}", "parentUuid": last}) + "\n")
                last = f"u{number}"
        return median(lambda: traces.html(path), 3)


def open_calls(count: int) -> float:
    """Find a call of an MCP object by its id, with `count` open ones."""
    parts = SimpleNamespace(deadlines=SimpleNamespace(now=0.0, arm=lambda *_: None), warn=lambda *_, **__: None)
    jobs, owner = Jobs(count + 1, cast("JobParts", parts)), object()
    for number in range(count):
        jobs.open(Job(CallbackCall(str(number), "mcp"), Callee(""), JobState(), rpc=RpcCall(owner, number)))
    return median(lambda: jobs.of_call(owner, count - 1))


def simulated_sessions(count: int) -> float:
    """The start of a session on a simulated CLI in memory, beside `count` that run."""
    cli = SimulatedCLI(Script(), per_session=True)
    running = []

    def one() -> None:
        running.append(transport := cli.for_sync())
        argv = ("claude", "--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        plan = SimpleNamespace(argv=argv, program_length=1, environment={}, cwd="/")
        cli._simulate(cast(LaunchPlan, plan))  # noqa: SLF001 - without the client's part
        assert transport

    for _ in range(count):
        one()
    return median(one)


def open_steps(count: int) -> float:
    """What a script of `count` steps still expects."""
    script = Script()
    for _ in range(count):
        script.user("one").says("One.")
    return median(ScriptRun(script).left)


ROWS: dict[str, Callable[[int], float]] = {
    function.__name__: function
    for function in (
        accounts,
        branches,
        leaves,
        lease,
        page,
        parallel_calls,
        progress,
        redaction,
        registered,
        reserve,
        secret_variables,
        stored,
        traced_subagents,
        turns,
        unread_turns,
        usage_by_session,
        way_of_a_message,
        open_calls,
        simulated_sessions,
        open_steps,
    )
}


def main() -> None:
    """Print a line for each count."""
    for count in sys.argv[2:]:
        print(f"{sys.argv[1]:16} {count:>7} {ROWS[sys.argv[1]](int(count)) * 1000:10.3f} ms")


if __name__ == "__main__":
    main()
