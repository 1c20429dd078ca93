"""Resume a session from a store: which calls are made, what the private configuration folder holds, how the store is healed.

`resume_steps` decides and never waits. It yields the calls to make (of the store, or of the file system), gets what they returned, and
returns the private folder that the CLI is to use. Keys and entries from a store are data: a name that is not a plain relative path is
left out, and nothing is written outside the folder.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hackamore._engine.launch.plan import build_environment
from hackamore.errors import SessionNotFoundError, StreamWarning, escape_terminal
from hackamore.options.stores import encoded, entries_of, implements, unusable
from hackamore.storage.places import is_session_id, locate, project_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from hackamore.options.options import Options
    from hackamore.options.stores import StoreKey

_COPIED = (".credentials.json", "settings.json", "settings.local.json", ".claude.json")
"""Files of the user's configuration that the private folder has a copy of, since the CLI writes to them."""
_LINKED = (
    "CLAUDE.md",
    "agents",
    "commands",
    "keybindings.json",
    "output-styles",
    "plugins",
    "rules",
    "skills",
    "themes",
    "workflows",
)
"""Files and folders of the user's configuration that the private folder leads to."""
_NOT_MIRRORED = "api-request"
"""The beginning of the types of entries that the CLI writes to the disk and does not report."""
_METADATA = "agent_metadata"
"""The type of the entries that stand for the file `agent-<id>.meta.json`. The last one counts."""
_METADATA_FILE = ".meta.json"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}")
_DEEPEST = 8  # those of the CLI have two parts: `subagents/agent-<id>`


