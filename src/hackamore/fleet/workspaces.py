"""Workspaces: the folder that each task of a fleet works in, and the place where its work is kept.

A process may be killed at any moment of an attempt. The next one comes back to the same folder, on this host or another with the same file
system. Methods block: call them in a worker thread.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from hackamore.checked.fields import (
    Checked,
    boolean,
    choice,
    list_of,
    name_text,
    named_path,
    number,
    option,
    text,
    wrong,
)
from hackamore.errors import WorkspaceError
from hackamore.fleet.sites import Place, safe_name, site_of
from hackamore.fleet.worktrees import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Copy", "Folder", "Keep", "Place", "Workspace", "Worktree"]

Keep: TypeAlias = Literal["failed", "all", "none"]
"""The tasks whose folder stays after `finish`."""

_LOCK_SECONDS: Final = 120.0


@runtime_checkable
class Workspace(Protocol):
    """The folders of a fleet's tasks. Write one to prepare them in another way.

    Workspaces are pickled: `prepare` and `finish` may run in any thread, process or host.
    """

    def under(self, folder: str) -> Self:
        """Return this workspace with a folder to make others in, unless it has one or needs none.

        Args:
            folder: the folder; it does not have to exist.

        Returns:
            The workspace.
        """
        ...

    def prepare(self, task_id: str, *, fresh: bool) -> Place:
        """Return the folder for an attempt. A call after a kill at any moment of an earlier call repairs what it left.

        Args:
            task_id: the task; any text.
            fresh: True if nothing of an earlier attempt may be visible; False returns the folder as it was left.

        Returns:
            The place.

        Raises:
            WorkspaceError: the folder cannot be made.
        """
        ...

    def finish(self, task_id: str, place: Place, *, succeeded: bool, message: str) -> Place | None:
        """Keep the work of a task, after its last attempt. A second call has the same outcome.

        Args:
            task_id: the task.
            place: the result of `prepare`.
            succeeded: True if the task succeeded.
            message: a text for the record, such as the message of a commit.

        Returns:
            The place where the work is kept; None if nothing is.

        Raises:
            WorkspaceError: the work could not be kept; it stays in its folder.
        """
        ...


def _absolute(value: Any, path: str) -> str:
    # Another process may have another working directory. Records and journals are JSON: names that are not Unicode do not fit.
    return text(os.path.abspath(named_path(value, path)), path)


def _pattern(value: Any, path: str) -> str:
    return name_text(value, path).removesuffix("/")


def _revision(value: Any, path: str) -> str:
    found = name_text(value, path)
    if found.startswith("-"):
        raise wrong(path, "must be a branch, tag or commit", found)
    return found


_BAD_BRANCH: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\./|^[-./]|[./]$")


def _template(value: Any, path: str) -> str:
    found = name_text(value, path)
    if found.count("{task}") != 1:
        raise wrong(path, "must contain `{task}` once, so that each task has a branch of its own", found)
    if _BAD_BRANCH.search(found.replace("{task}", "task")):
        raise wrong(path, "must be a name that git allows for a branch", found, 'Write `branch="fleet/{task}"`.')
    return found


_keep: Final = choice("failed", "all", "none")


class Folder(Checked):
    """The same folder for all tasks. Nothing is made or removed.

    Args:
        path: the folder. It must exist when a task starts.

    Raises:
        OptionsError: an argument has a wrong type or value.

    Example:
        ::

            fleet = Fleet("nightly.db", workspace=Folder("/srv/reports"))
    """

    path: str = option(_absolute)

    if not TYPE_CHECKING:

        def __init__(self, path, **unknown):
            super().__init__(path=path, **unknown)

    else:  # last: tools that read the source document this one

        def __init__(self, path: str | os.PathLike[str]) -> None: ...

    def under(self, folder: str) -> Self:
        """Return this workspace.

        Args:
            folder: ignored.

        Returns:
            The workspace.
        """
        return self

    def prepare(self, task_id: str, *, fresh: bool) -> Place:
        """Return the folder; WorkspaceError if it does not exist."""
        if not os.path.isdir(self.path):
            raise WorkspaceError(f"The folder {self.path} does not exist. Make it, or pass another `path`.")
        return Place(self.path)

    def finish(self, task_id: str, place: Place, *, succeeded: bool, message: str) -> Place | None:
        """Return the folder."""
        return Place(self.path)


class _Apart(Checked):
    if TYPE_CHECKING:
        to: str | None

    def under(self, folder: str) -> Self:
        """Return this workspace with a folder for its tasks, unless it has one.

        Args:
            folder: the folder.

        Returns:
            The workspace.
        """
        return self if self.to is not None else self.replace(to=folder)


class Copy(_Apart):
    """A copy of a folder for each task.

    Symbolic links stay links; sockets and pipes are left out. A fleet keeps each copy: `row.folder` is its place.

    Args:
        source: the folder to copy.
        to: the folder for the copies, which is created. None uses a folder beside the journal of the fleet.
        keep: the tasks whose copy stays: `all`, `failed` or `none`.
        ignore: files and folders to leave out: patterns for a name (`*.log`) or for a path below `source` (`data/large`).

    Raises:
        OptionsError: an argument has a wrong type or value.

    Example:
        ::

            fleet = Fleet("nightly.db", workspace=Copy("template", ignore=("node_modules",)))
    """

    source: str = option(_absolute)
    to: str | None = option(_absolute, default=None)
    keep: Keep = option(_keep, default="all")
    ignore: Sequence[str] = option(list_of(_pattern), default=())

    if not TYPE_CHECKING:

        def __init__(self, source, to=None, **others):
            super().__init__(source=source, to=to, **others)

    else:  # last: tools that read the source document this one

        def __init__(
            self,
            source: str | os.PathLike[str],
            to: str | os.PathLike[str] | None = None,
            *,
            keep: Keep = "all",
            ignore: Sequence[str] = (),
        ) -> None: ...

    def prepare(self, task_id: str, *, fresh: bool) -> Place:
        """Return the copy of a task; make it if it does not exist, or `fresh` discards that of an earlier attempt."""
        with site_of(task_id, self.to, _LOCK_SECONDS) as site:
            record = site.read()
            if record is None:
                site.write(site.new_record())
            if fresh or not os.path.isdir(site.folder):
                unfinished = site.part()
                try:
                    self._copy(os.path.dirname(site.folder), unfinished)
                    site.discard()
                    os.rename(unfinished, site.folder)
                finally:
                    site.sweep()
            return Place(site.folder)

    def _copy(self, to: str, target: str) -> None:
        source = os.path.realpath(self.source)
        if not os.path.isdir(source):
            raise WorkspaceError(f"`source` is {source}, which is not a folder. Pass the folder to copy.")
        if source == to:
            raise WorkspaceError(f"`to` and `source` are the same folder, {to}. Pass another `to=`.")
        if os.path.isfile(os.path.join(source, ".git")) and ".git" not in self.ignore:
            raise WorkspaceError(
                f"{source} is a worktree of git: a copy would change its index and branch. Use `Worktree`, or pass `ignore=('.git',)`."
            )
        try:
            shutil.copytree(source, target, symlinks=True, ignore=self._left_out(source, to), copy_function=_copy_file)
        except shutil.Error as error:
            problems: list[tuple[str, str, str]] = error.args[0]
            first = "; ".join(f"{name}: {reason}" for name, _, reason in problems[:3])
            full = any("No space left" in reason or "quota" in reason for _, _, reason in problems)
            fix = (
                "Free some space, or pass `to=` a folder on another disk."
                if full
                else "Repair them, or leave them out with `ignore=`."
            )
            raise WorkspaceError(
                f"{len(problems)} files of {source} could not be copied: {first}. {fix}", retryable=full
            ) from None

    def _left_out(self, source: str, to: str) -> Callable[[str, list[str]], set[str]]:
        status = os.stat(to)

        def left_out(folder: str, names: list[str]) -> set[str]:
            below = os.path.relpath(folder, source)
            return {name for name in names if ignored(os.path.join(folder, name), os.path.normpath(f"{below}/{name}"))}

        def ignored(path: str, inner: str) -> bool:
            if any(
                fnmatchcase(inner if "/" in pattern else os.path.basename(inner), pattern) for pattern in self.ignore
            ):
                return True
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                return True
            plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)
            # The copies themselves may be inside `source`.
            return not plain or os.path.samestat(found, status)

        return left_out

    def finish(self, task_id: str, place: Place, *, succeeded: bool, message: str) -> Place | None:
        """Keep or remove the copy of a task; return None if it was removed."""
        with site_of(task_id, self.to, _LOCK_SECONDS) as site:
            if site.read() is None or not os.path.isdir(site.folder):
                return None
            if self.keep == "all" or (self.keep == "failed" and not succeeded):
                return Place(site.folder)
            site.discard()
            site.sweep()
            return None


def _copy_file(source: str, target: str, *, follow_symlinks: bool = True) -> None:
    try:
        shutil.copy2(source, target, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        if os.path.lexists(source):
            raise
        # It was removed in the meantime, as lock files and temporary files are.


class Worktree(_Apart):
    """A git worktree and a branch for each task.

    When a task succeeds, its work is committed on the branch and the worktree is removed; a branch without changes is deleted. The worktree
    stays if the task failed, or if it has work that is not on the branch. Ignored files are not kept. Hooks do not run, commits are not
    signed, submodules are not filled. Uncommitted changes in `repo` are not part of a worktree. `fresh=True` resets the branch of the task;
    other branches that an agent made stay in the repository.

    Args:
        repo: the top folder of a repository.
        to: the folder for the worktrees, which is created. None uses a folder beside the journal of the fleet.
        base: the branch, tag or commit that tasks start from. Each task looks it up once, for its first attempt.
        branch: the name of the branches; `{task}` stands for the task.
        keep: the tasks whose worktree stays: `failed`, `all` or `none`. `none` also deletes the branch of a task that failed.
        commit: commit everything in the worktree of a task that succeeded.
        timeout: seconds that one command of git may take.

    Raises:
        OptionsError: an argument has a wrong type or value.

    Example:
        ::

            fleet = Fleet("nightly.db", workspace=Worktree("/srv/project", base="main"))
    """

    repo: str = option(_absolute)
    to: str | None = option(_absolute, default=None)
    base: str = option(_revision, default="HEAD")
    branch: str = option(_template, default="fleet/{task}")
    keep: Keep = option(_keep, default="failed")
    commit: bool = option(boolean, default=True)
    timeout: float = option(number(0, exclusive=True, maximum=86_400), default=120.0)

    if not TYPE_CHECKING:

        def __init__(self, repo, to=None, **others):
            super().__init__(repo=repo, to=to, **others)

    else:  # last: tools that read the source document this one

        def __init__(
            self,
            repo: str | os.PathLike[str],
            to: str | os.PathLike[str] | None = None,
            *,
            base: str = "HEAD",
            branch: str = "fleet/{task}",
            keep: Keep = "failed",
            commit: bool = True,
            timeout: float = 120.0,
        ) -> None: ...

    def prepare(self, task_id: str, *, fresh: bool) -> Place:
        """Return the worktree of a task, its branch and the commit that it started from; make or repair it if needed."""
        with site_of(task_id, self.to, self.timeout, unlisted=True) as site:
            branch = self.branch.replace("{task}", safe_name(task_id))
            return Task(site, self.repo, self.timeout).prepare(self.base, branch, fresh=fresh)

    def finish(self, task_id: str, place: Place, *, succeeded: bool, message: str) -> Place | None:
        """Commit the work of a task that succeeded, and remove its worktree; keep that of a task that failed.

        The branch of the place is None if there were no changes. If git fails, the work stays in the worktree (WorkspaceError).
        """
        with site_of(task_id, self.to, self.timeout, unlisted=True) as site:
            return Task(site, self.repo, self.timeout).finish(
                message, succeeded=succeeded, commit=self.commit, keep=self.keep
            )
