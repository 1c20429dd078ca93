"""Bring the tree and the tables of `docs/reference/errors.md` up to date with the classes (`--write`), or fail if they are not."""

from __future__ import annotations

import inspect
import re
import sys
from typing import get_args

import generated_parts

import hackamore.checked.schemas  # the classes have to be there to be found
import hackamore.testing.errors  # noqa: F401
from hackamore.errors import Diagnostic, HackamoreError, WarningCode

WARNINGS = {
    "EMPTY_RESPONSE": "The CLI exited with code 0 and printed nothing.",
    "CLEAN_EXIT_NO_RESULT": "The CLI exited with code 0 before a result: the answer is incomplete.",
    "INCOMPLETE_LAST_LINE": "The output ended within a line.",
    "NONZERO_EXIT_AFTER_RESULT": "The CLI failed after a successful result. `strict_exit_status=True` makes this an error.",
    "UNEXPECTED_DATA_AFTER_RESULT": "Data other than messages followed the result.",
    "CLI_DID_NOT_EXIT": "The CLI did not exit after its result, so Hackamore stopped it and its background tasks.",
    "OVERSIZED_LINE_SKIPPED": "Hackamore skipped a long line (queries with `on_oversize='skip'`; sessions).",
    "FIELD_DROPPED": "A field had a wrong shape, so the message omits it; see `context['field']`.",
    "UNPARSABLE_CLI_VERSION": "`claude --version` printed no version (`version_check='permissive'`).",
    "VERSION_DETECTION_FAILED": "`claude --version` failed or timed out (`version_check='permissive'`).",
    "OPTION_CONFLICT": "Two options conflict (`context` names the winner), or a key is unknown.",
    "UNKNOWN_HOOK_EVENT": "`hooks` has an unknown event, probably misspelt.",
    "TOOL_WITHOUT_DESCRIPTION": "A tool has no docstring and no `description=` for the model.",
    "DEPRECATED_OPTION": "An option has a newer form.",
    "PERMISSION_CALLBACK_SHADOWED": "The options allow all calls, so `can_use_tool` is never called.",
    "INIT_UNCONFIRMED": "The CLI did not confirm the start of a session.",
    "CALLBACK_FAILED": "A callback raised.",
    "CALLBACK_TIMED_OUT": "A callback exceeded its timeout.",
    "CALLBACK_QUEUE_FULL": "Too many callbacks waited.",
    "SLOW_CONSUMER": "Half of `Limits.buffered_bytes` is unread.",
    "STORE_FAILED": "The session store did not take entries of a transcript.",
    "STORE_SLOW": "`Limits.mirrored_bytes` wait for the session store: no output is read meanwhile.",
    "POOL_TOO_SMALL": "Half of the last callers of a pool waited for a place; once.",
    "NOT_RESUMED": "A conversation of a pool begins again, empty: the CLI found no transcript of its session.",
    "BUDGET_LOW": "The part `warn_at` of a limit of the budget is spent; once for each limit.",
    "BUDGET_SPENT": "A limit of the budget is reached by work that no prompt started; that work was interrupted.",
    "SESSION_IN_USE": "A conversation was renamed on the disk while a process works on it.",
    "STORE_INCOMPLETE": "The copy in the session store lacks entries that this host has.",
    "RETRYING": "`run` tries again after a failure (`retry=`); `context` has the attempt, the delay and the error.",
}
BEFORE_START = frozenset(
    {
        "UNPARSABLE_CLI_VERSION",
        "VERSION_DETECTION_FAILED",
        "OPTION_CONFLICT",
        "UNKNOWN_HOOK_EVENT",
        "TOOL_WITHOUT_DESCRIPTION",
        "DEPRECATED_OPTION",
        "PERMISSION_CALLBACK_SHADOWED",
        "SESSION_IN_USE",
    }
)
LATER = frozenset(
    {
        "INIT_UNCONFIRMED",
        "CALLBACK_FAILED",
        "CALLBACK_TIMED_OUT",
        "CALLBACK_QUEUE_FULL",
        "SLOW_CONSUMER",
        "STORE_FAILED",
        "STORE_SLOW",
    }
)


def children(kind: type[HackamoreError]) -> list[type[HackamoreError]]:
    """Return the classes directly below, in the order in which they are written."""
    return [child for child in kind.__subclasses__() if child.__module__.partition(".")[0] == "hackamore"]


def others(kind: type) -> str:
    """Return the names of the classes that it is besides a Hackamore error."""
    return ", ".join(base.__name__ for base in kind.__bases__ if not issubclass(base, HackamoreError))


def tree(kind: type[HackamoreError] = HackamoreError, depth: int = 0) -> list[str]:
    """Return the class and all below it, one line each."""
    also = others(kind) if kind is not HackamoreError else ""
    lines = ["    " * depth + kind.__name__ + (f" ({also})" if also else "")]
    for child in children(kind):
        lines += tree(child, depth + 1)
    return lines


def below(kind: type[HackamoreError]) -> list[type[HackamoreError]]:
    """Return the class and all below it."""
    return [kind, *(descendant for child in children(kind) for descendant in below(child))]


def attributes(kind: type) -> dict[str, str]:
    """Return the attributes that the docstring names, and what they are."""
    _, _, text = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    return {name: " ".join(meaning.split()).rstrip(".") for name, meaning in entries}


def error_rows() -> list[str]:
    """Return one row for each error."""
    rows = ["| error | meaning | retryable | attributes |", "|---|---|---|---|"]
    for kind in below(HackamoreError):
        named = attributes(kind)
        holds = "<br/>".join(f"`{name}`: {meaning}" for name, meaning in named.items())
        again = "depends" if "retryable" in named else "yes" if kind.retryable else "no"
        rows.append(f"| `{kind.__name__}` | {(kind.__doc__ or '').partition(chr(10))[0]} | {again} | {holds} |")
    return rows


def diagnostic_rows() -> list[str]:
    """Return one row for each field of `Diagnostic`."""
    rows = ["| field | meaning |", "|---|---|"]
    return rows + [f"| `{name}` | {meaning} |" for name, meaning in attributes(Diagnostic).items()]


def warning_rows() -> list[str]:
    """Return one row for each code of a warning that this version can give."""
    rows = ["| code | meaning | delivery |", "|---|---|---|"]
    for code in get_args(WarningCode):
        if code not in LATER:
            how = "`warnings.warn`, before the start" if code in BEFORE_START else "in the stream"
            rows.append(f"| `{code}` | {WARNINGS[code]} | {how} |")
    return rows


if __name__ == "__main__":
    parts = {
        "tree": ["```text", *tree(), "```"],
        "errors": error_rows(),
        "diagnostic": diagnostic_rows(),
        "warnings": warning_rows(),
    }
    sys.exit(generated_parts.main("reference/errors.md", parts))
