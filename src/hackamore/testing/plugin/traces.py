"""The traces of `--hackamore-trace`: one file for each test, and a page of it, kept or removed at the end of the test."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hackamore.testing.plugin.parts import file_name
from hackamore.traces.page import write_page
from hackamore.traces.reading import read_trace
from hackamore.transports.opening import everywhere

if TYPE_CHECKING:
    from types import TracebackType

    import pytest


class TestTrace:
    """The trace of everything that a test opens; `keep` keeps it even if the test passes."""

    __test__ = False

    def __init__(self, item: pytest.Item, *, keep: bool) -> None:
        config = item.config
        named = config.getoption("hackamore_trace_dir") or config.getini("hackamore_trace_dir") or "hackamore-traces"
        folder = Path(config.rootpath, named)
        folder.mkdir(parents=True, exist_ok=True)
        # Files of the same name may be in several folders.
        mark = hashlib.sha256(str(item.path.parent).encode("utf-8", "surrogateescape")).hexdigest()[:6]
        self.path: Path = folder / f"{file_name(item)}-{mark}.jsonl"
        self.page: Path = self.path.with_suffix(".html")
        self._title = item.nodeid
        self._keep = keep
        self._failed = False
        self._before: str | None = None

    def __enter__(self) -> Self:
        """Trace what is opened from now on."""
        for old in (self.path, self.page):
            with suppress(FileNotFoundError):
                old.unlink()
        self._before, everywhere.path = everywhere.path, str(self.path)
        return self

    def take(self, report: pytest.TestReport) -> None:
        """Name the trace in the report of a phase that failed."""
        if report.failed:
            self._failed = True
            if self.path.exists():
                report.sections.append(("Hackamore trace", f"{self.page}\n{self.path}"))

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """Write the page, or remove the trace of a test that passed."""
        everywhere.path = self._before
        if not self.path.exists():
            return
        if self._failed or self._keep:
            read = read_trace(self.path, title=self._title)
            write_page(self.page, read)
        else:
            self.path.unlink()
