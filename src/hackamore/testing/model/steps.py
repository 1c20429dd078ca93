"""The steps of a scripted model: what it answers, as values.

A step answers one request. `Reply` is an answer; `HTTPFailure`, `Dropped` and `Stall` are the ways in which an API
disappoints; `Repeat` answers every further request of its script. A plain string is a `Reply`; a function that takes
the request and returns a step is a step. This module is pure: it turns steps into the events of the Messages API, and
sends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.testing.model.requests import ModelRequest

# The names of API errors by status; what the CLI shows is built from them.
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A block of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A block of thinking, with the signature that the API would put under it."""

    thinking: str
    signature: str = "c2NyaXB0ZWQ="


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, which the CLI will really run.

    Args:
        name: the tool's name as the CLI offers it to the model, for example `Bash`.
        input: its arguments.
        id: the call's id; by default one that is unique in the script.
    """

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


Block: TypeAlias = "Text | Thinking | ToolCall | Mapping[str, Any] | str"
"""A content block: one of the classes, a string (text), or a dict in the API's own form that is sent as it is."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of an answer; the CLI adds them up and computes cost from them."""

    input_tokens: int = 10
    output_tokens: int = 5
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


@dataclass(frozen=True, repr=False)
class _Expecting:
    """Expectations of a step about the request that it answers.

    Args:
        expect: a function that gets the request; false, or an `AssertionError`, refuses the request and fails the test.
        expect_text: text that must occur in the newest content of the request: the prompt or the tool results.
    """

    _: KW_ONLY
    expect: Callable[[ModelRequest], object] | None = field(default=None, compare=False)
    expect_text: str | None = None

    def __repr__(self) -> str:
        # Reports show steps, so only what differs from the defaults is named.
        parts: list[str] = []
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name == "content":
                parts[:0] = map(repr, value)
            elif value != (spec.default if spec.default_factory is MISSING else spec.default_factory()):
                parts.append(f"{spec.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, init=False, repr=False)
class Reply(_Expecting):
    """An answer of the model: text, thinking and tool calls in this order, streamed as the API streams them.

    Args:
        content: blocks; a plain string is text. None at all is an answer without content.
        chunk: characters in each streamed delta; None sends each block in one delta.
        delay: seconds between two events of the stream.
        usage: token counts; a dict in the API's form is merged over the defaults.
        stop_reason: by default `tool_use` if there is a tool call, else `end_turn`.
        model: the model that the answer claims to be from; by default the requested one.
        headers: further HTTP headers, for example rate-limit ones.
        expect: called with the request before the answer; raises if the request is wrong. None accepts any.
        expect_text: a text that the request must contain; None accepts any.

    Raises:
        TypeError: a block has an unsupported type.
        ValueError: `chunk` is below 1, or `delay` is negative.
    """

    content: tuple[Block, ...] = ()
    chunk: int | None = None
    delay: float = 0.0
    usage: Usage | Mapping[str, Any] = field(default_factory=Usage)
    stop_reason: str | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __init__(
        self,
        *content: Block,
        chunk: int | None = None,
        delay: float = 0.0,
        usage: Usage | Mapping[str, Any] | None = None,
        stop_reason: str | None = None,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        expect: Callable[[ModelRequest], object] | None = None,
        expect_text: str | None = None,
    ) -> None:
        for block in content:
            if not isinstance(block, Text | Thinking | ToolCall | Mapping | str):
                raise TypeError(
                    f"A reply is made of text, Text, Thinking, ToolCall and dicts, not of {type(block).__name__}"
                )
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}")
        if delay < 0:
            raise ValueError(f"delay must not be negative, not {delay}")
        values = {
            "content": content,
            "chunk": chunk,
            "delay": delay,
            "usage": Usage() if usage is None else usage,
            "stop_reason": stop_reason,
            "model": model,
            "headers": {} if headers is None else headers,
            "expect": expect,
            "expect_text": expect_text,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, repr=False)
class HTTPFailure(_Expecting):
    """An error answer of the API. The CLI tries again after most of them, and each try takes the next step.

    Seen with CLI 2.1.328: 401, 429, 500 and 529 are tried again up to ten times, with growing pauses unless
    `retry_after` says otherwise (`CLAUDE_CODE_MAX_RETRIES` bounds it); 400 and 422 are tried six times immediately, with
    fewer features each; 402, 403 and 413 are final. `Repeat(HTTPFailure(500))` is an API that is down.

    Args:
        status: the HTTP status.
        retry_after: seconds for the `retry-after` header.
        retry: the value of `x-should-retry`; False makes the CLI stop immediately, None sends none.
        message: the error's text.
        error_type: the API's name for the error; by default the one that belongs to the status.
        headers: further HTTP headers.
        body: the whole body instead, for answers that are not an API error (a proxy's HTML page, say).
    """

    status: int = 500
    retry_after: float | None = field(default=None, kw_only=True)
    retry: bool | None = field(default=None, kw_only=True)
    message: str | None = field(default=None, kw_only=True)
    error_type: str | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    body: bytes | None = field(default=None, kw_only=True)

    def all_headers(self) -> dict[str, str]:
        """Return the headers to send, those for `retry_after` and `retry` included.

        Returns:
            The headers, by name.
        """
        headers = dict(self.headers)
        if self.retry is not None:
            headers["x-should-retry"] = "true" if self.retry else "false"
        if self.retry_after is not None:
            headers["retry-after"] = f"{self.retry_after:g}"
        return headers

    def payload(self) -> bytes:
        """Return the body to send.

        Returns:
            The bytes.
        """
        if self.body is not None:
            return self.body
        kind = self.error_type or ERROR_TYPES.get(self.status, "api_error")
        message = self.message or f"Scripted failure with status {self.status}"
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


