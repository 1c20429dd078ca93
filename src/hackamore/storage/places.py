"""Places on the disk: the configuration folder, the folder of a project, the files of a session.

The CLI keeps a conversation in `<configuration>/projects/<key>/<session id>.jsonl`, and its subagents in the folder of the same name.
The key is made of the real path of the working directory. This room finds files and reads no conversation.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hackamore.errors import AmbiguousSessionError, SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

StrPath = str | os.PathLike[str]

KEY_LENGTH = 200
"""The most characters of a path in a key. The CLI cuts longer ones and adds a hash."""

HEAD_BYTES = 64 * 1024
"""The part at the beginning, and at the end, of a session's file that holds its metadata."""

_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')
_OUTSIDE = re.compile(r"[^a-zA-Z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class SubagentFiles:
    """The files of one subagent."""

    agent_id: str
    path: Path

    def open(self) -> BinaryIO:
        """Open the conversation, unbuffered."""
        return _open(self.path)

    @property
    def meta_path(self) -> Path:
        """The file with the subagent's type and the tool call that started it. It may be absent."""
        return self.path.with_suffix(".meta.json")

    def read_meta(self) -> bytes:
        """Return the content of `meta_path`."""
        return self.meta_path.read_bytes()


def _open(path: Path) -> BinaryIO:
    # Without O_NONBLOCK, a FIFO would wait for its writer.
    return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The files of one session, which can vanish or grow at any time; `directory` is the one that the project was found by, if any."""

    session_id: str
    path: Path
    directory: str | None = None

    @property
    def project_key(self) -> str:
        """The name of the project's folder."""
        return self.path.parent.name

    @property
    def folder(self) -> Path:
        """The folder with the session's subagents and other files. It may be absent."""
        return self.path.with_suffix("")

    def open(self) -> BinaryIO:
        """Open the conversation, unbuffered."""
        return _open(self.path)

    def subagent(self, agent_id: str) -> SubagentFiles:
        """Return the files that a subagent has if it is not nested. They may be absent."""
        return SubagentFiles(agent_id, self.folder / "subagents" / f"agent-{agent_id}.jsonl")

    def subagents(self) -> Sequence[SubagentFiles]:
        """Return the files of the subagents, those in nested folders included, ordered by path."""
        found: list[SubagentFiles] = []
        waiting = [self.folder / "subagents"]
        while waiting:
            here = waiting.pop()
            try:
                entries = sorted(os.scandir(here), key=lambda entry: entry.name)
            except OSError:
                continue
            deeper = []
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(Path(entry.path))
                elif entry.name.startswith("agent-") and entry.name.endswith(".jsonl"):
                    found.append(SubagentFiles(entry.name[len("agent-") : -len(".jsonl")], Path(entry.path)))
            waiting += reversed(deeper)
        return found


def is_session_id(text: str) -> bool:
    """Return whether `text` has the form of a session id, a UUID."""
    return _SESSION_ID.fullmatch(text) is not None


def config_folder(config_dir: StrPath | None = None) -> Path:
    """Return the configuration folder of the CLI, in Unicode's NFC form; by default that of `CLAUDE_CONFIG_DIR`, or `~/.claude`."""
    named = os.fspath(config_dir) if config_dir is not None else os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(unicodedata.normalize("NFC", named or os.path.join(os.path.expanduser("~"), ".claude")))


def project_key(directory: StrPath | None = None) -> str:
    """Return the name that the CLI gives to the folder of a project.

    Every UTF-16 unit of the real path outside `a-z`, `A-Z` and `0-9` becomes `-`. A longer name than 200 characters is cut, and ends with a
    hash of the path.

    Args:
        directory: the working directory; it need not exist. None for the current one.

    Returns:
        The name, also the `project_key` of session stores.
    """
    path = real_directory(directory)
    key = _plain_key(path)
    return key if len(key) <= KEY_LENGTH else f"{key[:KEY_LENGTH]}-{_hash(path)}"


def real_directory(directory: StrPath | None) -> str:
    """Return the real path of a directory, in Unicode's NFC form; None is the current one."""
    return unicodedata.normalize("NFC", os.path.realpath("." if directory is None else os.fspath(directory)))


def _plain_key(path: str) -> str:
    # A character outside the basic plane has two UTF-16 units. Bytes that are not UTF-8 are lone surrogates, one unit each.
    return _OUTSIDE.sub(lambda found: "--" if ord(found[0]) > 0xFFFF else "-", path)


def _hash(path: str) -> str:
    # 32 bits, by UTF-16 units, signed, written in base 36: the native builds of the CLI 2.1 do this. Other builds use another function.
    value = 0
    units = path.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + low + 256 * high) & 0xFFFFFFFF
    rest = abs(value - 0x100000000 if value >= 0x80000000 else value)
    text = ""
    while rest:
        rest, digit = divmod(rest, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def all_project_folders(config_dir: StrPath | None = None) -> list[Path]:
    """Return the folders of all projects, in no order and each once: one may also be a symbolic link to another."""
    projects = config_folder(config_dir) / "projects"
    real = os.path.realpath(projects)
    found: dict[str, Path] = {}
    with suppress(OSError), os.scandir(projects) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found[os.path.join(real, entry.name)] = Path(entry.path)
            elif os.path.isdir(entry.path):  # unlike `is_dir`, no error for a link to itself
                found.setdefault(os.path.realpath(entry.path), Path(entry.path))
    return list(found.values())


def project_folders(
    project: StrPath | None = None, *, include_worktrees: bool = True, config_dir: StrPath | None = None
) -> list[tuple[Path, str]]:
    """Return the folders of a project that exist, each with its working directory: the own one first, then those of other worktrees."""
    directory = real_directory(project)
    projects = config_folder(config_dir) / "projects"
    places = [directory]
    if include_worktrees and len(worktrees := _worktrees(directory)) > 1:
        places += [place for place in worktrees if place != directory]
    found: dict[str, tuple[Path, str]] = {}
    for place in places:
        for folder in _folders_of(projects, place):
            found.setdefault(os.path.realpath(folder), (folder, place))  # one may be a symbolic link to another
    return list(found.values())


def _folders_of(projects: Path, directory: str) -> list[Path]:
    exact = projects / project_key(directory)
    if exact.is_dir():
        return [exact]
    plain = _plain_key(directory)
    if len(plain) <= KEY_LENGTH:
        return []
    # Another build of the CLI hashed the path in another way. Other paths can have the same beginning: the sessions tell.
    try:
        with os.scandir(projects) as entries:
            near = [Path(entry.path) for entry in entries if entry.name.startswith(f"{plain[:KEY_LENGTH]}-")]
    except OSError:
        return []
    return sorted(folder for folder in near if folder.is_dir() and _may_be_of(folder, plain))


def _may_be_of(folder: Path, plain_key: str) -> bool:
    seen = [_plain_key(real_directory(directory)) for directory in _directories_in(folder)]
    return not seen or plain_key in seen


def _directories_in(folder: Path) -> Iterator[str]:
    """Yield the first working directory of each session."""
    for files in sessions_in(folder):
        with suppress(OSError, ValueError):
            # A FIFO would wait for its writer.
            if files.path.is_file():
                with files.path.open("rb") as file:
                    head = file.read(HEAD_BYTES)
                if (found := _CWD.search(head)) is not None:
                    yield msgspec.json.decode(found[1], type=str)


def directory_of(folder: Path) -> str:
    """Return the working directory of a project's folder, as its sessions name it; the name of the folder if none of them does."""
    begins = folder.name[:KEY_LENGTH]
    return next((each for each in _directories_in(folder) if _plain_key(each)[:KEY_LENGTH] == begins), folder.name)


def _worktrees(directory: str) -> list[str]:
    """Return the worktrees of the git repository that holds `directory`, as `git worktree list` does. No program is started."""
    common = _git_common(directory)
    if common is None:
        return []
    found = [os.path.dirname(common) if os.path.basename(common) == ".git" else common]
    with suppress(OSError):
        entries = [
            os.path.join(common, "worktrees", name) for name in sorted(os.listdir(os.path.join(common, "worktrees")))
        ]
        lines = [(entry, _line_of(os.path.join(entry, "gitdir"))) for entry in entries]
        found += [os.path.dirname(os.path.join(entry, line)) for entry, line in lines if line]
    return [unicodedata.normalize("NFC", os.path.realpath(path)) for path in found]


def _git_common(directory: str) -> str | None:
    here = directory
    while True:
        marker = os.path.join(here, ".git")
        if os.path.isdir(marker):
            return marker
        if (line := _line_of(marker)) and line.startswith("gitdir: "):
            gitdir = os.path.join(here, line.removeprefix("gitdir: "))
            common = _line_of(os.path.join(gitdir, "commondir"))
            return os.path.realpath(os.path.join(gitdir, common) if common else gitdir)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _line_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(HEAD_BYTES).rstrip("\n")
    except OSError:
        return ""


def sessions_in(folder: Path, directory: str | None = None) -> Iterator[SessionFiles]:
    """Yield the files of the sessions of a project's folder, in no order. A folder that vanished has none; other names are left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return
    for name in names:
        if name.endswith(".jsonl") and is_session_id(name[: -len(".jsonl")]):
            yield SessionFiles(name[: -len(".jsonl")], folder / name, directory)


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """A file with a conversation, of a session or of its subagent `agent_id`; `size` is in bytes, `modified` in nanoseconds since 1970."""

    path: str
    session_id: str
    agent_id: str | None
    inode: int
    size: int
    modified: int


def conversation_files(folder: Path) -> Iterator[ConversationFile]:
    """Yield the files of all sessions and subagents of a project's folder, in no order. A file that vanishes meanwhile is left out."""
    waiting: list[tuple[str, str | None]] = [(str(folder), None)]
    while waiting:
        here, session_id = waiting.pop()
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            name = entry.name
            with suppress(OSError):
                if name.endswith(".jsonl"):
                    stem = name[: -len(".jsonl")]
                    is_agent = stem.startswith("agent-")
                    if not is_agent and (session_id is not None or not is_session_id(stem)):
                        continue
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield ConversationFile(
                            entry.path,
                            session_id or stem,
                            stem[len("agent-") :] if is_agent else None,
                            status.st_ino,
                            status.st_size,
                            status.st_mtime_ns,
                        )
                elif (session_id is not None or is_session_id(name)) and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, session_id or name))


