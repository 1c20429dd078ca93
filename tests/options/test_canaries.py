"""Secrets that are planted in every field of the options and of the server configs, and looked for wherever Hackamore writes something.

The fields and what they take come from the tables of the library: a new option is planted without a change here.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options
from hackamore._engine.launch.plan import build_plan
from hackamore.errors import OptionsError, StartError
from hackamore.options.kinds import SERVERS
from hackamore.testing import cassette
from hackamore.transports.recording.recorder import SessionRecord, shown_arguments
from hackamore.transports.recording.redaction import Redactor, Vault
from tests.contract import shows
from tests.support.session_fixtures import leaves_nothing, playing, shell
from tests.support.talking import Running, got, raised, texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hackamore.checked.fields import Field
    from tests.support.session_fixtures import StandIn
    from tests.support.shell import Shell

__all__ = ["leaves_nothing", "playing", "shell"]

SIGN = "CANARY"
SHAPED = f"sk-ant-api03-{SIGN}-0123456789abcdef"  # is found by its shape, wherever it stands
PLAIN = f"harbour {SIGN} tulip"  # is found by nothing but its place
PLACES: list[Any] = [
    SHAPED,
    [SHAPED],
    {"A": SHAPED},
    {"A": [SHAPED]},
    [{"A": SHAPED}],
    {"A": PLAIN},
    {"env": {"A": PLAIN}},
    {"apiKeyHelper": PLAIN},
    json.dumps({"env": {"A": PLAIN}}),
    {"type": "file", "path": SHAPED},
    {"type": "preset", "preset": "claude_code", "append": SHAPED},
    [{"type": "local", "path": SHAPED}],
    {"type": "json_schema", "schema": {"A": SHAPED}},
    {"r": {"description": SHAPED, "prompt": SHAPED, "mcpServers": [{"x": {"command": "x", "env": {"A": PLAIN}}}]}},
]
"""Values with a canary, of every form that a field may take. One without a shape is planted only in fields that are declared secret."""
OWN_PLACES = ("env", "headers")


def planted() -> Iterator[tuple[str, Any]]:
    """Give an option and a value for it, for each option, form, and field of a server."""
    for name, field in Options.__fields__.items():
        for value in PLACES:
            if fits(name, field, value):
                yield name, value
    for kind in SERVERS.values():
        needed = {"command": "x"} if "command" in kind.__fields__ else {"url": "http://127.0.0.1:1/"}
        for name, field in kind.__fields__.items():
            for value in PLACES:
                if fits(name, field, value):
                    yield (
                        "mcp_servers",
                        {"shop": {"type": kind.__fields__["type"].default, **needed, field.wire: value}},
                    )


def fits(name: str, field: Field, value: Any) -> bool:
    """Return whether a secret in this form may stand in a field: one without a shape only where all values are secret."""
    if PLAIN not in str(value):
        return True
    return name in OWN_PLACES if value == {"A": PLAIN} else field.secret


def taken() -> list[tuple[str, Any]]:
    """Return what is taken, alone; look at the errors of all others."""
    found = []
    for name, value in planted():
        try:
            Options(**{name: value})
        except OptionsError as error:
            assert SIGN not in str(error), (name, value)
            assert SIGN not in repr(error)
            assert SIGN not in repr(error.__cause__ or "")
        else:
            found.append((name, value))
    return found


def leaks(text: str) -> str:
    """Return what stands around a canary that was found."""
    at = text.find(SIGN)
    return "" if at < 0 else text[max(0, at - 80) : at + 40]


@shows("recordings.canaries")
def test_no_field_shows_a_secret_in_errors_reprs_plans_and_recordings() -> None:
    planted_here = taken()
    assert {name for name, _ in planted_here} >= {"env", "settings", "mcp_servers", "agents", "extra_args", "model"}
    found = []
    for name, value in planted_here:
        options = Options(**{name: value})
        shown = {"repr": repr(options), "str": str(options)}
        try:
            plan = build_plan(
                options, prompt=None, session=True, base_environment={}, child_id="c", cli_path="claude", local=False
            )
        except OptionsError as error:
            shown["error"] = str(error)
        else:
            lines: list[str] = []
            redactor = Redactor(Vault())
            redactor.prepare(plan)
            record = SessionRecord(Lines(lines), redactor, 0, 1_000_000)
            record.begin(plan)
            record.sent(json.dumps({"type": "control_request", "request": plan.initialize}).encode() + b"\n")
            values = [value for value in plan.environment.values() if SIGN in value]
            record.received(json.dumps({"type": "x", "text": f"The tool printed {values}"}).encode() + b"\n")
            record.end("".join(values).encode())
            shown |= {
                "plan": plan.describe(),
                "recording": "".join(lines),
                "arguments": str(shown_arguments(plan, redactor)),
            }
            shown["warnings"] = str(plan.warnings)
        found += [f"{name}, {where}: {leaks(text)}" for where, text in shown.items() if SIGN in text]
    assert not found, "\n".join(found)


@shows("recordings.canaries")
@pytest.mark.parametrize("delivery", ["argv", "initialize"])
def test_a_session_leaves_no_secret_in_trace_cassette_log_and_reprs(
    shell: Shell, playing: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture, delivery: str
) -> None:
    trace, tape = tmp_path / "trace.jsonl", tmp_path / "tape.jsonl"
    remote = {"type": "http", "url": f"http://127.0.0.1:1/?token={SHAPED}", "headers": {"X-Shop": PLAIN, "B": SHAPED}}
    options = playing(
        env={"HARBOUR": PLAIN},
        settings={"env": {"B": PLAIN}, "apiKeyHelper": PLAIN},
        system_prompt=f"The key is {SHAPED}.",
        extra_args={"x-key": SHAPED},
        mcp_servers={"local": {"command": "x", "args": ["--token", SHAPED], "env": {"A": PLAIN}}, "remote": remote},
        mcp_servers_delivery=delivery,
        agents={
            "r": {"description": "d", "prompt": SHAPED, "mcpServers": [{"x": {"command": "x", "env": {"A": PLAIN}}}]}
        },
        model=SHAPED,
        title=SHAPED,
        trace=trace,
    )
    shown: list[str] = []

    async def scenario() -> None:
        with cassette(tape):
            async with Running(shell, options) as session:
                assert await texts(await got(session.send(f"The tool printed {PLAIN} and {SHAPED}."))) != []
                shown.extend(map(repr, (session, options, session.warnings)))
        error = await raised(lambda: shell.run("hi", options.replace(cli_path="/nowhere", trace=None)), StartError)
        shown.extend((str(error), repr(error), repr(error.__cause__)))

    with caplog.at_level(logging.DEBUG, logger="hackamore"):
        shell.play(scenario)
    assert trace.stat().st_size > 1_000
    assert tape.stat().st_size > 1_000
    for text in (trace.read_text(), tape.read_text(), caplog.text, *shown):
        assert not leaks(text)


class Lines:
    """A sink that keeps the lines."""

    def __init__(self, kept: list[str]) -> None:
        self._kept = kept

    def write(self, line: bytes) -> None:
        self._kept.append(line.decode())

    def close(self) -> None:
        pass
