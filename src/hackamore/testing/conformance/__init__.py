"""Conformance: checks of the behaviour that any transport and any CLI version must have, run on yours.

- `check_transport(source)`: for authors of transports, the rules of `hackamore.transports.base`.
- `check_cli(path)`: for a version of the Claude Code CLI, what Hackamore relies on; also `hackamore conformance`.
- `check_session_store(factory)`: for authors of session stores.

All return a `Report`; `report.raise_for_failures()` makes a test of it.
"""

from __future__ import annotations

from hackamore.testing.conformance.cli import check_cli
from hackamore.testing.conformance.report import Finding, Report, Status
from hackamore.testing.conformance.rules import TRANSPORT_CHECKS
from hackamore.testing.conformance.store import STORE_CHECKS, check_session_store
from hackamore.testing.conformance.transport import check_transport

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
