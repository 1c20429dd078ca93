"""Conformance: checks of the behaviour that any transport and any CLI version must have, run on yours.

- `check_transport(source)`: for authors of transports, the rules of `bridle.transports.base`.
- `check_cli(path)`: for a version of the Claude Code CLI, what Bridle relies on; also `bridle conformance`.
- `check_session_store(factory)`: for authors of session stores.

All return a `Report`; `report.raise_for_failures()` makes a test of it.
"""

from __future__ import annotations

from bridle.testing.conformance.cli import check_cli
from bridle.testing.conformance.report import Finding, Report, Status
from bridle.testing.conformance.rules import TRANSPORT_CHECKS
from bridle.testing.conformance.store import STORE_CHECKS, check_session_store
from bridle.testing.conformance.transport import check_transport

__all__ = [
    "STORE_CHECKS",
    "TRANSPORT_CHECKS",
    "Finding",
    "Report",
    "Status",
    "check_cli",
    "check_session_store",
    "check_transport",
]
