"""One-shot streams as users see them, on asyncio, trio and without an event loop."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
from hackamore import (
    AssistantMessage,
    ConcurrentUseError,
    DecodeError,
    DecodeErrorLimitError,
    Limits,
    LineTooLongError,
    Options,
    OptionsError,
    ProcessError,
    ResultError,
    ResultMessage,
    SpawnError,
    StreamWarning,
    Timeouts,
    TurnTimeoutError,
    UnsupportedCLIVersionError,
    UserMessage,
)
from hackamore.aio.waits import Preparing, child_process
from hackamore.messages import InitMessage
from hackamore.transports.process.prepare import Preparation
from tests.contract import shows
from tests.support.inside import asks_version, is_read
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience
from tests.support.query_fixtures import StandIn
from tests.support.shell import Shell, Stream

INIT, ASSISTANT, RESULT = ["frame", "init"], ["frame", "assistant"], ["frame", "result"]
PLAIN = (INIT, ASSISTANT, RESULT)


def names(items: list[Any]) -> list[str]:
    return [item.code if isinstance(item, StreamWarning) else type(item).__name__ for item in items]


async def everything(stream: Stream) -> tuple[list[Any], BaseException | None]:
    items: list[Any] = []
    try:
        async for item in stream.items():
            items.append(item)
    except hackamore.HackamoreError as error:
        return items, error
    return items, None


def test_a_plain_answer(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN))
        messages = [message async for message in stream]
        assert [type(message) for message in messages] == [InitMessage, AssistantMessage, ResultMessage]
        assert stream.session_id == "5e551011"
        assert stream.warnings == []
        assert stream.errors == []
        assert await stream.next_item() is None
        assert [message async for message in stream] == []

    shell.play(scenario)


def test_run_gives_text_result_cost_usage_and_session(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        answer = await shell.run("hi", playing(*PLAIN))
        assert answer.text == "hello"
        assert answer.cost == 0.25
        assert answer.usage.output_tokens == 5
        assert answer.session_id == "5e551011"
        assert len(answer.messages) == 3

    shell.play(scenario)


def test_the_process_is_reaped_before_the_end_is_given(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, ["sleep", 0.2]))
        async for _ in stream:
            pass
        assert not alive(stream.pid)
        failing = shell.query("hi", playing(INIT, ["exit", 3]))
        with pytest.raises(ProcessError):
            await failing.result()
        assert not alive(failing.pid)

    shell.play(scenario)


def test_next_item_gives_one_thing_at_a_time_and_none_for_ever(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query(
            "hi", playing(["out", "noise\n"], ASSISTANT, ["out", '{"type":"assistant","session_id":1}\n'], RESULT)
        )
        items = [await stream.next_item() for _ in range(5)]
        assert names(items) == ["DecodeError", "AssistantMessage", "FIELD_DROPPED", "AssistantMessage", "ResultMessage"]
        assert [await stream.next_item() for _ in range(3)] == [None, None, None]
        assert names(stream.warnings) == ["FIELD_DROPPED"]
        assert names(stream.errors) == ["DecodeError"]

    shell.play(scenario)


def test_the_prompt_goes_through_stdin_byte_for_byte(shell: Shell, playing: StandIn) -> None:
    prompt = (
        "--dash \"quotes\" 'single' $HOME `x` \\ \n\r\n\t/slash @at #hash \u2028\u2029 \U0001f600 \x1b[31m e\u0301 "
        + "é" * 200_000
    )

    async def scenario() -> None:
        answer = await shell.run(prompt, playing(["read_prompt"], RESULT))
        (echo,) = [message for message in answer.messages if isinstance(message, UserMessage)]
        assert echo.content == prompt

    shell.play(scenario)


def test_a_flood_before_stdin_is_read_and_a_large_prompt_do_not_block_each_other(
    shell: Shell, playing: StandIn
) -> None:
    async def scenario() -> None:
        answer = await shell.run("p" * 3_000_000, playing(["frames", "assistant", 5_000], ["read_prompt"], RESULT))
        assert len(answer.messages) == 5_002

    shell.play(scenario)


@shows("process.stderr-drained")
def test_ten_megabytes_of_stderr_while_nobody_reads_stdout(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    mark = tmp_path / "flooded"

    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["err_flood", 10_000_000], ["touch", str(mark)], RESULT))
        await stream.start()
        until = time.monotonic() + patience(20)
        # Nobody reads and no event loop runs: stderr is drained all the same.
        while not mark.exists():
            assert time.monotonic() < until
            threading.Event().wait(0.01)
        assert names((await stream.collect()).messages) == ["InitMessage", "ResultMessage"]

    shell.play(scenario)


def test_the_stderr_callback_gets_lines_and_may_raise(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    def callback(line: str) -> None:
        lines.append(line)
        if line == "two":
            raise RuntimeError("the callback's own fault")

    async def scenario() -> None:
        with caplog.at_level(logging.ERROR, "hackamore"):
            await shell.run("hi", playing(["err", "one\ntwo\nthr"], ["err", "ee\r\nlast"], RESULT, stderr=callback))
        assert lines == ["one", "two", "three", "last"]
        assert "`stderr` raised RuntimeError: the callback's own fault in " in caplog.text
        assert f"({__file__}:" in caplog.text

    shell.play(scenario)


@shows("errors.stderr")
def test_an_error_carries_the_tail_of_stderr(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        with pytest.raises(ProcessError) as caught:
            await shell.run("hi", playing(["err_flood", 1_000_000], ["err", "the last words\n"], ["exit", 7]))
        diagnostic = caught.value.diagnostic
        assert diagnostic.stderr_tail.endswith("the last words\n")
        assert len(diagnostic.stderr_tail) == 65_536
        assert diagnostic.stdout_was_empty
        assert "the last words" in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    shell.play(scenario)


SECRETS = (
    "sk-ant-api03-abcdefghij",
    "value of an option",
    "hunter2hunter2",
    "secret-of-the-machine",
    "tokentokentoken",
)
PRINTED = f"""key {SECRETS[0]} in {Path.cwd()} of ann@example.org
SHOP=value of an option
{{"env": {{"DATABASE": "{SECRETS[2]}"}}}}
TOKEN={SECRETS[3]}
Authorization: Bearer {SECRETS[4]}
"""


@shows("errors.secrets")
def test_errors_have_no_secrets_that_the_cli_printed(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MACHINE_TOKEN", SECRETS[3])

    async def scenario() -> None:
        options = playing(["err", PRINTED], ["exit", 7])
        options = options.replace(env={**(options.env or {}), "SHOP": SECRETS[1]})
        with caplog.at_level(logging.DEBUG, "hackamore"), pytest.raises(ProcessError) as caught:
            await shell.run("hi", options)
        error = caught.value
        assert f"key <masked> in {Path.cwd()} of ann@example.org" in str(error)
        for text in (str(error), repr(error), repr(error.diagnostic), str(vars(error)), caplog.text):
            assert not [secret for secret in SECRETS if secret in text]
        assert not [secret for secret in SECRETS if secret.encode() in pickle.dumps(error)]

    shell.play(scenario)


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ([["out", PRINTED.replace('{"env', 'with {"env')], ["exit", 7]], 100),
        ([["out", PRINTED.replace('{"env', 'with {"env')], ["exit", 7]], 2),
        ([["out", f"{'x' * 150}{SECRETS[1]} {SECRETS[0]}{'y' * 300}\n"], *PLAIN], 100),
        ([*PLAIN, ["out", f"{{{SECRETS[0]} {SECRETS[1]}"]], 100),
    ],
    ids=["last-line", "limit", "long-line", "incomplete"],
)
def test_errors_have_no_secrets_that_stand_on_stdout(
    shell: Shell,
    playing: StandIn,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[list[Any]],
    count: int,
) -> None:
    monkeypatch.setenv("MACHINE_TOKEN", SECRETS[3])

    async def scenario() -> None:
        options = playing(*steps)
        limits = Limits(consecutive_decode_errors=count, line_bytes=400 if "x" * 150 in str(steps) else 4_000)
        options = options.replace(env={**(options.env or {}), "SHOP": SECRETS[1]}, limits=limits)
        with caplog.at_level(logging.DEBUG, "hackamore"):
            items, error = await everything(shell.query("hi", options))
        shown = [*items, *([] if error is None else [error])]
        shown = [item for item in shown if isinstance(item, BaseException)]
        assert shown
        for one in every_below(shown):
            for text in (str(one), repr(one), str(vars(one)), str(pickle.dumps(one)), caplog.text):
                assert not [secret for secret in SECRETS if secret[:20] in text], text

    shell.play(scenario)


def every_below(errors: list[BaseException]) -> list[BaseException]:
    """Return the errors with all that they have as their cause or context: what `tblib` pickles, and reporters of errors send."""
    below = [more for one in errors for more in (one.__cause__, one.__context__) if more is not None]
    return [*errors, *every_below(below)] if below else errors


@pytest.mark.parametrize("output", [(), (ASSISTANT,)], ids=["silent", "talking"])
@pytest.mark.parametrize("stderr", ["", "a reason\n"], ids=["quiet", "stderr"])
@pytest.mark.parametrize("code", [1, 2, 126, 127, 143])
def test_exit_codes(shell: Shell, playing: StandIn, code: int, stderr: str, output: tuple[list[Any], ...]) -> None:
    async def scenario() -> None:
        items, error = await everything(shell.query("hi", playing(*output, ["err", stderr], ["exit", code])))
        assert names(items) == ["AssistantMessage"] * len(output)
        assert isinstance(error, ProcessError)
        assert error.exit_code == code
        assert error.diagnostic.stderr_tail == stderr
        assert error.diagnostic.stdout_was_empty is (not output)

    shell.play(scenario)


@pytest.mark.parametrize("number", [9, 15, 11])
def test_death_by_signal(shell: Shell, playing: StandIn, number: int) -> None:
    async def scenario() -> None:
        items, error = await everything(shell.query("hi", playing(ASSISTANT, ["die", number])))
        assert names(items) == ["AssistantMessage"]
        assert isinstance(error, ProcessError)
        assert error.exit_code == -number
        assert {9: "SIGKILL", 15: "SIGTERM", 11: "SIGSEGV"}[number] in str(error)

    shell.play(scenario)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([["exit", 0]], ["EMPTY_RESPONSE"]),
        ([INIT, ["exit", 0]], ["InitMessage", "CLEAN_EXIT_NO_RESULT"]),
        (
            [INIT, ["out", '{"type":"assis'], ["exit", 0]],
            ["InitMessage", "INCOMPLETE_LAST_LINE", "CLEAN_EXIT_NO_RESULT"],
        ),
        ([["out", '{"type":"result","is_error":false}']], ["ResultMessage"]),
        ([*PLAIN, ["exit", 9]], ["InitMessage", "AssistantMessage", "ResultMessage", "NONZERO_EXIT_AFTER_RESULT"]),
        ([["frame", "error_result"], ["exit", 1]], ["ResultMessage"]),
        (
            [RESULT, ["out", "noise\n"], ASSISTANT],
            ["ResultMessage", "UNEXPECTED_DATA_AFTER_RESULT", "AssistantMessage"],
        ),
        ([["hex", "7b2278ff223a317d0a"], RESULT], ["DecodeError", "ResultMessage"]),
        ([["out", "[1,2]\n"], ["out", '"text"\n'], RESULT], ["DecodeError", "DecodeError", "ResultMessage"]),
        ([["out", "\n\r\n  \n"], RESULT], ["ResultMessage"]),
        ([["frame", {"type": "keep_alive"}], RESULT], ["ResultMessage"]),
        ([["frame", {"type": "from_the_future"}], RESULT], ["UnknownMessage", "ResultMessage"]),
    ],
)
def test_endings_and_noise(shell: Shell, playing: StandIn, steps: list[list[Any]], expected: list[str]) -> None:
    async def scenario() -> None:
        items, error = await everything(shell.query("hi", playing(*steps)))
        assert names(items) == expected
        assert error is None

    shell.play(scenario)


def test_five_bad_lines_in_a_row_end_the_stream(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(["out", "bad\n" * 4], ASSISTANT, ["out", "bad\n" * 5], ["sleep", 60]))
        items, error = await everything(stream)
        assert names(items) == ["DecodeError"] * 4 + ["AssistantMessage"] + ["DecodeError"] * 4
        assert isinstance(error, DecodeErrorLimitError)
        assert error.count == 5
        assert isinstance(error.last, DecodeError)
        assert not alive(stream.pid)
        assert await stream.next_item() is None

    shell.play(scenario)


def test_a_line_of_one_byte_more_than_64_mebibytes(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        items, error = await everything(
            shell.query("hi", playing(ASSISTANT, ["fill", 64 * 1024 * 1024 + 1], ["out", "\n"], RESULT))
        )
        assert names(items) == ["AssistantMessage"]
        assert isinstance(error, LineTooLongError)
        assert error.limit == 64 * 1024 * 1024
        assert error.size == error.limit + 1
        assert error.head == b"x" * 200

    shell.play(scenario)


def test_an_oversized_line_can_be_skipped(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        limits = Limits(line_bytes=100_000)
        stream = shell.query(
            "hi", playing(ASSISTANT, ["line", 200_000], ASSISTANT, RESULT, on_oversize="skip", limits=limits)
        )
        items, error = await everything(stream)
        assert names(items) == ["AssistantMessage", "OVERSIZED_LINE_SKIPPED", "AssistantMessage", "ResultMessage"]
        assert error is None

    shell.play(scenario)


def test_a_50_megabyte_message(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        answer = await shell.run("hi", playing(["line", 50_000_000], RESULT))
        message = answer.messages[0]
        assert isinstance(message, AssistantMessage)
        (block,) = message.content
        assert isinstance(block, hackamore.TextBlock)
        assert len(block.text) == 50_000_000

    shell.play(scenario)


def test_an_unknown_option_is_an_unsupported_version(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        with pytest.raises(UnsupportedCLIVersionError, match="--nonsense"):
            await shell.run("hi", playing(["err", "error: unknown option '--nonsense'\n"], ["exit", 1]))

    shell.play(scenario)


def test_error_results(shell: Shell, playing: StandIn) -> None:
    options = playing(["frame", "error_result"], ["exit", 1])

    async def scenario() -> None:
        with pytest.raises(ResultError, match="it went wrong") as caught:
            await shell.run("hi", options)
        assert caught.value.result.subtype == "error_during_execution"
        answer = await shell.run("hi", options, check=False)
        assert answer.result.is_error
        with pytest.raises(ResultError):
            answer.result.raise_for_error()

    shell.play(scenario)


def test_run_without_a_result_is_an_error(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        for check in (True, False):
            with pytest.raises(ProcessError, match="no result came") as caught:
                await shell.run("hi", playing(INIT), check=check)
            assert any("before a result came" in line for line in caught.value.diagnostic.troubleshooting)

    shell.play(scenario)


def test_strict_exit_status(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        with pytest.raises(ProcessError) as caught:
            await shell.run("hi", playing(*PLAIN, ["exit", 4], strict_exit_status=True))
        assert caught.value.diagnostic.last_result is not None

    shell.play(scenario)


def test_collect_raises_no_stream_error(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        collected = await shell.query("hi", playing(["out", "noise\n"], *PLAIN, ["exit", 4])).collect()
        assert names(collected.messages) == ["InitMessage", "AssistantMessage", "ResultMessage"]
        assert names(collected.warnings) == ["NONZERO_EXIT_AFTER_RESULT"]
        assert names(collected.errors) == ["DecodeError"]
        assert collected.terminal_error is None
        assert collected.result is collected.results[-1]
        collected = await shell.query("hi", playing(ASSISTANT, ["exit", 4])).collect()
        assert isinstance(collected.terminal_error, ProcessError)
        assert len(collected.messages) == 1

    shell.play(scenario)


def test_fold_and_result(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        assert await shell.query("hi", playing(*PLAIN)).fold(0, lambda count, message: count + 1) == 3
        result = await shell.query("hi", playing(*PLAIN)).result()
        assert isinstance(result, ResultMessage)
        assert await shell.query("hi", playing(INIT)).result() is None

    shell.play(scenario)


def test_on_warning_is_called_and_may_raise(shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[StreamWarning] = []

    def on_warning(warning: StreamWarning) -> None:
        seen.append(warning)
        raise RuntimeError("no")

    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, ["exit", 4], on_warning=on_warning))
        await stream.collect()
        assert seen == stream.warnings[:1]
        failed = stream.warnings[1]
        assert (failed.code, type(failed.exception)) == ("CALLBACK_FAILED", RuntimeError)
        assert names(seen) == ["NONZERO_EXIT_AFTER_RESULT"]

    shell.play(scenario)
    assert "`on_warning` raised" in caplog.text


# -- deadlines -----------------------------------------------------------------------------------------------------------


@shows("session.deadlines.one-shot")
@pytest.mark.parametrize(("kind", "steps"), [("first_message", []), ("idle", [INIT]), ("turn", [INIT])])
def test_deadlines_of_the_turn(shell: Shell, playing: StandIn, kind: str, steps: list[list[Any]]) -> None:
    async def scenario() -> None:
        timeouts = Timeouts(**{kind: patience(0.3)})
        stream = shell.query("hi", playing(*steps, ["sleep", 60], timeouts=timeouts))
        began = time.monotonic()
        items, error = await everything(stream)
        assert len(items) == len(steps)
        assert isinstance(error, TurnTimeoutError)
        assert error.kind == kind
        assert time.monotonic() - began < patience(5)
        assert not alive(stream.pid)

    shell.play(scenario)


def test_a_slow_consumer_does_not_miss_a_deadline(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    """What came in time and waits in the pipe is read, however late the consumer asks."""
    mark = tmp_path / "written"

    async def scenario() -> None:
        options = playing(INIT, *PLAIN, ["touch", str(mark)], ["sleep", 0.1], timeouts=Timeouts(idle=0.05, turn=0.05))
        stream = shell.query("hi", options)
        await stream.start()
        until = time.monotonic() + patience(20)
        while not mark.exists():
            assert time.monotonic() < until
            threading.Event().wait(0.01)
        items, error = await everything(stream)
        assert names(items)[-1] == "ResultMessage"
        assert error is None

    shell.play(scenario)


def test_a_process_that_stays_after_its_result_is_stopped(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, ["sleep", 60], timeouts=Timeouts(after_result=0.2)))
        items, error = await everything(stream)
        assert names(items)[-1] == "CLI_DID_NOT_EXIT"
        assert error is None
        assert not alive(stream.pid)

    shell.play(scenario)


def test_a_process_that_closes_stdout_and_stays(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, ["close_stdout"], ["sleep", 60]))
        began = time.monotonic()
        items, error = await everything(stream)
        assert names(items)[-1] == "CLI_DID_NOT_EXIT"
        assert error is None
        assert 4 < time.monotonic() - began < patience(8)

    shell.play(scenario)


def test_a_grandchild_that_holds_the_pipes_delays_the_end_by_half_a_second(
    shell: Shell, playing: StandIn, tmp_path: Path
) -> None:
    mark = str(tmp_path / "pid")

    async def scenario() -> None:
        began = time.monotonic()
        items, error = await everything(shell.query("hi", playing(*PLAIN, ["grandchild", 60, mark, True])))
        assert names(items)[-1] == "ResultMessage"
        assert error is None
        assert time.monotonic() - began < patience(4)

    import os

    try:
        # It chose to end with nothing open: what it left running is left alone, and may even be wanted.
        shell.play(scenario)
        assert alive(int(Path(mark).read_text()))
    finally:
        os.kill(int(Path(mark).read_text()), 9)
        assert wait_gone(int(Path(mark).read_text()))


# -- start errors ----------------------------------------------------------------------------------------------------------


def test_start_errors_come_at_the_first_use_and_once(shell: Shell, tmp_path: Path) -> None:
    async def scenario() -> None:
        missing = str(tmp_path / "no-such-claude")
        for first_use in ("start", "next_item", "collect", "result"):
            stream = shell.query("hi", Options(cli_path=missing))
            with pytest.raises(hackamore.StartError, match="no-such-claude"):
                await getattr(stream, first_use)()
            assert await stream.next_item() is None
        with pytest.raises(hackamore.CLINotFoundError):
            async with shell.query("hi", Options(cli_path=missing)):
                pass

    shell.play(scenario)


def test_no_cli_anywhere_lists_the_places(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("hackamore._engine.launch.discovery.SYSTEM_PLACES", ())
    monkeypatch.delenv("HACKAMORE_CLI_PATH", raising=False)

    async def scenario() -> None:
        try:
            await shell.run("hi")
        except hackamore.CLINotFoundError as error:
            assert str(tmp_path / "claude") in error.searched
            assert "npm install" in str(error)
        except hackamore.HackamoreError:
            pytest.skip("a CLI is installed on this machine")

    shell.play(scenario)


def test_a_missing_cwd_is_said_to_be_missing(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    async def scenario() -> None:
        cwd = tmp_path / "gone"
        cwd.mkdir()
        options = playing(*PLAIN, cwd=cwd)
        cwd.rmdir()
        with pytest.raises((SpawnError, OptionsError), match="does not exist") as caught:
            await shell.run("hi", options)
        assert "gone" in str(caught.value)

    shell.play(scenario)


@pytest.mark.parametrize("what", ["not-executable", "directory", "wrong-architecture", "no-interpreter", "empty"])
def test_what_cannot_be_executed(shell: Shell, tmp_path: Path, what: str) -> None:
    path = tmp_path / "claude"
    match what:
        case "directory":
            path.mkdir()
        case "not-executable":
            path.write_text("#!/bin/sh\n")
        case "wrong-architecture":
            path.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0\xff\xff" + b"\0" * 44)
            path.chmod(0o755)
        case "no-interpreter":
            path.write_text("#!/no/such/interpreter\n")
            path.chmod(0o755)
        case "empty":
            path.write_bytes(b"\0\1\2\3")
            path.chmod(0o755)

    async def scenario() -> None:
        with pytest.raises(SpawnError) as caught:
            await shell.run("hi", Options(cli_path=path, version_check="skip"))
        assert str(path) in str(caught.value)
        assert caught.value.reason
        with pytest.raises(SpawnError):
            await shell.run("hi", Options(cli_path=path))

    shell.play(scenario)


def test_prompts_of_the_wrong_type_fail_at_the_call(shell: Shell) -> None:
    for prompt in (17, None, b"bytes", {"type": "text"}, object()):
        with pytest.raises(TypeError, match="prompt"):
            shell.query(prompt)
    for prompt in (("a",), ["a", "b"]):
        with pytest.raises(TypeError, match=r"content blocks.*iter\(\[...\]\)"):
            shell.query(prompt)
    with pytest.raises(TypeError, match="options"):
        shell.query("hi", {"model": "x"})  # type: ignore[arg-type]


def test_a_prompt_on_the_command_line_excludes_the_bidirectional_protocol(shell: Shell) -> None:
    with pytest.raises(hackamore.OptionsError, match=r"prompt_channel.*enable_file_checkpointing"):
        shell.query("hi", Options(enable_file_checkpointing=True, prompt_channel="argv"))
    with pytest.raises(hackamore.OptionsError, match="an iterable of prompts"):
        shell.query(iter(["hi"]), Options(prompt_channel="argv"))


# -- versions ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("answer", "policy", "outcome"),
    [
        ("2.1.328 (Claude Code)", "strict", "fine"),
        ("claude v1.0.0-beta.3", "strict", "fine"),
        ("0.9.9", "strict", hackamore.UnsupportedCLIVersionError),
        ("0.9.9", "permissive", hackamore.UnsupportedCLIVersionError),
        ("0.9.9", "skip", "fine"),
        ("what?", "strict", hackamore.UnknownVersionError),
        ("what?", "permissive", "UNPARSABLE_CLI_VERSION"),
        ("what?", "skip", "fine"),
        ("exit 3", "strict", hackamore.VersionDetectionError),
        ("exit 3", "permissive", "VERSION_DETECTION_FAILED"),
        ("hang", "strict", "VERSION_DETECTION_FAILED"),
    ],
)
def test_version_policy(shell: Shell, playing: StandIn, answer: str, policy: str, outcome: Any) -> None:
    options = playing(
        *PLAIN,
        version_check=policy,
        env={"STAND_IN_VERSION": answer},
        timeouts=Timeouts(version_check=0.4 if answer == "hang" else 30),
    )

    async def scenario() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if isinstance(outcome, type):
                with pytest.raises(outcome):
                    await shell.run("hi", options)
                return
            assert (await shell.run("hi", options)).text == "hello"
        codes = [warning.message.code for warning in caught if isinstance(warning.message, StreamWarning)]
        assert codes == ([] if outcome == "fine" else [outcome])

    shell.play(scenario)


@shows("errors.secrets")
@pytest.mark.usefixtures("own_cache")
def test_the_error_about_a_version_has_no_secrets(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(*PLAIN, version_check="strict", env={"STAND_IN_VERSION": f"log in with {SECRETS[0]}"})
        with pytest.raises(hackamore.UnknownVersionError) as caught:
            await shell.run("hi", options)
        assert caught.value.output.strip() == "log in with <masked>" or caught.value.output.strip() == "<masked>"
        assert SECRETS[0] not in str(caught.value)

    shell.play(scenario)


@pytest.mark.usefixtures("own_cache")
def test_warnings_as_errors_stop_the_start(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, version_check="permissive", env={"STAND_IN_VERSION": "what?"}))
        with warnings.catch_warnings():
            warnings.simplefilter("error", StreamWarning)
            with pytest.raises(StreamWarning, match="UNPARSABLE_CLI_VERSION"):
                await stream.start()
        assert stream.pid is None

    shell.play(scenario)


@pytest.mark.usefixtures("own_cache")
def test_the_version_is_asked_once_for_each_file(
    shell: Shell, playing: StandIn, tmp_path: Path, stand_in_path: str
) -> None:
    asked = tmp_path / "asked"
    script = Path(stand_in_path)
    script.write_text(script.read_text().replace("exec", f'[ "$1" = --version ] && echo x >> {asked}\nexec', 1))

    async def scenario() -> None:
        for _ in range(3):
            await shell.run("hi", playing(*PLAIN, version_check="strict"))
        assert asked.read_text() == "x\n"
        script.write_text(script.read_text() + "# changed\n")
        await shell.run("hi", playing(*PLAIN, version_check="strict"))
        assert asked.read_text() == "x\nx\n"

    shell.play(scenario)


# -- leaving early ---------------------------------------------------------------------------------------------------------


def test_close_ends_everything_and_may_be_called_again(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["frames", "assistant", 100_000], ["sleep", 60]))
        assert isinstance(await stream.next_item(), InitMessage)
        await stream.close()
        assert not alive(stream.pid)
        assert await stream.next_item() is None
        await stream.close()
        unused = shell.query("hi", playing(*PLAIN))
        await unused.close()
        await unused.start()
        assert unused.pid is None
        assert await unused.next_item() is None

    shell.play(scenario)


def test_close_from_elsewhere_ends_a_waiting_read_at_once(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["sleep", 60]))
        assert isinstance(await stream.next_item(), InitMessage)
        began = time.monotonic()
        read, closed = await shell.meanwhile(stream.next_item, stream.close)
        assert read is None
        assert closed is None
        assert time.monotonic() - began < patience(4)
        assert not alive(stream.pid)

    shell.play(scenario)


@pytest.mark.usefixtures("own_cache")
def test_close_while_the_version_is_asked(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(*PLAIN, version_check="strict", env={"STAND_IN_VERSION": "hang"}))

        async def close_when_asked() -> None:
            until = time.monotonic() + patience(20)
            while not asks_version(stream):
                assert time.monotonic() < until
                await shell.let_others_run()
            await stream.close()

        began = time.monotonic()
        read, closed = await shell.meanwhile(stream.next_item, close_when_asked)
        assert (read, closed) == (None, None)
        assert time.monotonic() - began < patience(10)
        assert stream.pid is None

    shell.play(scenario)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("closed", [False, True])
def test_nothing_is_started_ahead_for_a_query_that_was_closed(playing: StandIn, closed: bool) -> None:
    async def scenario() -> None:
        options = playing(*PLAIN, version_check="strict")
        preparation, child = Preparation(options, "hi"), child_process(options)
        if closed:
            preparation.cancel()
        assert (await Preparing(preparation, child).plan()).argv
        assert (child.pid is None) == closed
        await child.stop(turn_open=False)

    anyio.run(scenario)


def test_a_second_reader_gets_a_clear_error(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    mark = tmp_path / "go"

    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["await_file", str(mark)], RESULT))
        await stream.next_item()

        async def second() -> Any:
            until = time.monotonic() + patience(10)
            while not is_read(stream):
                assert time.monotonic() < until
                await shell.let_others_run()
            try:
                return await stream.next_item()
            finally:
                mark.touch()

        read, refused = await shell.meanwhile(stream.next_item, second)
        assert isinstance(read, ResultMessage)
        assert isinstance(refused, ConcurrentUseError)
        assert await stream.next_item() is None

    shell.play(scenario)


def test_a_break_stops_the_process(shell: Shell, playing: StandIn) -> None:
    pids: list[int] = []

    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["sleep", 60]))
        async for _ in stream:
            pids.append(stream.pid)
            break
        del stream

    shell.play(scenario)
    assert wait_gone(pids[0])


def test_leaving_the_block_by_an_exception_waits_for_the_end(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(INIT, ["sleep", 60]))
        with pytest.raises(ZeroDivisionError):
            async with stream:
                async for _ in stream:
                    raise ZeroDivisionError
        assert not alive(stream.pid)

    shell.play(scenario)


def test_a_process_that_ignores_sigterm_is_killed(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query("hi", playing(["ignore_term"], INIT, ["sleep", 60], timeouts=Timeouts(kill_grace=0.2)))
        assert isinstance(await stream.next_item(), InitMessage)
        await stream.close()
        assert not alive(stream.pid)

    shell.play(scenario)


@shows("process.leaving")
@pytest.mark.parametrize("before", [(INIT,), PLAIN], ids=["in-the-turn", "after-the-result"])
def test_leaving_a_query_does_not_wait_for_a_cli_that_ignores_signals(
    shell: Shell, playing: StandIn, before: tuple[list[Any], ...]
) -> None:
    """The caller is free after `stop_grace`; the CLI is killed `kill_grace` after the SIGTERM that it ignores."""

    async def scenario() -> None:
        timeouts = Timeouts(stop_grace=0.1, kill_grace=patience(1))
        stream = shell.query("hi", playing(["ignore_term"], *before, ["sleep", 60], timeouts=timeouts))
        for _ in before:
            await stream.next_item()
        await stream.close()
        assert alive(stream.pid)
        assert wait_gone(stream.pid)

    shell.play(scenario)


@shows("process.leaving")
def test_a_cli_that_ignores_signals_does_not_outlive_the_program_that_left_it(playing: StandIn) -> None:
    options = playing(["ignore_term"], INIT, ["sleep", 60])
    program = f"""
