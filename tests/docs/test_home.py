"""The home page prints what it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.real_cli
@pytest.mark.timeout(120)
def test_the_home_page_shows_the_output_of_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "scripts"))
    import check_docs  # type: ignore[import-not-found,unused-ignore]
    import run_examples  # type: ignore[import-not-found,unused-ignore]

    page = PROJECT / "docs" / "index.md"
    [snippet] = check_docs.snippets(page)
    shown = page.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    printed = run_examples.run_python(["-c", snippet.code], run_examples.steps_in(f"# {snippet.comment}"))
    # Seconds and dollars differ from run to run and from price to price.
    masked = [re.sub(r"\d+\.\d+ s, \$[\d.]+", "TIME, COST", text) for text in (printed, shown)]
    assert masked[0] == masked[1], sys.version
