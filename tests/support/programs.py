"""Stand-ins as programs: `program(path, module)` writes an executable that runs a module of this folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType


def program(path: Path, module: ModuleType) -> Path:
    """Make `path` run `module`, with nothing but the standard library: it starts in about 20 ms."""
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {os.path.abspath(str(module.__file__))} "$@"\n')
    path.chmod(0o755)
    return path
