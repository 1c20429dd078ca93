"""Workspaces of a fleet: folders that survive kills, and worktrees that never lose work."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hackamore.errors import OptionsError, WorkspaceError
from hackamore.fleet import Fleet, Task
from hackamore.fleet.git import Git
from hackamore.fleet.sites import locked, safe_name
from hackamore.fleet.workspaces import Copy, Folder, Place, Workspace, Worktree
from tests.fleet.repositories import admin, branches, git, worktrees
from tests.support.forking import Baton, Fork
from tests.support.leaks import wait_gone
from tests.support.patience import patience


def files(place: Place) -> dict[str, str]:
    return {
        path.name: path.read_text() for path in Path(place.folder).iterdir() if path.is_file() and path.name != ".git"
    }


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Folder(5), "path"),  # type: ignore[arg-type]
        (lambda: Folder(""), "path"),
        (lambda: Copy("a", keep="some"), "keep"),  # type: ignore[arg-type]
        (lambda: Copy("a", ignore="x"), "ignore"),
        (lambda: Copy("a", to=5), "to"),  # type: ignore[arg-type]
        (lambda: Copy("a\udcff"), "source"),
        (lambda: Worktree("a", base="--all"), "base"),
        (lambda: Worktree("a", branch="fleet"), "branch"),
        (lambda: Worktree("a", branch="{task}/{task}"), "branch"),
        (lambda: Worktree("a", branch="a..b/{task}"), "branch"),
        (lambda: Worktree("a", branch="{task}.lock"), "branch"),
        (lambda: Worktree("a", branch="a/.{task}"), "branch"),
        (lambda: Worktree("a", branch="a./{task}"), "branch"),
        (lambda: Worktree("a", branch="a//{task}"), "branch"),
        (lambda: Worktree("a", branch="a@{{{task}"), "branch"),
        (lambda: Worktree("a", branch="{task}/"), "branch"),
        (lambda: Worktree("a", branch="-{task}"), "branch"),
        (lambda: Worktree("a", commit=1), "commit"),  # type: ignore[arg-type]
        (lambda: Worktree("a", timeout=0), "timeout"),
        (lambda: Worktree("a", comit=False), "comit"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_argument_is_named(make: Any, field: str) -> None:
    with pytest.raises(OptionsError) as caught:
        make()
    assert caught.value.field == field
    assert f"`{field}`" in str(caught.value)


def test_workspaces_are_plain_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for workspace in (Folder("a"), Copy("a", "b", ignore=["x/"]), Worktree(Path("a"), branch="x/{task}")):
        assert isinstance(workspace, Workspace)
        assert pickle.loads(pickle.dumps(workspace)) == workspace
    assert Folder("a").path == str(tmp_path / "a")
    assert Folder("a").under("b") == Folder("a")
    assert Copy("a").under("b").to == str(tmp_path / "b")
    assert Copy("a", "c").under("b").to == str(tmp_path / "c")
    with pytest.raises(WorkspaceError, match=r"Pass `to=`"):
        Copy("a").prepare("t", fresh=True)


def test_a_journal_in_a_database_has_no_folder_beside_it(postgres_address: str, source: Path, tmp_path: Path) -> None:
    for workspace in (Copy(source), Worktree(source)):
        with pytest.raises(OptionsError, match=f"`workspace`: a `{type(workspace).__name__}` .*Pass `to=`"):
            Fleet(postgres_address, workspace=workspace)
        with Fleet(postgres_address) as fleet, pytest.raises(OptionsError, match="`workspace` of task 'one'"):
            fleet.run([Task("one", "Do it", workspace=workspace)]).wait()
    Fleet(postgres_address, workspace=Copy(source, tmp_path)).close()
    Fleet(postgres_address, workspace=Folder(source)).close()


# -- names -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(), min_size=2, max_size=6, unique=True))
@example(
    [
        "a/b",
        "a-b",
        "A-b",
        "a.b",
        "a b",
        "\uff41-b",
        "../a",
        "-a",
        ".a",
        "a.",
        "a.lock",
        "",
        "a..b",
        "a" * 500,
        "a" * 501,
    ]
)
@example([safe_name("A"), "A"])
@example(["\udc80", "\udc81", "\0", "\n"])
def test_names_of_tasks_are_safe_and_differ(tasks: list[str]) -> None:
    names = [safe_name(task) for task in tasks]
    assert len({name.lower() for name in names}) == len(tasks)
    for name in names:
        assert name == name.lower()
        assert len(name) <= 65
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._")
        assert name[0].isalnum()
        assert name[-1].isalnum()
        assert ".." not in name
        assert not name.endswith(".lock")


def test_short_plain_names_are_kept() -> None:
    assert safe_name("fix-101") == "fix-101"
    assert safe_name("v1.2_final") == "v1.2_final"


@pytest.mark.parametrize("task", ["../../x", "-rf", "Ärger/😀", "a.lock", "", "x" * 3000, "\udc80\0\n"])
def test_any_text_is_a_task(task: str, repo: Path, tree: Worktree) -> None:
    place = tree.prepare(task, fresh=True)
    assert Path(place.folder).parent == Path(str(tree.to))
    (Path(place.folder) / "new.txt").write_text("n")
    result = tree.finish(task, place, succeeded=True, message=task)
    assert result is not None
    assert git(repo, "show", f"{result.branch}:new.txt") == "n"


# -- one folder --------------------------------------------------------------------------------------------------------


def test_a_folder_is_shared(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    place = folder.prepare("a", fresh=True)
    assert place == folder.prepare("b", fresh=False) == Place(str(tmp_path))
    assert folder.finish("a", place, succeeded=False, message="") == place
    with pytest.raises(WorkspaceError, match="does not exist"):
        Folder(tmp_path / "none").prepare("a", fresh=True)


# -- copies ------------------------------------------------------------------------------------------------------------


def test_each_task_has_a_copy(source: Path, tmp_path: Path) -> None:
    (source / "inner" / "left.log").write_text("x")
    (source / "deep" / "data").mkdir(parents=True)
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(source / "socket"))
        workspace = Copy(source, tmp_path / "copies", ignore=("*.log", "deep/data/"))
        one, two = (workspace.prepare(task, fresh=True) for task in ("one", "two"))
    assert one.folder != two.folder
    assert sorted(str(path.relative_to(one.folder)) for path in Path(one.folder).rglob("*")) == [
        *("a.txt", "deep", "inner", "inner/b.txt", "link")
    ]
    assert os.readlink(Path(one.folder, "link")) == "a.txt"
    Path(one.folder, "a.txt").write_text("changed")
    assert files(workspace.prepare("one", fresh=False))["a.txt"] == "changed"
    assert files(workspace.prepare("two", fresh=False))["a.txt"] == "a"
    assert files(workspace.prepare("one", fresh=True))["a.txt"] == "a"
    assert (source / "a.txt").read_text() == "a"


def test_a_copy_may_be_inside_its_source(source: Path) -> None:
    workspace = Copy(source, source / "copies")
    for task in ("one", "two"):
        assert sorted(os.listdir(workspace.prepare(task, fresh=True).folder)) == ["a.txt", "inner", "link"]
    with pytest.raises(WorkspaceError, match="the same folder"):
        Copy(source, source).prepare("one", fresh=True)


@pytest.mark.parametrize(
    ("keep", "succeeded", "kept"),
    [(None, True, True), ("failed", True, False), ("failed", False, True), ("all", True, True), ("none", False, False)],
)
def test_copies_are_kept_as_told(keep: Any, succeeded: bool, kept: bool, source: Path, tmp_path: Path) -> None:
    workspace = Copy(source, tmp_path / "copies", **({"keep": keep} if keep else {}))
    place = workspace.prepare("one", fresh=True)
    os.chmod(Path(place.folder, "inner"), 0o500)  # as caches of modules are
    os.chmod(place.folder, 0o500)
    for _ in range(2):
        assert workspace.finish("one", place, succeeded=succeeded, message="") == (place if kept else None)
    assert os.path.exists(place.folder) == kept
    assert not list((tmp_path / "copies" / ".hackamore").glob("*.parts"))
    assert workspace.finish("never prepared", place, succeeded=True, message="") is None


def test_a_copy_with_folders_that_are_read_only_is_deleted() -> None:
    """Permissions do not stop root."""
    folder = Path(tempfile.mkdtemp(prefix="hackamore-copies-"))
    try:
        folder.chmod(0o777)

        def child(baton: Baton) -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            (folder / "source" / "inner" / "deep").mkdir(parents=True)
            (folder / "source" / "inner" / "deep" / "b.txt").write_text("b")
            workspace = Copy(folder / "source", folder / "copies", keep="none")
            place = workspace.prepare("one", fresh=True)
            for part in ("inner/deep", "inner", "."):
                os.chmod(Path(place.folder, part), 0o500)
            assert workspace.finish("one", place, succeeded=True, message="") is None
            assert not os.path.exists(place.folder)
            assert not list((folder / "copies" / ".hackamore").glob("*.parts"))

        Fork(child).wait()
    finally:
        shutil.rmtree(folder)


def test_a_folder_of_another_is_left_alone(source: Path, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "to" / "one").mkdir(parents=True)
    for workspace in (Copy(source, tmp_path / "to"), Worktree(repo, tmp_path / "to")):
        with pytest.raises(WorkspaceError, match=r"did not make it\. Move it away"):
            workspace.prepare("one", fresh=True)
    assert (tmp_path / "to" / "one").exists()
    assert not branches(repo)


def test_the_copy_of_a_worktree_is_refused(tree: Worktree, tmp_path: Path) -> None:
    place = tree.prepare("one", fresh=True)
    with pytest.raises(WorkspaceError, match="Use `Worktree`"):
        Copy(place.folder, tmp_path / "copies").prepare("one", fresh=True)
    copy = Copy(place.folder, tmp_path / "copies", ignore=[".git"]).prepare("one", fresh=True)
    assert sorted(os.listdir(copy.folder)) == [".gitignore", "a.txt"]


def test_a_copy_that_fails_leaves_nothing(source: Path, tmp_path: Path) -> None:
    workspace = Copy(source, tmp_path / "copies")
    with pytest.raises(WorkspaceError, match="which is not a folder"):
        Copy(source / "none", tmp_path / "copies").prepare("one", fresh=True)
    place = workspace.prepare("one", fresh=True)
    (source / "a.txt").unlink()
    (source / "a.txt").symlink_to("/proc/self/mem")
    assert os.path.islink(Path(workspace.prepare("one", fresh=True).folder, "a.txt"))
    (tmp_path / "copies" / ".hackamore" / "one.json").write_text("{")
    with pytest.raises(WorkspaceError, match="is damaged"):
        workspace.prepare("one", fresh=True)
    assert os.path.isdir(place.folder)


# -- worktrees ---------------------------------------------------------------------------------------------------------


def test_the_work_of_a_success_is_committed(repo: Path, tree: Worktree) -> None:
    base = git(repo, "rev-parse", "HEAD")
    place = tree.prepare("fix-101", fresh=True)
    assert place == Place(str(Path(str(tree.to), "fix-101")), "fleet/fix-101", base)
    assert files(place) == {"a.txt": "a", ".gitignore": "*.log\n"}
    Path(place.folder, "a.txt").unlink()
    Path(place.folder, "-new.txt").write_text("new")
    Path(place.folder, "left.log").write_text("ignored")
    assert tree.prepare("fix-101", fresh=False) == place
    result = tree.finish("fix-101", place, succeeded=True, message="# Fix 101\n\n-x\0")
    assert result == Place(str(repo), "fleet/fix-101", git(repo, "rev-parse", "fleet/fix-101"))
    assert git(repo, "diff", "--name-status", "main", "fleet/fix-101").split() == ["A", "-new.txt", "D", "a.txt"]
    assert git(repo, "log", "-1", "--format=%an <%ae> %cn|%B", "fleet/fix-101") == (
        "Hackamore <hackamore@localhost> Hackamore|# Fix 101\n\n-x"
    )
    assert not os.path.exists(place.folder)
    assert worktrees(repo) == 1
    assert tree.finish("fix-101", place, succeeded=True, message="again") == result
    again = tree.prepare("fix-101", fresh=False)
    assert again == place
    assert files(again) == {"-new.txt": "new", ".gitignore": "*.log\n"}


@pytest.mark.parametrize("keep", ["none", "failed"])
@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
@pytest.mark.parametrize("name", ["out/b.txt", "out/new.txt", "new/c.txt"])
def test_work_outside_of_a_sparse_checkout_is_committed(
    repo: Path, tmp_path: Path, keep: Any, cone: str, name: str
) -> None:
    for inner in ("in", "out"):
        (repo / inner).mkdir()
        (repo / inner / "b.txt").write_text("before")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message=Second")
    git(repo, "sparse-checkout", "set", cone, "in")
    workspace = Worktree(repo, keep=keep).under(str(tmp_path / "work"))
    place = workspace.prepare("t", fresh=True)
    folder = Path(place.folder)
    assert (folder / "in" / "b.txt").exists()
    assert not (folder / "out").exists()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("after")
    (folder / "in" / "b.txt").unlink()
    done = workspace.finish("t", place, succeeded=True, message="done")
    assert done is not None
    assert git(repo, "show", f"fleet/t:{name}") == "after"
    changed = git(repo, "diff", "--name-only", "main", "fleet/t").split()
    assert changed == sorted([name, "in/b.txt"])
    assert not folder.exists()


def test_the_committer_of_the_repository_counts(repo: Path, tree: Worktree) -> None:
    git(repo, "config", "user.name", "Ada")
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    tree.finish("one", place, succeeded=True, message="")
    assert git(repo, "log", "-1", "--format=%an <%ae> %s", "fleet/one") == "Ada <hackamore@localhost> Work of one"


def test_a_branch_without_changes_is_deleted(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    for _ in range(2):
        assert tree.finish("one", place, succeeded=True, message="m") == Place(str(repo), None, place.commit)
    assert (branches(repo), admin(repo)) == ([], [])


def test_a_failed_worktree_is_kept(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    for _ in range(2):
        assert tree.finish("one", place, succeeded=False, message="m") == Place(place.folder, "fleet/one")
    assert files(tree.prepare("one", fresh=False))["b.txt"] == "b"
    assert "b.txt" not in files(tree.prepare("one", fresh=True))


@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize("keep", ["all", "none"])
def test_worktrees_are_kept_as_told(keep: Any, succeeded: bool, repo: Path, tmp_path: Path) -> None:
    tree = Worktree(repo, tmp_path / "work", keep=keep)
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    result = tree.finish("one", place, succeeded=succeeded, message="m")
    assert result == tree.finish("one", place, succeeded=succeeded, message="m")
    assert os.path.exists(place.folder) == (keep == "all")
    named = [] if result is None else [result.branch]
    assert branches(repo) == named == (["fleet/one"] if keep == "all" or succeeded else [])
    if result is not None and succeeded:
        assert git(repo, "show", f"{result.commit}:b.txt") == "b"
    assert (result is None) == (keep == "none" and not succeeded)
    if result is not None and succeeded:
        assert result.commit == git(repo, "rev-parse", "fleet/one")


def test_changes_that_are_not_committed_keep_the_worktree(repo: Path, tmp_path: Path) -> None:
    tree = Worktree(repo, tmp_path / "work", commit=False)
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    assert tree.finish("one", place, succeeded=True, message="m") == place
    git(place.folder, "add", "b.txt")
    git(place.folder, "commit", "--quiet", "--message=mine")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result == Place(str(repo), "fleet/one", git(repo, "rev-parse", "fleet/one"))
    assert git(repo, "log", "-1", "--format=%s", "fleet/one") == "mine"


def test_a_repository_inside_keeps_the_worktree(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    git(place.folder, "init", "--quiet", "inner")
    Path(place.folder, "inner", "c.txt").write_text("c")
    git(Path(place.folder, "inner"), "add", "--all")
    git(Path(place.folder, "inner"), "commit", "--quiet", "--message=inner")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result == Place(place.folder, "fleet/one", git(repo, "rev-parse", "fleet/one"))
    assert Path(place.folder, "inner", "c.txt").exists()


@pytest.mark.parametrize("how", [["--detach"], ["-b", "mine"]])
def test_the_branch_follows_an_agent_that_left_it(how: list[str], repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    git(place.folder, "checkout", "--quiet", *how)
    Path(place.folder, "b.txt").write_text("b")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result == Place(str(repo), "fleet/one", git(repo, "rev-parse", "fleet/one"))
    assert git(repo, "show", "fleet/one:b.txt") == "b"


def test_work_beside_the_branch_keeps_the_worktree(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    git(place.folder, "commit", "--quiet", "--allow-empty", "--message=on the branch")
    git(place.folder, "checkout", "--quiet", "--orphan", "other")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result is not None
    assert result.folder == place.folder
    assert os.path.isdir(place.folder)
    assert git(repo, "log", "-1", "--format=%s", "fleet/one") == "on the branch"


def test_all_attempts_start_from_the_same_commit(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    (repo / "later.txt").write_text("l")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message=Later")
    again = tree.prepare("one", fresh=True)
    assert again == place
    assert "later.txt" not in files(again)
    assert "later.txt" in files(tree.prepare("two", fresh=True))


def test_a_fresh_attempt_sees_no_commit_of_an_earlier_one(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    git(place.folder, "add", "--all")
    git(place.folder, "commit", "--quiet", "--message=early")
    assert tree.prepare("one", fresh=True) == place
    assert git(place.folder, "rev-parse", "HEAD") == place.commit
    assert git(place.folder, "status", "--porcelain") == ""


def test_a_branch_of_the_user_is_left_alone(repo: Path, tree: Worktree) -> None:
    git(repo, "branch", "fleet/one")
    for _ in range(2):
        with pytest.raises(WorkspaceError, match=r"'fleet/one' exists .*`git branch -D fleet/one`"):
            tree.prepare("one", fresh=True)
    git(repo, "branch", "fleet/two/more")
    with pytest.raises(WorkspaceError, match="another `branch=`"):
        tree.prepare("two", fresh=True)
    place = tree.prepare("three", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    tree.finish("three", place, succeeded=True, message="m")
    git(repo, "checkout", "--quiet", "fleet/three")
    with pytest.raises(WorkspaceError, match=r"'fleet/three' of the task is checked out in .*repo"):
        tree.prepare("three", fresh=True)
    assert git(repo, "show", "HEAD:b.txt") == "b"


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_branch_that_the_user_has_checked_out_is_not_deleted(succeeded: bool, repo: Path, tmp_path: Path) -> None:
    """Without its branch, git would show every file of the user's checkout as new."""
    tree = Worktree(repo, tmp_path / "work", keep="none")
    place = tree.prepare("one", fresh=True)
    if not succeeded:
        Path(place.folder, "b.txt").write_text("b")
        git(place.folder, "add", "--all")
        git(place.folder, "commit", "--quiet", "--message=Half")
    git(place.folder, "checkout", "--quiet", "--detach")
    git(repo, "checkout", "--quiet", "fleet/one")
    head = git(repo, "rev-parse", "HEAD")
    tree.finish("one", place, succeeded=succeeded, message="m")
    assert not os.path.exists(place.folder)
    assert git(repo, "rev-parse", "fleet/one") == head
    assert git(repo, "status", "--porcelain") == ""


