"""What was shown to go wrong in the official Python package (claude-agent-sdk 0.2.184), each as a test that passes here.

Each docstring says what happens elsewhere.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hackamore
from hackamore import (
    CLIExitedDuringInitError,
    ControlRejectedError,
    ControlTimeoutError,
    HackamoreError,
    Options,
    OptionsError,
    SessionClosedError,
    Timeouts,
)
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.messages import AssistantMessage, UnknownBlock, UnknownMessage
from hackamore.permissions import Deny
from hackamore.tools import tool, tool_server
from tests.contract import shows
from tests.support.inside import hurry, pending_requests, unread_of
from tests.support.leaks import alive, wait_gone
from tests.support.light import Light, light
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Running, each, first, got, make, raised, steps, texts

SOON = 0.1
"""Seconds: what behind 100,000 unread messages counts as at once. It takes a few milliseconds."""
HANG = steps(["text", "a"], ["hang"])
HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}
QUESTION = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "price", "arguments": {}}}


@pytest.fixture
def options(tmp_path: Path) -> Light:
    return light(tmp_path)


def hooks(*callbacks: Any, **more: Any) -> dict[str, Any]:
    return {"PreToolUse": [HookMatcher(hooks=list(callbacks), **more)]}


@tool
def price() -> float:
    """The price."""
    return 2.5


# -- 1: head-of-line blocking ------------------------------------------------------------------------------------------


@shows("session.reader.prompt-answers", "callbacks.outside-reader")
def test_everything_is_answered_at_once_behind_100_000_unread_messages(shell: Shell, options: Light) -> None:
    """Elsewhere one queue of 100 frames holds up the only reader: 150 unread messages let `interrupt()` run into its deadline."""

    async def scenario() -> None:
        chosen = options(
            hooks=hooks(lambda asked, context: HookOutput.deny("no")),
            can_use_tool=lambda request: Deny("no"),
            mcp_servers={"shop": tool_server("shop", [price])},
        )
        async with Running(shell, chosen) as session:
            unread = session.messages()
            asks = [
                *[["timed_ask", "hook_callback", HOOK]] * 5,
                *[["timed_ask", "can_use_tool", QUESTION]] * 5,
                *[["timed_ask", "mcp_message", {"server_name": "shop", "message": CALL}]] * 5,
            ]
            turn = await got(
                session.send(steps(["flood", 100_000, 50], ["await_requests", 2], *asks, ["await_requests", 5]))
            )
            await got(session.get_settings(timeout=patience(40)))  # its answer comes behind the flood
            late = session.messages()
            await got(session.get_settings())
            seconds: list[float] = []
            while len(seconds) < len(asks):
                message = await first(late)
                if isinstance(message, AssistantMessage):
                    seconds.append(json.loads(message.content[0].text)["seconds"])  # type: ignore[union-attr]
            late.close()
            for _ in range(5):
                began = time.monotonic()
                await got(session.interrupt())
                seconds.append(time.monotonic() - began)
            # The median of five each: this machine may have something else to do in between.
            medians = [statistics.median(seconds[place : place + 5]) for place in (0, 5, 10, 15)]
            print(
                f"{shell.backend}: hook, permission, tool, interrupt {[f'{value * 1000:.1f} ms' for value in medians]}"
            )
            assert max(medians) < patience(SOON)
            # Nothing was dropped to get there.
            assert len(unread_of(turn).items) >= 100_000
            unread.close()

    shell.play(scenario)


# -- 2: waiting for an answer that cannot come ---------------------------------------------------------------------------


@shows("session.death.clean-exit", "control.operations.closed")
@pytest.mark.parametrize("way", ["clean exit", "crash", "end of output", "stop"])
def test_open_operations_fail_as_soon_as_no_answer_can_come(
    shell: Shell, options: Light, way: str, tmp_path: Path
) -> None:
    """Elsewhere a clean exit, and `disconnect()`, let every caller wait out its 60 seconds."""
    go = str(tmp_path / "go")
    how: dict[str, list[list[Any]]] = {
        "clean exit": [["exit", 0]],
        "crash": [["die"]],
        "end of output": [["close_output"], ["exit", 0]],
        "stop": [["hang"]],
    }

    async def scenario() -> None:
        session = make(shell, options())
        await got(session.start())
        await got(session.send(steps(["await_requests", 1], ["await_file", go], *how[way])))

        async def asking() -> Any:
            return await raised(
                lambda: session.rename_session("never answered", timeout=patience(50)), SessionClosedError
            )

        async def ending() -> float:
            while not pending_requests(session):
                await shell.let_others_run()
            open(go, "w").close()
            if way == "stop":
                await got(session.stop())
            return time.monotonic()

        began = time.monotonic()
        error, _ = await shell.meanwhile(asking, ending)
        assert isinstance(error, SessionClosedError)
        assert time.monotonic() - began < patience(10)
        await got(session.stop())

    shell.play(scenario)


# -- 3 and 4: processes that are left -----------------------------------------------------------------------------------


@shows("process.once")
def test_a_second_start_starts_nothing_more(shell: Shell, options: Light) -> None:
    """Elsewhere a second `connect()` loses the first process, which lives on."""

    async def scenario() -> None:
        session = make(shell, options())

        async def start() -> Any:
            await got(session.start())
            return session.pid

        one, other = await shell.meanwhile(start, start)
        await got(session.start())
        assert one == other == session.pid
        await got(session.stop())
        assert not alive(one)

    shell.play(scenario)


@shows("process.shielded", "bad.stops")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_close_that_is_cancelled_leaves_no_process(options: Light, backend: Any) -> None:
    """Elsewhere a cancellation in the middle of `disconnect()` leaves the process."""
    import anyio

    from hackamore.aio.session import Session

    async def scenario() -> None:
        session = Session(options(["ignore_term"], timeouts=Timeouts(stop_grace=0.2, kill_grace=0.2)))
        await session.start()
        await session.send(steps(["silent"]))
        with anyio.move_on_after(0.05):
            await session.stop()
        assert not alive(session.pid or 0)

    anyio.run(scenario, backend=backend)


@shows("process.environment")
@pytest.mark.parametrize("value", ["", "abc", "-1", "1e400"])
def test_a_strange_environment_costs_nothing(
    shell: Shell, options: Light, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere CLAUDE_CODE_STREAM_CLOSE_TIMEOUT=abc raises between the start of the process and the `try`: it is never ended."""
    monkeypatch.setenv("CLAUDE_CODE_STREAM_CLOSE_TIMEOUT", value)

    async def scenario() -> None:
        async with Running(shell, options(hooks=hooks(lambda *_: None))) as session:
            assert await texts(await got(session.send("fine"))) == ["fine"]
        assert not alive(session.pid)

    shell.play(scenario)


