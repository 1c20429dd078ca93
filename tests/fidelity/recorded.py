"""What the simulated CLI sent in each case when it was last compared with the real one: `recorded.txt`.

`python -m tests.fidelity.recorded` writes the file anew, after `test_fidelity.py` and `test_answers.py` have passed with a changed
simulated CLI. Each frame is written as what differs from the first one of its kind.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fidelity.cases import CASES
from tests.fidelity.driving import ISOLATED, play
from tests.fidelity.frames import MARK, Frame, Recording, kind_of, ordered, streams
from tests.fidelity.test_answers import ANSWERS, named_case

FILE = Path(__file__).with_name("recorded.txt")
EVERY_CASE = {case.name: case for case in (*CASES, *map(named_case, range(len(ANSWERS))))}
# The hook and the permission callback of one call run at the same time: which of them is answered first is chance.
EVERY_CASE = {name: case for name, case in EVERY_CASE.items() if not name.startswith("PermissionRequest")}
_MEASURED = re.compile(r"(.*duration_ms|.*duration_api_ms|pid|ttft_ms|timestamp|end_time|totalDurationMs)")
_GONE = "-"


def plain(recording: Recording) -> list[tuple[str, Frame]]:
    """Return the frames by the activity that orders them, without what is different in every run.

    An id that returns is numbered; one that occurs once is not.
    """
    found = [(name, frame) for name, group in streams(ordered(recording.frames())).items() for frame in group]
    texts = [json.dumps(_unmeasured(frame), ensure_ascii=False).replace("\\u0000", "\0") for _, frame in found]
    counted = Counter(mark for text in texts for mark in MARK.findall(text))
    numbers: dict[tuple[str, str], str] = {}
    kinds = Counter[str]()

    def number(mark: re.Match[str]) -> str:
        key = kind, _ = str(mark[1]), str(mark[2])
        if counted[key] == 1:
            return f"<{kind}>"
        if key not in numbers:
            kinds[kind] += 1
            numbers[key] = f"<{kind} {kinds[kind]}>"
        return numbers[key]

    return [(name, json.loads(MARK.sub(number, text))) for (name, _), text in zip(found, texts, strict=True)]


def _unmeasured(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: 0 if _MEASURED.fullmatch(name) else _unmeasured(part) for name, part in value.items()}
    return [_unmeasured(part) for part in value] if isinstance(value, list) else value


def change(before: Any, now: Any) -> Any:
    """Return what differs: of objects only the fields that do, and the names of those that are gone."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = {
            name: change(before[name], part) if name in before else part
            for name, part in now.items()
            if name not in before or before[name] != part or type(before[name]) is not type(part)
        }
        gone = [name for name in before if name not in now]
        return {**found, _GONE: gone} if gone else found
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [change(*pair) for pair in zip(before, now, strict=True)]
    return now


def lines(name: str, folder: Path, kinds: dict[str, Frame]) -> list[str]:
    """Play a case on the simulated CLI in memory; return a line for each frame, and one for the exit.

    Args:
        name: of the case.
        folder: the working directory, empty.
        kinds: the first frame of each kind; a new kind is added.
    """
    recording = play(EVERY_CASE[name], folder, ISOLATED, how="memory", home=folder.with_name("home"))
    found = []
    for stream, frame in plain(recording):
        kind = kind_of(frame)
        differs = change(kinds.setdefault(kind, frame), frame)
        found.append(f"{stream}: {kind} {json.dumps(differs, ensure_ascii=False, sort_keys=True)}")
    return [*found, f"exit {recording.exit_code}"]


def read() -> tuple[dict[str, Frame], dict[str, list[str]]]:
    """Return the first frame of each kind, and the lines of each case."""
    kinds: dict[str, Frame] = {}
    cases: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "kind":
            name, _, frame = rest.partition(" ")
            kinds[name] = json.loads(frame)
        elif mark == "case":
            found = cases[rest] = []
        else:
            found.append(line)
    return kinds, cases


def main() -> None:
    """Write the file."""
    kinds: dict[str, Frame] = {}
    written = []
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(EVERY_CASE):
            work = Path(folder, str(number))
            work.mkdir()
            written += [f"case {name}", *lines(name, work, kinds)]
    first = [f"kind {name} {json.dumps(frame, ensure_ascii=False)}" for name, frame in kinds.items()]
    FILE.write_text("".join(f"{line}\n" for line in (*first, *written)), encoding="utf-8")


if __name__ == "__main__":
    main()
