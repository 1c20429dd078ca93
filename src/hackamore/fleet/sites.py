"""Sites: the folder of one task below the folder of its fleet, with a lock, a record, and removals that a kill cannot cut in half.

A folder appears and disappears by one rename: it is made below `.hackamore` first, and moved back there before it is deleted. The record
says that the folder is the fleet's own: Hackamore never touches a folder that it did not make.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from hackamore.errors import WorkspaceError
from hackamore.storage.files import lock_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN: Final = re.compile(r"[a-z0-9]+(?:[-._][a-z0-9]+)*")
_HASHED: Final = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
_LONGEST_NAME: Final = 48
_OWN: Final = ".hackamore"
_SHORT_OF_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING: Final = _SHORT_OF_SPACE | {errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}


class Place(msgspec.Struct, frozen=True):
    """The folder of a task, or the place where its work is kept.

    Attributes:
        folder: the path of the folder. If only a branch is kept, the path of its repository.
        branch: the branch with the work; None if there is none.
        commit: the commit that an attempt starts from, or with the work that was kept; None if there is none.
    """

    folder: str
    branch: str | None = None
    commit: str | None = None


class Record(msgspec.Struct, frozen=True):
    """The facts about the folder of one task that outlive a process; the fields of git are for worktrees."""

    task: str  # the hash of the task's id
    repository: str = ""  # the folder of git that all worktrees of the repository share
    base: str = ""  # the commit that the task starts from, chosen once
    branch: str = ""  # the branch of the task
    holds: bool = False  # True from the moment the folder is complete until its work is kept elsewhere, or discarded
    reset: bool = False  # True if the next folder starts at `base`, and not at the end of the branch
    result: Place | None = None  # the result of `finish`, if it removed the folder


def _digest(task_id: str) -> str:
    return hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()


def safe_name(task_id: str) -> str:
    """Return the name of a task's folder and branch: short, lower case, the same for no other task.

    Args:
        task_id: any text. Short ids of lower-case letters, digits and single separators are kept; others get a hash.

    Returns:
        The name: letters, digits, `-`, `.` and `_`, at most 65 of them.
    """
    plain = len(task_id) <= _LONGEST_NAME and _PLAIN.fullmatch(task_id)
    # git refuses names that end with `.lock`. A plain id must not look like the name of another task.
    if plain and not task_id.endswith(".lock") and not _HASHED.fullmatch(task_id):
        return task_id
    readable = re.sub(r"[^a-z0-9]+", "-", task_id[: 4 * _LONGEST_NAME].lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{readable or 'task'}-{_digest(task_id)[:16]}"


@contextmanager
def explained(task_id: str) -> Iterator[None]:
    """Raise failures of the file system as a `WorkspaceError` that names the fix."""
    try:
        yield
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
        if error.errno in _SHORT_OF_SPACE:
            fix = "Free some space, or pass `to=` a folder on another disk."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            fix = "Give this user the right to write there, or pass another `to=`."
        else:
            fix = "Repair the cause and run the task again."
        raise WorkspaceError(
            f"The workspace of the task {task_id!r} failed: {error.strerror or error}{where}. {fix}",
            retryable=error.errno in _PASSING,
        ) from error


@contextmanager
def locked(path: str, seconds: float) -> Iterator[int]:
    """Hold the lock of a file; threads, processes and, on a shared file system with locks, hosts exclude each other.

    The lock ends with the process that holds it, and with the last program that inherited the descriptor.

    Yields:
        The descriptor that holds the lock.

    Raises:
        WorkspaceError: another holder did not release it in time.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if not lock_file(descriptor, seconds):
            raise WorkspaceError(
                f"Another program has held the lock {path} for {seconds:g} s. Find it with `fuser -v {path}`, wait for it or stop "
                "it, and run the task again.",
                retryable=True,
            )
        try:
            yield descriptor
        finally:
            # Not only closed: a forked process may have a copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


