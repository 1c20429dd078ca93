"""What users hand to a session, checked before anything of it is sent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bridle.errors import NotSupportedError
from bridle.launch import in_process_servers
from bridle.launch.encode import external_servers
from bridle.options.options import Options
from bridle.tools import server_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked_content", "checked_timeout", "own_servers", "sent_servers"]


def checked_content(prompt: object) -> str | list[Any]:
    """Return a prompt as a frame holds it.

    Raises:
        TypeError: it is neither a str nor a list of content blocks.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, (list, tuple)):
        return list(prompt)
    hint = "; options are given as `options=`" if isinstance(prompt, Options) else ""
    raise TypeError(f"`prompt` must be a str or a list of content blocks, not {type(prompt).__name__}{hint}")


def checked_timeout(timeout: object) -> float | None:
    """Return the seconds that a call has; None if it says nothing. Infinity is no deadline.

    Raises:
        TypeError: it is no number.
        ValueError: it is none that a clock could reach.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise TypeError(f"`timeout` must be a number of seconds or None, not {type(timeout).__name__}")
    try:
        seconds = float(timeout)
    except OverflowError:
        return float("inf")
    if math.isnan(seconds):
        raise ValueError("`timeout` is no number (NaN)")
    return max(0.0, seconds)


def sent_servers(servers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return servers as `mcp_set_servers` sends them, and those of this process by name.

    Raises:
        OptionsError: one is nothing that can be a server, or needs a package that is missing.
        NotSupportedError: one is of a kind that this version cannot serve.
    """
    options = Options(mcp_servers=dict(servers))
    inside = own_servers(options)
    wire = {**external_servers(options), **{name: {"type": "sdk", "name": name} for name in inside}}
    return wire, inside


def own_servers(options: Options) -> dict[str, Any]:
    """Return the servers of this process by name.

    Raises:
        OptionsError: one needs a package that is missing.
        NotSupportedError: one is of a kind that this version cannot serve.
    """
    servers = dict(in_process_servers(options))
    for name, server in servers.items():
        kind = server_kind(server)
        if kind == "mcp":
            from bridle.answering.mcp_objects import check_package

            check_package(name, server)
        elif kind not in ("tools", "callable"):
            raise NotSupportedError(
                "mcp_servers",
                f"A {type(server).__name__} (`{name}`) cannot be served: use `bridle.tool_server`, a server object of the `mcp` package, "
                "or a function that takes one JSON-RPC dict and returns one.",
            )
    return servers