@shows("process.descendants")
@pytest.mark.parametrize("way", ["stop", "crash"])
def test_what_the_cli_started_ends_with_it(shell: Shell, options: Light, way: str, tmp_path: Path) -> None:
    """Elsewhere a grandchild survives `disconnect()`."""
    mark = tmp_path / "shell"

    async def scenario() -> None:
        session = make(shell, options(timeouts=Timeouts(stop_grace=0.2, kill_grace=0.2)))
        hurry(session)
        await got(session.start())
        turn = await got(
            session.send(steps(["grandchild", str(mark)], ["text", "a"], ["deaf"], ["await_requests", 99]))
        )
        await first(turn)
        while not mark.exists():
            await shell.let_others_run()
        pid = int(mark.read_text())
        assert alive(pid)
        if way == "crash":
            os.kill(session.pid, 9)
            await raised(session.wait_idle, SessionClosedError)
        await got(session.stop())
        assert wait_gone(pid)

    shell.play(scenario)


# -- 5 and 6: errors ----------------------------------------------------------------------------------------------------


@shows("errors.secrets")
def test_errors_of_a_session_have_no_secrets_that_stand_on_stdout(
    shell: Shell, options: Light, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = ("sk-ant-api03-abcdefghij", "value of an option")

    async def scenario() -> None:
        session = make(shell, options(env={"SHOP": secrets[1]}, limits=hackamore.Limits(consecutive_decode_errors=2)))
        await got(session.start())
        turn = await got(session.send(steps(["out", f"{secrets[0]} {secrets[1]}\n" * 2], ["sleep", 60])))
        error = await raised(turn.result, hackamore.DecodeErrorLimitError)
        assert error.last.line == b"<masked> <masked>"
        for text in (str(error), repr(error), str(vars(error)), str(session.warnings), caplog.text):
            assert not [secret for secret in secrets if secret in text]

    shell.play(scenario)


@shows("errors.stderr")
def test_errors_hold_what_the_cli_wrote_to_stderr(shell: Shell, options: Light) -> None:
    """Elsewhere each one says "Check stderr output for details", and the details are thrown away."""

    async def scenario() -> None:
        session = make(shell, options())
        await got(session.start())
        turn = await got(session.send(steps(["err", "the disk is full\n"], ["exit", 3])))
        error = await raised(turn.result, SessionClosedError)
        assert (error.exit_code, error.stderr_tail.strip()) == (3, "the disk is full")
        assert "the disk is full" in str(error)
        await got(session.stop())
        refused = make(shell, options(["err", "no licence\n"], ["exit", 4]))
        start_error = await raised(refused.start, CLIExitedDuringInitError)
        assert "no licence" in str(start_error)

    shell.play(scenario)


@shows("control.operations.rejected", "control.operations.timed-out")
def test_every_failure_has_a_type_of_its_own(shell: Shell, options: Light) -> None:
    """Elsewhere a refusal, a deadline and a lost session are each a bare `Exception`, told apart by their text."""

    async def scenario() -> None:
        session = make(shell, options())
        await got(session.start())
        kinds = [
            type(await raised(lambda: session.request("refused"), ControlRejectedError)),
            type(await raised(lambda: session.rename_session("x", timeout=0.05), ControlTimeoutError)),
        ]
        await got(session.stop())
        kinds.append(type(await raised(session.interrupt, SessionClosedError)))
        assert len(set(kinds)) == 3
        assert all(issubclass(kind, HackamoreError) for kind in kinds)
        assert issubclass(ControlTimeoutError, TimeoutError)

    shell.play(scenario)


BAD_FRAMES = (
    b'{"type":"assistant","message":{"content":[{"type":"text","text":"\xff\xfe"}]}}\n'
    b'{"type":"assistant","message":5}\n{"type":"user"}\n{"type":"result","usage":"none"}\n{"type":7}\nnull\n'
    b'{"type":"stream_event","event":[]}\n{"type":"system","subtype":{}}\n{"type":"system"}\n'
)


@shows("errors.bad-frames")
def test_bad_frames_raise_nothing(shell: Shell, options: Light) -> None:
    """Elsewhere `UnicodeDecodeError`, `KeyError` and `TypeError` come out of the reader, and the session is lost."""

    async def scenario() -> None:
        async with Running(shell, options()) as session:
            turn = await got(session.send(steps(["bytes", BAD_FRAMES.hex()], ["text", "still here"])))
            assert (await texts(turn))[-1:] in (["still here"], [])
            assert await texts(await got(session.send("and on"))) == ["and on"]

    shell.play(scenario)


# -- 7: nothing is lost in silence ---------------------------------------------------------------------------------------


@shows("session.cursors.unknown")
def test_what_is_not_known_is_delivered_whole(shell: Shell, options: Light) -> None:
    """Elsewhere unknown messages, unknown blocks and unknown fields vanish."""
    hologram = '{"type":"hologram","depth":1e2,"uuid":"h"}'
    mixed = '{"type":"assistant","new":[1],"message":{"content":[{"type":"smell","of":"roses"},{"type":"text","text":"b"}]}}'

    async def scenario() -> None:
        async with Running(shell, options()) as session:
            turn = await got(session.send(steps(["raw", f"{hologram}\n{mixed}\n"])))
            seen = [message async for message in each(turn)]
            [unknown] = [message for message in seen if isinstance(message, UnknownMessage)]
            assert unknown.raw == hologram.encode()
            [reply] = [message for message in seen if isinstance(message, AssistantMessage)]
            assert isinstance(reply.content[0], UnknownBlock)
            assert reply.data["new"] == [1]
            assert reply.raw == mixed.encode()

    shell.play(scenario)


@shows("options.unknown")
def test_an_unknown_kind_of_value_is_refused_and_not_ignored() -> None:
    """Elsewhere an unknown type of `thinking`, `system_prompt` or `output_format` sends nothing at all."""
    for name in ("thinking", "system_prompt", "output_format"):
        with pytest.raises(OptionsError) as caught:
            Options(**{name: {"type": "hologram"}})  # type: ignore[arg-type]
        assert name in str(caught.value)


# -- 8: options that mean something else ---------------------------------------------------------------------------------


@shows("options.meant")
@pytest.mark.parametrize("name", ["allowed_tools", "disallowed_tools", "add_dirs", "betas", "setting_sources"])
def test_a_bare_string_is_no_list(name: str) -> None:
    """Elsewhere `disallowed_tools="Bash"` becomes `--disallowedTools B,a,s,h`, and nothing is denied."""
    with pytest.raises(OptionsError) as caught:
        Options(**{name: "Bash"})  # type: ignore[arg-type]
    assert name in str(caught.value)


@shows("options.meant")
def test_options_reach_the_cli_as_they_were_meant(shell: Shell, options: Light) -> None:
    """Elsewhere `tools=("Bash", "Read")` enables everything, and `max_turns=0` is no limit."""

    async def scenario() -> None:
        chosen = options(tools=("Bash", "Read"), max_turns=0, disallowed_tools=("WebFetch",), allowed_tools=["Read"])
        async with Running(shell, chosen) as session:
            argv = (await got(session.get_settings())).data["argv"]
        value = dict(word.split("=", 1) for word in argv if word.startswith("--") and "=" in word)
        assert value["--tools"] == "Bash,Read"
        assert value["--max-turns"] == "0"
        assert value["--disallowedTools"] == "WebFetch"
        assert value["--allowedTools"] == "Read"

    shell.play(scenario)


@shows("options.meant")
def test_a_rule_that_would_fall_apart_is_refused() -> None:
    """Elsewhere `disallowed_tools=["a,b"]` is two rules, neither of which was meant."""
    with pytest.raises(OptionsError):
        Options(disallowed_tools=["mcp__a,mcp__b"])


# -- 9: memory -----------------------------------------------------------------------------------------------------------


@shows("session.reader.bound")
def test_what_nobody_reads_has_a_bound_in_bytes(shell: Shell, options: Light) -> None:
    """Elsewhere a slow session store holds every frame (50 MB with the counter at 0). Here all that waits is counted, once."""
    with pytest.raises(OptionsError):
        Options(session_store=object())  # type: ignore[arg-type]

    async def scenario() -> None:
        session = make(shell, options(limits=hackamore.Limits(buffered_bytes=500_000)))
        await got(session.start())
        cursor = session.messages()
        turn = await got(session.send(steps(["flood", 20_000, 100])))
        await raised(turn.result, hackamore.SlowConsumerError)
        assert unread_of(cursor).size <= 2_000_000  # the bound, and what one read brought
        await got(session.stop())

    shell.play(scenario)


class Torrent:
    """A transport in memory, for threads: answers a prompt with 256 kB for each read, without a pause."""

    pid = None
    stderr_tail = b""

    def __init__(self, reads: int) -> None:
        line = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "x" * 200}]}}
        self._flood = [(json.dumps(line).encode() + b"\n") * 900] * reads
        self._to_read: list[bytes] = []
        self._more = threading.Event()
        self._stopped = False

    def start(self, plan: object) -> None:
        pass

    def send(self, data: bytes) -> None:
        for frame in map(json.loads, data.splitlines()):
            if frame["type"] == "control_request":
                answer = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
                self._to_read.append(json.dumps({"type": "control_response", "response": answer}).encode() + b"\n")
            elif frame["type"] == "user":
                result = {"type": "result", "subtype": "success", "user_message_uuids": [frame["uuid"]]}
                self._to_read += [*self._flood, json.dumps(result).encode() + b"\n"]
            self._more.set()

    def receive(self, timeout: float | None = None) -> bytes | None:
        if not self._to_read and not self._stopped:
            self._more.wait(timeout)
            self._more.clear()
        return self._to_read.pop(0) if self._to_read else b"" if self._stopped else None

    def end_input(self) -> None:
        pass

    def wait_exit(self, timeout: float | None = None) -> int | None:
        return 0

    def stop(self, *, turn_open: bool) -> None:
        self.abandon()

    def abandon(self) -> None:
        self._stopped = True
        self._more.set()


