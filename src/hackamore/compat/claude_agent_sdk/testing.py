"""`run_session_store_conformance`: the checks of `hackamore.testing.check_session_store` under the name of the official package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio.to_thread
import sniffio

import hackamore

_OPTIONAL = frozenset({"delete", "list_session_summaries", "list_sessions", "list_subkeys"})


async def run_session_store_conformance(
    make_store: Callable[[], Any | Awaitable[Any]], *, skip_optional: frozenset[str] = frozenset()
) -> None:
    """Check a store, which `make_store` returns empty for each check; raise AssertionError if one does not hold."""
    check = hackamore.testing.check_session_store
    checks = hackamore.testing.conformance.STORE_CHECKS
    if unknown := skip_optional - _OPTIONAL:
        raise AssertionError(f"unknown optional methods in skip_optional: {unknown}")
    only = [each.name for each in checks if each.needs not in skip_optional]
    backend = sniffio.current_async_library()  # the checks have an event loop of their own
    report = await anyio.to_thread.run_sync(lambda: check(make_store, only=only, backend=backend))
    report.raise_for_failures()
