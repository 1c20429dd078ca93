"""`fold_session_summary`: what a list shows of a conversation, kept up to date entry by entry."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo, SessionKey, SessionSummaryEntry

_LAST_COUNTS = {
    "customTitle": "custom_title",
    "aiTitle": "ai_title",
    "lastPrompt": "last_prompt",
    "summary": "summary_hint",
    "gitBranch": "git_branch",
}
"""Fields of entries whose last value counts, and their names in the summary."""
_NOT_TYPED = re.compile(
    r"<local-command-stdout>|<session-start-hook>|<tick>|<goal>|\[Request interrupted by user[^\]]*\]|"
    r"\s*<(ide_opened_file|ide_selection)>.*</\1>\s*$",
    re.DOTALL,
)
"""The beginnings of texts that no user typed."""
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>")
_PROMPT_LENGTH = 200


def _time_of(entry: dict[str, Any]) -> int | None:
    try:
        return int(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)
    except (KeyError, TypeError, ValueError):
        return None


def last_time(entries: list[Any]) -> int:
    return _time_of(entries[-1]) or int(time.time() * 1000)


def _prompt_texts(entry: dict[str, Any]) -> list[str]:
    message = entry.get("message")
    if entry.get("type") != "user" or entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
        return []
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [content]
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]


def _fold_prompt(data: dict[str, Any], entry: dict[str, Any]) -> None:
    for raw in _prompt_texts(entry):
        text = raw.replace("\n", " ").strip()
        command = _COMMAND.search(text)
        if command is not None:
            data["command_fallback"] = data.get("command_fallback") or command[1]
        elif text and not _NOT_TYPED.match(text):
            cut = text if len(text) <= _PROMPT_LENGTH else f"{text[:_PROMPT_LENGTH].rstrip()}\u2026"
            data.update(first_prompt=cut, first_prompt_locked=True)
            return


def fold_session_summary(prev: SessionSummaryEntry | None, key: SessionKey, entries: list[Any]) -> SessionSummaryEntry:
    """Return the summary after further entries. The store sets `mtime`.

    Args:
        prev: the summary before them; None for the first.
        key: the conversation.
        entries: the entries.
    """
    data: dict[str, Any] = dict(prev["data"]) if prev is not None else {}
    for entry in entries:
        data.setdefault("is_sidechain", entry.get("isSidechain") is True)
        if "created_at" not in data and (moment := _time_of(entry)) is not None:
            data["created_at"] = moment
        if "cwd" not in data and isinstance(entry.get("cwd"), str) and entry["cwd"]:
            data["cwd"] = entry["cwd"]
        if not data.get("first_prompt_locked"):
            _fold_prompt(data, entry)
        data.update({name: entry[wire] for wire, name in _LAST_COUNTS.items() if isinstance(entry.get(wire), str)})
        if entry.get("type") == "tag":
            data["tag"] = entry.get("tag")
            if not isinstance(data["tag"], str) or not data["tag"]:
                del data["tag"]
    session_id = key["session_id"] if prev is None else prev["session_id"]
    return {"session_id": session_id, "mtime": 0 if prev is None else prev["mtime"], "data": data}


def summary_entry_to_sdk_info(entry: SessionSummaryEntry, project_path: str | None) -> SDKSessionInfo | None:
    """Return what a list shows of a summary; None for a subagent's, and for one without any text."""
    data = entry["data"]
    prompt = (data.get("first_prompt") if data.get("first_prompt_locked") else data.get("command_fallback")) or None
    title = data.get("custom_title") or data.get("ai_title") or None
    summary = title or data.get("last_prompt") or data.get("summary_hint") or prompt
    if data.get("is_sidechain") or not summary:
        return None
    return SDKSessionInfo(
        session_id=entry["session_id"],
        summary=summary,
        last_modified=entry["mtime"],
        custom_title=title,
        first_prompt=prompt,
        git_branch=data.get("git_branch") or None,
        cwd=data.get("cwd") or project_path or None,
        tag=data.get("tag") or None,
        created_at=data.get("created_at"),
    )
