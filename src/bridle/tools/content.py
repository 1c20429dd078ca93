"""What a tool can give back besides plain values: images, sound, resources, and results in full."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping, Sequence  # noqa: TC003 - `help()` reads the annotations
from typing import Any

import msgspec

__all__ = ["Audio", "EmbeddedResource", "Image", "ResourceLink", "ToolError", "ToolResult"]


class ToolError(Exception):
    """Raise it in a tool to tell the model that the call failed; the model sees exactly this text.

    Any other exception does the same, with the name of its class in front.
    """


class ContentItem:
    """The base of what a result's content is made of."""

    # Not a struct or dataclass: inside of other values an item has to be noticed, not written down as if it were data.
    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(getattr(self, name))}' for name in self.__slots__)})"

    def to_wire(self) -> dict[str, Any]:
        """Return the item as MCP spells it."""
        raise NotImplementedError


class Image(ContentItem):
    """A picture that the model sees.

    Args:
        data: the bytes of the file. They are encoded here; text is taken for base64 already.
        mime_type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    """

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes | str, mime_type: str = "image/png") -> None:
        self.data = data
        self.mime_type = mime_type

    def to_wire(self) -> dict[str, Any]:
        """Return the item as MCP spells it."""
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type}


class Audio(ContentItem):
    """Sound. The CLI (2.1.328) saves it and tells the model the file's name.

    Args:
        data: the bytes of the file. They are encoded here; text is taken for base64 already.
        mime_type: for example `audio/wav`.
    """

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes | str, mime_type: str = "audio/wav") -> None:
        self.data = data
        self.mime_type = mime_type

    def to_wire(self) -> dict[str, Any]:
        """Return the item as MCP spells it."""
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type}


class ResourceLink(ContentItem):
    """The address of something that the model may want to read.

    Args:
        uri: the address.
        name: what it is called.
        title: what people call it.
        description: what is there.
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
        self.uri = uri
        self.name = name
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.size = size

    def to_wire(self) -> dict[str, Any]:
        """Return the item as MCP spells it."""
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
        self.uri = uri
        self.contents = contents
        self.mime_type = mime_type

    def to_wire(self) -> dict[str, Any]:
        """Return the item as MCP spells it."""
        if isinstance(self.contents, str):
            resource = _present(uri=self.uri, mimeType=self.mime_type, text=self.contents)
        else:
            resource = _present(uri=self.uri, mimeType=self.mime_type, blob=_base64(self.contents))
        return {"type": "resource", "resource": resource}


class ToolResult(msgspec.Struct, frozen=True):
    """A result in full, for tools that want to say more than a value can.

    Args:
        content: a text, an item, or several of both, in order.
        structured: an object beside the content (`structuredContent`): a dict, or anything that becomes a JSON object. The CLI
            (2.1.328) shows the model this object and the images, and not the texts of `content`.
        is_error: True tells the model that the call failed.
        meta: facts for the caller that the model does not see (`_meta`).
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
