"""The worktree of one task: made, repaired, committed, removed. `hackamore.fleet.workspaces.Worktree` is its public side.

The record is written before each change, so that a call after a kill knows whether the folder holds work. The lock of the task is held all
the time; that of the repository is held while worktrees and branches are registered, and not while files are checked out.
"""

from __future__ import annotations

import glob
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from hackamore.errors import WorkspaceError
from hackamore.fleet.git import Git
from hackamore.fleet.sites import Place, Record, Site, delete, locked

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK: Final = "hackamore-fleet.lock"
_SUBMODULE: Final = b"160000"
_COMMITTER: Final = {"user.name": "Hackamore", "user.email": "hackamore@localhost"}


class _Branch(NamedTuple):
    tip: str | None
    """Its commit; None if the branch does not exist."""
    folder: str
    """The worktree that has it checked out; empty if none has."""


class Task:
    """The worktree of a task, while the lock of the task is held.

    Args:
        site: the folder of the task.
        repo: the top folder of the repository.
        timeout: seconds that one command of git may take.
    """

    def __init__(self, site: Site, repo: str, timeout: float) -> None:
        self._site = site
        self._folder = site.folder
        self._repo = os.path.realpath(repo)
        self._here = Git(("-C", self._repo), timeout, (site.lock,))
        self._common = self._find_common()
        self._all = Git(("-C", self._repo, f"--git-dir={self._common}"), timeout, (site.lock,))
        # Never by discovery: without its `.git` the folder could be taken for a part of a repository around it.
        where = ("-C", self._folder, f"--git-dir={os.path.join(self._folder, '.git')}", f"--work-tree={self._folder}")
        self._inside = Git(where, timeout, (site.lock,))
        self._record = self._checked(site.read())

    # -- an attempt ----------------------------------------------------------------------------------------------------

    def prepare(self, base: str, branch: str, *, fresh: bool) -> Place:
        """Return the worktree for an attempt: as it was left, or made. `base` and `branch` are for the first attempt only."""
        record = self._record or self._begin(base, branch)
        if not fresh and record.holds and os.path.isdir(self._folder):
            self._repair(record)
        else:
            self._make(record, fresh=fresh)
        return Place(self._folder, record.branch, record.base)

    def _begin(self, base: str, branch: str) -> Record:
        with self._registering() as git:
            record = replace(
                self._site.new_record(), repository=self._common, base=self._commit_of(base), branch=branch
            )
            if self._branch(git, branch).tip is not None:
                raise WorkspaceError(
                    f"The branch {branch!r} exists in {self._repo}, and this fleet did not make it. Merge and delete it (`git branch -D "
                    f'{branch}`), or pass another `branch=`, such as `branch="second-run/{{task}}"`.'
                )
            self._save(record)
            self._set_branch(git, record, "0" * len(record.base))
        return record

    def _commit_of(self, base: str) -> str:
        code, output = self._here.ask("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
        if code == 0:
            return output.decode().strip()
        if self._here.ask("rev-parse", "--verify", "--quiet", "HEAD")[0]:
            raise WorkspaceError(f"The repository {self._repo} has no commit. Make one: `git commit -a`.")
        raise WorkspaceError(
            f"`base` is {base!r}, and {self._repo} has no such commit. Pass a branch, tag or commit that `git log` knows."
        )

    def _make(self, record: Record, *, fresh: bool) -> None:
        record = self._save(replace(record, holds=False, reset=record.reset or fresh, result=None))
        self._site.discard()
        self._site.sweep()
        with self._registering() as git:
            self._unregister()
            self._unlock_branch(record)
            branch = self._branch(git, record.branch)
            if branch.folder:
                raise WorkspaceError(
                    f"The branch {record.branch!r} of the task is checked out in {branch.folder}. Check out another branch there, and run "
                    "the task again."
                )
            if branch.tip is None or (record.reset and branch.tip != record.base):
                self._set_branch(git, record, branch.tip or "")
            git.run("worktree", "add", "--no-checkout", "--", self._folder, record.branch)
        self._inside.run("reset", "--hard", "--quiet")
        self._save(replace(record, holds=True, reset=False))

    def _repair(self, record: Record) -> str | None:
        """Bring a worktree back into use that a dead process left; return its folder of git, None if the agent replaced it."""
        if self._admin() is None:
            with self._registering() as git:
                git.ask("worktree", "repair", self._folder, codes=(0, 1, 128))
        admin = self._admin()
        if admin is not None:
            for name in glob.glob(os.path.join(glob.escape(admin), "*.lock")):
                with suppress(FileNotFoundError):
                    os.unlink(name)
            self._unlock_branch(record)
        return admin

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, message: str, *, succeeded: bool, commit: bool, keep: str) -> Place | None:
        """Keep the work of a task, and remove what is not needed; return None if nothing is kept."""
        record = self._record
        if record is None:
            return None
        if record.holds:
            given_up = not succeeded and keep == "none"
            if os.path.isdir(self._folder):  # an agent may delete its folder
                if not succeeded and not given_up:
                    return Place(self._folder, record.branch)
                if succeeded:
                    head = self._collect(record, message, commit=commit)
                    if keep == "all" or (keep == "failed" and not self._is_whole(record, head)):
                        return Place(self._folder, record.branch, head)
            result = None if given_up else self._on_branch(record, succeeded=succeeded)
            record = self._save(replace(record, holds=False, reset=given_up, result=result))
        self._clear(record)
        return record.result

    def _collect(self, record: Record, message: str, *, commit: bool) -> str | None:
        """Commit everything, and bring the branch to it; return the commit that is checked out."""
        if self._repair(record) is None:
            raise WorkspaceError(
                f"The folder {self._folder} is not a worktree of {self._repo} any more: its `.git` was replaced. The files are still "
                "there. Save them, then delete the folder."
            )
        git = self._inside
        if commit:
            # Without the flag git leaves out files that do not belong to a sparse checkout; versions before 2.34 do not know it.
            is_sparse = git.ask("config", "--type=bool", "--get", "core.sparseCheckout")[1].strip() == b"true"
            flags = ("--all", "--sparse") if is_sparse else ("--all",)
            git.run("add", *flags, hint=f"The work stays in {self._folder}.")
            if git.ask("diff", "--cached", "--quiet")[0]:
                text = message.replace("\0", "").strip() or f"Work of {self._site.name}"
                git.run(
                    *self._committer(),
                    *("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-"),
                    stdin=text.encode(errors="replace"),
                    hint=f"The work stays in {self._folder}.",
                )
        code, output = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if code:
            return None
        head = output.decode().strip()
        with self._registering() as everywhere:
            tip = self._branch(everywhere, record.branch).tip
            # An agent may have checked out another branch, or none.
            if tip is None or (tip != head and everywhere.ask("merge-base", "--is-ancestor", tip, head)[0] == 0):
                self._set_branch(everywhere, record, tip or "", to=head)
        return head

    def _committer(self) -> Iterator[str]:
        known = self._inside.ask("config", "--null", "--get-regexp", r"^user\.(name|email)$")[1]
        for name, value in _COMMITTER.items():
            if not re.search(rb"(?:^|\0)" + re.escape(name.encode()) + rb"\n[^\0]*\S", known):
                yield from ("-c", f"{name}={value}")

    def _is_whole(self, record: Record, head: str | None) -> bool:
        """Return whether the branch has everything in the folder but ignored files."""
        if head is None or self._branch(self._all, record.branch).tip != head:
            return False
        if self._inside.run("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none"):
            return False
        # Repositories inside the worktree are committed by their id alone.
        changes = self._inside.run("diff-tree", "-r", "-z", "--raw", "--no-renames", record.base, head).split(b"\0")
        return not any(change.split(b" ")[1] == _SUBMODULE for change in changes[:-1:2])

    def _on_branch(self, record: Record, *, succeeded: bool) -> Place | None:
        tip = self._branch(self._all, record.branch).tip or record.base
        if tip != record.base:
            return Place(self._repo, record.branch, tip)
        return Place(self._repo, None, tip) if succeeded else None

    def _clear(self, record: Record) -> None:
        """Remove the folder, its registration, and a branch without work."""
        self._site.discard()
        self._site.sweep()
        with self._registering() as git:
            self._unregister()
            self._unlock_branch(record)
            branch = self._branch(git, record.branch)
            if branch.tip is not None and not branch.folder and (record.reset or branch.tip == record.base):
                git.run("update-ref", "-d", f"refs/heads/{record.branch}", branch.tip)

    # -- the repository ------------------------------------------------------------------------------------------------

    def _find_common(self) -> str:
        if not os.path.isdir(self._repo):
            raise WorkspaceError(f"`repo` is {self._repo}, which is not a folder. Pass the top folder of a repository.")
        output = self._here.run(
            "rev-parse",
            "--show-prefix",
            "--git-common-dir",
            hint="Pass the top folder of a repository as `repo=`, or make one: `git init`, and a first commit.",
        )
        prefix, _, common = output.partition(b"\n")
        if prefix:
            raise WorkspaceError(f"`repo` is {self._repo}, a folder inside a repository. Pass its top folder.")
        return os.path.realpath(os.path.join(self._repo, os.fsdecode(common.removesuffix(b"\n"))))

    def _checked(self, record: Record | None) -> Record | None:
        if record is not None and record.repository != self._common:
            raise WorkspaceError(
                f"The folder {self._folder} belongs to the repository {record.repository}, not to {self._common}. Pass another `to=`."
            )
        return record

    def _save(self, record: Record) -> Record:
        self._site.write(record)
        self._record = record
        return record

    @contextmanager
    def _registering(self) -> Iterator[Git]:
        with locked(os.path.join(self._common, _LOCK), self._all.timeout) as lock:
            yield self._all._replace(locks=(*self._all.locks, lock))

    def _branch(self, git: Git, name: str) -> _Branch:
        ref = f"refs/heads/{name}"
        output = git.run("for-each-ref", "--format=%(refname)%00%(objectname)%00%(worktreepath)%00", ref)
        fields = output.split(b"\0")
        if fields[0] == ref.encode():  # and not a branch below it
            return _Branch(fields[1].decode(), os.fsdecode(fields[2]))
        return _Branch(None, "")

    def _set_branch(self, git: Git, record: Record, old: str, to: str = "") -> None:
        git.run(
            *("update-ref", "-m", "hackamore: workspace of a task"),
            *(f"refs/heads/{record.branch}", to or record.base, old or "0" * len(record.base)),
            hint="Rename a branch that is in the way, or pass another `branch=`.",
        )

    def _unlock_branch(self, record: Record) -> None:
        """Remove the lock file of the branch: only a dead process can have left it."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(self._common, "refs", "heads", *f"{record.branch}.lock".split("/")))

    def _admin(self) -> str | None:
        """Return the folder of git that belongs to the worktree; None if the worktree and it do not point to each other."""
        try:
            with open(os.path.join(self._folder, ".git"), encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError:
            return None
        admin = os.path.realpath(os.path.join(self._folder, text.removeprefix("gitdir: ").rstrip("\n")))
        inside = os.path.dirname(admin) == os.path.join(self._common, "worktrees")
        return admin if inside and self._points_to(admin) == self._folder else None

    def _points_to(self, admin: str) -> str | None:
        """Return the worktree of a folder of git; None if a kill left it half-made."""
        try:
            with open(os.path.join(admin, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
                text = file.read().rstrip("\n")
        except FileNotFoundError:  # no other error: a registration that cannot be read may be that of another task
            return None
        return os.path.realpath(os.path.join(admin, os.path.dirname(text))) if text else None

    def _unregister(self) -> None:
        """Remove what git knows of the worktree. `git worktree prune` would also remove other worktrees, on disks that are away."""
        worktrees = os.path.join(self._common, "worktrees")
        with suppress(FileNotFoundError):
            for entry in os.listdir(worktrees):
                # git names it after the folder, with a number if there are several.
                if re.fullmatch(re.escape(self._site.name) + r"\d*", entry):
                    admin = os.path.join(worktrees, entry)
                    if self._points_to(admin) in (None, self._folder):
                        delete(admin)