def chosen_folders(
    project: StrPath | None, everywhere: bool, *, include_worktrees: bool = True, config_dir: StrPath | None = None
) -> list[tuple[Path, str | None]]:
    """Return the folders of a project, or of all, each with the working directory that it is for, where that is known."""
    if not everywhere:
        return [*project_folders(project, include_worktrees=include_worktrees, config_dir=config_dir)]
    if project is not None:
        raise ValueError("`project` and `all_projects=True` exclude each other: leave one of them out.")
    return [(folder, None) for folder in all_project_folders(config_dir)]


def locate(session_id: str, *, project: StrPath | None = None, config_dir: StrPath | None = None) -> SessionFiles:
    """Return the files of a session: the newest, if several projects (and worktrees of `project`) have a session of this id.

    Raises:
        SessionNotFoundError: no project has a file for the session, or only empty ones.
    """
    if is_session_id(session_id):
        newest: tuple[int, SessionFiles] | None = None
        for folder, directory in chosen_folders(project, project is None, config_dir=config_dir):
            files = SessionFiles(session_id, folder / f"{session_id}.jsonl", directory)
            with suppress(OSError):
                status = files.path.stat()
                if stat.S_ISREG(status.st_mode) and status.st_size and (not newest or status.st_mtime_ns > newest[0]):
                    newest = status.st_mtime_ns, files
        if newest is not None:
            return newest[1]
    raise SessionNotFoundError.on_disk(session_id, str(config_folder(config_dir) / "projects"))


def find_files(prefix: str, *, project: StrPath | None = None, config_dir: StrPath | None = None) -> SessionFiles:
    """Return the files of the session whose id begins with `prefix`, in any case; the places are those of `locate`.

    Raises:
        SessionNotFoundError: no session's id begins with it, or `prefix` is empty.
        AmbiguousSessionError: the ids of several sessions do; it lists them.
    """
    ids: set[str] = set()
    if prefix:
        for folder, directory in chosen_folders(project, project is None, config_dir=config_dir):
            names = (files.session_id for files in sessions_in(folder, directory))
            ids.update(name for name in names if name.lower().startswith(prefix.lower()))
    if len(ids) > 1:
        raise AmbiguousSessionError(prefix, sorted(ids))
    return locate(ids.pop() if ids else prefix, project=project, config_dir=config_dir)


def installed_cli(environment: Mapping[str, str], home: str) -> str | None:
    """Return where `hackamore install-cli` puts the CLI: in `$XDG_DATA_HOME` or `~/.local/share`; None without both."""
    folder = environment.get("XDG_DATA_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.join(home, ".local", "share") if os.path.isabs(home) else ""
    return os.path.join(folder, "hackamore", "claude", "current", "claude") if folder else None
