"""The result of a simulated tool: the form for the model, for hooks, and for the host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.testing.script.steps import Calls, Says
from hackamore.testing.simulation.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hackamore.testing.script.steps import ScriptStep

NO_OUTPUT = "(Bash completed with no output)"
_SILENT = frozenset(FACTS["silent_commands"])
IN_CONTEXT = " (file state is current in your context — no need to Read it back)"


class Outcome(NamedTuple):
    """The result of a tool.

    Attributes:
        structured: the tool's own form (`tool_use_result`).
        says_success: the result says that it is not an error.
        whole: the tool's own form for the host, where hooks get another one.
        note: a text that only the model gets, behind the content.
    """

    content: Any
    structured: Any
    failed: bool = False
    says_success: bool = False
    whole: dict[str, Any] | None = None
    note: str = ""


def default_outcome(call: Calls, arguments: Mapping[str, Any]) -> Outcome:
    """Return the result that the script has for a tool, in the form of the real one as far as it is known."""
    if call.error is not None:
        return Outcome(call.error, f"Error: {call.error}", failed=True)
    text: Any = call.result
    given = {name: arguments.get(name, "") for name in ("command", "file_path", "content", "old_string", "new_string")}
    path = str(given["file_path"])
    structured: Any = text
    match call.tool:
        case "Bash":
            output = flat_text(text)
            text, structured = output or NO_OUTPUT, shell_form(str(given["command"]), output)
        case "Write":
            told, structured = write_form(path, given["content"])
            text = text or told
        case "Edit":
            everywhere = arguments.get("replace_all", False)
            told, structured = edit_form(path, given["old_string"], given["new_string"], everywhere=everywhere)
            text = text or told
        case "Read":
            text, structured = read_form(path, flat_text(text).split("\n"))
        case _:
            pass
    if call.structured is not None:
        structured = call.structured
    return Outcome(text, structured, says_success=call.tool == "Bash")


# -- the forms of the real tools: the text for the model, and the tool's own form -------------------------------------


def shell_form(command: str, output: str, errors: str = "") -> dict[str, Any]:
    """Return the form of a shell command that succeeded."""
    return {
        "stdout": output,
        "stderr": errors,
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": command.partition(" ")[0] in _SILENT,
    }


def write_form(path: str, content: Any, *, existed: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the forms of a file that was written."""
    structured = {
        "type": "update" if existed else "create",
        "filePath": path,
        "content": content,
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    done = f"The file {path} has been updated successfully." if existed else f"File created successfully at: {path}"
    return done + IN_CONTEXT, structured


def edit_form(path: str, old: Any, new: Any, *, everywhere: Any, before: str | None = None) -> tuple[str, Any]:
    """Return the forms of a file that was edited; `before` is its content before."""
    structured = {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "originalFile": before,
        "structuredPatch": [],
        "userModified": False,
        "replaceAll": everywhere,
    }
    return f"The file {path} has been updated successfully.{IN_CONTEXT}", structured


def read_form(path: str, lines: list[str], start: int = 1, total: int | None = None) -> tuple[str, Any]:
    """Return the forms of lines of a file, from the line `start` on, of `total` lines."""
    file = {
        "filePath": path,
        "content": "\n".join(lines),
        "numLines": len(lines),
        "startLine": start,
        "totalLines": len(lines) if total is None else total,
    }
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, start))
    return text, {"type": "text", "file": file}


def flat_text(content: Any) -> str:
    """Return content as text, its blocks joined with newlines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return "\n".join(
        str(block.get("text", "")) if block.get("type") == "text" else f"[{block.get('type')}]"
        for block in content
        if isinstance(block, dict)
    )


def last_text(items: Iterable[ScriptStep]) -> str:
    """Return the last text of a reply, or of a subagent."""
    return next((step.text for step in reversed([*items]) if isinstance(step, Says)), "")


_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_PLAIN = 1e21
"""JavaScript writes whole numbers from here on with an exponent."""


def server_outcome(tool: str, server: str, result: dict[str, Any], folder: str) -> Outcome:
    """Return the result of a tool in the forms for the model, the hooks and the host.

    Args:
        tool: its whole name, `mcp__SERVER__NAME`.
        result: the server's response to `tools/call`.
        folder: the folder where the real CLI keeps pictures and other files; nothing is written.
    """
    content = result.get("content")
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    if result.get("isError") is True:
        # Only texts are shown, and no other part of it.
        text = flat_text([item for item in items if item.get("type") == "text"])
        return Outcome(text or "Command failed with no output", None, failed=True)
    meta, structured = result.get("_meta"), result.get("structuredContent")
    links = [_without_type(item) for item in items if item.get("type") == "resource_link"]
    shown: Any
    if isinstance(structured, dict):
        structured = _as_javascript(structured)
        text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        others = _blocks([item for item in items if item.get("type") != "text"], server, folder)
        shown = [*others, {"type": "text", "text": text}] if others else text
    else:
        structured = None
        shown = _blocks(items, server, folder)
    whole = {"content": shown, "_meta": meta, "structuredContent": structured, "resourceLinks": links or None}
    silent = isinstance(shown, list) and all(block["type"] == "text" and not block["text"].strip() for block in shown)
    return Outcome(
        f"({tool} completed with no output)" if silent else shown,
        shown,
        whole={name: value for name, value in whole.items() if value is not None} if len(_set(whole)) > 1 else None,
    )


def _set(fields: dict[str, Any]) -> list[str]:
    return [name for name, value in fields.items() if value is not None]


def _blocks(items: list[dict[str, Any]], server: str, folder: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        place = f"{folder}/mcp-{server}-blob-{number}"
        match item.get("type"):
            case "text":
                blocks.append(_text(str(item.get("text", ""))))
            case "image" | "audio" as kind:
                blocks += _blob(f"[{kind.title()} from {server}] ", item.get("data"), item.get("mimeType"), place)
            case "resource_link":
                about = f" ({item['description']})" if item.get("description") else ""
                blocks.append(_text(f"[Resource link: {item.get('name')}] {item.get('uri')}{about}"))
            case "resource":
                found = item.get("resource")
                resource = found if isinstance(found, dict) else {}
                title = f"[Resource from {server} at {resource.get('uri')}] "
                if "blob" in resource:
                    picture = resource.get("mimeType") in _PICTURES
                    blocks += [_text(title)] if picture else []
                    blocks += _blob(title, resource["blob"], resource.get("mimeType"), place)
                else:
                    blocks.append(_text(f"{title}{resource.get('text', '')}"))
            case _:
                blocks.append(item)
    return blocks


def _blob(title: str, data: object, mime_type: object, place: str) -> list[dict[str, Any]]:
    """Return a picture and where it is kept, or for other bytes where they are kept."""
    kind = str(mime_type or "")
    path = f"{place}.{kind.rpartition('/')[2].partition('+')[0] or 'bin'}"
    if kind in _PICTURES:
        source = {"type": "base64", "media_type": kind, "data": data}
        return [{"type": "image", "source": source}, _text(f"[Image: source: {path}]")]
    encoded = str(data or "").rstrip("=")
    size = len(encoded) * 3 // 4
    return [_text(f"{title}Binary content ({kind or 'unknown type'}, {size} bytes) saved to {path}")]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _without_type(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "type"}


def _as_javascript(value: Any) -> Any:
    """Return a value as it is after JavaScript has read it: whole numbers have no point."""
    match value:
        case dict():
            return {name: _as_javascript(part) for name, part in value.items()}
        case list():
            return [_as_javascript(part) for part in value]
        case float() if value.is_integer() and abs(value) < _LARGEST_PLAIN:
            return int(value)
        case _:
            return value
