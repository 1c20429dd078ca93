"""Private helpers of `claude_agent_sdk._internal.sessions` that programs and tests import."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hackamore.compat.claude_agent_sdk._internal.session_summary import fold_session_summary, summary_entry_to_sdk_info
from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo

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
        with Path(file_path).open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(LITE_READ_BUF_SIZE)
            if status.st_size > LITE_READ_BUF_SIZE:
                file.seek(-LITE_READ_BUF_SIZE, os.SEEK_END)
                content += file.read(LITE_READ_BUF_SIZE)
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
