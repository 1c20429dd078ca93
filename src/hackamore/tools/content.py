"""Results of tools besides plain values, and the way from a return value or an exception to the result of MCP.

Making a result never raises: what cannot be sent is an error result.
"""

from __future__ import annotations

import math
import re
from binascii import b2a_base64
from collections.abc import (
    Mapping,  # noqa: TC003 - `help()` reads the annotations
    Sequence,  # noqa: TC003 - `help()` reads the annotations
)
from typing import Any, ClassVar

import msgspec

from hackamore.checked.schemas import is_model
from hackamore.errors import escape_terminal, text_of

__all__ = ["Audio", "ContentItem", "EmbeddedResource", "Image", "ResourceLink", "ToolError", "ToolResult"]


class ToolError(Exception):
    """Raise it in a tool to report to the model that the call failed; the model receives exactly this text.

    Any other exception does the same, with the name of its class in front.

    Example:
        ::

            raise ToolError("There is no such article.")
    """

    __module__ = "hackamore"


class ContentItem:
    """The base of what a result's content is made of."""

    # Not a struct or dataclass: inside other values an item has to be noticed, not serialized as if it were data.
    __slots__: tuple[str, ...] = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(getattr(self, name))}' for name in self.__slots__)})"

    def to_wire(self) -> dict[str, Any]:
        """Return the item in the form of MCP.

        Returns:
            A dict that JSON can represent.
        """
        return self._wire()

    def _wire(self) -> dict[str, Any]:
        raise NotImplementedError


class Image(ContentItem):
    """A picture that the model sees.

    Args:
        data: the bytes of the file. They are encoded here; text is taken for base64 already.
        mime_type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    """

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes | str, mime_type: str = "image/png") -> None:
        self.data: bytes | str = data
        self.mime_type: str = mime_type

    def _wire(self) -> dict[str, Any]:
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type}


class Audio(ContentItem):
    """Sound. The CLI (2.1.330) saves it and tells the model the file's name.

    Args:
        data: the bytes of the file. They are encoded here; text is taken for base64 already.
        mime_type: for example `audio/wav`.
    """

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes | str, mime_type: str = "audio/wav") -> None:
        self.data: bytes | str = data
        self.mime_type: str = mime_type

    def _wire(self) -> dict[str, Any]:
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type}


class ResourceLink(ContentItem):
    """The address of something that the model may want to read.

    Args:
        uri: the address.
        name: the name of the resource.
        title: the name for people.
        description: the content of the resource.
        mime_type: its type.
        size: its size in bytes.
    """

    __slots__ = ("description", "mime_type", "name", "size", "title", "uri")

    def __init__(
        self,
        uri: str,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
    ) -> None:
        self.uri: str = uri
        self.name: str = name
        self.title: str | None = title
        self.description: str | None = description
        self.mime_type: str | None = mime_type
        self.size: int | None = size

    def _wire(self) -> dict[str, Any]:
        return _present(
            type="resource_link",
            uri=self.uri,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
            size=self.size,
        )


class EmbeddedResource(ContentItem):
    """Something with an address, together with what is there.

    Args:
        uri: the address.
        contents: a text, or bytes, which are encoded here.
        mime_type: its type.
    """

    __slots__ = ("contents", "mime_type", "uri")

    def __init__(self, uri: str, contents: str | bytes, mime_type: str | None = None) -> None:
        self.uri: str = uri
        self.contents: str | bytes = contents
        self.mime_type: str | None = mime_type

    def _wire(self) -> dict[str, Any]:
        if isinstance(self.contents, str):
            resource = _present(uri=self.uri, mimeType=self.mime_type, text=self.contents)
        else:
            resource = _present(uri=self.uri, mimeType=self.mime_type, blob=_base64(self.contents))
        return {"type": "resource", "resource": resource}


class ToolResult(msgspec.Struct, frozen=True):
    """A result in full, for tools that want to say more than a value can.

    Attributes:
        content: a text, an item, or several of both, in order.
        structured: an object beside the content (`structuredContent`): a dict, or anything that becomes a JSON object. The CLI
            (2.1.330) shows the model this object and the images, and not the texts of `content`.
        is_error: True tells the model that the call failed.
        meta: facts for the caller that the model does not see (`_meta`).

    Example:
        ::

            ToolResult(["A chart:", Image(Path("chart.png").read_bytes())])
    """

    content: str | ContentItem | Sequence[Any] = ()
    structured: Any = None
    is_error: bool = False
    meta: Mapping[str, Any] | None = None


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b2a_base64(data, newline=False).decode("ascii")


