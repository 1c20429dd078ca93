"""Content blocks: what a reply, a prompt or a tool result is made of.

A block of a type that is not listed here is an `UnknownBlock`; nothing is dropped. Tool inputs and tool results belong
to the user: they are kept as the bytes that came (`input_raw`, `content_raw`) and decoded when they are first touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Raw

from hackamore.messages.base import NO_RAW, Record, check_shape, decoded_once, plain, plain_object

__all__ = [
    "AdvisorToolResultBlock",
    "BashCodeExecutionToolResultBlock",
    "Block",
    "CodeExecutionToolResultBlock",
    "CompactionBlock",
    "ContainerUploadBlock",
    "ContentBlock",
    "DocumentBlock",
    "FallbackBlock",
    "ImageBlock",
    "KnownBlock",
    "McpToolResultBlock",
    "McpToolUseBlock",
    "MidConversationSystemBlock",
    "ModelReference",
    "RedactedThinkingBlock",
    "SearchResultBlock",
    "ServerToolResultBlock",
    "ServerToolUseBlock",
    "TextBlock",
    "TextEditorCodeExecutionToolResultBlock",
    "ThinkingBlock",
    "ToolReferenceBlock",
    "ToolResultBlock",
    "ToolSearchToolResultBlock",
    "ToolUseBlock",
    "UnknownBlock",
    "WebFetchToolResultBlock",
    "WebSearchToolResultBlock",
]


class Block(Record, frozen=True, kw_only=True, tag_field="type", tag=None):
    """The base of all content blocks."""

    @property
    def type(self) -> str:
        """The block's `type` on the wire."""
        tag = self.__struct_config__.tag
        return tag if isinstance(tag, str) else ""


class TextBlock(Block, frozen=True, kw_only=True, tag="text"):
    """Text.

    Attributes:
        text: the text.
        citations: where its statements come from, as the API defines them.
    """

    text: str = ""
    citations: list[Any] | None = None


class ThinkingBlock(Block, frozen=True, kw_only=True, tag="thinking"):
    """The model's reasoning.

    Attributes:
        thinking: the text; empty where the API leaves it out.
        signature: proves to the API that it wrote this.
    """

    thinking: str = ""
    signature: str = ""


class RedactedThinkingBlock(Block, frozen=True, kw_only=True, tag="redacted_thinking"):
    """Reasoning that only the API can read.

    Attributes:
        data: the encrypted text.
    """

    data: str = ""


class _Call(Block, frozen=True, kw_only=True, dict=True, gc=True):
    id: str = ""
    name: str = ""
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")

    payload_shapes: ClassVar[dict[str, bytes]] = {"input": b"{"}

    def __post_init__(self) -> None:
        # `check_shape`, written out: this runs for every tool call. 123 is `{`.
        if self.input_raw and memoryview(self.input_raw)[0] != 123:
            raise ValueError("a payload has the wrong shape")

    @decoded_once
    def input(self) -> dict[str, Any]:
        """The arguments."""
        return plain_object(self.input_raw)


class ToolUseBlock(_Call, frozen=True, kw_only=True, tag="tool_use"):
    """The model calls a tool.

    Attributes:
        id: the call's id; the result's `tool_use_id` is the same.
        name: the tool.
        caller: the caller, if the API names it.
    """

    caller: Any = None


class ServerToolUseBlock(_Call, frozen=True, kw_only=True, tag="server_tool_use"):
    """The model calls a tool that runs at the API (`web_search`, `web_fetch`, `code_execution`, `advisor`, ...).

    Attributes:
        id: the call's id; the result's `tool_use_id` is the same.
        name: the tool.
        caller: the caller, if the API names it.
    """

    caller: Any = None


class McpToolUseBlock(_Call, frozen=True, kw_only=True, tag="mcp_tool_use"):
    """The model calls a tool of an MCP server that the API is connected to.

    Attributes:
        id: the call's id; the result's `tool_use_id` is the same.
        name: the tool.
        server_name: the server.
    """

    server_name: str = ""


class _Outcome(Block, frozen=True, kw_only=True, dict=True, gc=True):
    tool_use_id: str = ""
    content_raw: Raw = msgspec.field(default=NO_RAW, name="content")
    is_error: bool | None = None

    @decoded_once
    def content(self) -> Any:
        """The result of the tool, as plain Python values."""
        return plain(self.content_raw) if self.content_raw else None

    @property
    def text(self) -> str:
        """The text of the result: the string, or its text parts joined by newlines; empty if there is none."""
        content = self.content
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            return ""
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))


class ToolResultBlock(_Outcome, frozen=True, kw_only=True, tag="tool_result"):
    """The result of a tool.

    Attributes:
        tool_use_id: the call's id.
        is_error: True if the tool failed; None if nothing was said.
    """

    payload_shapes: ClassVar[dict[str, bytes]] = {"content": b'"[n'}

    def __post_init__(self) -> None:
        check_shape(self.content_raw, b'"[n')

    if TYPE_CHECKING:

        @decoded_once
        def content(self) -> str | list[dict[str, Any]] | None:
            """The result of the tool: a string, or a list of content blocks as plain dicts."""


