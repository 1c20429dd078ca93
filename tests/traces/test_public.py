"""The functions of `hackamore.traces`, which the command uses."""

from __future__ import annotations

import threading
import urllib.request
from pathlib import Path

import pytest

import hackamore
from hackamore import Options, traces
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows


def recorded(path: Path, answer: str) -> Path:
    with SimulatedCLI(Script().user().says(answer)) as cli:
        hackamore.sync.run("go", Options(trace=path), transport=cli)
    return path


@shows("traces.public")
def test_a_trace_is_read_written_compared_and_served(tmp_path: Path) -> None:
    one, other = recorded(tmp_path / "one.jsonl", "One."), recorded(tmp_path / "other.jsonl", "Other.")
    trace = traces.read(one, title="<first>")
    assert (trace.title, trace.problems, len(trace.items) > 0) == ("<first>", [], True)
    page = traces.html(trace, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == page
    assert b"<title>&lt;first&gt;" in page
    assert b"<title>again" in traces.html(trace, title="again")
    assert b"<title>one.jsonl" in traces.html(one)
    assert traces.diff(one, one) == traces.diff(trace, one) == []
    changed = traces.diff(trace, other)
    assert changed[:2] == ["--- <first>", f"+++ {other}"]
    assert "-reply: One." in changed
    assert "+reply: Other." in changed
    for server in (traces.inspect(one, follow=True), traces.inspect(trace)):
        with server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                with urllib.request.urlopen(server.url) as answer:
                    assert b"<title>" in answer.read()
            finally:
                server.shutdown()
                thread.join()


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    path = recorded(tmp_path / "one.jsonl", "One.")
    with traces.inspect(path) as server:
        taken: list[tuple[Path | traces.Trace, bool]] = [(path, False), (path, True), (traces.read(path), False)]
        for source, follow in taken:
            with pytest.raises(OSError, match="in use"):
                traces.inspect(source, port=server.port, follow=follow)


def test_wrong_sources(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        traces.read(tmp_path / "none.jsonl")
    with pytest.raises(hackamore.SessionNotFoundError):
        traces.html("00000000-0000-4000-8000-000000000000")
    with pytest.raises(TypeError, match="`follow`"):
        traces.inspect(traces.read(recorded(tmp_path / "t.jsonl", "x")), follow=True)