import hackamore.sync
from hackamore import Options, Timeouts
timeouts = Timeouts(stop_grace=0.1, kill_grace=600)
stream = hackamore.sync.query("hi", Options(cli_path={options.cli_path!r}, env={options.env!r}, version_check="skip", timeouts=timeouts))
stream.next_item()
stream.close()
print(stream.pid)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=patience(60)
    )
    assert wait_gone(int(done.stdout))


@pytest.mark.parametrize("new_session", [False, True], ids=["same-group", "own-session"])
def test_descendants_end_with_an_open_turn(shell: Shell, playing: StandIn, tmp_path: Path, new_session: bool) -> None:
    mark = tmp_path / "pid"

    async def scenario() -> None:
        stream = shell.query(
            "hi",
            playing(
                ["ignore_term"],
                ["grandchild", 60, str(mark), new_session],
                INIT,
                ["sleep", 60],
                timeouts=Timeouts(kill_grace=0.2),
            ),
        )
        assert isinstance(await stream.next_item(), InitMessage)
        await stream.close()
        assert wait_gone(int(mark.read_text()))

    shell.play(scenario)


@shows("process.descendants")
@pytest.mark.parametrize("before", [(INIT,), PLAIN], ids=["in-the-turn", "after-the-result"])
def test_descendants_of_a_crashed_cli_are_found_by_their_mark(
    shell: Shell, playing: StandIn, tmp_path: Path, before: tuple[list[Any], ...]
) -> None:
    mark = tmp_path / "pid"

    async def scenario() -> None:
        collected = await shell.query("hi", playing(*before, ["grandchild", 60, str(mark), True], ["die", 9])).collect()
        assert isinstance(collected.terminal_error, ProcessError) or names(collected.warnings) == [
            "NONZERO_EXIT_AFTER_RESULT"
        ]
        assert wait_gone(int(mark.read_text()))

    shell.play(scenario)


# -- logs --------------------------------------------------------------------------------------------------------------------


@shows("errors.secrets")
def test_the_log_tells_kinds_and_sizes_and_no_secret(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-ant-very-secret"

    async def scenario() -> None:
        with caplog.at_level(logging.DEBUG, "hackamore"):
            options = playing(
                ["out", f"{secret}\n"], *PLAIN, env={"ANTHROPIC_API_KEY": secret}, settings={"apiKeyHelper": secret}
            )
            await shell.run(f"the prompt is a secret too: {secret}", options)

    shell.play(scenario)
    assert secret not in caplog.text
    assert "frame assistant -, " in caplog.text
    assert "frame system init, " in caplog.text
    assert "A line of output was skipped (not-json" in caplog.text
    assert {record.name for record in caplog.records if record.name.startswith("hackamore")} == {"hackamore"}
