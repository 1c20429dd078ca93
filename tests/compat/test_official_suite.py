"""The test suite of the official package on the layer, beside the real package: shares by kind of case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SUITE = PROJECT / ".dev" / "official-suite"
OFFICIAL = PROJECT / ".dev" / "official"


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package, which `./dev ci` installs")
def test_the_shares_of_the_official_suite() -> None:
    called = subprocess.run(
        [sys.executable, str(PROJECT / "scripts" / "compat_suite.py")],
        cwd=PROJECT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    print(called.stdout)
    assert called.returncode == 0, called.stdout + called.stderr
