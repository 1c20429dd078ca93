"""`bridle trace html`, `inspect` and `diff`: a trace as a page, and two runs compared."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle import transcripts
from bridle.cli.running import FAILED, USAGE
from bridle.errors import AmbiguousSessionError, SessionNotFoundError, TranscriptError, escape_terminal
from bridle.traces.compare import difference, outline
from bridle.traces.page import page_pieces, write_page
from bridle.traces.reading import GrowingTrace, read_trace
from bridle.traces.serve import PageServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.cli.terminal import Terminal
    from bridle.traces.reading import Trace

__all__ = ["UnreadableError", "read", "warn"]

_PROBLEMS = 10
_MOST_PORT = 65_535


class UnreadableError(Exception):
    """A trace cannot be read; the text says why and what to do."""


def _source(text: str) -> str:
    """Return the path of a file, or the session id that a text stands for."""
    if os.path.exists(text):
        return text
    with suppress(SessionNotFoundError, AmbiguousSessionError):
        return transcripts.find(text).session_id
    return text


def read(text: str, title: str | None = None) -> Trace:
    """Return a trace by its file, or a conversation by its session id.

    Raises:
        UnreadableError: it cannot be read.
    """
    source = _source(text)
    shown = escape_terminal(text, 300)
    try:
        return read_trace(source, title=title)
    except FileNotFoundError:
        raise UnreadableError(
            f"{shown} is neither a file nor the beginning of a session id. `bridle sessions list` shows the ids."
        ) from None
    except OSError as error:
        raise UnreadableError(f"{shown} cannot be read: {error.strerror or error}") from None
    except (SessionNotFoundError, TranscriptError) as error:
        raise UnreadableError(str(error)) from None


def warn(trace: Trace, text: str, terminal: Terminal) -> None:
    """Show the parts of a trace that could not be read."""
    problems = trace.builder.problems
    for problem in problems[:_PROBLEMS]:
        terminal.warning(f"{escape_terminal(text)}: {problem}")
    if len(problems) > _PROBLEMS:
        terminal.warning(f"{escape_terminal(text)}: and more like these")


def html_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Write the page of a trace; return the exit code."""
    text = str(given["file"])
    output = Path(given["output"] if given.get("output") is not None else f"{Path(text).stem}.html")
    to_stdout = str(output) == "-"
    if not to_stdout and output.exists():
        if os.path.exists(text) and output.samefile(text):
            terminal.error("the page would replace the trace; name another file with `--output`")
            return USAGE
        if not given.get("force"):
            terminal.error(
                f"{escape_terminal(str(output))} exists; replace it with `--force`, or name another file with `--output`"
            )
            return USAGE
    try:
        trace = read(text, given.get("title"))
    except UnreadableError as error:
        terminal.error(str(error))
        return USAGE
    warn(trace, text, terminal)
    if not trace.builder.items:
        terminal.error(f"nothing in {escape_terminal(text)} can be read")
        return FAILED
    if to_stdout:
        for piece in page_pieces(trace, trace.title):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    try:
        size = write_page(output, trace)
    except OSError as error:
        terminal.error(f"{escape_terminal(str(output))} cannot be written: {error.strerror or error}")
        return USAGE
    counts = f"{len(trace.builder.items)} items, {size / 1e6:.1f} MB"
    terminal.line(f"{output}{terminal.dot}{counts}")
    return 0


def _followed(text: str) -> GrowingTrace:
    source = _source(text)
    try:
        return GrowingTrace(source if os.path.exists(source) else transcripts.find(source).path)
    except OSError as error:
        raise UnreadableError(f"{escape_terminal(text, 300)} cannot be read: {error.strerror or error}") from None
    except (SessionNotFoundError, AmbiguousSessionError) as error:
        raise UnreadableError(str(error)) from None


def inspect_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the page of a trace until Ctrl-C."""
    text = str(given["file"])
    port = given.get("port") or 0
    if not 0 <= port <= _MOST_PORT:
        terminal.error(f"`--port` must be 0 to {_MOST_PORT}, got {port}")
        return USAGE
    shown: Trace | GrowingTrace
    try:
        shown = _followed(text) if given.get("follow") else read(text)
    except UnreadableError as error:
        terminal.error(str(error))
        return USAGE
    trace = shown.trace if isinstance(shown, GrowingTrace) else shown
    warn(trace, text, terminal)
    if not given.get("follow") and not trace.builder.items:
        terminal.error(f"nothing in {escape_terminal(text)} can be read; `--follow` waits for it")
        return FAILED
    try:
        server = PageServer(shown, port)
    except OSError as error:
        terminal.error(f"port {port} cannot be used: {error.strerror or error}; leave `--port` out for a free one")
        return USAGE
    with server:
        terminal.line(server.url)
        terminal.note("Open this address on this machine. Ctrl-C ends it.")
        server.serve_forever(poll_interval=0.2)
    return 0


def diff_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Compare two runs; return 0 if they are the same, 1 if they differ."""
    names = str(given["one"]), str(given["other"])
    results, full = not given.get("no_results"), bool(given.get("full"))
    outlines = []
    for name in names:
        try:
            trace = read(name)
        except UnreadableError as error:
            terminal.error(str(error))
            return USAGE
        if not trace.builder.items:
            terminal.error(f"nothing in {escape_terminal(name)} can be read")
            return USAGE
        outlines.append(outline(trace, results=results, full=full))
    lines = difference(outlines[0], outlines[1], names)
    for line in lines:
        style = "bold" if line.startswith(("--- ", "+++ ")) else _STYLES.get(line[:1], "")
        terminal.line(line, style)
    if not lines:
        terminal.note(f"The runs are the same: {len(outlines[0])} lines compared.")
    return 1 if lines else 0


_STYLES = {"+": "green", "-": "red", "@": "cyan"}
