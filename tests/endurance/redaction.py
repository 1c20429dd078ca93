"""Write hostile lines through the redaction, and look for the secrets that were planted in them.

A line has a text of random tokens: beginnings of masked settings, quotation marks, backslashes, brackets, secrets. The text is quoted in
JSON up to three times, cut at a random place, and put into a frame. The same seed gives the same lines.

Each line goes through `Redactor.line`; each hundred lines make a trace, a cassette and a conversation, whose pages are searched as well.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hackamore._engine.launch.plan import LaunchPlan
from hackamore.storage.places import SessionFiles
from hackamore.traces.page import page_pieces
from hackamore.traces.reading import read_session, read_trace
from hackamore.transports.recording.reading import read_recording
from hackamore.transports.recording.recorder import SessionRecord, TapeFile, header_line
from hackamore.transports.recording.redaction import Redactor, Vault

LINES_OF_A_CASE = 100
SIGN = "CANARY"
SHAPED = f"sk-ant-api03-{SIGN}-0123456789abcdef"
KNOWN = f"hunter2-hunter2/+={SIGN}"  # at its end: what a cut leaves of it is not known
PLAIN = f"harbour {SIGN} tulip"  # secret for its place alone
TOKENS = (
    '"env":{', '"headers":{', '"apiKeyHelper":', '"A":"', '"', '\\"', "\\", "{", "}", "'", ",", "\n",
    "token=", SHAPED, KNOWN,
)  # fmt: skip
PLAN = LaunchPlan(argv=("claude",), environment={"SHOP_API_KEY": KNOWN}, cwd="/srv/shop", owners=("",))


@dataclass
class Figures:
    """The sums of a run.

    Attributes:
        lines: the lines that were written.
        files: the traces, cassettes and pages that were searched.
        failures: the problem of each failure, with its case and the line.
    """

    lines: int = 0
    files: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Add the sums of another part of the run."""
        self.lines += other.lines
        self.files += other.files
        self.failures += other.failures


def text_of(random: Random) -> str:
    """Return a hostile text."""
    text = "".join(random.choices(TOKENS, k=random.randrange(1, 13)))
    for _ in range(random.randrange(4)):
        text = json.dumps(random.choice((text, {"a": text}, [text, SHAPED])), ensure_ascii=random.random() < 0.5)
    return text[: random.randrange(len(text) + 1)] if random.random() < 0.5 else text


def frame_of(random: Random) -> dict[str, Any]:
    """Return a frame that the CLI could send, with hostile texts in it."""
    texts = [text_of(random) for _ in range(random.randrange(1, 4))]
    content: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]} for text in texts
    ]
    if random.random() < 0.3:
        place = random.choice(({"env": {"A": PLAIN}}, {"headers": [PLAIN, {"B": PLAIN}]}, {"apiKeyHelper": PLAIN}))
        content.append(
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {**place, texts[0]: texts[-1], "n": 1e3}}
        )
    return {"type": "user", "message": {"role": "user", "content": content}, "uuid": "u"}


def differs(before: Any, after: Any) -> bool:
    """Return whether two values differ in anything but texts that were masked."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [differs(old, new) for old, new in zip(before, after, strict=False)]
        values = map(differs, before.values(), after.values())
        return len(before) != len(after) or any(names) or any(values)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) != len(after) or any(map(differs, before, after))
    if isinstance(after, str) and "<hackamore-" in after:
        return False
    return type(before) is not type(after) or before != after


def problem_of(line: bytes, kept: bytes, *, is_json: bool) -> str:
    """Return what is wrong with a redacted line; nothing if it is right."""
    if SIGN.encode() in kept:
        return "leaks"
    if not is_json:
        return "is not JSON any more"
    try:
        after = json.loads(kept)
    except ValueError:
        return "does not parse"
    if SIGN in json.dumps(after):
        return "leaks behind an escape"
    return "differs outside of masked texts" if differs(json.loads(line), after) else ""


def parts_of(page: str) -> list[bytes]:
    """Return the page as it stands in its file, and its compressed parts."""
    found = re.findall(r'<script type="text/plain" id="[^"]*">([^<]*)</script>', page)
    return [page.encode(), *(zlib.decompress(base64.b64decode(part)) for part in found)]


def search_files(lines: list[bytes], folder: Path) -> list[str]:
    """Write a trace, a cassette and a conversation with these lines and their pages; return the problems."""
    problems = []
    plain = b"".join(
        line[: len(line) * 2 // 3] + b"\n" for line in lines[:3]
    )  # not JSON: a CLI that dies while it writes
    for name in ("trace.jsonl", "tape.cassette"):
        path = folder / name
        redactor = Redactor(Vault())
        redactor.prepare(PLAN)
        sink = TapeFile(str(path), fresh=True)
        sink.write(header_line(PLAN, local=False))
        record = SessionRecord(sink, redactor, 0, 1 << 20)
        record.begin(PLAN)
        for line in lines:
            record.received(line + b"\n")
            record.sent(line + b"\n")
        record.received(plain)
        record.end(plain)
        if SIGN.encode() in path.read_bytes():
            problems.append(f"{name} leaks")
        read = read_recording(path)
        if read.problems or len(read.sessions[0].entries) != 2 * len(lines) + 6:
            problems.append(f"{name} cannot be read: {read.problems[:1]}")
        if any(SIGN.encode() in part for part in parts_of(b"".join(page_pieces(read_trace(path), name)).decode())):
            problems.append(f"the page of {name} leaks")
    talk = folder / "talk.jsonl"
    talk.write_bytes(b"".join(line.replace(KNOWN.encode(), b"known") + b"\n" for line in lines))
    page = b"".join(page_pieces(read_session(SessionFiles("talk", talk), "talk"), "talk")).decode()
    if any(SIGN.encode() in part for part in parts_of(page)):
        problems.append("the page of a conversation leaks")
    return problems


def run_case(seed: str, case: int) -> Figures:
    """Run one case."""
    random = Random(f"{seed}/{case}")
    figures = Figures(lines=LINES_OF_A_CASE, files=6)
    lines = []
    redactor = Redactor(Vault())
    redactor.prepare(PLAN)
    for _ in range(LINES_OF_A_CASE):
        line = json.dumps(frame_of(random), ensure_ascii=random.random() < 0.5).encode()
        lines.append(line)
        try:
            kept, is_json = redactor.line(line, inbound=True)
            problem = problem_of(line, kept, is_json=is_json)
        except Exception as error:
            problem = f"raises {error!r}"
        if problem:
            figures.failures.append(f"case {case}: {problem}: {line!r}")
    with TemporaryDirectory() as folder:
        try:
            figures.failures += [f"case {case}: {problem}" for problem in search_files(lines, Path(folder))]
        except Exception as error:
            figures.failures.append(f"case {case}: a file raises {error!r}")
    return figures


def run(seed: str, cases: range, *, workers: int = 1) -> Figures:
    """Run cases.

    Args:
        seed: the seed.
        cases: the numbers of the cases.
        workers: how many processes run them.
    """
    figures = Figures()
    if workers == 1:
        for case in cases:
            figures.add(run_case(seed, case))
        return figures
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for one in pool.map(partial(run_case, seed), cases, chunksize=10):
            figures.add(one)
    return figures
