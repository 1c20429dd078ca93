"""The calls that the official package and Hackamore are compared by, on one configuration folder.

`results` makes every call with each of both, behind the same adapter. Needs neither package: `official.py` runs it with the other one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MISSING = "00000000-0000-4000-8000-000000000000"
TITLES = {"plain": "Release notes \u00e9", "control": "  My\ttitle\u202e\x1b ", "empty": " \n ", "invisible": "\u200b"}


class Package(Protocol):
    """One of both packages. Lists and messages are plain values with the names of the official package."""

    def listed(self, directory: str | None = None, **given: Any) -> list[dict[str, Any]]: ...
    def info(self, session_id: str) -> dict[str, Any] | None: ...
    def messages(self, session_id: str, limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]: ...
    def subagents(self, session_id: str) -> list[str]: ...
    def subagent(self, session_id: str, agent_id: str) -> list[dict[str, Any]]: ...
    def key(self, directory: str) -> str: ...
    def rename(self, session_id: str, title: str) -> None: ...
    def tag(self, session_id: str, tag: str | None) -> None: ...
    def delete(self, session_id: str) -> None: ...
    def fork(self, session_id: str, at: str | None = None) -> str: ...


def results(package: Package, config: Path, directories: dict[str, str], ids: dict[str, str]) -> dict[str, Any]:
    """Return the outcome of each call, by its name and the conversation or directory. Changes the folder; deletes all of it at the end."""
    found: dict[str, Any] = {}

    def call(name: str, about: str, action: Callable[..., Any], *given: Any, **more: Any) -> Any:
        try:
            found[f"{name}: {about}"] = action(*given, **more)
        except Exception as error:  # the class is compared
            found[f"{name}: {about}"] = f"raises {type(error).__name__}"
        return found[f"{name}: {about}"]

    call("list_sessions", "all", package.listed)
    call("list_sessions", "page", package.listed, limit=3, offset=2)
    for name, directory in directories.items():
        call("list_sessions", name, package.listed, directory)
        call("list_sessions", f"{name}, alone", package.listed, directory, include_worktrees=False)
        call("project_key_for_directory", name, package.key, directory)
    for kind, session_id in {**ids, "missing": MISSING, "no id": "x"}.items():
        call("get_session_info", kind, package.info, session_id)
        call("get_session_messages", kind, package.messages, session_id)
        call("get_session_messages", f"{kind}, page", package.messages, session_id, 2, 1)
        agents = call("list_subagents", kind, package.subagents, session_id)
        for number, agent_id in enumerate([] if isinstance(agents, str) else agents):
            call("get_subagent_messages", f"{kind} {number}", package.subagent, session_id, agent_id)
    for kind, session_id in ids.items():
        before = path_of(config, session_id).read_bytes()
        for name, value in forked(package, config, session_id).items():
            found[f"fork_session, {name}: {kind}"] = value
        for number, message in enumerate(package.messages(session_id), 1):
            found[f"fork_session, messages: {kind} {number}"] = forked(package, config, session_id, message["uuid"])[
                "messages"
            ]
        found[f"fork_session: {kind} afterwards"] = path_of(config, session_id).read_bytes() == before
    for about, text in TITLES.items():
        for name, action in (("tag_session", package.tag), ("rename_session", package.rename)):
            call(name, about, changed, package, config, ids["tools"], action, text)
    call("tag_session", "none", changed, package, config, ids["tools"], package.tag, None)
    call("rename_session", "missing", package.rename, MISSING, "title")
    call("tag_session", "missing", package.tag, MISSING, "tag")
    call("fork_session", "missing", package.fork, MISSING)
    for kind, session_id in {**ids, "missing": MISSING}.items():
        call("delete_session", kind, deleted, package, config, session_id)
    return found


def path_of(config: Path, session_id: str) -> Path:
    (path,) = config.glob(f"projects/*/{session_id}.jsonl")
    return path


def changed(
    package: Package, config: Path, session_id: str, action: Callable[[str, Any], None], value: object
) -> dict[str, Any]:
    """Return the entries that a change appends, and the title or tag that is shown then."""
    path = path_of(config, session_id)
    before = path.stat().st_size
    action(session_id, value)
    entries = [json.loads(each) for each in path.read_bytes()[before:].splitlines()]
    info = package.info(session_id)
    assert info is not None
    return {"entries": entries, "shown": info["tag" if entries[0]["type"] == "tag" else "custom_title"]}


def forked(package: Package, config: Path, session_id: str, at: str | None = None) -> dict[str, Any]:
    """Return the title, the contents of the messages, and the types of the other entries of a fork, which is deleted again."""
    copy = package.fork(session_id, at)
    info = package.info(copy)
    assert info is not None
    entries = [json.loads(each) for each in path_of(config, copy).read_bytes().splitlines()]
    messages = [each["message"]["content"] for each in package.messages(copy)]
    package.delete(copy)
    others = sorted({each["type"] for each in entries if "uuid" not in each})
    return {"title": info["custom_title"], "messages": messages, "entries": others}


def deleted(package: Package, config: Path, session_id: str) -> list[str]:
    """Return the files of a session that are left after it was deleted."""
    package.delete(session_id)
    return sorted(str(path.relative_to(config)) for path in config.glob(f"projects/*/{session_id}*"))
