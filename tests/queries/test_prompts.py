"""Prompts in all their forms: what is sent, what is refused, and that an iterable is closed when it is not read to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options, OptionsError, PromptIterableError, StreamWarning
from hackamore._engine.queries.ending import partial_of
from hackamore._engine.queries.plain import deliver_warning, warn_before_start, with_guards
from hackamore._engine.queries.prompts import Feeder, OnePrompt, checked_blocks, one_prompt, steering_reasons
from hackamore.messages.decode import from_data

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from hackamore._engine.answering.jobs import Job

FRAME = {"type": "user", "message": {"content": "hi"}}


def feeder(source: object, sent: list[OnePrompt], problems: list[PromptIterableError | None]) -> Job:
    return Feeder(source, sent.append, problems.append).job


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("hi", OnePrompt("hi")),
        ([{"type": "text", "text": "hi"}], OnePrompt([{"type": "text", "text": "hi"}])),
        (FRAME, OnePrompt("hi")),
        ({**FRAME, "uuid": "u1"}, OnePrompt("hi", "u1")),
        ({**FRAME, "uuid": "u1", "priority": "next", "x": 1}, OnePrompt("hi", "u1", {"priority": "next", "x": 1})),
    ],
)
def test_a_prompt_is_sent_with_all_its_fields(prompt: object, sent: OnePrompt) -> None:
    assert one_prompt(prompt) == sent


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        (
            ["a"],
            "a list is one prompt of content blocks (dicts); item 0 is a str. Several prompts are given as an iterator: iter([...]).",
        ),
        ([{"type": "text", "text": "a"}, 5], "a list is one prompt of content blocks (dicts); item 1 is a int."),
    ],
)
def test_items_that_are_no_blocks_are_refused(blocks: list[Any], text: str) -> None:
    with pytest.raises(TypeError) as refused:
        checked_blocks(blocks)
    assert str(refused.value) == text


def test_what_needs_both_directions_excludes_a_prompt_on_the_command_line() -> None:
    with pytest.raises(OptionsError, match="a prompt of content blocks") as refused:
        steering_reasons([{"type": "text", "text": "hi"}], Options(prompt_channel="argv"))
    assert refused.value.field == "prompt_channel"


def test_an_iterator_that_is_given_up_is_closed() -> None:
    sent: list[OnePrompt] = []
    closed: list[str] = []

    def prompts() -> Iterator[str]:
        try:
            yield "one"
            job.state.cancelled = True
            yield "two"
        finally:
            closed.append("closed")

    job = feeder(prompts(), sent, [])
    assert (job.callee.name, job.callee.is_async) == ("the iterable of prompts", False)
    job.call()
    assert (sent, closed) == ([OnePrompt("one")], ["closed"])


def test_an_async_iterator_that_raises_elsewhere_is_closed() -> None:
    sent: list[OnePrompt] = []
    closed: list[str] = []

    async def prompts() -> AsyncIterator[Any]:
        try:
            yield "one"
            yield 5
        finally:
            closed.append("closed")

    async def read() -> None:
        job = feeder(prompts(), sent, [])
        assert job.callee.is_async
        with pytest.raises(TypeError, match="a prompt must be a str"):
            await job.call()
        assert (sent, closed) == ([OnePrompt("one")], ["closed"])

    asyncio.run(read())


def test_the_partial_result_has_the_cost_of_the_last_result() -> None:
    frame = {
        "type": "result",
        "subtype": "success",
        "session_id": "s",
        "result": "ok",
        "total_cost_usd": 0.25,
        "is_error": False,
    }
    messages: list[Any] = [from_data(frame)]
    partial = partial_of(messages, None)
    assert (partial.text, partial.session_id, partial.cost) == ("ok", "s", 0.25)
    assert partial_of([], None).cost is None


@pytest.mark.parametrize("name", ["stderr", "trace"])
def test_a_callback_for_output_that_raises_is_a_warning_and_no_more(name: str) -> None:
    def broken(*_: object) -> None:
        raise KeyError("mine")

    warned: list[StreamWarning] = []
    chosen: dict[str, Any] = {name: broken}
    options = with_guards(Options(**chosen), warned.append, dict)
    for _ in range(2):
        getattr(options, name)("line")
    assert [(warning.code, f"`{name}`" in warning.message) for warning in warned] == [("CALLBACK_FAILED", True)]


def test_a_callback_for_warnings_that_raises_gives_one_more_warning() -> None:
    def broken(_: StreamWarning) -> None:
        raise KeyError("mine")

    def interrupted(_: StreamWarning) -> None:
        raise KeyboardInterrupt

    told: list[StreamWarning] = []
    warning = StreamWarning("SLOW_CONSUMER", "look", {})
    assert deliver_warning(Options(), warning) is None
    assert deliver_warning(Options(on_warning=told.append), warning) is None
    assert told == [warning]
    failure = deliver_warning(Options(on_warning=broken), warning)
    assert failure is not None
    assert (failure.code, failure.context["kind"], failure.context["callback"]) == (
        "CALLBACK_FAILED",
        "on_warning",
        "`on_warning`",
    )
    assert "test_prompts.py:" in failure.context["place"]
    with pytest.raises(KeyboardInterrupt):
        deliver_warning(Options(on_warning=interrupted), warning)


def test_a_warning_before_the_start_is_issued_and_told() -> None:
    told: list[StreamWarning] = []
    warning = StreamWarning("SLOW_CONSUMER", "look", {})
    with pytest.warns(StreamWarning, match="look") as issued:
        warn_before_start(Options(on_warning=told.append), [warning])
    assert told == [warning]
    assert [one.message for one in issued] == [warning]
    assert issued[0].filename == __file__


def test_a_path_for_the_trace_is_not_a_callback(tmp_path: Path) -> None:
    options = Options(trace=tmp_path / "trace")
    assert with_guards(options, print, dict).trace == options.trace


def test_a_prompt_of_the_wrong_shape_says_what_is_wrong() -> None:
    with pytest.raises(OptionsError, match=r"^The prompt is empty: the CLI needs something to answer\.$") as refused:
        one_prompt([])
    assert refused.value.field == "prompt"
    with pytest.raises(OptionsError):
        one_prompt({**FRAME, "message": {"content": ""}})
    with pytest.raises(TypeError, match="a prompt must be a str, a list of content blocks or a user frame, not int"):
        one_prompt({**FRAME, "message": {"content": 5}})


def test_the_count_of_prompts_is_part_of_the_error() -> None:
    problems: list[PromptIterableError | None] = []
    job = feeder(iter(["one", "two", 5]), [], problems)
    with pytest.raises(TypeError) as raised:
        job.call()
    assert job.ended is not None
    job.ended(None, raised.value)
    (problem,) = problems
    assert problem is not None
    assert problem.count == 2
    assert problem.reason == "TypeError: a prompt must be a str, a list of content blocks or a user frame, not int"
    again: list[PromptIterableError | None] = []
    done = feeder(iter(["one"]), [], again)
    done.call()
    assert done.ended is not None
    done.ended(None, None)
    assert again == [None]
