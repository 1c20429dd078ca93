"""The HTML of the page, without a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hackamore.traces.page import write_page
from hackamore.traces.reading import read_trace
from tests.traces.written import HOSTILE, Tape, everything
from tests.transcripts.test_export import CONTROLS, hostile, subagent


def page_of(path: Path, tape: Tape, title: str | None = None) -> str:
    write_page(path, read_trace(tape.write(path.with_suffix(".jsonl")), title=title))
    return path.read_text(encoding="utf-8")


def part(page: str, name: str) -> bytes:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found is not None, name
    return zlib.decompress(base64.b64decode(found[1], validate=True))


def policy(page: str) -> str:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    return html.unescape(found[1])


def sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_names_the_only_script_and_style(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run.html", everything())
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy(page) == (
        f"default-src 'none'; script-src {sha(script)}; style-src {sha(style)}; connect-src 'none'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json" id="config">',
        '<script type="text/plain" id="index">',
        '<script type="text/plain" id="chunk-0">',
        '<script type="module">',
    ]


def test_the_page_names_no_address(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run.html", everything())
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert "://" not in rest
    assert not re.search(
        r"\b(?:src|href|srcset|action|background)=|@import|url\(|\bimport\b|innerHTML|insertAdjacent|\beval\(", rest
    )


def test_no_content_is_markup(tmp_path: Path) -> None:
    plain, hostile = (page_of(tmp_path / "run.html", everything(said=said)) for said in ("x", HOSTILE))
    tags = [re.findall(r"<[^>]*>", re.sub(r">[A-Za-z0-9+/=]{20,}<", "><", page)) for page in (plain, hostile)]
    assert tags[0] == tags[1]
    page = page_of(tmp_path / "run.html", everything(), title="</title><script>alert(1)</script>\u2028")
    assert "<script>alert" not in page
    assert "&lt;/title&gt;&lt;script&gt;alert(1)" in page


def test_the_data_is_the_trace(tmp_path: Path) -> None:
    tape = everything(said=HOSTILE)
    page = page_of(tmp_path / "run.html", tape)
    index: dict[str, Any] = json.loads(part(page, "index"))
    lines = part(page, "chunk-0").decode().split("\n")
    assert lines == tape.lines
    assert (index["title"], index["kind"], index["problems"]) == ("run.jsonl", "recording", [])
    assert index["facts"][0] == ["Hackamore", "0.1.0"]
    assert [(session["name"], session["cost"], session["stop"]["level"]) for session in index["sessions"]] == [
        ("session", 0.25, "ok")
    ]
    assert [sample[-1] for sample in index["samples"]] == [None] * 5 + [0.25]
    assert json.loads(re.findall(r'id="config">(.*?)<', page)[0]) == {"live": False}
    assert index["starts"] == [0, len(lines)]
    assert len(index["table"]) == 4 * len(lines)
    assert [len(item) for item in index["items"]] == [12] * len(index["items"])
    assert {line for item in index["items"] for _, line, _ in item[-1]} <= set(range(len(lines)))


def test_lines_are_in_chunks(tmp_path: Path) -> None:
    tape = everything(end=False)
    for number in range(20):
        tape.reply(100 + number, {"type": "text", "text": f"{number} " + "x" * 50_000})
    page = page_of(tmp_path / "run.html", tape)
    index = json.loads(part(page, "index"))
    chunks = [part(page, f"chunk-{number}").decode().split("\n") for number in range(len(index["starts"]) - 1)]
    assert len(chunks) > 3
    assert [line for chunk in chunks for line in chunk] == tape.lines
    assert [sum(map(len, chunks[:number])) for number in range(len(chunks) + 1)] == index["starts"]


def test_only_the_owner_may_read_a_page(tmp_path: Path) -> None:
    page_of(tmp_path / "run.html", everything())
    assert stat.S_IMODE((tmp_path / "run.html").stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"run.html", "run.jsonl"}


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    assert write_page(path, [b"an earlier ", b"page"]) == 15

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_page(path, pieces())
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"run.html": b"an earlier page"}


def test_the_page_of_a_hostile_conversation_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    writer = hostile()
    key = "sk-ant-" + "canary0123456789abcdef"
    writer.user(f"My key is {key}")
    path = writer.save(tmp_path)
    subagent(path, agentType="<script>x</script>", toolUseId="t2")
    target = tmp_path / "talk.html"
    write_page(target, read_trace(writer.session_id))
    page = target.read_text(encoding="utf-8")
    assert policy(page).startswith("default-src 'none'; script-src 'sha256-")
    assert "<title>&lt;script&gt;alert(1)" in page  # the title of the conversation
    assert not set(CONTROLS) & set(page.partition("<title>")[2].partition("</title>")[0])
    index = json.loads(part(page, "index"))
    assert index["kind"] == "transcript"
    kinds = [item[2] for item in index["items"]]
    assert kinds.count("model") == 3  # two of the conversation, one of its subagent
    lines = part(page, "chunk-0").decode().split("\n")
    assert lines[0] == writer.lines[0]
    assert len(lines) == len(writer.lines) + 2
    assert "sub answer" in part(page, "chunk-0").decode()
    assert key.encode() not in part(page, "chunk-0") + part(page, "index")
