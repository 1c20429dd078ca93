"""The page about messages is current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]


def test_the_tables_are_current() -> None:
    subprocess.run([sys.executable, str(PROJECT / "scripts" / "messages_page.py")], check=True, timeout=patience(30))