@dataclass(frozen=True, repr=False)
class Dropped(_Expecting):
    """The connection breaks: before the first byte of an answer, or in the middle of one.

    Args:
        after_events: how many events of `reply` get through; 0 breaks before the status line.
        reply: the answer that is cut off.
    """

    after_events: int = 0
    reply: Reply = field(default_factory=lambda: Reply("This answer is cut off."), kw_only=True)


class Stall:
    """The model is silent, for some seconds or until it is released, and then answers (or breaks the connection).

    The test's side: `wait_started()` returns when the CLI waits, `release()` lets the answer go. A stall ends by itself
    when the CLI hangs up or the script is closed.

    Args:
        seconds: how long; None waits for `release()`.
        then: the step that follows; None breaks the connection.
        after_events: how many events of `then` (a `Reply`) are sent before the silence.
        expect: as for every step.
        expect_text: as for every step.

    Raises:
        ValueError: a number is negative.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        then: Reply | HTTPFailure | str | None = None,
        after_events: int = 0,
        expect: Callable[[ModelRequest], object] | None = None,
        expect_text: str | None = None,
    ) -> None:
        if after_events and not isinstance(then, Reply | str):
            raise ValueError("after_events needs a Reply in `then`: its events are what is sent before the silence")
        self.seconds = seconds
        self.then: Reply | HTTPFailure | None = Reply(then) if isinstance(then, str) else then
        self.after_events = after_events
        self.expect = expect
        self.expect_text = expect_text
        self.started: Event = Event()
        self.released: Event = Event()

    def release(self) -> None:
        """End the silence, now or as soon as it starts."""
        self.released.set()

    def wait_started(self, timeout: float = 30.0) -> None:
        """Wait until the CLI has reached this step.

        Args:
            timeout: seconds to wait; default 30.

        Raises:
            TimeoutError: the CLI did not reach the step in time.
        """
        if not self.started.wait(timeout):
            raise TimeoutError(f"The CLI did not get to {self!r} within {timeout:g} s")

    def __repr__(self) -> str:
        values = {"seconds": self.seconds, "then": self.then, "after_events": self.after_events or None}
        parts = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(parts)})"


class UntilInterrupted(Stall):
    """The model is silent until the CLI gives the request up, which it has to do before the script is checked.

    Attributes:
        after_tool: True if an interrupt of the tool before it fulfills it as well.
    """

    def __init__(
        self,
        then: Reply | None = None,
        *,
        after_events: int = 0,
        expect: Callable[[ModelRequest], object] | None = None,
        after_tool: bool = False,
    ) -> None:
        super().__init__(None, then=then, after_events=after_events, expect=expect)
        self.given_up: Event = Event()
        self.after_tool: bool = after_tool


class Repeat:
    """The same step for every further request of its script, none included. It must be the last one.

    Args:
        step: the step; not a `Repeat` or a `Stall`.

    Raises:
        TypeError: the step cannot be used again.
    """

    def __init__(self, step: Step) -> None:
        if isinstance(step, Repeat | Stall):
            raise TypeError(f"Repeat takes a step that can be used again, not a {type(step).__name__}")
        self.step = step

    def __repr__(self) -> str:
        return f"Repeat({self.step!r})"


class OneByOne(list[Any]):
    """Scripts of subagents with the same prompt: each one that starts takes the next of them."""


Step: TypeAlias = "Reply | HTTPFailure | Dropped | Stall | Repeat | str | Callable[[ModelRequest], Any]"
"""A step of a script."""

PlainStep: TypeAlias = Reply | HTTPFailure | Dropped | Stall
"""A step as the server carries it out: strings wrapped, functions called."""


def plain(step: object) -> PlainStep:
    """Return a step ready to be carried out; raise TypeError for a value that cannot answer a request."""
    if isinstance(step, str):
        return Reply(step)
    if isinstance(step, Reply | HTTPFailure | Dropped | Stall):
        return step
    raise TypeError(
        f"A step is a Reply, HTTPFailure, Dropped, Stall, Repeat, string or function, not {type(step).__name__}"
    )


def check_script(name: str, steps: Sequence[Any]) -> tuple[Any, ...]:
    """Return the steps of a script as a tuple, refused early where they could only fail later.

    Raises:
        TypeError: an entry is not a step.
        ValueError: a `Repeat` is not the last step.
    """
    checked = tuple(steps)
    for position, step in enumerate(checked):
        if isinstance(step, Repeat) and position != len(checked) - 1:
            raise ValueError(f"{name}: a Repeat answers everything that follows, so it must be the last step")
        if not isinstance(step, Repeat) and not callable(step):
            plain(step)
    return checked
