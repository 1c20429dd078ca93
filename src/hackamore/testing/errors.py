"""Errors of tests in which a script and the CLI's requests disagree.

::

    HackamoreError, AssertionError
     |- ScriptError
         |- UnexpectedModelRequestError
         |- UnconsumedStepsError
         |- CassetteError
             |- CassetteMismatchError
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.errors import HackamoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.testing.model.requests import ModelRequest


class ScriptError(HackamoreError, AssertionError):
    """A test's script and what really happened disagree; pytest shows it as a failed assertion."""


class UnexpectedModelRequestError(ScriptError):
    """The CLI sent requests that no step of the script was meant for.

    Args:
        message: the text of the error.

    Attributes:
        requests: the requests that were refused, in order of arrival.
        reasons: why, one for each of them.
    """

    def __init__(self, message: str, requests: Sequence[ModelRequest] = (), reasons: Sequence[str] = ()) -> None:
        self.requests: tuple[ModelRequest, ...] = tuple(requests)
        self.reasons: tuple[str, ...] = tuple(reasons)
        super().__init__(message)


class UnconsumedStepsError(ScriptError):
    """The CLI asked for less than the script had to give.

    Args:
        message: the text of the error.

    Attributes:
        steps: the steps that were left, one description for each.
    """

    def __init__(self, message: str, steps: Sequence[str] = ()) -> None:
        self.steps: tuple[str, ...] = tuple(steps)
        super().__init__(message)


class CassetteError(ScriptError):
    """A cassette cannot be recorded, or cannot be replayed: it is absent, damaged, or was interrupted."""


class CassetteMismatchError(CassetteError):
    """A replayed session did something else than the recorded one did; the message shows both.

    Args:
        message: the text of the error.

    Attributes:
        session: which session of the cassette, counted from 0.
        differences: where they differ, one description for each place.
    """

    def __init__(self, message: str, session: int | None = None, differences: Sequence[str] = ()) -> None:
        self.session = session
        self.differences: tuple[str, ...] = tuple(differences)
        super().__init__(message)
