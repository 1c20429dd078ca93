"""Hackamore behind the adapter of `calls.py`, and the differences from the official package, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hackamore import transcripts
from tests.transcripts.calls import TITLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Hackamore:
    """`hackamore.transcripts`, as `calls.Package`."""

    key = staticmethod(transcripts.project_key)

    def __init__(self, config: Path) -> None:
        self._config = config

    def listed(self, directory: str | None = None, **given: Any) -> list[dict[str, Any]]:
        found = transcripts.list(directory, all_projects=directory is None, config_dir=self._config, **given)
        return [_facts(each) for each in found]

    def info(self, session_id: str) -> dict[str, Any] | None:
        return _facts(transcripts.info(session_id, config_dir=self._config))

    def messages(self, session_id: str, limit: int | None = None, offset: int = 0) -> Any:
        messages = transcripts.read(session_id, config_dir=self._config).messages
        return [_plain(each) for each in messages[offset : None if limit is None else offset + limit]]

    def subagents(self, session_id: str) -> Any:
        return [*transcripts.read(session_id, config_dir=self._config).subagents]

    def subagent(self, session_id: str, agent_id: str) -> Any:
        return [
            _plain(each) for each in transcripts.read(session_id, config_dir=self._config).subagents[agent_id].messages
        ]

    def rename(self, session_id: str, title: str) -> None:
        transcripts.rename(session_id, title, config_dir=self._config)

    def tag(self, session_id: str, tag: str | None) -> None:
        transcripts.tag(session_id, tag, config_dir=self._config)

    def delete(self, session_id: str) -> None:
        transcripts.delete(session_id, config_dir=self._config)

    def fork(self, session_id: str, at: str | None = None) -> str:
        return transcripts.fork(session_id, at=at, config_dir=self._config)


def _facts(each: transcripts.TranscriptInfo) -> dict[str, Any]:
    titled = each.title_source in ("custom", "ai")
    return {
        "session_id": each.session_id,
        "summary": each.title,
        "last_modified": int(each.path.stat().st_mtime * 1000),
        "file_size": each.bytes,
        "custom_title": each.title if titled else None,
        "first_prompt": each.first_prompt,
        "git_branch": each.git_branch,
        "cwd": each.cwd,
        "tag": each.tag,
        "created_at": int(each.created.timestamp() * 1000) if each.created is not None else None,
    }


def _plain(message: transcripts.TranscriptMessage) -> dict[str, Any]:
    return {
        "type": message.type,
        "uuid": message.uuid,
        "session_id": message.session_id,
        "message": message.data["message"],
        "parent_tool_use_id": message.parent_tool_use_id,
        "parent_agent_id": None,
    }


# -- differences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A difference from the official package that is meant to be.

    Attributes:
        call: matches the names of the outcomes of `calls.results` that differ, all of each.
        row: its row of the table in docs/guides/old-conversations.md: the function, the official package, Hackamore, the reason.
        holds: whether two outcomes differ in this way: that of the official package, that of Hackamore.
    """

    call: re.Pattern[str]
    row: tuple[str, str, str, str]
    holds: Callable[[Any, Any], bool]


def _difference(call: str, *row: str, holds: Callable[[Any, Any], bool]) -> Difference:
    function, official, here, reason = row
    return Difference(re.compile(call), (function, official, here, reason), holds)


def _without_fields(theirs: Any, ours: Any) -> bool:
    """Return whether the two lists differ in the title of the one session whose tool call has a field `customTitle`."""
    pairs = [*zip(*(each if isinstance(each, list) else [each] for each in (theirs, ours)), strict=True)]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    title = {"summary": "With fields", "custom_title": None}
    return len(wrong) == 1 and wrong[0][0]["custom_title"] == "no title" and wrong[0][0] | title == wrong[0][1]


def _has_more(theirs: list[Any], ours: list[Any]) -> bool:
    """Return whether nothing but messages of Hackamore are missing in the official package, in the same order."""
    rest = iter(ours)
    return len(theirs) < len(ours) and all(any(each == other for other in rest) for each in theirs)


