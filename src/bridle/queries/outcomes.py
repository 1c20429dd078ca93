"""What a finished query is handed over as: `CollectResult` for those who want everything, `RunResult` for those who want the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bridle.checked.schemas import decode_output
from bridle.errors import BridleError, Diagnostic, ProcessError, StreamWarning
from bridle.messages import AssistantMessage, ResultError, TextBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridle.errors import DecodeError
    from bridle.messages import Message, ResultMessage

__all__ = ["CollectResult", "RunResult", "conclude"]

T = TypeVar("T")


class CollectResult:
    """Everything a stream gave, and how it ended.

    Attributes:
        messages: the messages, in order.
        warnings: what was degraded.
        errors: lines that were no JSON objects.
        terminal_error: what ended the stream, or None if it ended well.
    """

    __slots__ = ("errors", "messages", "terminal_error", "warnings")

    def __init__(
        self,
        messages: Sequence[Message] = (),
        warnings: Sequence[StreamWarning] = (),
        errors: Sequence[DecodeError] = (),
        terminal_error: BridleError | None = None,
    ) -> None:
        self.messages = list(messages)
        self.warnings = list(warnings)
        self.errors = list(errors)
        self.terminal_error = terminal_error

    @property
    def results(self) -> list[ResultMessage]:
        """All results: more than one if background work started further turns."""
        from bridle.messages import ResultMessage

        return [message for message in self.messages if isinstance(message, ResultMessage)]

    @property
    def result(self) -> ResultMessage | None:
        """The last result, or None if there is none."""
        results = self.results
        return results[-1] if results else None

    def __repr__(self) -> str:
        return (
            f"CollectResult({len(self.messages)} messages, {len(self.warnings)} warnings, {len(self.errors)} errors, "
            f"terminal_error={self.terminal_error!r})"
        )


class RunResult(Generic[T]):
    """The answer to one prompt.

    Attributes:
        text: the final text of the answer.
        output: the typed object, if `output_type` was given; else the decoded structured output, if there is one; else None.
        messages: all messages, in order.
        result: the last `ResultMessage`; None only with `check=False`.
        warnings: what was degraded.
        errors: lines that were no JSON objects.
    """

    __slots__ = ("errors", "messages", "output", "result", "text", "warnings")

    def __init__(
        self,
        *,
        text: str,
        output: T,
        messages: Sequence[Message],
        result: ResultMessage | None,
        warnings: Sequence[StreamWarning] = (),
        errors: Sequence[DecodeError] = (),
    ) -> None:
        self.text = text
        self.output = output
        self.messages = list(messages)
        self.result = result
        self.warnings = list(warnings)
        self.errors = list(errors)

    @property
    def session_id(self) -> str | None:
        """The session, for `Options(resume=...)`."""
        if self.result is not None and self.result.session_id:
            return self.result.session_id
        return next((found for message in self.messages if (found := getattr(message, "session_id", None))), None)

    @property
    def cost(self) -> float | None:
        """The CLI's estimate of the cost in US dollars; after `resume` that of the whole conversation so far (2.1.328)."""
        return self.result.total_cost_usd if self.result is not None else None

    @property
    def usage(self) -> Any:
        """Token counts of the main loop, as the result reports them."""
        return self.result.usage if self.result is not None else None

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return f"RunResult(text={text!r}, output={self.output!r}, session_id={self.session_id!r}, cost={self.cost!r})"


def conclude(collected: CollectResult, output_type: Any, *, check: bool) -> RunResult[Any]:
    """Turn a finished stream into its answer.

    Raises:
        BridleError: the stream's terminal error; `ResultError` for an error result (with `check`); `ProcessError` if there is no
            result at all (with `check`); `OutputError` if the structured output does not fit `output_type`.
    """
    if collected.terminal_error is not None:
        raise collected.terminal_error
    result = collected.result
    if check:
        if result is None:
            raise ProcessError(
                0,
                Diagnostic(
                    exit_code_hint="It ended as if all were well, but no result came.",
                    troubleshooting=[str(warning) for warning in collected.warnings],
                    stdout_was_empty=not collected.messages and not collected.errors,
                ),
            )
        if result.is_error:
            raise ResultError(result)
    output: Any = None
    if result is not None and (not result.is_error or output_type is None):
        output = decode_output(result, output_type)
    text = (result.result if result is not None else None) or _last_text(collected.messages)
    return RunResult(
        text=text,
        output=output,
        messages=collected.messages,
        result=result,
        warnings=collected.warnings,
        errors=collected.errors,
    )


def _last_text(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and message.parent_tool_use_id is None:
            text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
            if text:
                return text
    return ""
