"""Summaries of conversations: the facts that lists show, and private helpers that programs and tests import."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._shapes import (
    ClaudeAgentOptions,
    SDKSessionInfo,
    SessionKey,
    SessionSummaryEntry,
)
from hackamore.transcripts.stores import implements as _store_implements


def validate_session_store_options(options: ClaudeAgentOptions) -> None:
    store = options.session_store
    if store is None:
        return
    if options.continue_conversation and options.resume is None and not _store_implements(store, "list_sessions"):
        raise ValueError("continue_conversation needs a session_store with list_sessions(); or set `resume`")
    if options.enable_file_checkpointing:
        raise ValueError("session_store excludes enable_file_checkpointing: copies of files stay on this host")


def fold_session_summary(prev: SessionSummaryEntry | None, key: SessionKey, entries: list[Any]) -> SessionSummaryEntry:
    return transcripts.fold_summary(prev, key, entries)


def summary_entry_to_sdk_info(entry: SessionSummaryEntry, project_path: str | None) -> SDKSessionInfo | None:
    """Return what a list shows of a summary; None for a subagent's, and for one without any text."""
    store: Any = SimpleNamespace(list_session_summaries=lambda _: [entry])
    found = transcripts.list(project_path or ".", store=store)
    return replace(shown(found[0]), cwd=entry["data"].get("cwd") or project_path) if found else None


def shown(found: transcripts.TranscriptInfo, project: str | None = None) -> SDKSessionInfo:
    return SDKSessionInfo(
        session_id=found.session_id,
        summary=found.title,
        last_modified=int(found.modified.timestamp() * 1000),
        file_size=found.bytes or None,
        custom_title=found.title if found.title_source in ("custom", "ai") else None,
        first_prompt=found.first_prompt,
        git_branch=found.git_branch,
        cwd=found.cwd or project,
        tag=found.tag,
        created_at=None if found.created is None else int(found.created.timestamp() * 1000),
    )


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


def _extract_json_string_field(text: str, key: str, which: int = 0) -> str | None:
    raw = re.findall(rf'"{re.escape(key)}": ?"((?:[^"\\]|\\.)*)"', text, re.DOTALL)[which:][:1]
    try:
        return cast("str", json.loads(f'"{raw[0]}"')) if raw else None
    except ValueError:
        return cast("str", raw[0])


def _extract_last_json_string_field(text: str, key: str) -> str | None:
    return _extract_json_string_field(text, key, -1)


def _folded(session_id: str, text: str) -> SessionSummaryEntry:
    entries = []
    for line in text.split("\n"):
        with suppress(ValueError, RecursionError):
            entries.append(json.loads(line))
    key: SessionKey = {"project_key": "", "session_id": session_id}
    return fold_session_summary(None, key, [each for each in entries if isinstance(each, dict)])


def _extract_first_prompt_from_head(head: str) -> str:
    data = _folded("", head)["data"]
    return data.get("first_prompt") or data.get("command_fallback") or ""


class _LiteSessionFile(NamedTuple):
    text: str
    mtime: int


_jsonl_to_lite = _LiteSessionFile


def _read_session_lite(file_path: Path) -> _LiteSessionFile | None:
    with suppress(OSError):
        text, mtime = Path(file_path).read_text(encoding="utf-8", errors="replace"), Path(file_path).stat().st_mtime
        return _LiteSessionFile(text, int(mtime * 1000)) if text else None
    return None


def _entries_to_jsonl(entries: list[Any]) -> str:
    first = ({"type": each["type"], **each} if isinstance(each, dict) and "type" in each else each for each in entries)
    return "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in first)


def _parse_session_info_from_lite(
    session_id: str, lite: _LiteSessionFile, project_path: str | None = None
) -> SDKSessionInfo | None:
    summary: SessionSummaryEntry = {**_folded(session_id, lite.text), "mtime": lite.mtime}
    info = summary_entry_to_sdk_info(summary, project_path)
    return info and replace(info, file_size=len(lite.text.encode()))
