"""Results of a conformance check: one `Finding` for each behaviour, together a `Report`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Status: TypeAlias = Literal["holds", "fails", "skipped"]
_DETAIL_CHARACTERS = 1_500


class Failed(Exception):  # noqa: N818 - it ends a check, and reaches nobody
    """A behaviour does not hold; the text says what was seen instead."""


class Skipped(Exception):  # noqa: N818 - it ends a check, and reaches nobody
    """A behaviour could not be looked at; the text says why."""


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        group: the group of the check.
        check: its name, stable between versions.
        behaviour: the expected behaviour, in one line.
        status: `holds`, `fails` or `skipped`.
        detail: the observation, where it matters.
        required: True if nothing works without it.
        where: the shell it was run in, if it was run in several.
        seconds: how long it took.
    """

    group: str
    check: str
    behaviour: str
    status: Status
    detail: str = ""
    required: bool = True
    where: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        # A text of the peer, written to terminals and files.
        object.__setattr__(self, "detail", escape_terminal(self.detail, _DETAIL_CHARACTERS))

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        required = "" if self.required or self.status == "holds" else " [not required]"
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.status:<7} {self.group}: {self.behaviour}{where}{required}{detail}"


@dataclass
class Report:
    """All findings of a run.

    Attributes:
        subject: the CLI or transport that was checked.
        findings: in the order in which they were made.
    """

    subject: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def failures(self) -> list[Finding]:
        """The required behaviour that does not hold."""
        return [finding for finding in self.findings if finding.status == "fails" and finding.required]

    @property
    def ok(self) -> bool:
        """True if everything that is required holds, and something was looked at."""
        return not self.failures and any(finding.status == "holds" for finding in self.findings)

    def of(self, status: Status) -> list[Finding]:
        """Return the findings with this status."""
        return [finding for finding in self.findings if finding.status == status]

    def raise_for_failures(self) -> None:
        """Do nothing if everything that is required holds.

        Raises:
            AssertionError: something does not; the text says what.
        """
        if not self.ok:
            raise AssertionError(
                f"{self.subject} does not conform:\n"
                + "\n".join(f"  {finding}" for finding in self.failures or self.findings)
            )

    def summary(self) -> str:
        """Return the counts in a line."""
        count = Counter(finding.status for finding in self.findings)
        required = len(self.failures)
        parts = [f"{count['holds']} hold", f"{count['fails']} fail ({required} of them required)"]
        return ", ".join([*parts, f"{count['skipped']} skipped"])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "summary": self.summary(),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        return "\n".join([self.subject, *(f"  {finding}" for finding in self.findings), self.summary()])


def outcome(run: Callable[[], object], other: Callable[[Exception], str]) -> tuple[Status, str]:
    """Run a check; return its status and the observation. Any error that an odd peer causes is a failure, in the words of `other`."""
    try:
        return "holds", str(run() or "")
    except Skipped as reason:
        return "skipped", str(reason)
    except Failed as failure:
        return "fails", str(failure)
    except Exception as error:
        return "fails", other(error)


def expect(condition: object, seen: str) -> None:
    """Raise `Failed` with what was seen unless the condition holds."""
    if not condition:
        raise Failed(seen)


def one_line(texts: Iterable[str], most: int = 12) -> str:
    """Return names as a sentence's part: the first ones, and how many more there are."""
    names = list(texts)
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
