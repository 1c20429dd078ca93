"""Generated conversations through both packages, with the real CLI and a scripted model: equal messages, callbacks, frames and requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat.comparing import comparable, differences
from tests.contract import shows
from tests.support.patience import patience
from tests.support.seeds import SEED
from tests.support.sizes import size

PROGRAM = Path(__file__).with_name("generated.py")
OFFICIAL = PROGRAM.parents[2] / ".dev" / "official"
COUNT = size("conversations through both packages")


def started(folder: Path, cli: str, *, layer: bool) -> subprocess.Popen[bytes]:
    """Start the program with one of the packages; its output goes to a file, since it is larger than a pipe."""
    name = "package-b" if layer else "package-a"
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "IS_SANDBOX": "1",
        "GENERATED_LIMIT_SECONDS": str(patience(40)),
    }
    if not layer:
        environment["PYTHONPATH"] = str(OFFICIAL)
    command = [
        sys.executable,
        *(["-m", "hackamore.compat"] if layer else []),
        str(PROGRAM),
        str(SEED),
        "0",
        str(COUNT),
        cli,
    ]
    with Path(folder, f"{name}.jsonl").open("wb") as out, Path(folder, f"{name}.err").open("wb") as err:
        return subprocess.Popen([*command, str(folder / name)], env=environment, stdout=out, stderr=err)


def runs(folder: Path, name: str) -> dict[int, dict[str, Any]]:
    lines = Path(folder, f"{name}.jsonl").read_bytes().split(b"\n")[:-1]
    return {run["number"]: run for run in map(json.loads, lines)}


@shows("compat.programs.alike")
@pytest.mark.timeout(60 + 30 * COUNT)
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package, which `./dev ci` installs")
def test_generated_conversations_are_equal(claude_path: str, tmp_path: Path) -> None:
    print(f"{COUNT} conversations of the seed {SEED}")
    both = [started(tmp_path, claude_path, layer=layer) for layer in (False, True)]
    try:
        codes = [process.wait(patience(20 * COUNT)) for process in both]
    finally:
        for process in both:
            process.kill()
    assert codes == [0, 0], "".join(path.read_text(encoding="utf-8")[-3000:] for path in tmp_path.glob("*.err"))
    official, layer = (runs(tmp_path, name) for name in ("package-a", "package-b"))
    assert len(official) == len(layer) == COUNT
    found = []
    for number, run in official.items():
        assert ["raised", "TimeoutError", ""] not in run["messages"], (
            f"conversation {number} of the seed {SEED} does not end"
        )
        texts = list(differences(comparable(layer[number]), comparable(run)))
        found += [f"seed {SEED}, conversation {number}, {len(texts)} differences:", *texts[:6]] if texts else []
    assert found == [], "\n".join(found)