class Site:
    """The folder of one task, while the lock of the task is held.

    Args:
        to: the real path of the folder of all tasks.

    Attributes:
        folder: the folder of the task.
    """

    def __init__(self, to: str, task_id: str, lock: int) -> None:
        self.name: str = safe_name(task_id)
        self.folder: str = os.path.join(to, self.name)
        self.lock: int = lock
        self._task_id = task_id
        self._own = os.path.join(to, _OWN)
        self._parts = os.path.join(self._own, f"{self.name}.parts")
        self._file = os.path.join(self._own, f"{self.name}.json")

    def read(self) -> Record | None:
        """Return the record of the task; None if it has none.

        Raises:
            WorkspaceError: the record cannot be read, or the folder is not the fleet's own.
        """
        try:
            with open(self._file, "rb") as file:
                record = msgspec.json.decode(file.read(), type=Record)
        except FileNotFoundError:
            if os.path.lexists(self.folder):
                raise WorkspaceError(
                    f"The folder {self.folder} exists, and this fleet did not make it. Move it away, or pass another `to=`."
                ) from None
            return None
        except msgspec.MsgspecError as error:
            raise WorkspaceError(
                f"The record {self._file} is damaged ({error}). Save the work in {self.folder}, then delete both."
            ) from None
        if record.task != _digest(self._task_id):
            raise WorkspaceError(
                f"The folder {self.folder} belongs to another task. Rename the task {self._task_id!r}."
            )
        return record

    def new_record(self) -> Record:
        """Return the first record of the task, which is not stored yet."""
        return Record(_digest(self._task_id))

    def write(self, record: Record) -> None:
        """Store the record of the task."""
        unfinished = f"{self._file}.new"
        with open(unfinished, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self._file)

    def part(self) -> str:
        """Return the path for a folder that is being made; it does not exist, and the folder that it is in does."""
        os.makedirs(self._parts, exist_ok=True)
        return os.path.join(self._parts, uuid.uuid4().hex)

    def discard(self) -> None:
        """Move the folder of the task to those that `sweep` deletes."""
        if not os.path.lexists(self.folder):
            return
        if not os.path.islink(self.folder) and os.path.isdir(self.folder):
            with suppress(OSError):  # a folder that is read-only cannot be moved
                os.chmod(self.folder, 0o700)
        os.rename(self.folder, self.part())

    def sweep(self) -> None:
        """Delete folders that were not completed, or were discarded. A folder that cannot be deleted stays until the next time."""
        if os.path.lexists(self._parts):
            delete(self._parts)


@contextmanager
def site_of(task_id: str, to: str | None, seconds: float, *, unlisted: bool = False) -> Iterator[Site]:
    """Take the lock of a task, and remove what a killed program left unfinished. The folder of all tasks is created.

    Args:
        unlisted: hide the folder, if it is created, from a repository of git that it is in.
    """
    if not isinstance(task_id, str):
        raise TypeError(f"`task_id` must be a str, got {type(task_id).__name__}")
    if to is None:
        raise WorkspaceError("This workspace has no folder for its copies. Pass `to=`, or use it in a `Fleet`.")
    with explained(task_id):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(to)
            if unlisted:
                with open(os.path.join(to, ".gitignore"), "w", encoding="ascii") as file:
                    file.write("*\n")
        to = os.path.realpath(to)
        own = os.path.join(to, _OWN)
        os.makedirs(own, exist_ok=True)
        with locked(os.path.join(own, f"{safe_name(task_id)}.lock"), seconds) as lock:
            site = Site(to, task_id, lock)
            site.sweep()
            yield site


def delete(path: str) -> None:
    """Delete a folder, read-only folders in it included; files that the system does not let go stay.

    Args:
        path: the folder.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError:
        for folder, names, _ in os.walk(path):
            for name in names:
                inner = os.path.join(folder, name)
                with suppress(OSError):
                    if stat.S_ISDIR(os.lstat(inner).st_mode):  # the mode of a link would be that of its target
                        os.chmod(inner, 0o700)
        shutil.rmtree(path, ignore_errors=True)