class ServerToolResultBlock(_Outcome, frozen=True, kw_only=True):
    """The result of a tool at the API: the base of the classes for each such tool.

    Attributes:
        tool_use_id: the call's id.
        is_error: None for all of today's tools; `content` describes an error.
    """


class WebSearchToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="web_search_tool_result"):
    """The results of a web search."""


class WebFetchToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="web_fetch_tool_result"):
    """A page that was fetched."""


class AdvisorToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="advisor_tool_result"):
    """The answer of the advisor model."""


class CodeExecutionToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="code_execution_tool_result"):
    """The output of code that ran at the API."""


class BashCodeExecutionToolResultBlock(
    ServerToolResultBlock, frozen=True, kw_only=True, tag="bash_code_execution_tool_result"
):
    """The output of a shell command that ran at the API."""


class TextEditorCodeExecutionToolResultBlock(
    ServerToolResultBlock, frozen=True, kw_only=True, tag="text_editor_code_execution_tool_result"
):
    """The effect of an edit of a file at the API."""


class ToolSearchToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="tool_search_tool_result"):
    """Tools that a search among deferred tools found."""


class McpToolResultBlock(ServerToolResultBlock, frozen=True, kw_only=True, tag="mcp_tool_result"):
    """The result of a tool of an MCP server that the API is connected to."""


class _Sourced(Block, frozen=True, kw_only=True, dict=True, gc=True):
    source_raw: Raw = msgspec.field(default=NO_RAW, name="source")

    payload_shapes: ClassVar[dict[str, bytes]] = {"source": b"{"}

    def __post_init__(self) -> None:
        check_shape(self.source_raw, b"{")

    @decoded_once
    def source(self) -> dict[str, Any]:
        """Where the content comes from: `base64` with `media_type` and `data`, `url`, `file`, `text` or `content`."""
        return plain_object(self.source_raw)


class ImageBlock(_Sourced, frozen=True, kw_only=True, tag="image"):
    """An image; `source` says where its bytes are."""


class DocumentBlock(_Sourced, frozen=True, kw_only=True, tag="document"):
    """A document; `source` says where its bytes are.

    Attributes:
        title: its title.
        context: a text about it, for the model.
        citations: whether it may be cited.
    """

    title: str | None = None
    context: str | None = None
    citations: Any = None


class SearchResultBlock(Block, frozen=True, kw_only=True, tag="search_result"):
    """A search result that the model may cite.

    Attributes:
        source: where it was found.
        title: its title.
        content: its text, as a list of text blocks in plain dicts.
        citations: whether it may be cited.
    """

    source: str = ""
    title: str = ""
    content: list[Any] = msgspec.field(default_factory=list)
    citations: Any = None


class ToolReferenceBlock(Block, frozen=True, kw_only=True, tag="tool_reference"):
    """A deferred tool that became usable.

    Attributes:
        tool_name: the tool.
    """

    tool_name: str = ""


class ContainerUploadBlock(Block, frozen=True, kw_only=True, tag="container_upload"):
    """A file for the API's code execution container.

    Attributes:
        file_id: the file.
    """

    file_id: str = ""


class CompactionBlock(Block, frozen=True, kw_only=True, tag="compaction"):
    """The summary of the conversation until here, made at the API.

    Attributes:
        content: the summary, as the API defines it.
    """

    content: Any = None


class ModelReference(Record, frozen=True, kw_only=True):
    """A model that is named in a block.

    Attributes:
        model: its id.
    """

    model: str = ""


class FallbackBlock(Block, frozen=True, kw_only=True, tag="fallback"):
    """Another model took over at the API.

    Attributes:
        from_model: the model that refused.
        to_model: the model that answered.
    """

    from_model: ModelReference | None = msgspec.field(default=None, name="from")
    to_model: ModelReference | None = msgspec.field(default=None, name="to")


class MidConversationSystemBlock(Block, frozen=True, kw_only=True, tag="mid_conv_system"):
    """An instruction of the operator in the middle of the conversation.

    Attributes:
        content: the instruction, as the API defines it.
    """

    content: Any = None


class UnknownBlock(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """A block of a type that this version of Hackamore does not know.

    Attributes:
        type: its type on the wire; empty if it has none.
        raw: its exact bytes.
    """

    type: str = ""
    raw: bytes = b""

    @decoded_once
    def data(self) -> Any:
        """The block as plain Python values: a dict, as far as the CLI keeps to its protocol."""
        return plain(self.raw) if self.raw else {}


KnownBlock = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | ServerToolUseBlock
    | WebSearchToolResultBlock
    | WebFetchToolResultBlock
    | AdvisorToolResultBlock
    | CodeExecutionToolResultBlock
    | BashCodeExecutionToolResultBlock
    | TextEditorCodeExecutionToolResultBlock
    | ToolSearchToolResultBlock
    | McpToolUseBlock
    | McpToolResultBlock
    | ContainerUploadBlock
    | SearchResultBlock
    | ToolReferenceBlock
    | CompactionBlock
    | FallbackBlock
    | MidConversationSystemBlock
)
"""Every block class that has a type of its own."""

ContentBlock = KnownBlock | UnknownBlock
"""The type of the items of `content`."""
