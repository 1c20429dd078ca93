"""From what a tool returned or raised to the result that MCP wants. Nothing here raises: what cannot be sent is an error result."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bridle.errors import text_of
from bridle.tools.content import ContentItem, ToolError, ToolResult

__all__ = ["cancelled_result", "error_result", "result_of"]

# The keys of a result in MCP's own form, as handlers written for the official package return it.
_RESULT_KEYS = frozenset({"content", "is_error", "isError", "structuredContent", "_meta"})
# The CLI shows the model `structuredContent` where there is one, after JavaScript has read and written it: whole numbers from 2**53
# on come out as others. Such an object travels as text alone, which arrives as it is.
_LONG_NUMBER = re.compile(r"\d{16}")
_CONTENT_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


class _UnusableResultError(Exception):
    """The tool returned something that cannot be sent; the text says what to return instead."""


def result_of(outcome: object, *, promised: bool = False) -> dict[str, Any]:
    """Return the MCP result for what a tool returned, or for the exception that it raised.

    Args:
        outcome: the value, or the exception.
        promised: True if the tool has an output schema: then a result must be an object.
    """
    try:
        if isinstance(outcome, BaseException):
            if type(outcome).__name__ in {"CancelledError", "Cancelled"}:
                return cancelled_result()
            return error_result(_message(outcome))
        if type(outcome) is str:
            result: dict[str, Any] = {"content": [{"type": "text", "text": _clean(outcome)}]}
        else:
            result = _result(outcome, promised=promised)
        if promised and "structuredContent" not in result and not result.get("isError"):
            raise _UnusableResultError(
                f"its `output_schema` promises an object, and it returned {type(outcome).__name__}"
            )
    except _UnusableResultError as error:
        return error_result(f"The tool's result cannot be used: {error}.")
    except Exception as error:  # the value's own methods may raise anything
        return error_result(f"The tool's result cannot be used: {_message(error)}")
    return result


def error_result(message: str) -> dict[str, Any]:
    """Return a result that tells the model that the call failed, and why."""
    return {"content": [{"type": "text", "text": _clean(message)}], "isError": True}


def cancelled_result() -> dict[str, Any]:
    """Return the result of a call that was broken off. Nobody reads it as a rule."""
    return error_result("The call was cancelled.")


def _result(value: Any, *, promised: bool) -> dict[str, Any]:
    if value is None:
        return {"content": []}
    if isinstance(value, ToolResult):
        return _full(value)
    if _is_item(value):
        return {"content": [_item(value)]}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": _clean(str(value))}]}
    if isinstance(value, bytes | bytearray | memoryview):
        raise _UnusableResultError(
            "it is bytes, which nobody can read without their type; return `Image(data, mime_type)`"
        )
    if isinstance(value, list | tuple) and any(map(_is_item, value)):
        return {"content": [_item(entry) for entry in value]}
    if isinstance(value, dict) and _is_mcp_result(value):
        return _mcp_result(value)
    if _from_mcp(value) and hasattr(value, "content"):
        return _mcp_result(value.model_dump(mode="json", by_alias=True, exclude_none=True))
    text, decoded = _json(value)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if isinstance(decoded, dict) and (promised or not _LONG_NUMBER.search(text)):
        result["structuredContent"] = decoded
    return result


def _full(value: ToolResult) -> dict[str, Any]:
    content = value.content
    entries = [content] if isinstance(content, str | dict) or _is_item(content) else content
    result: dict[str, Any] = {"content": [_item(entry) for entry in entries]}  # type: ignore[union-attr]
    if value.structured is not None:
        text, decoded = _json(value.structured)
        if not isinstance(decoded, dict):
            raise _UnusableResultError(f"`structured` must be a JSON object, not {text[:80]}")
        result["structuredContent"] = decoded
        if not result["content"]:
            result["content"] = [{"type": "text", "text": text}]
    if value.is_error:
        result["isError"] = True
    if value.meta is not None:
        result["_meta"] = _json(dict(value.meta))[1]
    return result


def _is_item(value: Any) -> bool:
    return isinstance(value, ContentItem) or (_from_mcp(value) and getattr(value, "type", None) in _CONTENT_TYPES)


def _from_mcp(value: Any) -> bool:
    """True for objects of the `mcp` package's own types, which is not imported for this."""
    return type(value).__module__.partition(".")[0] in {"mcp", "mcp_types"} and hasattr(value, "model_dump")


def _item(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "text": _clean(value)}
    if isinstance(value, ContentItem):
        wire = value.to_wire()
        msgspec.json.encode(wire)  # the caller's texts: what cannot be sent is told now
        return wire
    if isinstance(value, dict) and value.get("type") in _CONTENT_TYPES:
        return dict(_json(value)[1])
    if _is_item(value):
        return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))
    return {"type": "text", "text": _json(value)[0]}


def _is_mcp_result(value: dict[Any, Any]) -> bool:
    content = value.get("content")
    return (
        isinstance(content, list)
        and value.keys() <= _RESULT_KEYS
        and all(isinstance(entry, dict) and entry.get("type") in _CONTENT_TYPES for entry in content)
        and (bool(content) or len(value) > 1)
    )


def _mcp_result(value: dict[str, Any]) -> dict[str, Any]:
    result = {key: entry for key, entry in _json(value)[1].items() if key in _RESULT_KEYS}
    failed = bool(result.pop("is_error", False)) or bool(result.pop("isError", False))
    if failed:
        result["isError"] = True
    return result


def _json(value: Any) -> tuple[str, Any]:
    """Return `value` as JSON text and as the plain values that the text means."""
    if _is_model(value):
        text = value.model_dump_json(by_alias=True)
        return text, msgspec.json.decode(text)
    try:
        raw = msgspec.json.encode(value, enc_hook=_plain)
        return raw.decode(), msgspec.json.decode(raw)
    except (UnicodeEncodeError, OverflowError, msgspec.DecodeError):
        import json

        # Lone surrogates (file names that are not UTF-8) and numbers out of range: msgspec refuses what `json` can do.
        built = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
        text = _clean(json.dumps(built, ensure_ascii=False, separators=(",", ":")))
        return text, json.loads(text)


def _plain(value: Any) -> Any:
    if _is_model(value):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, ContentItem):
        raise _UnusableResultError(
            f"{type(value).__name__} belongs into a list or a `ToolResult`, not into other values"
        )
    if hasattr(value, "close") and hasattr(value, "send"):
        value.close()  # nobody will await it
    kind = type(value)
    raise _UnusableResultError(f"an object of type `{kind.__module__}.{kind.__qualname__}` has no JSON form")


def _is_model(value: Any) -> bool:
    return hasattr(type(value), "model_dump_json") and hasattr(type(value), "model_validate")


def _message(error: BaseException) -> str:
    text = text_of(error)
    if isinstance(error, ToolError):
        return text or "The tool failed."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _clean(text: str) -> str:
    """Return `text` with lone surrogates replaced: they have no place in UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