@shows("session.reader.waits-a-moment")
def test_a_reader_in_a_thread_that_takes_what_it_has_is_not_overrun() -> None:
    """This one takes 25 MB/s and the reading thread could read 60: without a moment for it the session fails."""
    limits = hackamore.Limits(buffered_bytes=12 * 2**20)
    read = 0
    with hackamore.sync.Session(Options(limits=limits), transport=Torrent(120)) as session:
        for _ in session.send("go"):
            read += 1
            if read % 100 == 0:
                threading.Event().wait(0.001)
    # A busy machine may take the processor from this thread for long enough for a warning.
    assert read == 120 * 900 + 1


@shows("session.reader.waits-a-moment")
@pytest.mark.parametrize(("messages", "naps"), [(0, 1020), (1, 1040), (30, None)])
def test_a_reader_in_a_thread_gets_a_second_near_the_limit(
    monkeypatch: pytest.MonkeyPatch, messages: int, naps: int | None
) -> None:
    """A reader that takes so many messages in each ms: 20, a second near the limit, and 20 more after 64 KiB; 8 MB/s lose nothing."""
    session = hackamore.sync.Session(
        Options(limits=hackamore.Limits(buffered_bytes=12 * 2**20)), transport=Torrent(120)
    )
    read, napped = 0, 0

    def nap(seconds: float) -> None:
        nonlocal read, napped
        assert seconds == 0.001
        napped += 1
        for _ in range(messages):
            read += next(turn, None) is not None

    with session:
        monkeypatch.setattr("hackamore.sync.driver.time", SimpleNamespace(sleep=nap, monotonic=time.monotonic))
        turn = session.send("go")
        try:
            session.wait_idle()
        except hackamore.SlowConsumerError:
            assert napped == naps
        else:
            assert naps is None
            assert read + sum(1 for _ in turn) == 120 * 900 + 1


