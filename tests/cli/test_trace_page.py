"""`hackamore trace html`, `inspect` and `diff`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.support.patience import patience
from tests.traces.written import everything


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return everything().write(tmp_path / "run.jsonl")


def test_html(hackamore: Command, run: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.html"
    ran = hackamore("trace", "html", str(run), "-o", str(output), "--title", "A <run>")
    assert (ran.code, ran.errors) == (0, "")
    assert ran.text.startswith(str(output))
    assert "<title>A &lt;run&gt;</title>" in output.read_text()
    again = hackamore("trace", "html", str(run), "-o", str(output))
    assert (again.code, "--force" in again.errors) == (2, True)
    assert hackamore("trace", "html", str(run), "-o", str(output), "--force").code == 0
    ran = hackamore("trace", "html", str(run), "-o", str(run), "--force")
    assert (ran.code, "would replace the trace" in ran.errors) == (2, True)
    piped = hackamore("trace", "html", str(run), "-o", "-")
    assert piped.text.startswith("<!doctype html>")


def test_what_cannot_be_read(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x\n" * 30)
    for name, code, said in (
        ("other", 1, "nothing in"),
        ("other", 1, "no header"),
        ("absent", 2, "neither a file nor the beginning of a session id"),
        (".", 2, "cannot be read"),
    ):
        ran = hackamore("trace", "html", str(tmp_path / name), "-o", str(tmp_path / "x.html"))
        assert (ran.code, said in ran.errors) == (code, True), ran
        assert hackamore("trace", "inspect", str(tmp_path / name)).code == code
        assert hackamore("trace", "diff", str(tmp_path / name), str(tmp_path / name)).code == 2
    assert not (tmp_path / "x.html").exists()
    ran = hackamore(
        "trace", "html", str(everything().write(tmp_path / "a.jsonl")), "-o", str(tmp_path / "no" / "x.html")
    )
    assert (ran.code, "cannot be written" in ran.errors) == (2, True)


def test_diff(hackamore: Command, run: Path, tmp_path: Path) -> None:
    other = everything(said="Something else.").write(tmp_path / "other.jsonl")
    same = hackamore("trace", "diff", str(run), str(run))
    assert (same.code, same.text) == (0, "")
    assert "The runs are the same" in same.errors
    ran = hackamore("trace", "diff", str(run), str(other))
    assert ran.code == 1
    assert "-prompt: Look at <b>this</b>." in ran.text.splitlines()
    assert "+prompt: Something else." in ran.text.splitlines()


def test_inspect(run: Path) -> None:
    command = [sys.executable, "-m", "hackamore", "trace", "inspect", str(run), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}index", timeout=patience(10)) as answer:
            assert json.load(answer)["kind"] == "recording"
        process.send_signal(signal.SIGINT)
        assert process.wait(patience(20)) == 130


def test_help(hackamore: Command) -> None:
    for action, parts in {
        "html": ("--output", "--force", "--title"),
        "inspect": ("--follow", "--port", "token"),
        "diff": ("--no-results", "--full", "they differ"),
    }.items():
        ran = hackamore("trace", action, "--help")
        assert ran.code == 0
        for part in ("Examples", "Exit codes", *parts):
            assert part in ran.text, (action, part)
