"""Summaries of conversations: the facts that lists show, and private helpers that programs and tests import."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hackamore.compat.claude_agent_sdk._shapes import (
    ClaudeAgentOptions,
    SDKSessionInfo,
    SessionKey,
    SessionStore,
    SessionSummaryEntry,
)


def _store_implements(store: Any, method: str) -> bool:
    """Return whether a store has a method of its own: that of the protocol only raises."""
    own = getattr(type(store), method, None)
    return getattr(store, method, None) is not None and own is not getattr(SessionStore, method, None)


def validate_session_store_options(options: ClaudeAgentOptions) -> None:
    store = options.session_store
    if store is None:
        return
    if options.continue_conversation and options.resume is None and not _store_implements(store, "list_sessions"):
        raise ValueError("continue_conversation needs a session_store with list_sessions(); or set `resume`")
    if options.enable_file_checkpointing:
        raise ValueError(
            "session_store excludes enable_file_checkpointing: copies of files stay on the disk of this host"
        )


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
    """Return the summary after further entries; the store sets `mtime`."""
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


LITE_READ_BUF_SIZE = 65_536
MAX_SANITIZED_LENGTH = 200
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _validate_uuid(text: str) -> str | None:
    return text if _UUID.fullmatch(text) else None


def _simple_hash(text: str) -> str:
    number = 0
    for character in text:
        number = (number * 31 + ord(character)) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >= 1 << 31 else number)
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"


def _sanitize_path(path: str) -> str:
    plain = re.sub("[^a-zA-Z0-9]", "-", path)
    return plain if len(plain) <= MAX_SANITIZED_LENGTH else f"{plain[:MAX_SANITIZED_LENGTH]}-{_simple_hash(path)}"


def _values(text: str, key: str) -> list[str]:
    found = []
    for raw in re.findall(rf'"{re.escape(key)}": ?"((?:[^"\\]|\\.)*)"', text, re.DOTALL):
        try:
            found.append(json.loads(f'"{raw}"'))
        except ValueError:
            found.append(raw)
    return found


def _extract_json_string_field(text: str, key: str) -> str | None:
    return next(iter(_values(text, key)), None)


def _extract_last_json_string_field(text: str, key: str) -> str | None:
    return next(reversed(_values(text, key)), None)


def _lines(text: str) -> list[Any]:
    found = []
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def _extract_first_prompt_from_head(head: str) -> str:
    data = fold_session_summary(None, {"project_key": "", "session_id": ""}, _lines(head))["data"]
    return data.get("first_prompt") or data.get("command_fallback") or ""


@dataclass
class _LiteSessionFile:
    """The beginning and the end of a file."""

    mtime: int
    size: int
    head: str
    tail: str


def _lite(content: bytes, mtime: int, size: int) -> _LiteSessionFile:
    head, tail = content[:LITE_READ_BUF_SIZE], content[-LITE_READ_BUF_SIZE:]
    return _LiteSessionFile(mtime, size, head.decode(errors="replace"), tail.decode(errors="replace"))


def _read_session_lite(file_path: Path) -> _LiteSessionFile | None:
    try:
        content, status = Path(file_path).read_bytes(), os.stat(file_path)
    except OSError:
        return None
    return _lite(content, int(status.st_mtime * 1000), status.st_size) if content else None


def _jsonl_to_lite(jsonl: str, mtime: int) -> _LiteSessionFile:
    content = jsonl.encode()
    return _lite(content, mtime, len(content))


def _entries_to_jsonl(entries: list[Any]) -> str:
    first = ({"type": each["type"], **each} if isinstance(each, dict) and "type" in each else each for each in entries)
    return "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in first)


def _parse_session_info_from_lite(
    session_id: str, lite: _LiteSessionFile, project_path: str | None = None
) -> SDKSessionInfo | None:
    entries = _lines(lite.head) + (_lines(lite.tail) if lite.tail != lite.head else [])
    folded = fold_session_summary(None, {"project_key": "", "session_id": session_id}, entries)
    info = summary_entry_to_sdk_info({**folded, "mtime": lite.mtime}, project_path)
    if info is not None:
        info.file_size = lite.size
    return info
