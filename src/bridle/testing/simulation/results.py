"""The result of a simulated tool: the text for the model, and the tool's own form of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.testing.script.steps import Calls, Says

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bridle.testing.script.steps import ScriptStep

__all__ = ["Outcome", "default_outcome", "flat_text", "is_silent", "last_text"]

NO_OUTPUT = "(Bash completed with no output)"
_SILENT = frozenset(
    ["mv", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "chgrp", "touch", "ln", "cd", "export", "unset", "wait"]
)
IN_CONTEXT = " (file state is current in your context — no need to Read it back)"


class Outcome(NamedTuple):
    """The result of a tool.

    Attributes:
        content: text or blocks for the model.
        structured: the tool's own form (`tool_use_result`).
        failed: the result is an error.
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
    text = call.result
    structured: Any = text
    if call.tool == "Bash":
        output = flat_text(text)
        structured = {
            "stdout": output,
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": is_silent(str(arguments.get("command", ""))),
        }
        text = output or NO_OUTPUT
    elif call.tool == "Write":
        path = arguments.get("file_path", "")
        text = text or f"File created successfully at: {path}{IN_CONTEXT}"
        structured = {
            "type": "create",
            "filePath": path,
            "content": arguments.get("content", ""),
            "structuredPatch": [],
            "originalFile": None,
            "userModified": False,
        }
    elif call.tool == "Edit":
        path = arguments.get("file_path", "")
        text = text or f"The file {path} has been updated successfully.{IN_CONTEXT}"
        structured = {
            "filePath": path,
            "oldString": arguments.get("old_string", ""),
            "newString": arguments.get("new_string", ""),
            "originalFile": None,
            "structuredPatch": [],
            "userModified": False,
            "replaceAll": arguments.get("replace_all", False),
        }
    elif call.tool == "Read":
        content = flat_text(text)
        lines = content.split("\n")
        path = arguments.get("file_path", "")
        text = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        file = {
            "filePath": path,
            "content": content,
            "numLines": len(lines),
            "startLine": 1,
            "totalLines": len(lines),
        }
        structured = {"type": "text", "file": file}
    if call.structured is not None:
        structured = call.structured
    return Outcome(text, structured, says_success=call.tool == "Bash")


def is_silent(command: str) -> bool:
    """Return whether a shell command prints nothing if it succeeds."""
    return command.partition(" ")[0] in _SILENT


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
