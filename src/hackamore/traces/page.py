"""The page: one file of HTML with its style, its script and its data, which loads nothing.

The content security policy names the hashes of the one style and the one script, and allows nothing else: no request, no other script, no
form, no frame. Trusted types are required, so that no text can become markup by mistake. The data is compressed and in base64.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Iterable
from functools import cache
from string import Template
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.runtime.pages import asset, security_headers
from hackamore.storage.files import write_file
from hackamore.traces.items import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hackamore.traces.reading import Trace

SCRIPTS = ("data.js", "list.js", "lanes.js", "panel.js", "main.js")


@cache
def _script() -> str:
    return "\n".join((asset("hackamore.runtime", "text.js"), asset("hackamore.traces", *SCRIPTS)))


@cache
def _style() -> str:
    return "\n".join((asset("hackamore.runtime", "base.css"), asset("hackamore.traces", "page.css")))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _policy(*, live: bool) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(_script())}",
            f"style-src {_hash(_style())}",
            "connect-src 'self'" if live else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def page_headers() -> dict[str, str]:
    """Return the HTTP headers of a page."""
    return security_headers(_policy(live=True))


def index_of(trace: Trace) -> dict[str, Any]:
    """Return everything but the lines, as JSON values."""
    builder = trace.builder
    return {
        "title": trace.title,
        "kind": trace.reader.kind,
        "facts": trace.reader.facts,
        "problems": builder.problems,
        "sessions": [session.finished() for session in builder.sessions],
        "labels": builder.lines.labels,
        "starts": builder.lines.starts,
        "items": builder.items,
        "samples": builder.samples,
        "table": builder.lines.table,
    }


def page_pieces(trace: Trace | None, title: str, *, live: bool = False) -> Iterator[bytes]:
    """Return the page in pieces; without a trace, or with `live`, it is a page that asks its server."""
    marker = "\0data\0"
    page = Template(asset("hackamore.traces", "page.html")).substitute(
        csp=html.escape(_policy(live=live), quote=True),
        title=html.escape(title),
        style=_style(),
        config=json.dumps({"live": live}),
        script=_script(),
        data=marker,
    )
    head, _, tail = page.partition(marker)
    yield head.encode()
    if trace is not None:
        trace.builder.lines.close()
        yield _data("index", zlib.compress(msgspec.json.encode(index_of(trace)), LEVEL))
        for number, chunk in enumerate(trace.builder.lines.chunks):
            yield _data(f"chunk-{number}", chunk)
    yield tail.encode()


def write_page(path: Path, page: Trace | Iterable[bytes]) -> int:
    """Write the page to a file that only its owner may read, whole or not at all; return its size in bytes.

    Raises:
        OSError: it cannot be written.
    """
    return write_file(path, page if isinstance(page, Iterable) else page_pieces(page, page.title))


def _data(name: str, data: bytes) -> bytes:
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), base64.b64encode(data))
