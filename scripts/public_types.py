"""Check with pyright that every public name of Hackamore has a complete type: `pyright --verifytypes hackamore` has to report 100 %.

Pyright is started in an empty folder, so that it reads the installed package and not the files of the folder it is started in. Its
package on PyPI brings Node along (`pyright[nodejs]`), so nothing else is needed.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def pyright(*arguments: str, folder: str) -> dict[str, Any]:
    """Run pyright in a folder and return its report."""
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    # pyright looks for the packages of the first `python` on PATH.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        raise SystemExit(f"pyright did not work, exit code {done.returncode}: {done.stdout}{done.stderr}") from None
    return report


def main() -> int:
    """Print the names whose types are incomplete; return 1 if there are any."""
    with tempfile.TemporaryDirectory(prefix="hackamore-pyright-") as folder:
        report = pyright("--ignoreexternal", "--verifytypes", "hackamore", folder=folder)["typeCompleteness"]
    for symbol in report["symbols"]:
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]:
            for found in symbol["diagnostics"]:
                print(f"{symbol['name']}: {' '.join(found['message'].split())}")
    counts = report["exportedSymbolCounts"]
    score = report["completenessScore"]
    print(f"public types: {score:.1%} of {sum(counts.values())} names are complete")
    return int(score < 1 or not counts["withKnownType"])


if __name__ == "__main__":
    sys.exit(main())
