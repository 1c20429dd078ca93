"""On a platform without POSIX the import names the way out."""

from __future__ import annotations

import subprocess
import sys

from tests.support.patience import patience


def test_the_import_on_windows_names_wsl() -> None:
    code = "import os, posixpath; os.name = 'nt'\nimport hackamore"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=patience(30)
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: Hackamore runs on Linux and macOS. On Windows, install and run it inside WSL."
    )