def _short(value: Any) -> str:
    if isinstance(value, bytes | str) and len(value) > 80:
        return f"<{len(value)} {'bytes' if isinstance(value, bytes) else 'characters'}>"
    return repr(value)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# The keys of a result in MCP's own form, as handlers written for the official package return it.
_RESULT_KEYS = frozenset({"content", "is_error", "isError", "structuredContent", "_meta"})
# The CLI shows the model `structuredContent` where there is one, after JavaScript has read and written it: whole numbers from 2**53
# on come out as others. Such an object travels as text alone, which arrives as it is.
_LONG_NUMBER = re.compile(r"\d{16}")
_CONTENT_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


class _UnusableResultError(Exception):
    """The tool returned something that cannot be sent; the text says what to return instead."""


def result_of(outcome: object, *, promised: bool = False, tool: str = "") -> dict[str, Any]:
    """Return the MCP result for what a tool returned, or for the exception that it raised.

    Args:
        promised: True if the tool has an output schema: then a result must be an object.
    """
    try:
        if isinstance(outcome, BaseException):
            if type(outcome).__name__ in {"CancelledError", "Cancelled"}:
                return cancelled_result()
            return error_result(_message(outcome))
        if type(outcome) is str:
            result: dict[str, Any] = {"content": [{"type": "text", "text": without_surrogates(outcome)}]}
        else:
            result = _result(outcome, promised=promised)
        if promised and "structuredContent" not in result and not result.get("isError"):
            raise _UnusableResultError(
                f"its `output_schema` promises an object, and it returned {type(outcome).__name__}"
            )
    except Exception as error:  # the value's own methods may raise anything
        reason = f"{error}." if isinstance(error, _UnusableResultError) else _message(error)
        from hackamore.runtime.log import logger

        logger.error("the result of tool `%s` cannot be used: %s", tool, escape_terminal(reason, 500), exc_info=error)
        return error_result(f"The tool's result cannot be used: {reason}")
    return result


def error_result(message: str) -> dict[str, Any]:
    """Return a result that tells the model that the call failed, and why."""
    return {"content": [{"type": "text", "text": without_surrogates(message)}], "isError": True}


def cancelled_result() -> dict[str, Any]:
    """Return the result of a call that was cancelled. As a rule the CLI does not read it."""
    return error_result("The call was cancelled.")


def _result(value: Any, *, promised: bool) -> dict[str, Any]:
    if value is None:
        return {"content": []}
    if isinstance(value, ToolResult):
        return _full(value)
    if _is_item(value):
        return {"content": [_item(value)]}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": without_surrogates(str(value))}]}
    if isinstance(value, bytes | bytearray | memoryview):
        raise _UnusableResultError(
            "it is bytes, which the model cannot read without their type; return `Image(data, mime_type)`"
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
        return {"type": "text", "text": without_surrogates(value)}
    if isinstance(value, ContentItem):
        wire = value.to_wire()
        msgspec.json.encode(wire)  # raises now if the caller's texts cannot be sent
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
    if is_model(type(value)):
        text = value.model_dump_json(by_alias=True)
        if "null" in text:
            _check_numbers(value.model_dump())
        return text, msgspec.json.decode(text)
    try:
        raw = msgspec.json.encode(value, enc_hook=_plain)
        if b"null" in raw:
            _check_numbers(msgspec.to_builtins(value, enc_hook=_plain, str_keys=True))
        return raw.decode(), msgspec.json.decode(raw)
    except (UnicodeEncodeError, OverflowError, msgspec.DecodeError):
        import json

        # Lone surrogates (file names that are not UTF-8) and numbers out of range: msgspec refuses what `json` can do.
        built = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
        text = without_surrogates(json.dumps(built, ensure_ascii=False, separators=(",", ":")))
        return text, json.loads(text)


def _check_numbers(value: Any) -> None:
    """Refuse NaN and infinity: msgspec and pydantic write them as `null`, and the model would not see that a number is wrong."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _UnusableResultError(f"it contains {value!r}, which JSON cannot represent; return None or a text instead")
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set, frozenset)):
        return
    for part in value:
        _check_numbers(part)


def _plain(value: Any) -> Any:
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, ContentItem):
        raise _UnusableResultError(
            f"{type(value).__name__} belongs into a list or a `ToolResult`, not into other values"
        )
    if hasattr(value, "close") and hasattr(value, "send"):
        value.close()  # it is never awaited
    kind = type(value)
    raise _UnusableResultError(f"an object of type `{kind.__module__}.{kind.__qualname__}` has no JSON form")


def _message(error: BaseException) -> str:
    text = text_of(error)
    if isinstance(error, ToolError):
        return text or "The tool failed."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def without_surrogates(text: str) -> str:
    """Return `text` with lone surrogates replaced: they have no place in UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
