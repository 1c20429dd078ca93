"""The defects of the official package that vanish when a program runs on the layer: the table of the page, as a command prints it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract import shows
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "concepts" / "comparison.md"


@shows("compat.programs.alike")
@pytest.mark.timeout(300)
def test_the_page_says_which_rows_vanish() -> None:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## The same program on hackamore.compat")[2].partition("\n## ")[0]
    )
    rows = dict(re.findall(r"^\| (.+?) \| (yes|no) \|", section, re.MULTILINE))
    command = [sys.executable, str(PROJECT / "bench" / "claims" / "table.py"), "--layer"]
    called = subprocess.run(
        command, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=patience(240)
    )
    assert called.returncode == 0, called.stderr
    assert dict(re.findall(r"^\| (.+) \| (yes|no) \|$", called.stdout, re.MULTILINE)) == rows, called.stdout
    assert list(rows.values()).count("yes") >= 7
