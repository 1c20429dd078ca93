"""The audit file of a policy, checked: a line of JSON for each decision, with the hash of the line before."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from hackamore.errors import PolicyError
from hackamore.storage.chain import FIRST, split_line

if TYPE_CHECKING:
    import os

__all__ = ["AuditReport", "verify"]


class AuditReport(msgspec.Struct, frozen=True):
    """The result of `verify`."""

    decisions: int
    """The whole lines."""
    problems: tuple[tuple[int, str], ...]
    """The number of each line that is not as it was written, and the reason; empty for an intact file."""
    incomplete: tuple[int, ...]
    """Lines that end early: a program was killed, or the disk was full, while it wrote."""
    last: str
    """The hash of the last line. Keep it elsewhere: only with it lines that are missing at the end are found."""


def verify(path: str | os.PathLike[str], *, contains: str | None = None) -> AuditReport:
    """Check an audit file of `Options(policy_audit=...)`.

    A changed, removed, added or moved line is found. Lines that are missing at the end are found with `contains` only, and a file
    that was written again as a whole is an intact one: keep the hash of the last line where others cannot write.

    Args:
        path: the file.
        contains: a hash that `AuditReport.last` had earlier; None to look at the file alone.

    Returns:
        The decisions, the problems, and the hash of the last line.

    Raises:
        PolicyError: the file cannot be read.
    """
    problems, incomplete, decisions = [], [], 0
    last, found, number = FIRST, contains in (None, FIRST), 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                split = split_line(line.rstrip(b"\n"))
                if split is None:
                    incomplete.append(number)
                    continue
                body, own = split
                decisions += 1
                if hashlib.sha256(body).hexdigest() != own:
                    problems.append((number, "The line was changed: its hash is another one."))
                elif not body.startswith(b'{"prev":"' + last.encode() + b'"'):
                    problems.append((number, "A line before this one was removed, added or moved."))
                last, found = own, found or own == contains
    except OSError as error:
        raise PolicyError(f"The audit file cannot be read: {error.strerror or error}.", file=str(path)) from None
    if not found:
        problems.append((number, f"The line with the hash {contains} is missing: lines were removed."))
    return AuditReport(decisions, tuple(problems), tuple(incomplete), last)
