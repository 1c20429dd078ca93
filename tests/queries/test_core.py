"""The core of a query by itself: partial results, texts, outcomes and logs."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from hackamore import (
    DecodeError,
    HackamoreError,
    Limits,
    Options,
    OptionsError,
    OutputError,
    PartialResult,
    ProcessError,
    StreamWarning,
    Timeouts,
    TurnTimeoutError,
)
from hackamore._engine.queries.ending import Recent, TextDeltas, last_text, partial_of
from hackamore._engine.queries.outcomes import CollectResult, RunResult
from hackamore._engine.queries.plain import PlainQuery, is_steered
from hackamore._engine.queries.prompts import Feeder, OnePrompt, is_many, one_prompt, steering_reasons
from hackamore.checked.schemas import schema_for
from hackamore.messages import Message, ResultMessage, from_data
from hackamore.permissions import Allow

MIB = 1024 * 1024


def assistant(text: str = "hi", usage: dict[str, int] | None = None, **more: Any) -> Any:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage or {"input_tokens": 1}}
    return from_data({"type": "assistant", "message": message, "session_id": "s", **more})


def result(**more: Any) -> ResultMessage:
    fields = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}
    message = from_data({**fields, **more})
    assert isinstance(message, ResultMessage)
    return message


def delta(text: str, **more: Any) -> Any:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return from_data({"type": "stream_event", "event": event, "session_id": "s", "uuid": "u", **more})


# -- partial results ---------------------------------------------------------------------------------------------------


def test_recent_messages_are_limited_by_their_bytes_and_never_all_dropped() -> None:
    recent = Recent()
    batches: list[list[Message]] = [[assistant(str(number))] for number in range(4)]
    for batch in batches[:2]:
        recent.add(batch, MIB // 3)
    assert [*recent.partial("given").messages] == [*batches[0], *batches[1]]
    recent.add(batches[2], MIB // 2)
    assert [*recent.partial("given").messages] == [*batches[1], *batches[2]]
    recent.add(batches[3], 2 * MIB)
    assert [*recent.partial("given").messages] == batches[3]
    assert recent.partial("given").session_id == "given"


@pytest.mark.parametrize(("more", "kept"), [(0, 16), (1, 8)])
def test_a_mebibyte_of_recent_messages_is_kept_and_no_byte_more(more: int, kept: int) -> None:
    recent = Recent()
    recent.add([assistant()] * 8, MIB // 2)
    recent.add([assistant()] * 8, MIB // 2 + more)
    assert len(recent.partial(None).messages) == kept


def test_the_last_text_stands_before_the_messages_that_followed_it() -> None:
    recent, spoken = Recent(), assistant("spoken")
    later = [tool_result(1), tool_result(2)]
    recent.add([spoken], MIB // 2)
    for message in later:
        recent.add([message], MIB // 3)
    assert recent.partial(None).messages == (spoken, *later)


def test_short_messages_count_with_the_memory_of_their_objects() -> None:
    recent = Recent()
    for _ in range(20_000):
        recent.add([assistant()], 0)
    assert 1_000 < len(recent.partial(None).messages) < 2_000


def failed(*reads: list[Message]) -> PartialResult:
    """Return the partial result of a query whose CLI writes messages, one read after the other, and dies."""
    query = PlainQuery(Options())
    query.begin(0.0)
    for messages in reads:
        query.receive_data(b"".join(message.raw + b"\n" for message in messages), 0.0)
    query.receive_eof(1.0)
    query.process_exited(1, b"")
    assert isinstance(query.core.terminal_error, ProcessError)
    return query.core.recent.partial(None)


def tool_result(size: int) -> Any:
    return from_data({"type": "user", "message": {"role": "user", "content": "x" * size}})


def test_an_error_has_the_last_mebibyte_of_complete_messages() -> None:
    reads: list[list[Message]] = [
        [assistant(f"{10 * read + number} {'x' * 5_000}") for number in range(10)] for read in range(100)
    ]
    everything = [message for messages in reads for message in messages]
    kept = [*failed(*reads).messages]
    assert kept == everything[-len(kept) :]
    assert 0.9 * MIB < sum(len(message.raw) for message in kept) <= MIB
    assert failed(*reads[:10]).messages == tuple(everything[:100])


def test_an_error_has_no_pieces_of_messages() -> None:
    pieces: list[Message] = [delta("ab")] * 5_000
    partial = failed([assistant("before")], pieces, [delta("cd"), assistant("after")], pieces)
    assert [type(message).__name__ for message in partial.messages] == ["AssistantMessage"] * 2
    assert partial.text == "after"


@pytest.mark.parametrize("before", [[], [tool_result(10)] * 10], ids=["alone", "in a read with many"])
def test_an_error_has_the_last_text_however_large_later_messages_are(before: list[Message]) -> None:
    large = [[tool_result(MIB)]] * 3
    partial = failed([assistant("first")], [*before, assistant("second", {"input_tokens": 7})], *large)
    assert (partial.text, len(partial.messages)) == ("second", 2)
    assert partial.usage.input_tokens == 7
    assert failed([assistant("of a subagent", parent_tool_use_id="t")], *large).text == ""
    assert failed([assistant("early")], *large, [assistant("late")]).text == "late"


def test_a_partial_result_prefers_the_result_to_assistant_messages() -> None:
    first, second = assistant("one", {"input_tokens": 1}), assistant("two", {"input_tokens": 2})
    of_result = result(usage={"input_tokens": 7}, session_id="r", total_cost_usd=0.5)
    partial = partial_of([first, second, of_result], None)
    assert (partial.text, partial.session_id, partial.cost) == ("done", "r", 0.5)
    assert partial.usage == of_result.usage
    assert partial_of([first, of_result], "given").session_id == "given"
    without = partial_of([first, second], None)
    assert (without.text, without.session_id, without.cost, without.usage) == ("two", None, None, second.message.usage)
    assert partial_of([], None).usage is None


def test_an_error_result_leaves_the_text_of_the_assistant() -> None:
    assert partial_of([assistant("so far"), result(is_error=True, result="failed")], None).text == "so far"
    assert partial_of([assistant("so far"), result(result="")], None).text == "so far"


def test_the_last_text_is_that_of_the_main_loop() -> None:
    sub = assistant("of a subagent", parent_tool_use_id="t")
    assert last_text([assistant("one"), assistant("two"), sub, result()]) == "two"
    assert last_text([sub, result()]) == ""
    blocks = [{"type": "text", "text": text} for text in ("one, ", "two")]
    assert last_text([assistant(message={"role": "assistant", "content": blocks})]) == "one, two"


# -- text deltas -------------------------------------------------------------------------------------------------------


def test_a_message_whose_deltas_came_adds_no_text() -> None:
    deltas = TextDeltas()
    assert [deltas.of(one) for one in (delta("h"), delta("i"), assistant("hi"))] == ["h", "i", ""]
    assert deltas.of(assistant("whole")) == "whole"
    assert deltas.of(delta("x", parent_tool_use_id="t")) == ""
    assert deltas.of(assistant("after a subagent's delta")) == "after a subagent's delta"
    assert [deltas.of(one) for one in (delta("a"), delta(""), result(), assistant("a"))] == ["a", "", "", ""]


# -- outcomes ----------------------------------------------------------------------------------------------------------


def test_a_run_result_copies_what_it_is_given() -> None:
    messages, warnings, errors = (
        [result(total_cost_usd=0.25)],
        [StreamWarning("EMPTY_RESPONSE", "w", {})],
        [DecodeError(b"x", "not-json", "no")],
    )
    found: RunResult[Any] = RunResult(
        text="t", output=1, messages=messages, result=messages[0], warnings=warnings, errors=errors
    )
    assert (found.messages, found.warnings, found.errors) == (messages, warnings, errors)
    assert found.messages is not messages
    assert found.warnings is not warnings
    assert found.errors is not errors
    assert (found.cost, found.session_id, str(found), found.attempts) == (0.25, "s", "t", 1)
    assert repr(found) == ("RunResult(text='t', output=1, session_id='s', cost=0.25, 1 messages, 1 warnings, 1 errors)")
    nameless = result(session_id="")
    earlier: RunResult[Any] = RunResult(text="", output=None, messages=[assistant(session_id="a")], result=nameless)
    assert (earlier.cost, earlier.usage, earlier.session_id) == (nameless.total_cost_usd, nameless.usage, "a")
    assert (earlier.warnings, earlier.errors) == ([], [])
    assert RunResult(text="", output=None, messages=[], result=nameless).session_id is None


def test_a_collect_result_has_the_last_of_several_results() -> None:
    first, last = result(), result(result="later")
    found = CollectResult([first, assistant(), last], [], [], HackamoreError("over"))
    assert found.results == [first, last]
    assert found.result is last
    assert repr(found) == "CollectResult(3 messages, 0 warnings, 0 errors, terminal_error=HackamoreError('over'))"
    assert CollectResult().result is None


@pytest.mark.parametrize(
    ("messages", "errors", "empty"),
    [([], [], True), ([assistant()], [], False), ([], [DecodeError(b"x", "not-json", "no")], False)],
)
@pytest.mark.parametrize("check", [True, False])
def test_no_result_is_a_process_error_that_says_if_stdout_was_empty(
    messages: list[Message], errors: list[DecodeError], empty: bool, check: bool
) -> None:
    warning = StreamWarning("CLEAN_EXIT_NO_RESULT", "nothing came", {})
    with pytest.raises(ProcessError) as raised:
        CollectResult(messages, [warning], errors).run_result(check=check)
    error = raised.value
    assert error.exit_code == 0
    assert error.diagnostic.stdout_was_empty is empty
    assert [*error.diagnostic.troubleshooting] == [str(warning)]
    assert error.partial is not None
    assert [*error.partial.messages] == messages


def test_an_error_of_the_stream_is_raised_even_without_check_and_gets_all_messages() -> None:
    messages = [assistant("one"), result(session_id="r")]
    with pytest.raises(HackamoreError) as raised:
        CollectResult(messages, terminal_error=HackamoreError("over")).run_result(check=False)
    assert raised.value.partial is not None
    assert [*raised.value.partial.messages] == messages
    assert raised.value.session_id == "r"


def test_without_check_an_error_result_has_no_output_and_the_text_of_the_assistant() -> None:
    collected = CollectResult([assistant("so far"), result(is_error=True, result=None, structured_output={"n": 1})])
    found = collected.run_result(dict[str, int], check=False)
    assert (found.text, found.output) == ("so far", None)
    assert CollectResult([result(structured_output={"n": 1})]).run_result().output == {"n": 1}
    assert CollectResult([assistant("only"), result(result=None)]).run_result(check=False).text == "only"


# -- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        {"type": "assistant", "message": {"content": "hi"}},
        {"message": {"content": "hi"}},
        {"type": "user"},
        {"type": "user", "message": "hi"},
        {"type": "user", "message": {"role": "user"}},
    ],
)
def test_a_dict_that_is_not_a_user_frame_is_refused(prompt: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^a dict as a prompt is a user frame"):
        one_prompt(prompt)


@pytest.mark.parametrize(("prompt", "name"), [(5, "int"), (None, "NoneType"), (b"x", "bytes")])
def test_other_prompts_are_refused_by_the_name_of_their_type(prompt: object, name: str) -> None:
    with pytest.raises(TypeError, match=f"not {name}$"):
        one_prompt(prompt)
    with pytest.raises(TypeError, match="`prompt` must be a str, a list of content blocks"):
        is_many(prompt)


def test_reasons_for_the_bidirectional_protocol() -> None:
    assert steering_reasons("hi", Options()) == []
    assert steering_reasons([{"type": "text", "text": "hi"}], Options()) == ["a prompt of content blocks"]
    assert steering_reasons(iter(["hi"]), Options()) == ["an iterable of prompts"]
    assert not is_steered("hi", Options())
    assert is_steered(iter(["hi"]), Options())


def test_the_log_says_why_a_query_uses_the_bidirectional_protocol(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    assert is_steered(iter(["hi"]), Options(can_use_tool=lambda request: Allow()))
    reasons = "can_use_tool, an iterable of prompts"
    assert caplog.messages == [f"this query uses the bidirectional protocol: {reasons}"]


def test_an_iterable_waits_for_an_answer_after_sixteen_prompts() -> None:
    sent: list[OnePrompt] = []

    async def numbers() -> Any:
        for number in range(20):
            yield str(number)

    async def read() -> None:
        feeder = Feeder(numbers(), sent.append, lambda _: None)
        reading = asyncio.ensure_future(feeder.job.call())
        while len(sent) < 16:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(sent) == 16
        feeder.answered()
        while len(sent) < 17:
            await asyncio.sleep(0)
        feeder.job.state.cancelled = True
        await reading
        assert len(sent) == 17

    asyncio.run(asyncio.wait_for(read(), 30))


def test_a_blocking_iterable_that_is_given_up_does_not_wait_for_an_answer() -> None:
    class GivenUp(Feeder):
        """Is given up while it waits for room for the seventeenth prompt."""

        looks = 0

        def _given_up(self) -> bool:
            self.looks += 1
            return self.looks > 17

    sent: list[OnePrompt] = []
    job = GivenUp(map(str, range(20)), sent.append, lambda _: None).job
    assert job.about.kind == "prompts"
    job.call()
    assert [prompt.content for prompt in sent] == [str(number) for number in range(16)]


@pytest.mark.parametrize(
    ("error", "text"),
    [(ValueError("bad"), "ValueError: bad"), (HackamoreError("bad"), "bad"), (None, "it gave none")],
)
def test_the_end_of_an_iterable_that_gave_nothing(error: Exception | None, text: str) -> None:
    problems: list[Any] = []
    job = Feeder(iter([]), lambda _: None, problems.append).job
    assert job.ended is not None
    job.ended(None, error)
    (problem,) = problems
    assert problem.count == 0
    assert problem.__cause__ is error
    assert text in str(problem)
    assert ("ValueError" in str(problem)) == isinstance(error, ValueError)


# -- a one-way query ---------------------------------------------------------------------------------------------------

RESULT = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "x", "session_id": "s"})


def test_data_after_the_result_is_quoted_up_to_two_thousand_bytes() -> None:
    query = PlainQuery(Options(limits=Limits(line_bytes=10_000)))
    query.begin(0.0)
    query.receive_data(RESULT.encode() + b"\n" + b"x" * 5000 + b"\n", 0.0)
    (warning,) = [item for item in query.core.items if isinstance(item, StreamWarning)]
    assert warning.code == "UNEXPECTED_DATA_AFTER_RESULT"
    assert warning.context["line"] == b"x" * 2000


@pytest.mark.parametrize(
    ("code", "crash"), [(None, False), (0, False), (1, False), (128, False), (129, True), (-9, True)]
)
def test_a_crash_is_an_exit_by_a_signal(code: int | None, crash: bool) -> None:
    query = PlainQuery(Options())
    query.begin(0.0)
    assert query.crashed(code)
    assert query.turn_open
    query.receive_data(RESULT.encode() + b"\n", 0.0)
    assert query.crashed(code) is crash
    assert not query.turn_open


@pytest.mark.parametrize(
    ("printed", "code", "text"),
    [
        (b"", "EMPTY_RESPONSE", "The CLI exited with code 0 and printed nothing."),
        (b"{}\n", "CLEAN_EXIT_NO_RESULT", "The CLI exited with code 0 before a result came."),
    ],
)
def test_an_exit_without_a_result_says_if_anything_was_printed(printed: bytes, code: str, text: str) -> None:
    query = PlainQuery(Options())
    query.begin(0.0)
    if printed:
        query.receive_data(printed, 0.0)
    query.receive_eof(0.0)
    query.process_exited(0, b"")
    (warning,) = [item for item in query.core.items if isinstance(item, StreamWarning)]
    assert (warning.code, warning.message, warning.context) == (code, text, {"exit_code": 0})


def test_an_error_after_a_successful_result_is_a_warning_with_what_stderr_said() -> None:
    query = PlainQuery(Options())
    query.begin(0.0)
    query.receive_data(RESULT.encode() + b"\n", 0.0)
    query.receive_eof(0.0)
    query.process_exited(3, b"half \xff")
    (warning,) = [item for item in query.core.items if isinstance(item, StreamWarning)]
    assert warning.code == "NONZERO_EXIT_AFTER_RESULT"
    assert warning.message == "The CLI exited with code 3 after a successful result."
    assert warning.context == {"exit_code": 3, "stderr_tail": "half \ufffd"}


def test_the_log_of_a_query_names_its_bytes_and_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    query = PlainQuery(Options())
    query.begin(1.0)
    query.receive_data(RESULT.encode() + b"\n", 3.5)
    query.receive_eof(4.0)
    said = "\n".join(caplog.messages)
    assert caplog.messages[:2] == ["started", f"read {len(RESULT) + 1} bytes, 2.500 s after the start"]
    assert "result" in said
    assert sum(" s after the start" in line for line in caplog.messages) == 1


# -- facts in warnings and errors --------------------------------------------------------------------------------------


def test_an_output_type_becomes_a_schema_and_excludes_another() -> None:
    found = Options(model="m").with_output_type(dict[str, int]).output_format
    assert found is not None
    assert found["type"] == "json_schema"
    assert found["schema"] == schema_for(dict[str, int]) != schema_for(dict[str, str])
    assert Options().with_output_type(None) == Options()
    with pytest.raises(OptionsError, match=r"^`output_type` and the option `output_format` exclude") as refused:
        Options(output_format=found).with_output_type(dict[str, int])
    assert refused.value.field == "output_format"


def test_an_answer_has_the_lines_that_could_not_be_decoded() -> None:
    errors = [DecodeError(b"x", "not-json", "no")]
    warnings = [StreamWarning("EMPTY_RESPONSE", "w", {})]
    found = CollectResult([result()], warnings, errors).run_result()
    assert (found.errors, found.warnings) == (errors, warnings)


def test_a_structured_output_that_does_not_fit_quotes_the_refusal() -> None:
    call = {"type": "tool_use", "id": "a", "name": "StructuredOutput", "input": {}}
    refusal = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "the schema was refused"}
    messages: list[Any] = [
        from_data({"type": "assistant", "message": {"role": "assistant", "content": [call]}}),
        from_data({"type": "user", "message": {"role": "user", "content": [refusal]}}),
        result(result="I cannot."),
    ]
    with pytest.raises(OutputError, match="the schema was refused"):
        CollectResult(messages).run_result(dict[str, int])


def test_a_long_reason_of_an_iterable_is_cut() -> None:
    problems: list[Any] = []
    job = Feeder(iter([]), lambda _: None, problems.append).job
    assert job.ended is not None
    job.ended(None, ValueError("x" * 5_000))
    assert len(problems[0].reason) < 600


def test_a_long_line_that_is_skipped_keeps_its_head() -> None:
    query = PlainQuery(Options(limits=Limits(line_bytes=1_000), on_oversize="skip"))
    query.begin(0.0)
    query.receive_data(b"y" * 5_000 + b"\n" + RESULT.encode() + b"\n" + b"noise\n", 0.0)
    first, last = (item for item in query.core.items if isinstance(item, StreamWarning))
    assert first.code == "OVERSIZED_LINE_SKIPPED"
    head = first.context["head"]
    assert isinstance(head, bytes)
    assert head.startswith(b"yyyy")
    assert last.message == "Data that is not a message came after the result."


# -- timeouts of a one-way query ---------------------------------------------------------------------------------------

TEXT = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}}).encode() + b"\n"


def begun(**timeouts: Any) -> PlainQuery:
    query = PlainQuery(Options(timeouts=Timeouts(**{"after_result": None, "background": None, **timeouts})))
    query.begin(100.0)
    return query


@pytest.mark.parametrize("timeouts", [{"first_message": 5.0}, {"first_message": 5.0, "idle": 7.0}, {"idle": 7.0}])
def test_a_message_ends_the_wait_for_the_first_and_each_one_starts_the_silence_again(
    timeouts: dict[str, float],
) -> None:
    query = begun(**timeouts)
    assert query.wait_seconds(100.0) == timeouts.get("first_message")
    for now in (104.0, 110.0):
        query.receive_data(TEXT, now)
        assert query.wait_seconds(now) == timeouts.get("idle")
    query.expire(116.9)
    assert not query.core.over
    query.expire(117.0)
    assert query.core.over is ("idle" in timeouts)


@pytest.mark.parametrize(("kind", "seconds"), [("first_message", 5.0), ("turn", 9.0)])
def test_a_query_that_is_silent_or_takes_long_ends_with_its_timeout(kind: str, seconds: float) -> None:
    query = begun(**{kind: seconds})
    assert query.wait_seconds(101.0) == seconds - 1.0
    query.expire(100.0 + seconds)
    error = query.core.terminal_error
    assert isinstance(error, TurnTimeoutError)
    assert (error.kind, error.seconds) == (kind, seconds)
    assert query.wait_seconds(100.0 + seconds) is None


def test_after_the_result_only_the_exit_is_limited() -> None:
    query = begun(first_message=5.0, idle=5.0, turn=5.0, after_result=8.0)
    query.receive_data(TEXT, 100.5)
    query.receive_data(RESULT.encode() + b"\n", 101.0)
    assert query.wait_seconds(102.0) == 7.0
    query.receive_data(TEXT, 103.0)
    assert query.wait_seconds(103.0) == 8.0
    query.expire(111.0)
    assert [item.code for item in query.core.items if isinstance(item, StreamWarning)] == ["CLI_DID_NOT_EXIT"]
    assert query.core.terminal_error is None


def test_work_in_the_background_has_its_time_after_each_result() -> None:
    query = begun(after_result=30.0, background=10.0)
    listed = {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "t"}]}
    query.receive_data(json.dumps(listed).encode() + b"\n", 100.0)
    for now in (101.0, 105.0):
        query.receive_data(RESULT.encode() + b"\n", now)
        assert query.wait_seconds(now) == 10.0
    query.receive_data(TEXT, 107.0)
    assert query.wait_seconds(107.0) == 8.0


def test_the_exit_has_five_seconds_after_the_end_of_the_output() -> None:
    query = begun(first_message=60.0, idle=60.0, turn=60.0)
    query.receive_eof(101.0)
    query.receive_eof(104.0)
    assert query.wait_seconds(102.0) == 4.0
    query.expire(105.9)
    assert not query.core.over
    query.expire(106.0, b"its last words")
    assert isinstance(query.core.terminal_error, ProcessError)
    assert query.core.terminal_error.diagnostic.stderr_tail == "its last words"
