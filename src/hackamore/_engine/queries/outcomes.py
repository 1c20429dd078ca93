"""Outcomes of a finished query: `CollectResult` with everything, `RunResult` with the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hackamore._engine.queries.ending import last_text, partial_of
from hackamore.checked.schemas import decode_output
from hackamore.errors import Diagnostic, HackamoreError, OptionsError, ProcessError, SessionNotFoundError, StreamWarning
from hackamore.messages import AssistantMessage, ResultError, TextBlock, ToolResultBlock, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.errors import DecodeError
    from hackamore.messages import Message, ResultMessage
    from hackamore.options.options import Options

T = TypeVar("T")


class CollectResult:
    """Everything a stream gave, and how it ended.

    Attributes:
        messages: the messages, in order.
        warnings: all warnings.
        errors: lines that were not JSON objects.
        terminal_error: the error that ended the stream; None if it ended well.
    """

    __slots__ = ("errors", "messages", "terminal_error", "warnings")

    def __init__(
        self,
        messages: Sequence[Message] = (),
        warnings: Sequence[StreamWarning] = (),
        errors: Sequence[DecodeError] = (),
        terminal_error: HackamoreError | None = None,
    ) -> None:
        self.messages: list[Message] = list(messages)
        self.warnings: list[StreamWarning] = list(warnings)
        self.errors: list[DecodeError] = list(errors)
        self.terminal_error: HackamoreError | None = terminal_error

    @property
    def results(self) -> list[ResultMessage]:
        """All results: more than one if background work started further turns."""
        from hackamore.messages import ResultMessage

        return [message for message in self.messages if isinstance(message, ResultMessage)]

    @property
    def result(self) -> ResultMessage | None:
        """The last result, or None if there is none."""
        results = self.results
        return results[-1] if results else None

    def run_result(self, output_type: Any = None, *, check: bool = True) -> RunResult[Any]:
        """Make of it what `run` returns.

        Args:
            output_type: the type of the answer's `output`, if the CLI was given its schema; None keeps decoded JSON.
            check: raise for an error result.

        Returns:
            The answer.

        Raises:
            HackamoreError: the stream's terminal error; `ResultError` for an error result (with `check`); `ProcessError` if there is
                no result at all; `OutputError` if the structured output does not fit `output_type`.
        """
        output = None
        try:
            result = _result_of(self, check=check)
            if not result.is_error or output_type is None:  # `check=False`: an error has no answer to read
                output = decode_output(result, output_type, last_refusal(self.messages))
        except HackamoreError as error:
            error.partial = partial_of(self.messages, error.session_id)  # all messages, not only the last ones
            error.session_id = error.partial.session_id
            raise
        return RunResult(
            text=result.result or last_text(self.messages),  # an `error_...` subtype has no `result`
            output=output,
            messages=self.messages,
            result=result,
            warnings=self.warnings,
            errors=self.errors,
        )

    def __repr__(self) -> str:
        return (
            f"CollectResult({len(self.messages)} messages, {len(self.warnings)} warnings, {len(self.errors)} errors, "
            f"terminal_error={self.terminal_error!r})"
        )


class RunResult(Generic[T]):
    """The answer to one prompt.

    Attributes:
        text: the final text of the answer.
        output: the typed object, if `output_type` was given; else the decoded structured output, if there is one; else None. It is None
            also for an error result, which `check=False` returns.
        messages: all messages, in order.
        result: the last `ResultMessage`.
        warnings: all warnings.
        errors: lines that were not JSON objects.
        attempts: the attempts that were made; 1 without retries.
    """

    __slots__ = ("attempts", "errors", "messages", "output", "result", "text", "warnings")

    def __init__(
        self,
        *,
        text: str,
        output: T,
        messages: Sequence[Message],
        result: ResultMessage,
        warnings: Sequence[StreamWarning] = (),
        errors: Sequence[DecodeError] = (),
        attempts: int = 1,
    ) -> None:
        self.attempts: int = attempts
        self.text: str = text
        self.output: T = output
        self.messages: list[Message] = list(messages)
        self.result: ResultMessage = result
        self.warnings: list[StreamWarning] = list(warnings)
        self.errors: list[DecodeError] = list(errors)

    @property
    def session_id(self) -> str | None:
        """The session, for `Options(resume=...)`."""
        return self.result.session_id or next(
            (found for message in self.messages if (found := getattr(message, "session_id", None))), None
        )

    @property
    def cost(self) -> float | None:
        """The CLI's estimate of the cost in US dollars; after `resume` that of the whole conversation so far (2.1.328)."""
        return self.result.total_cost_usd

    @property
    def usage(self) -> Any:
        """Token counts of the main loop, as the result reports them."""
        return self.result.usage

    def __repr__(self) -> str:
        return (
            f"RunResult(text={self.text!r}, output={self.output!r}, session_id={self.session_id!r}, cost={self.cost!r}, "
            f"{len(self.messages)} messages, {len(self.warnings)} warnings, {len(self.errors)} errors)"
        )

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        from hackamore.messages.shown import markdown

        return markdown(self.text)


def require_format(options: Options, output_type: Any) -> None:
    """Raise OptionsError for a typed answer of a session that was started without a schema."""
    if output_type is not None and options.output_format is None:
        name = getattr(output_type, "__name__", "...")
        raise OptionsError(
            "`output_type` needs a session that was started with a schema, because the CLI takes one only at its start. Start it with "
            f"`Options(output_format={name})`.",
            field="output_type",
        )


def _result_of(collected: CollectResult, *, check: bool) -> ResultMessage:
    if collected.terminal_error is not None:  # also with `check=False`, which is about results
        raise collected.terminal_error
    result = collected.result
    if result is None:
        raise ProcessError(
            0,
            Diagnostic(
                exit_code_hint="It ended as if all were well, but no result came.",
                troubleshooting=[str(warning) for warning in collected.warnings],
                stdout_was_empty=not collected.messages and not collected.errors,
            ),
        )
    if check and result.is_error:
        raise SessionNotFoundError.found_in(result.errors) or ResultError.of(result)  # 2.1.327 says it in a result
    return result


def last_refusal(messages: Sequence[Message]) -> str:
    """Return the last error that the CLI reported to the model about its structured output; empty if there is none."""
    from hackamore.activity.tree import answered

    refusal = ""
    for call, result, _ in answered(each for each in messages if isinstance(each, AssistantMessage | UserMessage)):
        # The CLI has the model answer a schema by a call of this tool.
        if call.name == "StructuredOutput" and result.is_error:
            refusal = _text_of(result)
    return refusal


def _text_of(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return " ".join(part.text for part in block.content or () if isinstance(part, TextBlock))