# -- 10: tasks that nobody looks at ---------------------------------------------------------------------------------------


@shows("session.death.late-callbacks")
@pytest.mark.parametrize("kind", ["plain", "waiting"])
def test_a_callback_that_ends_after_the_cli_complains_to_nobody(shell: Shell, options: Light, kind: str) -> None:
    """Elsewhere its answer goes to a dead process, and asyncio prints "Task exception was never retrieved"."""
    asked, release = threading.Event(), threading.Event()
    complaints: list[Any] = []

    def plain(*_: Any) -> HookOutput:
        asked.set()
        release.wait(patience(20))
        raise RuntimeError("too late")

    async def waiting(*_: Any) -> HookOutput:
        asked.set()
        while not release.is_set():
            await _nap(shell)
        raise RuntimeError("too late")

    async def scenario() -> None:
        if shell.backend == "asyncio":
            import asyncio

            asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        session = make(shell, options(hooks=hooks(plain if kind == "plain" else waiting)))
        await got(session.start())
        turn = await got(session.send(steps(["ask", "hook_callback", HOOK])))
        while not asked.is_set():
            await shell.let_others_run()
        os.kill(session.pid, 9)
        await raised(turn.result, SessionClosedError)
        release.set()
        await got(session.stop())
        for _ in range(20):
            await shell.let_others_run()
        gc.collect()

    before, threading.excepthook = threading.excepthook, complaints.append
    try:
        shell.play(scenario)
    finally:
        threading.excepthook = before
    assert complaints == []


