"""From the client: prompts as content blocks of the CLI, and its folders and MCP servers as options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from acp import RequestError, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

_IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
_PDF = "application/pdf"


def invalid(reason: str) -> RequestError:
    """Return the error for parameters that cannot be used."""
    return RequestError.invalid_params({"details": reason})


def prompt_of(blocks: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return a prompt as the CLI takes it: a single text as it is, so that `/name` is a command. Raise RequestError for another."""
    if not blocks:
        raise invalid("`prompt` must have a content block.")
    if len(blocks) == 1 and isinstance(blocks[0], schema.TextContentBlock):
        return blocks[0].text
    content: list[dict[str, Any]] = []
    contexts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                content.append(_text(block.text))
            case schema.ImageContentBlock():
                content.append(_file("image", block.mime_type, block.data))
            case schema.ResourceContentBlock():
                content.append(_text(f"[@{block.name}]({block.uri})"))
            case schema.EmbeddedResourceContentBlock(resource=resource):
                kind, blob = resource.mime_type or "", getattr(resource, "blob", "")
                if blob and (kind in _IMAGES or kind == _PDF):
                    content.append(_file("document" if kind == _PDF else "image", kind, blob))
                    continue
                content.append(_text(f"[@{resource.uri.rstrip('/').rpartition('/')[2]}]({resource.uri})"))
                if text := getattr(resource, "text", ""):
                    contexts.append(_text(f'\n<context ref="{resource.uri}">\n{text}\n</context>'))
            case _:
                raise invalid(f"Content of the type {block.type!r} is not supported: see `promptCapabilities`.")
    return content + contexts


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(kind: str, media_type: str, data: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def folder(path: str, name: str) -> str:
    """Return a folder that the client named; raise RequestError if the path is not absolute, or is not a folder."""
    if not os.path.isabs(path) or "\0" in path or not os.path.isdir(path):
        raise invalid(f"`{name}` must be the absolute path of a folder, got {path[:300]!r}.")
    return path


def servers_of(given: Sequence[Any] | None, own: Any) -> dict[str, Any]:
    """Return the MCP servers of the client beside those of the options; empty without any. Raise RequestError for wrong ones."""
    servers: dict[str, Any] = {}
    for each in given or ():
        if each.name in servers or (isinstance(own, Mapping) and each.name in own):
            raise invalid(f"Two MCP servers have the name {each.name[:100]!r}: rename the one of the editor.")
        if isinstance(each, schema.McpServerStdio):
            env = {variable.name: variable.value for variable in each.env}
            servers[each.name] = {"type": "stdio", "command": each.command, "args": each.args, "env": env}
        elif isinstance(each, (schema.HttpMcpServer, schema.SseMcpServer)):
            headers = {header.name: header.value for header in each.headers}
            servers[each.name] = {"type": each.type, "url": each.url, "headers": headers}
        else:
            raise invalid("MCP servers must be of the type `stdio`, `http` or `sse`.")
    if servers and not isinstance(own, Mapping):
        raise invalid("The agent's options name a file of MCP servers: servers of the editor cannot be added to it.")
    return {**own, **servers} if servers else {}
