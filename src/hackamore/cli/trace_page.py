"""`hackamore trace html`, `inspect` and `diff`: a trace as a page, and two runs compared."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore import traces
from hackamore.cli.flags import port_error, port_of
from hackamore.cli.running import FAILED, USAGE
from hackamore.errors import (
    AmbiguousSessionError,
    OptionsError,
    SessionNotFoundError,
    TranscriptError,
    escape_terminal,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal
    from hackamore.traces import Trace
    from hackamore.traces.serve import PageServer

_PROBLEMS = 10
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def read(text: str, title: str | None = None) -> Trace:
    """Return a trace by its file, or a conversation by its session id; raise OptionsError if it cannot be read."""
    shown = escape_terminal(text, 300)
    try:
        return traces.read(text, title=title)
    except FileNotFoundError:
        raise OptionsError(
            f"{shown} is neither a file nor the beginning of a session id. `hackamore sessions list` shows the ids."
        ) from None
    except OSError as error:
        raise OptionsError(f"{shown} cannot be read: {error.strerror or error}") from None
    except (SessionNotFoundError, TranscriptError) as error:
        raise OptionsError(str(error)) from None


def warn(trace: Trace, text: str, terminal: Terminal) -> None:
    """Show the parts of a trace that could not be read."""
    problems = trace.problems
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
    trace = read(text, given.get("title"))
    warn(trace, text, terminal)
    if not trace.items:
        terminal.error(f"nothing in {escape_terminal(text)} can be read")
        return FAILED
    if to_stdout:
        sys.stdout.buffer.write(traces.html(trace))
        sys.stdout.buffer.flush()
        return 0
    try:
        size = len(traces.html(trace, output))
    except OSError as error:
        terminal.error(f"{escape_terminal(str(output))} cannot be written: {error.strerror or error}")
        return USAGE
    counts = f"{len(trace.items)} items, {size / 1e6:.1f} MB"
    terminal.line(f"{output}{terminal.dot}{counts}")
    return 0


def _server(source: Trace | str, port: int, text: str) -> PageServer:
    try:
        return traces.inspect(source, port=port, follow=isinstance(source, str))
    except OSError as error:
        if error.filename is None:
            raise port_error(port, error) from None
        raise OptionsError(f"{escape_terminal(text, 300)} cannot be read: {error.strerror or error}") from None
    except (SessionNotFoundError, AmbiguousSessionError) as error:
        raise OptionsError(str(error)) from None


def inspect_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the page of a trace until Ctrl-C."""
    text = str(given["file"])
    port = port_of(given)
    shown: Trace | str = text
    if not given.get("follow"):
        shown = read(text)
        warn(shown, text, terminal)
        if not shown.items:
            terminal.error(f"nothing in {escape_terminal(text)} can be read; `--follow` waits for it")
            return FAILED
    with _server(shown, port, text) as server:
        terminal.line(server.url)
        terminal.note("Open this address on this machine. Ctrl-C ends it.")
        server.serve_forever(poll_interval=0.2)
    return 0


def diff_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Compare two runs; return 0 if they are the same, 1 if they differ."""
    names = str(given["one"]), str(given["other"])
    results, full = not given.get("no_results"), bool(given.get("full"))
    runs = []
    for name in names:
        trace = read(name, name)
        if not trace.items:
            terminal.error(f"nothing in {escape_terminal(name)} can be read")
            return USAGE
        runs.append(trace)
    lines = traces.diff(runs[0], runs[1], results=results, full=full)
    for line in lines:
        style = "bold" if line.startswith(("--- ", "+++ ")) else _STYLES.get(line[:1], "")
        terminal.line(line, style)
    if not lines:
        terminal.note(f"The runs are the same: {len(runs[0].items):,} items compared.")
    return 1 if lines else 0