class Step(NamedTuple):
    """A call to make: of a method of the store, or of a function of this room, which has no `operation` and no timeout."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    operation: str = ""


class Private(NamedTuple):
    """The private configuration folder of one process, and the problems that users should know about."""

    folder: str
    session_id: str
    project_key: str
    warnings: tuple[StreamWarning, ...] = ()
    carried: bool = False
    """True if it is sent to another machine: the configuration there is used."""

    def options(self, options: Options) -> Options:
        """Return the options with which the CLI resumes the session from the folder."""
        environment = options.env if self.carried else {**options.env, "CLAUDE_CONFIG_DIR": self.folder}
        return options.replace(resume=self.session_id, continue_conversation=False, env=environment)


def wants_store(options: Options) -> bool:
    """Return whether options ask to resume from a store."""
    if options.session_store is None:
        return False
    resumes = options.resume is not None and is_session_id(options.resume)  # a title is found by the CLI alone
    return resumes or (options.resume is None and options.continue_conversation)


def resume_steps(
    options: Options,
    make_folder: Callable[[], str],
    remove_folder: Callable[[str], None],
    *,
    far: str | None = None,
) -> Generator[Step, Any, Private | None]:
    """Yield the calls that a resume takes; the result of each is sent back. Return the private folder; None without such a session.

    Args:
        far: the working directory on another machine, to which the folder is sent; then neither disk nor configuration of this one count.
        make_folder: makes an empty folder that only this user can read.
        remove_folder: removes it if a call fails, or the caller does not continue.
    """
    store: Any = options.session_store
    here = project_key(options.cwd if far is None else far)
    session_id = options.resume
    if session_id is None:
        listed = yield Step(store.list_sessions, (here,), "list_sessions")
        session_id = _latest(listed)
        if session_id is None:
            return None
    warnings: list[StreamWarning] = []
    key, parts = yield from load_steps(store, here, session_id, warnings)
    disk = {} if far is not None else (yield Step(_read_disk, (options, session_id)))
    for subpath in sorted({*parts, *disk}):
        ours = parts.get(subpath, [])
        missing, diverged = missing_entries(ours, disk.get(subpath, ()))
        if diverged:
            warnings.append(_diverged(session_id, subpath, diverged))
        if missing:
            part: StoreKey = {**key, "subpath": subpath} if subpath else key
            yield Step(store.append, (part, [dict(entry) for entry in missing]), "append")  # a store may change them
            parts[subpath] = [*ours, *missing]
    if not parts[""]:
        return None
    folder = make_folder()
    try:
        if far is not None:
            yield Step(write_parts, (folder, here, session_id, parts))
        else:
            yield Step(materialise, (folder, options, here, session_id, parts))
    except BaseException:  # the folder may have credentials in it
        remove_folder(folder)
        raise
    return Private(folder, session_id, key["project_key"], tuple(warnings), carried=far is not None)


def load_steps(
    store: Any, here: str, session_id: str, warnings: list[StreamWarning]
) -> Generator[Step, Any, tuple[StoreKey, dict[str, list[Any]]]]:
    """Yield the calls that read a session from a store; the result of each is sent back. `here` is the project to look in first.

    Return the place of the session, and its entries: "" for the main transcript, subpaths for the others.
    """
    key: StoreKey = {"project_key": here, "session_id": session_id}
    entries = entries_of((yield Step(store.load, (key,), "load")), "load", session_id)
    if not entries and implements(store, "find_session"):  # an optional method
        found = yield Step(store.find_session, (session_id,), "find_session")
        if found:  # it was in another working directory, or on another host
            try:
                key = {"project_key": str(found[0]["project_key"]), "session_id": session_id}
            except (TypeError, LookupError):
                raise unusable("find_session", "it did not return a list of keys.", session_id) from None
            entries = entries_of((yield Step(store.load, (key,), "load")), "load", session_id)
    parts: dict[str, list[Any]] = {"": entries}
    if entries and implements(store, "list_subkeys"):
        subpaths = (yield Step(store.list_subkeys, (key,), "list_subkeys")) or ()
        if not isinstance(subpaths, (list, tuple, set, frozenset)):
            raise unusable("list_subkeys", f"it returned a {type(subpaths).__name__}, and not a list.", session_id)
        for subpath in subpaths:
            if not isinstance(subpath, str) or not safe_subpath(subpath):
                warnings.append(_left_out(subpath, session_id))
                continue
            part: StoreKey = {**key, "subpath": subpath}
            parts[subpath] = entries_of((yield Step(store.load, (part,), "load")), "load", session_id)
    return key, parts


def _latest(listed: object) -> str | None:
    found = [
        (each["mtime"], each["session_id"])
        for each in (listed if isinstance(listed, (list, tuple)) else ())
        if isinstance(each, dict)
        and isinstance(each.get("mtime"), (int, float))
        and is_session_id(str(each.get("session_id")))
    ]
    return max(found)[1] if found else None


def missing_entries(stored: Iterable[Any], on_disk: Iterable[Any]) -> tuple[list[Any], int]:
    """Return the entries to append if the copy is the beginning of the file on the disk; else none, and how many messages it lacks."""
    copied, lines = list(stored), list(on_disk)
    ours = [entry["uuid"] for entry in copied if isinstance(entry.get("uuid"), str)]
    theirs = [entry["uuid"] for entry in lines if isinstance(entry.get("uuid"), str)]
    if theirs[: len(ours)] != ours:
        return [], len(set(theirs) - set(ours))
    if len(theirs) < len(ours):
        return [], 0
    known = [entry for entry in copied if entry.get("type") == _METADATA][-1:]
    metadata = [entry for entry in lines if entry.get("type") == _METADATA and entry not in known]
    if len(theirs) == len(ours):
        return metadata, 0
    seen, start = 0, 0
    while seen < len(ours):
        seen += isinstance(lines[start].get("uuid"), str)
        start += 1
    left_out = (_NOT_MIRRORED, _METADATA)
    return [entry for entry in lines[start:] if not str(entry.get("type", "")).startswith(left_out)] + metadata, 0


def _diverged(session_id: str, subpath: str, count: int) -> StreamWarning:
    what = f"session {session_id}{f' ({escape_terminal(subpath, 200)})' if subpath else ''}"
    text = (
        f"The transcript of {what} on this host has {count} messages that the session store lacks, and the store has others: "
        "the session was continued elsewhere. The copy in the store is used."
    )
    return StreamWarning("STORE_INCOMPLETE", text, {"session_id": session_id, "subpath": subpath, "count": count})


def _left_out(subpath: object, session_id: str) -> StreamWarning:
    text = f"The session store has a part with an unsafe name, {escape_terminal(repr(subpath), 200)}. It was left out."
    return StreamWarning("STORE_INCOMPLETE", text, {"session_id": session_id})


def safe_subpath(subpath: str) -> bool:
    """Return whether the name of a part is a plain relative path: it comes from a store, and becomes the name of a file."""
    parts = subpath.split("/")
    return len(parts) <= _DEEPEST and all(_PART.fullmatch(part) is not None for part in parts)


# -- the file system -------------------------------------------------------------------------------------------------------


def _environment(options: Options) -> dict[str, str]:
    return build_environment(options, os.environ, "")


def user_config(options: Options) -> tuple[Path, Path]:
    """Return the configuration folder that the CLI would use with these options, and its file `.claude.json`."""
    environment = _environment(options)
    if named := environment.get("CLAUDE_CONFIG_DIR"):
        return Path(named), Path(named, ".claude.json")
    home = Path(environment.get("HOME") or os.path.expanduser("~"))
    return home / ".claude", home / ".claude.json"


def _read_disk(options: Options, session_id: str) -> dict[str, list[Any]]:
    config, _ = user_config(options)
    try:
        files = locate(session_id, config_dir=config)
    except SessionNotFoundError:  # it ran on another host
        return {}
    found = {"": _read_lines(files.path)}
    for agent in files.subagents():
        subpath = agent.path.relative_to(files.folder).as_posix().removesuffix(".jsonl")
        found[subpath] = [*_read_lines(agent.path), *_read_metadata(agent.path.with_suffix(_METADATA_FILE))]
    return found


def _read_metadata(path: Path) -> list[Any]:
    """Return the metadata of a subagent as the entry that the CLI reports for it; nothing if it cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        found = msgspec.json.decode(path.read_bytes())
        if isinstance(found, dict):
            return [{**found, "type": _METADATA}]
    return []


