"""Prompts in all their forms: what is sent, what is refused, and that an iterable is closed when it is not read to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bridle import Options, OptionsError, PromptIterableError
from bridle.messages.decode import from_data
from bridle.queries.ending import partial_of
from bridle.queries.plain import with_guards
from bridle.queries.prompts import Feeder, OnePrompt, checked_blocks, one_prompt, steering_reasons

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from bridle.errors import StreamWarning

FRAME = {"type": "user", "message": {"content": "hi"}}


def feeder(source: object, sent: list[OnePrompt], problems: list[PromptIterableError | None]) -> Feeder:
    return Feeder(source, sent.append, problems.append)


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
            job.cancelled = True
            yield "two"
        finally:
            closed.append("closed")

    job = feeder(prompts(), sent, [])
    assert (job.name, job.is_async) == ("the iterable of prompts", False)
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
        assert job.is_async
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
    options = with_guards(Options(**chosen), warned.append)
    for _ in range(2):
        getattr(options, name)("line")
    assert [(warning.code, f"`{name}`" in warning.message) for warning in warned] == [("CALLBACK_FAILED", True)]