DIFFERENCES = (
    _difference(
        r"(list_sessions|project_key_for_directory): odd(, alone)?",
        "`list_sessions`, `project_key_for_directory`",
        "One dash for an emoji in a path; finds no project",
        "Two dashes",
        "The CLI writes two.",
        holds=lambda theirs, ours: (theirs, len(ours)) == ([], 1) or re.sub(r"-$", "", ours) == theirs,
    ),
    _difference(
        r"list_sessions: long sibling(, alone)?",
        "`list_sessions`",
        "Finds a project whose path begins with the same 200 characters",
        "Finds nothing",
        "Its sessions name another directory.",
        holds=lambda theirs, ours: ours == [] and theirs[0]["summary"] == "In long",
    ),
    _difference(
        r"(list_sessions: (all|work|work, alone)|get_session_info: fields)",
        "`list_sessions`, `get_session_info`",
        "A field in a tool call can be the title",
        "Only fields of the conversation count",
        "Arguments of tools are data.",
        holds=_without_fields,
    ),
    _difference(
        r"(get_session_info|get_session_messages|list_subagents): (missing|no id)(, page)?",
        "`get_session_info`, `get_session_messages`, `list_subagents`",
        "Nothing for a missing session",
        "`SessionNotFoundError`",
        "A wrong id is not an empty conversation.",
        holds=lambda theirs, ours: theirs in (None, []) and ours == "raises SessionNotFoundError",
    ),
    _difference(
        r"(rename|tag|fork|delete)_session: missing",
        "`rename_session`, `tag_session`, `fork_session`, `delete_session`",
        "`FileNotFoundError` for a missing session",
        "`SessionNotFoundError`",
        "It names the folder that was searched.",
        holds=lambda theirs, ours: (theirs, ours) == ("raises FileNotFoundError", "raises SessionNotFoundError"),
    ),
    _difference(
        r"get_subagent_messages: subagent 0",
        "`get_subagent_messages`",
        "Parallel tool calls are missing",
        "All calls and results",
        "The subagent made them.",
        holds=_has_more,
    ),
    _difference(
        r"fork_session, messages: compaction( [2-5])?",
        "`fork_session`",
        "Messages that a compaction kept are missing",
        "They follow the summary",
        "The CLI sends them to the model.",
        holds=_has_more,
    ),
    _difference(
        r"fork_session, entries: .*",
        "`fork_session`",
        "Copies messages alone",
        "Also entries that the next request depends on",
        "The CLI's own forks have them.",
        holds=lambda theirs, ours: (
            not theirs and {*ours} - {"atis-latch"} == {"agent-name", "custom-title", "last-prompt"}
        ),
    ),
    _difference(
        r"fork_session, title: (tools|compaction|interrupt|fields)",
        "`fork_session`",
        "Titled after the first prompt",
        "Titled after the title in lists",
        "Both stand in the same list.",
        holds=lambda theirs, ours: theirs != ours and ours.endswith(" (fork)"),
    ),
    _difference(
        r"rename_session: plain",
        "`rename_session`",
        "Sets the title in lists",
        "Also the name above the prompt",
        "The CLI's own renames set both.",
        holds=lambda theirs, ours: (
            theirs["shown"] == ours["shown"]
            and theirs["entries"] == ours["entries"][:1]
            and [each.get("agentName") for each in ours["entries"][1:]] == [TITLES["plain"]]
        ),
    ),
    _difference(
        r"(rename|tag)_session: control",
        "`rename_session`, `tag_session`",
        "Keep control characters",
        "Remove them",
        "Lists on terminals show titles and tags.",
        holds=lambda theirs, ours: "\x1b" in theirs["shown"] and ours["shown"] == "My title",
    ),
    _difference(
        r"rename_session: invisible",
        "`rename_session`",
        "Accepts a title of invisible characters",
        "`ValueError`",
        "Lists would show an empty title.",
        holds=lambda theirs, ours: theirs["shown"] == TITLES["invisible"] and ours == "raises ValueError",
    ),
)


def difference(call: str, theirs: object, ours: object) -> Difference | None:
    """Return the row that is the reason for two different outcomes; None if there is none."""
    return next((each for each in DIFFERENCES if each.call.fullmatch(call) and each.holds(theirs, ours)), None)
