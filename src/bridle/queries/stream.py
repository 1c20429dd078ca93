"""The part of a query stream that both shells share: checks of the arguments, and the record of warnings and errors. It never waits."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from bridle.errors import ConcurrentUseError, DecodeError
from bridle.launch import needs_session
from bridle.launch.plan import encode_prompt
from bridle.options.options import Options
from bridle.waiting.room import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.errors import BridleError, StreamWarning
    from bridle.messages import ResultMessage
    from bridle.queries.ending import QueryCore

__all__ = ["StreamBase", "is_steered", "warn_before_start", "with_output_type"]

logger = logging.getLogger("bridle")


def is_steered(prompt: object, options: Options) -> bool:
    """Return whether a query needs the bidirectional launch. The prompt is checked.

    Raises:
        TypeError: the prompt has an unsupported type.
        OptionsError: it is empty or cannot be sent, or an option excludes the launch that it needs.
    """
    if isinstance(prompt, str) and not needs_session(options):
        encode_prompt(prompt)
        return False
    from bridle.queries.prompts import is_many, one_prompt, steering_reasons

    logger.debug("this query uses the bidirectional protocol: %s", ", ".join(steering_reasons(prompt, options)))
    if not is_many(prompt):
        one_prompt(prompt)
    return True


def with_output_type(options: Options | None, output_type: Any) -> Options:
    """Return the options with the JSON schema of `output_type` in them.

    Raises:
        OptionsError: no schema can be made of it, or `output_format` is set as well.
    """
    from bridle.checked.schemas import schema_for
    from bridle.errors import OptionsError

    options = options if options is not None else Options()
    if output_type is None:
        return options
    if options.output_format is not None:
        raise OptionsError(
            "`output_type` and the option `output_format` exclude each other: give one", field="output_format"
        )
    return options.replace(output_format={"type": "json_schema", "schema": schema_for(output_type)})


class StreamBase:
    """The part of a query stream that knows no event loop.

    Attributes:
        options: the options of the query.
        warnings: the warnings so far.
        errors: the lines so far that were not JSON objects.
    """

    _core: QueryCore

    def __init__(self, options: Options | None) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a bridle.Options, not {type(options).__name__}")
        self.options = options if options is not None else Options()
        self.warnings: list[StreamWarning] = []
        self.errors: list[DecodeError] = []
        self._mark = Mark()
        self._error_given = False
        self._ended = False
        self._closing = False

    @property
    def session_id(self) -> str | None:
        """The session id, from the first message that names it, for `Options(resume=...)`."""
        return self._core.connection.session_id

    @property
    def results(self) -> list[ResultMessage]:
        """The results received so far."""
        return list(self._core.results)

    @property
    def _busy(self) -> bool:
        return self._mark.taken

    def _note(self, item: StreamWarning | DecodeError) -> None:
        """Keep an item that is not a message, and call `on_warning`."""
        logger.warning("%s", item)
        if isinstance(item, DecodeError):
            self.errors.append(item)
        else:
            self.warnings.append(item)
            tell(self.options, item)

    def _reading(self, call: str) -> Mark:
        """Mark the stream as being read for the length of a `with` block.

        Raises:
            ConcurrentUseError: another reader has it.
        """
        if not self._mark.take():
            raise ConcurrentUseError.for_call(call)
        return self._mark

    def _give_end(self) -> BridleError | None:
        """Return the terminal error the first time, then None: an error is raised once."""
        self._ended = True
        self._core.asked_at_the_end()
        if self._error_given or self._closing:
            return None
        self._error_given = True
        return self._core.terminal_error


def tell(options: Options, warning: StreamWarning) -> None:
    """Call `on_warning`; its exceptions are logged."""
    if options.on_warning is not None:
        try:
            options.on_warning(warning)
        except Exception:
            logger.exception("`on_warning` raised; the stream goes on")


def warn_before_start(options: Options, found: Iterable[StreamWarning]) -> None:
    """Issue warnings with `warnings.warn`: nothing runs yet, so a filter that makes errors of them prevents the start."""
    for warning in found:
        tell(options, warning)
        warnings.warn(warning, stacklevel=6)