def test_repositories_that_cannot_be_used(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problem(path: Path, **options: Any) -> str:
        with pytest.raises(WorkspaceError) as caught:
            Worktree(path, tmp_path / "work", **options).prepare("one", fresh=True)
        return str(caught.value)

    (repo / "inner").mkdir()
    (tmp_path / "empty").mkdir()
    assert "Pass its top folder" in problem(repo / "inner")
    assert "which is not a folder" in problem(tmp_path / "none")
    assert "`git init`" in problem(tmp_path / "empty")
    git(tmp_path, "init", "--quiet", "unborn")
    assert "has no commit" in problem(tmp_path / "unborn")
    assert "`base` is 'v9'" in problem(repo, base="v9")
    Worktree(repo, tmp_path / "work").prepare("one", fresh=True)
    git(tmp_path, "clone", "--quiet", "repo", "other")
    assert "belongs to the repository" in problem(tmp_path / "other")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("hackamore.fleet.git._program", sys.modules["hackamore.fleet.git"]._program.__wrapped__)  # noqa: SLF001
    assert "`git` is not in PATH" in problem(repo)


def test_a_bare_repository_and_a_worktree_have_worktrees(repo: Path, tree: Worktree, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "repo", "bare")
    linked = tree.prepare("linked", fresh=True)
    git(linked.folder, "commit", "--quiet", "--allow-empty", "--message=linked")
    for path in (tmp_path / "bare", Path(linked.folder)):
        inner = Worktree(path, tmp_path / f"of-{path.name}")
        place = inner.prepare("one", fresh=True)
        assert place.commit == git(path, "rev-parse", "HEAD")
        Path(place.folder, "b.txt").write_text("b")
        result = inner.finish("one", place, succeeded=True, message="m")
        assert result == Place(str(path), "fleet/one", git(path, "rev-parse", "fleet/one"))


def test_the_surroundings_do_not_matter(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for hook in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction"):
        path = repo / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {hook} >> {tmp_path}/hooks\nexit 1\n")
        path.chmod(0o755)
    git(repo, "config", "commit.gpgSign", "true")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    # A folder inside the repository, which hides it from `git status`.
    tree = Worktree(repo, repo / "nightly.work")
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result is not None
    assert result.branch == "fleet/one"
    assert not (tmp_path / "hooks").exists()
    assert git(repo, "status", "--porcelain") == ""


# -- repairs -----------------------------------------------------------------------------------------------------------


def test_a_dead_attempt_left_its_locks(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    for lock in ("worktrees/one/index.lock", "worktrees/one/HEAD.lock", "refs/heads/fleet/one.lock"):
        (repo / ".git" / lock).write_text("")
    Path(place.folder, "b.txt").write_text("b")
    assert tree.prepare("one", fresh=False) == place
    git(place.folder, "add", "b.txt")
    (repo / ".git" / "worktrees/one/index.lock").write_text("")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result is not None
    assert git(repo, "show", f"{result.commit}:b.txt") == "b"


@pytest.mark.parametrize(
    "left",
    [(), ("locked",), ("locked", "gitdir"), ("locked", "gitdir", "HEAD"), ("locked", "gitdir", "HEAD", "commondir")],
)
def test_a_registration_that_was_cut_short_is_removed(left: tuple[str, ...], repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    folder = repo / ".git" / "worktrees" / "one"
    for name in os.listdir(folder):
        if name not in left and (folder / name).is_file():
            (folder / name).unlink()
    if "locked" in left:
        (folder / "locked").write_text("initializing")
    if left == ("locked", "gitdir"):
        (folder / "gitdir").write_text("")
    assert tree.prepare("one", fresh=True) == place
    assert admin(repo) == ["one"]
    assert git(place.folder, "status", "--porcelain") == ""


def test_a_folder_without_its_link_is_repaired(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    Path(place.folder, "b.txt").write_text("b")
    Path(place.folder, ".git").unlink()
    assert tree.prepare("one", fresh=False) == place
    assert git(place.folder, "status", "--porcelain") == "?? b.txt"


def test_a_repository_in_place_of_the_worktree_is_not_touched(repo: Path, tmp_path: Path) -> None:
    tree = Worktree(repo, repo / "work")  # without care, git would take the repository around it
    place = tree.prepare("one", fresh=True)
    Path(place.folder, ".git").unlink()
    git(place.folder, "init", "--quiet")
    assert tree.prepare("one", fresh=False) == place
    with pytest.raises(WorkspaceError, match="is not a worktree"):
        tree.finish("one", place, succeeded=True, message="m")
    assert files(place)["a.txt"] == "a"
    assert git(repo, "log", "--format=%s") == "First"


def test_an_agent_may_delete_its_folder(repo: Path, tree: Worktree) -> None:
    place = tree.prepare("one", fresh=True)
    git(place.folder, "commit", "--quiet", "--allow-empty", "--message=work")
    subprocess.run(["rm", "-rf", place.folder], check=True)
    assert tree.prepare("one", fresh=False) == place
    assert git(place.folder, "log", "-1", "--format=%s") == "work"
    subprocess.run(["rm", "-rf", place.folder], check=True)
    for _ in range(2):
        assert tree.finish("one", place, succeeded=False, message="m") == Place(
            str(repo), "fleet/one", git(repo, "rev-parse", "fleet/one")
        )
    assert admin(repo) == []


def test_worktrees_of_others_stay_registered(repo: Path, tree: Worktree, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "--detach", str(tmp_path / "away"))
    (tmp_path / "away").rename(tmp_path / "unplugged")
    tree.finish("one", tree.prepare("one", fresh=True), succeeded=True, message="m")
    (tmp_path / "unplugged").rename(tmp_path / "away")
    assert git(tmp_path / "away", "status", "--porcelain") == ""


def test_a_lock_of_another_program_is_named(repo: Path, tree: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tree.prepare("one", fresh=True)
    lock = repo / ".git" / "packed-refs.lock"
    lock.write_text("")
    with monkeypatch.context() as patch:
        patch.setattr("hackamore.fleet.git._RETRY_SECONDS", 0)
        with pytest.raises(WorkspaceError, match=r"packed-refs\.lock.* delete that lock file") as caught:
            tree.finish("one", place, succeeded=True, message="m")
    assert caught.value.retryable
    lock.unlink()
    assert tree.finish("one", place, succeeded=True, message="m") == Place(str(repo), None, place.commit)


def test_a_worktree_that_another_git_makes_at_the_moment_is_waited_for(
    repo: Path, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.prepare("other", fresh=True)
    half = repo / ".git" / "worktrees" / "other" / "commondir"
    half.write_text("")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        half.write_text("../..\n")

    monkeypatch.setattr("hackamore.fleet.git.time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    assert tree.prepare("one", fresh=True).branch == "fleet/one"
    assert pauses


def test_a_lock_that_is_not_released_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with locked(path, 1):
        with pytest.raises(WorkspaceError, match="has held the lock") as caught, locked(path, 0.01):
            raise AssertionError
        assert caught.value.retryable
    with locked(path, 0.01):
        pass


def test_what_git_prints_is_shown_without_secrets(tree: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MACHINE_TOKEN", "secret-of-the-machine")
    place = tree.prepare("one", fresh=True)
    with pytest.raises(WorkspaceError) as caught:
        Git(("-C", place.folder), patience(10)).run("rev-parse", "sk-ant-api03-abcdefghij", "secret-of-the-machine")
    assert "<masked>" in str(caught.value)
    assert "sk-ant" not in str(caught.value)
    with pytest.raises(WorkspaceError) as caught:
        Git(("-C", place.folder), patience(10)).run("rev-parse", "secret-of-the-machine", "--")
    assert "secret-of" not in str(caught.value)


def test_a_command_that_hangs_is_ended(repo: Path, tree: Worktree, tmp_path: Path) -> None:
    place = tree.prepare("one", fresh=True)
    git(repo, "config", "filter.slow.clean", f"echo $$ > {tmp_path}/pid; exec tail -f /dev/null")
    Path(place.folder, ".gitattributes").write_text("*.slow filter=slow\n")
    Path(place.folder, "b.slow").write_text("b")
    with pytest.raises(WorkspaceError, match=r"`git add` took longer .* Raise `timeout=`"):
        Git(("-C", place.folder), patience(1)).run("add", "--all")
    left = int((tmp_path / "pid").read_text())
    assert wait_gone(left)
    git(repo, "config", "--unset", "filter.slow.clean")
    result = tree.finish("one", place, succeeded=True, message="m")
    assert result is not None
    assert git(repo, "show", f"{result.branch}:b.slow") == "b"
