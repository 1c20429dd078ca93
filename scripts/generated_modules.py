"""What the programs that write modules of Hackamore share: format a module, and write it or compare it with its file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "src" / "hackamore"


def main(modules: dict[Path, str]) -> int:
    """Write modules; with `--check` only compare them, and return 1 if one is not current."""
    status = 0
    for path, text in modules.items():
        wanted = _formatted(text, path)
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{path.relative_to(PROJECT)} is not current: run `./dev format`\n")
            status = 1
        else:
            path.write_text(wanted, encoding="utf-8")
    return status


def _formatted(text: str, path: Path) -> str:
    """Return a module as `./dev format` leaves it."""
    for command in (["check", "--quiet", "--fix-only", "--select", "I,F401"], ["format", "--quiet"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(call, input=text, cwd=PROJECT, check=True, capture_output=True, encoding="utf-8").stdout
    return text
