"""Parts of all pages that Hackamore serves: their files, their headers, and the requests that they refuse."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

OWN_SITE = ("none", "same-origin")
"""Values of `Sec-Fetch-Site` of requests that no other page makes."""


@cache
def asset(package: str, *names: str) -> str:
    """Return files of the folder `assets` of a package, as one text."""
    folder = files(package) / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def security_headers(policy: str) -> dict[str, str]:
    """Return the HTTP headers of a page with a content security policy."""
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }


def refusal(
    named: Sequence[str],
    hosts: Container[str],
    origin: str | None,
    origins: Container[str],
    *,
    site: str,
    sites: Container[str] = OWN_SITE,
    hint: str = "",
) -> tuple[HTTPStatus, str] | None:
    """Return the status and the reason for which a request is refused; None for one that may be answered.

    `named` are its `Host` headers. A page that points a name of its own at this server sends that name as the host: so only known ones
    count. `site` is its `Sec-Fetch-Site`, `none` without one. `hint` is the reason for other hosts.
    """
    if len(named) != 1 or named[0] not in hosts:
        return HTTPStatus.MISDIRECTED_REQUEST, hint or "The Host header must name the loopback address."
    if (origin is not None and origin not in origins) or site not in sites:
        return HTTPStatus.FORBIDDEN, "Requests of other sites are refused."
    return None
