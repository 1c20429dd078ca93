"""Traces as pages: what a recording or a conversation holds, as a static file or served while it grows, and two runs compared.

::

    from hackamore import traces

    traces.html("run.jsonl", "run.html")
    print(*traces.diff("monday.jsonl", "tuesday.jsonl"), sep="\\n")

All functions block, and accept a trace, a cassette, the JSONL file of a conversation, or its session id or title.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hackamore.errors import AmbiguousSessionError, SessionNotFoundError
from hackamore.traces.compare import difference, outline
from hackamore.traces.page import page_pieces, write_page
from hackamore.traces.reading import GrowingTrace, Trace, read_trace

if TYPE_CHECKING:
    from hackamore.traces.serve import PageServer

__all__ = ["Trace", "diff", "html", "inspect", "read"]


def read(source: str | os.PathLike[str], *, title: str | None = None) -> Trace:
    """Read a trace, a cassette or a conversation, for `html`, `diff` and `inspect`.

    Args:
        source: the file, or the session id or title of a conversation on the disk.
        title: the name that the page shows; None for the name of the file.

    Returns:
        The trace. `problems` names the parts that cannot be read, and `items` is empty if nothing can.

    Raises:
        OSError: the file cannot be read.
        SessionNotFoundError: no such conversation exists.

    Example:
        ::

            trace = traces.read("run.jsonl")
            print(len(trace.items), trace.problems)
    """
    return read_trace(_found(source), title=title)


def html(
    source: str | os.PathLike[str] | Trace, path: str | os.PathLike[str] | None = None, *, title: str | None = None
) -> bytes:
    """Return a trace as one HTML page, which needs no server and loads nothing; with `path` also write it.

    Args:
        source: a `Trace`, or as for `read`.
        path: the file to write, which only its owner may read; an earlier one is replaced. None writes none.
        title: the name that the page shows; None for that of the trace.

    Returns:
        The page, in UTF-8.

    Raises:
        OSError: a file cannot be read or written.
        SessionNotFoundError: no such conversation exists.

    Example:
        ::

            traces.html("run.jsonl", "run.html")
    """
    trace = source if isinstance(source, Trace) else read(source, title=title)
    if title is not None and trace is source:
        trace = Trace(title, trace.reader)
    page = b"".join(page_pieces(trace, trace.title))
    if path is not None:
        write_page(Path(path), [page])
    return page


def diff(
    one: str | os.PathLike[str] | Trace,
    other: str | os.PathLike[str] | Trace,
    *,
    results: bool = True,
    full: bool = False,
) -> list[str]:
    """Compare two runs: prompts, replies, tool calls, decisions and results, without ids and times.

    Args:
        one: the first run: a `Trace`, or as for `read`.
        other: the second run.
        results: False ignores the results of tools.
        full: True compares and shows texts in full.

    Returns:
        The lines of a unified diff; none if the runs are the same.

    Raises:
        OSError: a file cannot be read.
        SessionNotFoundError: no such conversation exists.

    Example:
        ::

            assert traces.diff("before.jsonl", "after.jsonl", results=False) == []
    """
    runs = [run if isinstance(run, Trace) else read(run) for run in (one, other)]
    first, second = (outline(run, results=results, full=full) for run in runs)
    names = [run.title if isinstance(run, Trace) else os.fspath(run) for run in (one, other)]
    return difference(first, second, (names[0], names[1]))


def inspect(source: str | os.PathLike[str] | Trace, *, port: int = 0, follow: bool = False) -> PageServer:
    """Return a server for the page of a trace, on 127.0.0.1. Its address has a token.

    Args:
        source: a `Trace`, or as for `read`.
        port: the port; 0 for a free one.
        follow: True shows what is added to the file while the page is open; needs a file or a conversation.

    Returns:
        The server: `url` is its address, and `serve_forever()` serves until `shutdown()` in another thread. Use it in a `with` block.

    Raises:
        OSError: the file cannot be read, or the port is taken.
        SessionNotFoundError: no such conversation exists.
        TypeError: `follow` needs a file.

    Example:
        ::

            with traces.inspect("run.jsonl", follow=True) as server:
                print(server.url)
                server.serve_forever()
    """
    from hackamore.traces.serve import PageServer

    if isinstance(source, Trace):
        if follow:
            raise TypeError("`follow` needs a file or a session id: a `Trace` was read already, and does not grow.")
        return PageServer(source, port)
    if not follow:
        return PageServer(read(source), port)
    found = _found(source)
    if not os.path.exists(found):
        from hackamore import transcripts

        found = os.fspath(transcripts.find(found).path)
    return PageServer(GrowingTrace(found), port)


def _found(source: str | os.PathLike[str]) -> str:
    """Return the path of a file, or the session id that a text stands for."""
    text = os.fspath(source)
    if os.path.exists(text):
        return text
    from hackamore import transcripts

    with suppress(SessionNotFoundError, AmbiguousSessionError):
        return transcripts.find(text).session_id
    return text
