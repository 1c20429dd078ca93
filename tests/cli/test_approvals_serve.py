"""`hackamore approvals serve`: the page for the person who starts it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from hackamore import Allow, Approvals
from tests.approvals.pages import Asking
from tests.cli.command import Command
from tests.contract import shows
from tests.support.patience import patience


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with closing(Approvals(tmp_path / "approvals.db")) as approvals:
        approvals.pending()
    return tmp_path / "approvals.db"


@shows("approvals.page.entry")
def test_serve_until_ctrl_c(place: Path) -> None:
    with closing(Approvals(place, approvers=["operators"])) as approvals, closing(Asking(approvals)) as asking:
        request = asking.permit("Bash", {"command": "ls"})
        command = [
            sys.executable,
            "-m",
            "hackamore",
            "approvals",
            "serve",
            str(place),
            "--by",
            "ada",
            "--group",
            "operators",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            with browser.open(url, timeout=patience(20)) as answer:
                assert answer.headers["Refresh"] == "0; url=../"
            origin = url.partition("/enter/")[0]
            given = urllib.request.Request(
                f"{origin}/request/{request.id}",
                json.dumps({"action": "allow"}).encode(),
                {"Content-Type": "application/json", "Origin": origin},
            )
            with browser.open(given, timeout=patience(20)) as answer:
                assert json.load(answer)["request"]["answered_by"] == "ada"
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(url, timeout=patience(20))
            process.send_signal(signal.SIGINT)
            assert process.wait(patience(20)) == 130
    assert asking.answers == [Allow()]


def test_mistakes(hackamore: Command, place: Path, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"not a database" * 100)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for code, arguments, said in (
            (1, [str(tmp_path / "absent.db")], "There is no database of approvals"),
            (1, [str(tmp_path / "other.db")], "other.db"),
            (2, [str(place), "--port", port], f"Port {port} cannot be used"),
            (2, [str(place), "--port", "70000"], "must be 0 to 65535"),
        ):
            ran = hackamore("approvals", "serve", *arguments)
            assert (ran.code, said in ran.errors) == (code, True), ran
    assert not (tmp_path / "absent.db").exists()


def test_help(hackamore: Command) -> None:
    ran = hackamore("approvals", "serve", "--help")
    assert ran.code == 0
    for part in ("PLACE", "--port", "--by", "--group", "Examples", "Exit codes"):
        assert part in ran.text