def _read_lines(path: Path) -> list[Any]:
    """Return the objects in a file; a half-written last line is left out."""
    entries = []
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                entry = msgspec.json.decode(line)
                if isinstance(entry, dict):
                    entries.append(entry)
    return entries


def materialise(folder: str, options: Options, project: str, session_id: str, parts: dict[str, list[Any]]) -> None:
    """Write a session and the user's configuration into a folder that the CLI can use as its own.

    `parts` are its entries: "" for the main transcript, subpaths for the others. After an OSError the folder is left to be removed.
    """
    write_parts(folder, project, session_id, parts)
    _bring_configuration(Path(folder), *user_config(options))
    if options.user is not None:  # the folder is open to its owner alone
        _give(folder, options.user)


def write_parts(folder: str, project: str, session_id: str, parts: dict[str, list[Any]]) -> None:
    """Write a session into a configuration folder, as the CLI keeps it; arguments and errors as for `materialise`."""
    place = Path(folder, "projects", project)
    for subpath, entries in parts.items():
        if subpath and not safe_subpath(subpath):
            continue
        path = place / session_id / f"{subpath}.jsonl" if subpath else place / f"{session_id}.jsonl"
        _make_parents(Path(folder), path.parent)
        metadata = [entry for entry in entries if entry.get("type") == _METADATA] if subpath else []
        if metadata:
            last = {name: value for name, value in metadata[-1].items() if name != "type"}
            _write(path.with_suffix(_METADATA_FILE), [encoded(last, session_id)])
        lines = (entry for entry in entries if not (metadata and entry.get("type") == _METADATA))
        _write(path, (encoded(entry, session_id) + b"\n" for entry in lines))


def _give(folder: str, user: str | int) -> None:
    """Make a user the owner of the folder and of all that is in it, without following links; raise OSError if that is not allowed."""
    if isinstance(user, str):
        import pwd

        try:
            user = pwd.getpwnam(user).pw_uid
        except KeyError:
            raise FileNotFoundError(f"there is no user {user!r} on this machine") from None
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), user, -1, follow_symlinks=False)
    os.chown(folder, user, -1)


def _make_parents(folder: Path, parent: Path) -> None:
    """Make the folders between; if the private folder was removed meanwhile it stays so."""
    here = folder
    for part in parent.relative_to(folder).parts:
        here /= part
        with suppress(FileExistsError):
            here.mkdir(mode=0o700)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)


def _bring_configuration(folder: Path, config: Path, main_file: Path) -> None:
    for name in _COPIED:
        source = main_file if name == ".claude.json" else config / name
        try:
            text = source.read_bytes()
        except OSError:
            continue
        _write(folder / name, [_without_what_stays(name, text)])
    for name in _LINKED:
        source = config / name
        if source.exists():
            (folder / name).symlink_to(source.absolute())


def _without_what_stays(name: str, text: bytes) -> bytes:
    """Return a file of the configuration as the private folder has it."""
    if name not in (".credentials.json", "settings.json", "settings.local.json"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    inner = value.get("claudeAiOauth" if name == ".credentials.json" else "env") if isinstance(value, dict) else None
    if not isinstance(inner, dict):
        return text
    inner.pop("refreshToken", None)  # it is valid once, and the new one would be lost with the folder
    inner.pop("CLAUDE_CONFIG_DIR", None)  # it would send the CLI to another folder
    return json.dumps(value).encode()
