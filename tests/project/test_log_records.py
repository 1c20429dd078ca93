"""The records of the logger `hackamore`: over the whole package each names its session, turn and process, and is one line.

`tests/conftest.py` looks at the records of every test; here are sessions, queries, pools, failing callbacks and stores with all levels.
"""

from __future__ import annotations

import ast
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import HookMatcher, Options, sync, tool, tool_server
from hackamore.testing import Dropped, HTTPFailure, Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transcripts.stores import MemoryStore
from tests.conftest import PROJECT, RealCLI
from tests.contract import shows
from tests.support.leaks import nothing_left
from tests.support.patience import patience
from tests.support.records import CompleteRecords

PACKAGE = PROJECT / "src" / "hackamore"
ALLOWED = {"runtime/log.py", "cli/running.py"}
"""The place that makes the logger, and the command that adds handlers to it."""


@pytest.fixture
def taken(records_are_complete: None) -> Iterator[CompleteRecords]:
    handler = CompleteRecords()
    logger = logging.getLogger("hackamore")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with nothing_left():
            yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert handler.records
    assert handler.incomplete == []


@shows("errors.log-records")
def test_nothing_logs_past_the_logger_that_adds_the_ids() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("getLogger", "LoggerAdapter"):
                found.add(str(path.relative_to(PACKAGE)))
    assert found == ALLOWED


def options(real_cli: RealCLI, model: ScriptedModel, **more: Any) -> Options:
    environment = {**real_cli.env(model), "IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "0"}
    return Options(
        **{
            "cli_path": real_cli.cli_path,
            "cwd": real_cli.cwd,
            "env": environment,
            "inherit_env": False,
            "permission_mode": "bypassPermissions",
            **more,
        }
    )


def broken(*_: object) -> Any:
    raise ValueError("first line\nsecond line")


def of(taken: CompleteRecords, text: str) -> list[dict[str, Any]]:
    return [vars(record) for record in taken.records if text in record.getMessage()]


@shows("errors.log-records")
def test_a_query_and_its_callbacks(taken: CompleteRecords, real_cli: RealCLI) -> None:
    with ScriptedModel("Hello.") as model:
        chosen = options(real_cli, model, trace=broken, on_warning=broken)
        answer = sync.run("Hi", chosen)
    [first, *_] = of(taken, "`trace` raised")
    assert first["exc_info"]
    assert {fields["session_id"] for fields in of(taken, "frame ")} <= {answer.session_id, None}
    (last,) = of(taken, "frame result")
    assert last["session_id"] == answer.session_id
    assert isinstance(last["pid"], int)


@shows("errors.log-records")
def test_a_session_and_its_callbacks(taken: CompleteRecords, real_cli: RealCLI) -> None:
    @tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        raise ValueError("one\ntwo")

    steps = (Reply(ToolCall("mcp__t__add", {"a": 1, "b": 2})), "Done.", HTTPFailure(500, retry=False))
    with ScriptedModel(*steps) as model:
        chosen = options(
            real_cli,
            model,
            mcp_servers={"t": tool_server("t", tools=[add])},
            hooks={"PreToolUse": [HookMatcher(hooks=[broken])]},
            on_warning=broken,
        )
        with sync.Session(chosen) as session:
            turn = session.send("Add")
            assert turn.result().text == "Done."
            assert session.send("More").result().is_error
            pid, session_id = session.pid, session.session_id
    for text in ("PreToolUse hook `broken` raised", "`on_warning` raised"):
        fields = of(taken, text)[0]
        assert (fields["pid"], fields["session_id"], fields["levelname"]) == (pid, session_id, "ERROR")
    assert of(taken, "PreToolUse hook `broken` raised")[0]["turn_id"] == turn.id
    warned = of(taken, "CALLBACK_FAILED: ")
    assert {fields["code"] for fields in warned} == {"CALLBACK_FAILED"}


@shows("errors.log-records")
def test_a_session_that_is_killed(taken: CompleteRecords, real_cli: RealCLI) -> None:
    with ScriptedModel(Reply("Hello.")) as model, sync.Session(options(real_cli, model)) as session:
        session.send("Hi").result()
        pid = session.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(hackamore.HackamoreError):
            session.send("More").result(timeout=patience(30))
    assert {fields["pid"] for fields in of(taken, "the session has ended")} == {pid}


@shows("errors.log-records")
def test_a_failing_store(taken: CompleteRecords, real_cli: RealCLI) -> None:
    class Failing(MemoryStore):
        def append(self, *_: Any, **__: Any) -> Any:
            raise OSError("first line\nsecond line")

    with ScriptedModel("Hello.") as model:
        answer = sync.run("Hi", options(real_cli, model, session_store=Failing()))
    failed = of(taken, "STORE_FAILED: ")
    assert failed
    assert {(fields["session_id"], fields["code"]) for fields in failed} == {(answer.session_id, "STORE_FAILED")}


@shows("errors.log-records")
def test_a_pool_and_a_registry_that_fails(taken: CompleteRecords, real_cli: RealCLI) -> None:
    class Failing(hackamore.pool.MemoryRegistry):
        lease_seconds = 3.0
        beaten = threading.Event()

        def beat(self, *arguments: Any, **more: Any) -> Any:
            if self.beaten.is_set():  # a lease that is never renewed would end
                return super().beat(*arguments, **more)
            self.beaten.set()
            raise OSError("first line\nsecond line")

    with ScriptedModel(Repeat("Hello.")) as model:
        registry = Failing()
        with (
            sync.SessionPool(options(real_cli, model), warm=1, registry=registry) as pool,
            pool.conversation("chat") as session,
        ):
            assert session.send("Hi").result().text == "Hello."
            assert registry.beaten.wait(patience(30))
    beat = of(taken, "the heartbeat of a session pool failed")
    assert beat
    assert "first line; second line" in str(beat[0]["args"])


@shows("errors.log-records")
def test_retries_and_failures_of_the_api(taken: CompleteRecords, real_cli: RealCLI) -> None:
    with ScriptedModel(Dropped(), "Done.") as model:
        answer = sync.run("Hi", options(real_cli, model), retry=hackamore.Retry(backoff=0))
    (told,) = of(taken, "RETRYING: ")
    assert (told["session_id"], told["code"]) == (answer.session_id, "RETRYING")


@shows("errors.log-records")
def test_nothing_can_be_started(taken: CompleteRecords, tmp_path: Path) -> None:
    with pytest.raises(hackamore.StartError):
        sync.run(iter(["Hi"]), Options(cli_path=tmp_path))