async def _nap(shell: Shell) -> None:
    if shell.backend == "trio":
        import trio

        await trio.sleep(0.01)
    else:
        import asyncio

        await asyncio.sleep(0.01)


# -- 11: one environment ---------------------------------------------------------------------------------------------------


@shows("callbacks.longer-on-the-wire", "process.environment")
def test_variables_come_from_the_options_first(shell: Shell, options: Light, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere one variable is read from `os.environ` alone and its ceiling from the options first, so they contradict."""
    monkeypatch.setenv("CLAUDE_CODE_STREAM_CLOSE_TIMEOUT", "1")
    monkeypatch.setenv("SOMETHING", "outside")

    async def scenario() -> None:
        chosen = options(
            hooks=hooks(lambda *_: None, timeout=70),
            env={"CLAUDE_CODE_STREAM_CLOSE_TIMEOUT": "90000", "SOMETHING": "inside"},
        )
        async with Running(shell, chosen) as session:
            told = (await got(session.get_settings())).data
        assert (told["env"]["CLAUDE_CODE_STREAM_CLOSE_TIMEOUT"], told["env"]["SOMETHING"]) == ("90000", "inside")
        # And no variable changes a deadline of ours.
        assert told["effective"]["hooks"]["PreToolUse"][0]["timeout"] == 75

    shell.play(scenario)


# -- 12: data that looks like an end ----------------------------------------------------------------------------------------


@shows("options.no-sentinels")
def test_no_frame_can_pass_for_the_end(shell: Shell, options: Light) -> None:
    """Elsewhere the end and an error travel as `{"type": "end"}` and `{"type": "error"}` in the queue of the data."""

    async def scenario() -> None:
        async with Running(shell, options()) as session:
            frames = '{"type":"end"}\n{"type":"error","error":"made up"}\n'
            turn = await got(session.send(steps(["raw", frames], ["text", "after it"])))
            seen = [message async for message in each(turn)]
            assert [message.type for message in seen if isinstance(message, UnknownMessage)] == ["end", "error"]
            assert any(isinstance(message, AssistantMessage) for message in seen)

    shell.play(scenario)


# -- 13: what belongs to the caller -----------------------------------------------------------------------------------------


@shows("options.unchanged")
def test_what_the_caller_gave_is_not_changed(shell: Shell, options: Light) -> None:
    """Elsewhere `client.query(iterable)` writes a session id into the caller's own dicts."""
    prompt = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]
    answer: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
    given = hooks(lambda *_: answer)
    settings = {"env": {"A": "1"}}
    kept = copy.deepcopy((prompt, answer, settings))

    async def scenario() -> None:
        async with Running(shell, options(hooks=given, settings=settings)) as session:
            await got((await got(session.send(prompt))).result())
            await texts(await got(session.send(steps(["ask", "hook_callback", HOOK]))))
            await got(session.request("get_session_cost", nested=settings))
        assert (prompt, answer, settings) == kept
        assert list(given) == ["PreToolUse"]

    shell.play(scenario)


