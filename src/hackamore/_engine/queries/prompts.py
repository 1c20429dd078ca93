"""Prompts: a text, a list of content blocks, or an iterable of such prompts, which is read while the CLI works.

An iterable belongs to its user: it may be slow, raise, or never end. It is read beside the stream, in a task (async iterables) or a
thread (all others), and at most `MOST_OPEN` of its prompts wait for an answer at the same time.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from hackamore._engine.answering.jobs import Callee, Job, JobState
from hackamore._engine.launch import needs_session
from hackamore._engine.launch.plan import encode_prompt
from hackamore.checked.fields import shown
from hackamore.errors import HackamoreError, OptionsError, PromptIterableError, escape_terminal, text_of
from hackamore.messages.content import Block
from hackamore.options.observing import CallbackCall
from hackamore.runtime.threads import Room

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.options.options import Options

Prompt: TypeAlias = str | Sequence[Block | Mapping[str, Any]]
"""One prompt: a text, or a list of content blocks (objects or dicts)."""
Prompts: TypeAlias = Iterator[Prompt | Mapping[str, Any]] | AsyncIterable[Prompt | Mapping[str, Any]]
"""Many prompts for one query. A dict is a whole user frame. Give a list of prompts as `iter([...])`."""
Priority: TypeAlias = Literal["now", "next", "later"]
"""When the CLI reads a prompt that is sent while a turn runs."""
PRIORITIES: tuple[str, ...] = get_args(Priority)

MOST_OPEN = 16  # an endless iterable must not fill the queue of the CLI
"""How many prompts of an iterable may wait for their answers before the next one is read."""


class OnePrompt(NamedTuple):
    """A prompt as it is sent: its content, the uuid that its user chose, and further fields of the frame."""

    content: str | list[Any]
    turn_id: str | None = None
    fields: Mapping[str, Any] = {}


def checked_blocks(blocks: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Return content blocks as a frame holds them; raise TypeError for another item, OptionsError if there are none."""
    if not blocks:
        raise OptionsError("The prompt is empty: the CLI needs something to answer.", field="prompt")
    for index, block in enumerate(blocks):
        if not isinstance(block, (Mapping, msgspec.Struct)):
            what = "Several prompts are given as an iterator: iter([...])." if isinstance(block, str) else ""
            raise TypeError(
                f"a list is one prompt of content blocks (dicts); item {index} is a {type(block).__name__}. {what}".strip()
            )
    return list(blocks)


def is_many(prompt: object) -> bool:
    """Return whether this is an iterable of prompts; raise TypeError if it cannot be a prompt."""
    if isinstance(prompt, (str, list, tuple)):
        return False
    if isinstance(prompt, (AsyncIterable, Iterable)) and not isinstance(
        prompt, (bytes, bytearray, memoryview, Mapping)
    ):
        return True
    raise TypeError(
        f"`prompt` must be a str, a list of content blocks, or an (async) iterable of prompts; got {shown(prompt)}"
    )


def one_prompt(prompt: object) -> OnePrompt:
    """Return one prompt, checked: a text, content blocks or a user frame as a dict. Raise TypeError or OptionsError for anything else."""
    if isinstance(prompt, str):
        encode_prompt(prompt)  # for its checks: they raise at the call, and not in the stream
        return OnePrompt(prompt)
    if isinstance(prompt, (list, tuple)):
        return OnePrompt(checked_blocks(prompt))
    if isinstance(prompt, Mapping):
        frame = parts_of(prompt)
        return frame._replace(content=one_prompt(frame.content).content)
    raise TypeError(f"a prompt must be a str, a list of content blocks or a user frame, not {type(prompt).__name__}")


def parts_of(frame: Mapping[str, Any]) -> OnePrompt:
    """Return the parts of a user frame, with its content as it is; raise TypeError if it is not one."""
    message = frame.get("message")
    if frame.get("type") != "user" or not isinstance(message, Mapping) or "content" not in message:
        raise TypeError('a dict as a prompt is a user frame: {"type": "user", "message": {"content": ...}}')
    fields = {name: value for name, value in frame.items() if name not in {"type", "message", "uuid"}}
    return OnePrompt(message["content"], str(frame["uuid"]) if frame.get("uuid") else None, fields)


def steering_reasons(prompt: object, options: Options) -> list[str]:
    """Return the options and the form of the prompt that need the bidirectional protocol; raise OptionsError if one excludes it."""
    reasons = needs_session(options)
    if is_many(prompt):
        reasons.append("an iterable of prompts")
    elif not isinstance(prompt, str):
        reasons.append("a prompt of content blocks")
    if reasons and options.prompt_channel == "argv":
        raise OptionsError(
            f"a prompt on the command line (`prompt_channel='argv'`) excludes what needs the bidirectional protocol: "
            f"{', '.join(reasons)}",
            field="prompt_channel",
        )
    return reasons


class Feeder:
    """Reads an iterable of prompts, in a job like that of a callback, but with no answer to write.

    `send` takes a prompt, in the task or thread of the reader, and must not wait or raise. `done` takes what went wrong, if anything did,
    where the core of the session may be touched.
    """

    __slots__ = ("_count", "_done", "_room", "_send", "_source", "job")

    def __init__(
        self, source: object, send: Callable[[OnePrompt], None], done: Callable[[PromptIterableError | None], None]
    ) -> None:
        self._source: Any = source
        self._send = send
        self._done = done
        self._count = 0
        self._room = Room(MOST_OPEN)
        asynchronous = hasattr(source, "__aiter__")
        self.job: Job = Job(
            CallbackCall("", "prompts"),
            Callee("the iterable of prompts", is_async=asynchronous),
            JobState(),
            self._read_async if asynchronous else self._read,
            ended=self._was_read,
        )

    def answered(self) -> None:
        """Let the reader ask for another prompt: one is over."""
        self._room.leave()

    def _given_up(self) -> bool:
        return self.job.state.cancelled

    def _give(self, prompt: object) -> None:
        self._send(one_prompt(prompt))
        self._count += 1

    def _read(self) -> None:
        iterator = iter(self._source)
        try:
            for prompt in iterator:
                if self._given_up() or not self._room.enter(self._given_up):  # a query that was left awaits no answer
                    return
                self._give(prompt)
        finally:
            close = getattr(iterator, "close", None)  # an abandoned generator runs its `finally` now
            if close is not None:
                close()

    async def _read_async(self) -> None:
        iterator = aiter(self._source)
        try:
            async for prompt in iterator:
                if not await self._room.enter_async(self._given_up):
                    return
                self._give(prompt)
        finally:
            close = getattr(iterator, "aclose", None)  # no garbage collection can await it
            if close is not None:
                await close()

    def _was_read(self, _: object, error: BaseException | None) -> None:
        problem: PromptIterableError | None = None
        if error is not None:
            text = text_of(error)
            kind = "" if isinstance(error, HackamoreError) else f"{type(error).__name__}: "
            problem = PromptIterableError(self._count, escape_terminal(f"{kind}{text}", 500))
            problem.__cause__ = error
        elif not self._count:
            problem = PromptIterableError(0, "it gave none")
        self._done(problem)
