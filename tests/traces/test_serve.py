"""The page of a trace that still grows: what the server answers, what it refuses, and the page in a browser."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hackamore.runtime import loopback
from hackamore.traces import serve
from hackamore.traces.reading import GrowingTrace, read_trace
from hackamore.traces.serve import PageServer
from tests.contract import shows
from tests.support.patience import patience
from tests.traces.conftest import OpenPage
from tests.traces.written import Tape, everything, text


class Served:
    """A server in a thread, and requests to it."""

    def __init__(self, server: PageServer) -> None:
        self.server = server
        self.path = urlsplit(server.url).path

    def get(self, path: str = "", *, whole: str = "", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=patience(10))
        connection.putrequest("GET", whole or self.path + path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    def index(self, epoch: int = 0, since: int = 0, lines: int = 0) -> dict[str, Any]:
        status, body, _ = self.get(f"index?epoch={epoch}&since={since}&lines={lines}&samples=0")
        assert status == 200
        found: dict[str, Any] = json.loads(body)
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tape = everything(end=False)
    return tape.write(tmp_path / "run.jsonl")


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with PageServer(GrowingTrace(path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Served(server)
        server.shutdown()
        thread.join(patience(10))
        assert not thread.is_alive()


def test_what_is_new_is_sent_once(served: Served, path: Path) -> None:
    first = served.index()
    assert [session["stop"]["level"] for session in first["sessions"]] == ["open"]
    assert first["numbers"] == list(range(len(first["items"])))
    assert (first["samples_from"], len(first["samples"])) == (0, 5)
    known = first["epoch"], first["version"], len(first["table"]) // 4
    assert not served.index(*known)["items"]
    tape = Tape()
    tape.at = 99
    tape.result()
    with path.open("a") as file:
        file.write(tape.lines[1] + "\n")
    then = served.index(*known)
    assert [item[2] for item in then["items"]] == ["prompt", "result"]  # the prompt has its answer
    assert len(then["table"]) == 4
    assert zlib.decompress(served.get("chunk/0")[1]).count(b"\n") == known[2]
    assert served.get("chunk/7")[0] == 404
    everything(said="Another run.").write(path.with_name("other")).replace(path)
    anew = served.index(then["epoch"], then["version"], known[2] + 1)
    assert anew["epoch"] == 2
    assert len(anew["table"]) // 4 == len(everything().lines)


def test_a_server_can_follow_another_one_on_its_port(path: Path) -> None:
    port = 0
    for _ in range(2):  # the system keeps a connection that the first one has closed for a minute
        with PageServer(GrowingTrace(path), port) as server:
            port = server.port
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            with socket.create_connection(("127.0.0.1", port), patience(10)) as connection:
                connection.sendall(
                    f"GET {urlsplit(server.url).path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
                )
                assert connection.recv(12) in (b"HTTP/1.0 200", b"HTTP/1.1 200")
                while connection.recv(65_536):
                    pass
            server.shutdown()
            thread.join(patience(10))
            assert not thread.is_alive()


def test_tokens_of_a_live_page_are_those_of_the_file(served: Served, path: Path) -> None:
    def usage() -> dict[str, int]:
        found: dict[str, int] = served.index()["sessions"][0]["usage"]
        assert found == read_trace(path).builder.sessions[0].finished().usage
        return found

    tape = Tape()
    tape.at = 99
    tape.reply(6, text("One more reply, without a result so far."))
    tape.result()
    before = usage()
    with path.open("a") as file:
        file.write(tape.lines[1] + "\n")
    assert usage()["input"] == before["input"] + 10  # it is added up anew at each poll
    with path.open("a") as file:
        file.write(tape.lines[2] + "\n")
    assert usage() == {"input": 40, "output": 20, "cache_read": 300, "cache_write": 60}  # of the result alone


def test_much_that_is_new_comes_in_parts(served: Served, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_MOST_ITEMS", 6)
    monkeypatch.setattr(serve, "_MOST_LINES", 10)
    whole = read_trace(path).builder
    items: dict[int, Any] = {}
    table: list[int] = []
    version, parts, more = 0, 0, True
    while more:
        answer = served.index(1, version, len(table) // 4)
        assert len(answer["items"]) <= 6
        assert len(answer["table"]) <= 40
        items |= dict(zip(answer["numbers"], answer["items"], strict=True))
        table += answer["table"]
        version, more, parts = answer["version"], answer["more"], parts + 1
    assert [items[number][5] for number in range(len(whole.items))] == [item.title for item in whole.items]
    assert table == whole.lines.table
    assert parts == 3
    assert served.index(9, version, 5)["numbers"] == list(range(6))  # of another epoch, so from the beginning
    assert served.get("index?epoch=1&samples=2")[1].count(b'"samples_from":2,') == 1


def test_a_file_that_is_gone_for_a_while_is_a_problem(served: Served, path: Path) -> None:
    known = len(served.index()["items"])
    path.rename(path.with_name("away"))
    answer = served.index()
    assert (answer["problems"], len(answer["items"])) == (["the file cannot be read: No such file or directory"], known)
    path.with_name("away").rename(path)
    answer = served.index()
    assert (answer["problems"], answer["epoch"], answer["title"], answer["kind"]) == ([], 1, "run.jsonl", "recording")
    assert ["Hackamore", "0.1.0"] in answer["facts"]


@shows("traces.served")
def test_others_are_refused(served: Served) -> None:
    port = served.server.port
    assert served.get()[0] == 200
    assert served.get(Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"[::1]:{port}", ""):
        assert served.get(Host=host)[:2] == (421, b"The Host header must name the loopback address.\n"), host
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"):
        assert served.get("index", Origin=origin)[:2] == (403, b"Requests of other sites are refused.\n"), origin
    assert served.get("index", Sec_Fetch_Site="cross-site")[0] == 403
    token = served.server.token
    for whole in (
        "/",
        "/index",
        "//index",
        f"/{token[:-1]}/",
        f"/{token}x/index",
        f"/{token}/../index",
        "/%2e%2e/",
        f"/{token}",
    ):
        status, body, _ = served.get(whole=whole)
        is_named = whole == f"/{token}" or whole.startswith(f"/{token}/")
        hint = b"" if is_named else b" Use the address that `hackamore trace inspect` printed."
        assert (status, body) == (404, b"Not found.%s\n" % hint), whole
    for path in ("chunk/-1", "chunk/0/1", "chunk/%30", "chunk/99999999999", "page.css", "index/"):
        assert served.get(path)[:2] == (404, b"Not found.\n"), path
    assert served.server.server_address[0] == "127.0.0.1"


def test_headers(served: Served) -> None:
    kinds = {
        "": "text/html; charset=utf-8",
        "index": "application/json",
        "chunk/0": "application/octet-stream",
        "chunk/9": "text/plain; charset=utf-8",
        "nothing": "text/plain; charset=utf-8",
    }
    for path, kind in kinds.items():
        _, body, headers = served.get(path)
        assert (headers["Content-Type"], headers["Content-Length"]) == (kind, str(len(body)))
        assert headers["Server"].strip() == "hackamore"  # and no version of Python
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


def test_other_methods_and_odd_numbers(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=patience(10))
    connection.request("POST", served.path + "index", body=b"x")
    assert connection.getresponse().status == 501
    connection.close()
    for query in ("epoch=-1", "since=x", "lines=1e9", "lines=99999999999999999999", "samples=%00", "lines=999999"):
        assert served.get(f"index?{query}")[0] == 200, query


def test_odd_targets_get_an_answer(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    port = served.server.port
    for whole, status in (
        ("*", 404),
        (f"http://127.0.0.1:{port}{served.path}index", 200),
        (f"http://localhost:{port}", 404),
        (f"http://evil.example{served.path}index", 421),
        (f"http://user@127.0.0.1:{port}{served.path}", 421),
        ("http://[/", 400),
        (f"{served.path}index?{'a=1&' * 20}", 400),
        (f"127.0.0.1:{port}", 404),
    ):
        with socket.create_connection(("127.0.0.1", port), patience(10)) as connection:
            connection.sendall(f"GET {whole} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            line = connection.makefile("rb").readline()
        assert f" {status} ".encode() in line, (whole, line)
    assert not caplog.records


def slow(server: PageServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), patience(10))
    connection.send(b"GET / HTTP/1.1\r\n")
    return connection


@shows("traces.slow-clients")
def test_connections_without_a_request_make_room_for_others(served: Served) -> None:
    opened = [slow(served.server) for _ in range(40)]
    before = threading.active_count()
    for _ in range(20):
        assert served.get("index")[0] == 200
    assert threading.active_count() <= before + 1
    for one in opened[:24]:
        assert one.recv(1) == b""  # closed without an answer
    for one in opened:
        one.close()


@shows("traces.slow-clients")
def test_a_client_that_sends_byte_after_byte_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "REQUEST_SECONDS", 0.5)
    with PageServer(GrowingTrace(path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        connection = slow(server)
        began = time.monotonic()
        connection.settimeout(0.05)
        while True:
            try:
                connection.send(b"x")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                assert time.monotonic() < began + patience(10), "the connection is still open"
            except OSError:
                break
        connection.close()
        waiting = slow(server)
        server.shutdown()  # does not wait for it
        thread.join(patience(10))
        assert not thread.is_alive()
    waiting.close()


def test_errors_of_requests_are_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    growing = GrowingTrace(path)
    with PageServer(growing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        served = Served(server)
        growing.trace.title = "\ud800"  # which JSON in UTF-8 does not hold
        with pytest.raises(http.client.HTTPException):
            served.get("index")
        growing.trace.title = "run"
        assert served.get("index")[0] == 200
        with socket.create_connection(("127.0.0.1", server.port), patience(10)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
        assert served.get("index")[0] == 200
        server.shutdown()
        thread.join(patience(10))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("hackamore", "ERROR")
    assert "UnicodeEncodeError" in caplog.text
    assert server.token not in caplog.text


def test_a_trace_that_does_not_grow_is_served_whole(path: Path) -> None:
    with PageServer(read_trace(path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        served = Served(server)
        assert b'id="chunk-0"' in served.get()[1]
        assert served.get("index")[0] == 404
        server.shutdown()
        thread.join(patience(10))


@pytest.mark.timeout(180)
def test_the_page_follows(served: Served, path: Path, open_page: OpenPage) -> None:
    opened = open_page(served.server.url)
    page = opened.page
    page.locator("#live", has_text="Live").wait_for()
    assert "The session is running" in page.locator("#panel").inner_text()
    before = page.locator("#list .row").count()
    tape = Tape()
    tape.at = 99
    tape.prompt("One more, while you look.")
    tape.result("error_max_turns")
    with path.open("a") as file:
        file.write("\n".join(tape.lines[1:]) + "\n")
    page.locator("#list .row", has_text="One more, while you look.").wait_for()
    assert page.locator("#list .row").count() == before + 2
    page.locator("#list .row", has_text="One more").click()
    page.locator("#sec-prompt").wait_for()
    page.locator("#why.is-bad").wait_for()
    assert opened.errors == []