@shows("session.cursors.own")
def test_two_who_read_at_once_both_get_everything(shell: Shell, options: Light) -> None:
    """Elsewhere two receivers share one queue, and each gets what the other did not."""

    async def scenario() -> None:
        async with Running(shell, options()) as session:
            one, other = session.messages(), session.messages()
            turns = [await got(session.send(f"message {number}")) for number in range(20)]

            async def read(cursor: Any) -> list[str]:
                found: list[str] = []
                while len(found) < len(turns):
                    message = await first(cursor)
                    if isinstance(message, AssistantMessage):
                        found += [block.text for block in message.content]  # type: ignore[union-attr]
                return found

            both = await shell.meanwhile(lambda: read(one), lambda: read(other))
            assert both == ([f"message {number}" for number in range(20)],) * 2
            for number, turn in enumerate(turns):
                assert await texts(turn) == [f"message {number}"]

    shell.play(scenario)


def test_one_item_at_a_time_is_the_same_stream(shell: Shell, options: Light) -> None:
    """Elsewhere `__anext__` makes a generator for each item, which is then left behind, and a loop afterwards makes another."""
    made: list[object] = []

    async def scenario() -> None:
        hooks_before = sys.get_asyncgen_hooks()
        async with Running(shell, options()) as session:
            both = [session.messages(), await got(session.send("hello"))]
            sys.set_asyncgen_hooks(firstiter=made.append)
            try:
                for source in both:
                    again = source.__aiter__() if hasattr(source, "__anext__") else iter(source)
                    assert again is source
                one, turn = [await first(both[0]) for _ in range(3)], [await first(both[1])]
            finally:
                sys.set_asyncgen_hooks(*hooks_before)
            assert not made
            turn += [message async for message in each(both[1])]
            while turn[-1] not in one:
                one.append(await first(both[0]))
            assert [message for message in one if message in turn] == turn

    shell.play(scenario)
