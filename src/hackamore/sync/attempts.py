# Generated from src/hackamore/aio/attempts.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""The attempts of a query or a prompt, one after the other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hackamore.errors import HackamoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.queries.outcomes import CollectResult, RunResult
    from hackamore._engine.queries.retrying import Attempts
    from hackamore.options.options import Options


def answered(
    attempts: Attempts, output_type: Any, collect: Callable[[Any, Options], Any], pause: Callable[[float], Any]
) -> RunResult[Any]:
    """Make attempts until one has the answer; raise the error of the last one.

    Args:
        collect: makes an attempt with a prompt and options, and returns its `CollectResult`.
    """
    while True:
        collected: CollectResult | None = None
        try:
            collected = collect(attempts.prompt, attempts.options)
            return attempts.conclude(collected, output_type, datetime.now(UTC))
        except HackamoreError as error:
            seconds = attempts.failed(error, collected, datetime.now(UTC))
            if seconds is None:
                raise
        pause(seconds)
