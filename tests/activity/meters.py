"""The meters of Hackamore behind one function each: frames of the CLI in, numbers out."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hackamore import Budget, HackamoreError, Options, traces, transcripts
from hackamore.budgets import PRICES, Price, Tokens
from hackamore.fleet.recovery import recover
from hackamore.messages import Message, from_data
from hackamore.telemetry import names
from tests.telemetry.collecting import Collected
from tests.traces.written import Tape
from tests.transcripts.disk import Writer, line

Frame = dict[str, Any]
Seen = dict[str, float]
OWN = {**PRICES, "mine": Price(input=1_000, output=10_000)}


@dataclass
class Subject:
    """A session that is only reported on."""

    kind: Literal["query", "session"] = "session"
    model: str | None = None
    options: Options = field(default_factory=Options)
    session_id: str | None = "s"

    def warn(self, code: str, message: str, **context: object) -> None:
        pass

    def end_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        raise AssertionError(error)


def messages_of(frames: list[Frame]) -> list[Message]:
    found = [from_data(frame) for frame in frames]
    assert all(isinstance(each, Message) for each in found)
    return [each for each in found if isinstance(each, Message)]


def in_a_budget(frames: list[Frame], _: Path, *, resume: str | None = None) -> Seen:
    budget = Budget(usd=1e6, prices={"mine": OWN["mine"]})
    observed = budget.observe(Subject(options=Options(resume=resume)))
    observed.prompt_sending("t", "go")
    for message in messages_of(frames):
        observed.messages_received([message], ("t",))
    observed.turn_changed("t", "completed", None)
    return {"usd": budget.spent.usd, "total": budget.spent.tokens}


def in_telemetry(frames: list[Frame], _: Path, *, resume: str | None = None) -> Seen:
    collected = Collected()
    observed = collected.telemetry().observe(Subject(options=Options(resume=resume)))
    observed.prompt_sending("t", "go")
    observed.turn_changed("t", "started", None)
    for message in messages_of(frames):
        observed.messages_received([message], ("t",))
    observed.turn_changed("t", "completed", None)
    observed.ended(None, 0)
    counted: Seen = {"read": 0, "output": 0}
    for attributes, (_count, amount) in collected.points(names.TOKEN_USAGE.name):
        counted["read" if attributes[names.TOKEN_TYPE] == "input" else "output"] += amount
    for _attributes, amount in collected.points(names.COST_SPENT.name):
        counted["reported_usd"] = counted.get("reported_usd", 0.0) + amount
    return counted


def on_disk(frames: list[Frame], folder: Path) -> Writer:
    """Write the replies as the CLI does: those of subagents into files of their own."""
    main, agents = Writer(), dict[str, Writer]()
    main.user("go")
    for frame in frames:
        if frame["type"] != "assistant":
            continue
        parent = frame["parent_tool_use_id"]
        writer = main if parent is None else agents.setdefault(parent, Writer(session_id=main.session_id))
        if any(f'"uuid":"{frame["uuid"]}"' in each for each in writer.lines):
            writer.lines.append(next(each for each in writer.lines if f'"uuid":"{frame["uuid"]}"' in each))
        else:
            writer.add("assistant", uuid=frame["uuid"], message=frame["message"], isSidechain=parent is not None)
    path = main.save(folder)
    for parent, writer in agents.items():
        place = path.with_suffix("") / "subagents" / f"agent-{parent}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(writer.text, encoding="utf-8")
        place.with_suffix(".meta.json").write_text(line({"agentType": "general-purpose", "toolUseId": parent}))
    return main


def _numbers(tokens: Tokens) -> Seen:
    kinds = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_searches", "replies", "total")
    return {name: getattr(tokens, name) for name in kinds}


def in_a_transcript(frames: list[Frame], folder: Path) -> Seen:
    return _numbers(transcripts.read(on_disk(frames, folder).session_id, config_dir=folder).usage)


def in_the_usage_report(frames: list[Frame], folder: Path) -> Seen:
    on_disk(frames, folder)
    report = transcripts.usage(config_dir=folder, prices=OWN)
    return {**_numbers(report.total.tokens), "usd": report.total.cost}


def in_a_recovery(frames: list[Frame], folder: Path) -> Seen:
    found = recover(on_disk(frames, folder).session_id, str(folder), "go", OWN, wants_output=False, killed=False)
    assert found is not None
    return {"usd": found.usd / 1e9, "total": found.tokens}


def in_a_trace(frames: list[Frame], folder: Path, *, resume: str | None = None) -> Seen:
    tape = Tape()
    tape.put("start", arguments=["--verbose"] if resume is None else ["--verbose", f"--resume={resume}"])
    tape.prompt("go")
    for frame in frames:
        tape.into(frame)
    trace = traces.read(tape.write(folder / f"{uuid.uuid4()}.jsonl"))
    usage = trace.builder.sessions[0].finished().usage
    return {name: usage[name] for name in ("input", "output", "cache_read", "cache_write")}


LIVE: dict[str, Callable[..., Seen]] = {
    "budget": in_a_budget,
    "telemetry": in_telemetry,
    "trace": in_a_trace,
}
STORED: dict[str, Callable[..., Seen]] = {
    "transcript": in_a_transcript,
    "report": in_the_usage_report,
    "recovery": in_a_recovery,
}
METERS = LIVE | STORED


def expected(by_model: dict[str, Tokens], usd: float | None = None, beyond: float = 0.0) -> Seen:
    """Every number that a meter may show of these tokens; `beyond` is the cost that the CLI has not reported."""
    tokens = sum(by_model.values(), Tokens())
    if usd is None:
        usd = sum(OWN[model].cost(each) for model, each in by_model.items() if model in OWN)
    return {
        **_numbers(tokens),
        "usd": usd + beyond,
        "reported_usd": usd,
        "cache_write": tokens.cache_write,
        "read": tokens.total - tokens.output,
    }


__all__ = ["LIVE", "METERS", "OWN", "STORED", "Frame", "Seen", "Tokens", "expected"]
