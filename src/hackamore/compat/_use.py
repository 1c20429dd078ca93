"""Defaults of the layer for programs that are not changed: those of `hackamore.compat.use`, and of variables."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import hackamore

PREFIX = "HACKAMORE_COMPAT_"


class Used:
    """Settings of every client and query of the layer: fields of `hackamore.Options`, and the transport of those that have none."""

    def __init__(self) -> None:
        self.given: tuple[dict[str, Any], Any] = ({}, None)

    @property
    def options(self) -> dict[str, Any]:
        return {**_read(_set())[0], **self.given[0]}

    @property
    def transport(self) -> Any:
        return self.given[1] or _read(_set())[1]


def _set() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(PREFIX)))


@cache  # the clients of a process share one budget and one script
def _read(variables: tuple[tuple[str, str], ...]) -> tuple[dict[str, Any], Any]:
    """Return the options and the transport of variables; raise OptionsError for a value that is not valid."""
    options: dict[str, Any] = {}
    transport = None
    more: dict[str, Any]
    for variable, text in variables:
        try:
            match variable.removeprefix(PREFIX):
                case "TRACE":
                    more = {"trace": text}
                case "BUDGET_USD":
                    more = {"budget": hackamore.Budget(usd=float(text))}
                case "CLI":
                    more = {"cli_path": text}
                case "OPTIONS":
                    more = json.loads(text)
                    hackamore.Options(**more)
                case "SIMULATE":
                    more, transport = {}, hackamore.testing.SimulatedCLI(hackamore.testing.Script.load(text))
                case _:
                    known = ", ".join(
                        f"{PREFIX}{name}" for name in ("TRACE", "BUDGET_USD", "OPTIONS", "CLI", "SIMULATE")
                    )
                    raise ValueError(f"there is no such variable. Use one of {known}")
        except (ValueError, TypeError, OSError) as error:
            shown = "" if variable.endswith("OPTIONS") else f"={text!r:.200}"  # options may have secrets
            raise hackamore.OptionsError(
                f"The variable {variable}{shown} is not valid: {error}", field=variable
            ) from error
        options = {**more, **options} if variable == f"{PREFIX}OPTIONS" else {**options, **more}
    return options, transport


USED = Used()


def use(*, options: dict[str, Any] | None = None, transport: Any = None, trace: Any = None, budget: Any = None) -> None:
    """Give each client and query of the layer features that its program does not know.

    Variables do the same for a program without a line of code, and lose to this function.

    Args:
        options: fields of `hackamore.Options`; they win over those of the program.
        transport: connection to the CLI for programs that give none, such as a `hackamore.testing.SimulatedCLI`.
        trace: a file that every frame is added to, or a function.
        budget: a `hackamore.Budget`, which all of them share.
    """
    given = {"trace": trace, "budget": budget}
    USED.given = ({**(options or {}), **{name: value for name, value in given.items() if value is not None}}, transport)
