"""Keys of projects, and the files of sessions, are found as the CLI makes them."""

from __future__ import annotations

import os
import subprocess
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import AmbiguousSessionError, SessionNotFoundError, transcripts
from hackamore.storage import places
from hackamore.transcripts import project_key
from tests.contract import shows
from tests.transcripts.disk import Writer, some_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = "/srv/project/" + "/".join(f"verylongname_{number:02}_{'x' * 40}" for number in range(5))


@shows("transcripts.read.places")
@pytest.mark.parametrize(
    ("directory", "key"),
    [
        ("/srv/sp ace.(dot)_[x]'q", "-srv-sp-ace--dot---x--q"),
        ("/srv/a\nb", "-srv-a-b"),
        (unicodedata.normalize("NFD", "/srv/\u00e9x"), "-srv--x"),
        ("/srv/a\U0001f600b", "-srv-a--b"),  # two UTF-16 units
        (LONG, project_key(LONG)[:200] + "-yhshpk"),  # the hash that CLI 2.1.330 made
        ("/srv/" + "\u4e2d\u6587\u00e9" * 80, "-srv-" + "-" * 195 + "-jg18vt"),
        ("/" + "x" * 199, "-" + "x" * 199),
        ("/", "-"),
    ],
)
def test_a_key_is_made_as_the_cli_makes_it(directory: str, key: str) -> None:
    assert project_key(directory) == key


def test_a_directory_stands_for_the_place_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert project_key(tmp_path / "link") == project_key(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "link")
    assert project_key() == project_key(tmp_path / "real")


def test_the_configuration_folder_is_that_of_the_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.config_folder(tmp_path) == tmp_path
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "x"))
    assert places.config_folder() == tmp_path / "x"
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places.config_folder() == tmp_path / ".claude"


@shows("transcripts.read.places")
def test_a_long_path_with_another_hash_is_found_by_its_sessions(tmp_path: Path) -> None:
    mine, other = "/srv/" + "a" * 300 + "/mine", "/srv/" + "a" * 300 + "/other"
    for directory, suffix in ((mine, "zzz1"), (other, "zzz2")):
        writer = Writer(cwd=directory)
        writer.user("hello")
        saved = writer.save(tmp_path, directory)
        saved.parent.rename(saved.parent.with_name(f"{project_key(directory)[:200]}-{suffix}"))
    assert [folder.name[-4:] for folder, _ in places.project_folders(mine, config_dir=tmp_path)] == ["zzz1"]
    exact = Writer(cwd=mine)
    exact.user("hello")
    exact.save(tmp_path, mine)
    assert [folder.name for folder, _ in places.project_folders(mine, config_dir=tmp_path)] == [project_key(mine)]


def git(*arguments: str, cwd: Path) -> None:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=30)


@shows("transcripts.read.places")
def test_worktrees_belong_to_a_project(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "sub").mkdir(parents=True)
    git("init", "-q", cwd=repository)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=repository)
    alone = [str(place) for place in (repository,)]
    trees = [repository, repository / "sub", tmp_path / "tree-one", tmp_path / "de ep" / "tree"]
    for tree in trees:
        writer = Writer(cwd=str(tree))
        writer.user("x")
        writer.save(tmp_path / "config", tree)

    def found(project: Path, **options: bool) -> list[str]:
        return [
            directory for _, directory in places.project_folders(project, config_dir=tmp_path / "config", **options)
        ]

    assert found(repository) == alone
    assert found(repository / "sub") == [str(repository / "sub")]  # as the CLI does, which looks at several or at none
    git("worktree", "add", "-q", str(trees[2]), cwd=repository)
    git("worktree", "add", "-q", str(trees[3]), cwd=repository)
    assert sorted(found(repository)) == sorted(map(str, (repository, trees[2], trees[3])))
    assert found(trees[3])[0] == str(trees[3])
    assert sorted(found(trees[3])) == sorted(found(repository))
    assert found(repository / "sub")[0] == str(repository / "sub")
    assert len(found(repository / "sub")) == 4
    assert found(trees[3], include_worktrees=False) == [str(trees[3])]


@pytest.mark.parametrize(("bare", "relative"), [(False, False), (False, True), (True, False)])
def test_names_that_are_not_utf_8_are_names_of_worktrees(tmp_path: Path, *, bare: bool, relative: bool) -> None:
    """As git writes its files. A worktree that was removed by hand stays in the list."""
    main = tmp_path / ("main.git" if bare else "main")
    common = main if bare else main / ".git"
    tree = os.fsdecode(os.fsencode(tmp_path) + b"/tree-\xff")
    os.makedirs(tree)
    entry = common / "worktrees" / "tree"
    entry.mkdir(parents=True)
    to_tree = os.path.relpath(tree, entry) if relative else tree
    (entry / "gitdir").write_bytes(os.fsencode(to_tree) + b"/.git\n")
    (entry / "commondir").write_text("../..\n")
    (common / "worktrees" / "broken").mkdir()
    gone = common / "worktrees" / "gone"
    gone.mkdir()
    (gone / "gitdir").write_text(f"{tmp_path}/gone/.git\n")
    with open(os.path.join(tree, ".git"), "wb") as file:
        file.write(b"gitdir: " + os.fsencode(os.path.relpath(entry, tree) if relative else entry) + b"\n")
    for folder in (main, tree, tmp_path / "gone"):
        writer = Writer(cwd=os.fspath(folder))
        writer.note("custom-title", customTitle="x")
        writer.save(tmp_path / "config", folder)
    found = [folder for _, folder in places.project_folders(tree, config_dir=tmp_path / "config")]
    assert found == [tree, str(main), str(tmp_path / "gone")]


def test_a_git_folder_without_a_common_one_is_its_own(tmp_path: Path) -> None:
    """As that of a submodule."""
    (tmp_path / "modules" / "worktrees" / "w").mkdir(parents=True)
    (tmp_path / "modules" / "worktrees" / "w" / "gitdir").write_text(f"{tmp_path}/tree/.git\n")
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / ".git").write_text("gitdir: ../modules\n")
    (tmp_path / "sub" / "deep" / ".git").write_text("no line of git\n")
    for folder in ("sub/deep", "tree"):
        writer = Writer(cwd=str(tmp_path / folder))
        writer.note("custom-title", customTitle="x")
        writer.save(tmp_path / "config")
    found = places.project_folders(tmp_path / "sub" / "deep", config_dir=tmp_path / "config")
    assert [folder for _, folder in found] == [str(tmp_path / "sub" / "deep"), str(tmp_path / "tree")]


def test_a_session_is_located_in_any_project(tmp_path: Path) -> None:
    old, new = Writer(some_id(1), cwd="/a"), Writer(some_id(1), cwd="/b")
    for writer in (old, new):
        writer.user("x")
        path = writer.save(tmp_path)
    import os

    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert places.locate(some_id(1), config_dir=tmp_path).project_key == "-b"
    assert places.locate(some_id(1), project="/a", config_dir=tmp_path).project_key == "-a"
    for missing in (some_id(2), "../../etc/passwd", "", "x"):
        with pytest.raises(SessionNotFoundError, match="no session") as caught:
            places.locate(missing, config_dir=tmp_path)
        assert caught.value.session_id == missing
        assert f"in {tmp_path / 'projects'}" in str(caught.value)
    with pytest.raises(SessionNotFoundError):
        places.locate(some_id(1), project="/c", config_dir=tmp_path)
    path.write_bytes(b"")  # the newer one
    assert places.locate(some_id(1), config_dir=tmp_path).project_key == "-a"
    with pytest.raises(SessionNotFoundError):
        places.locate(some_id(1), project="/b", config_dir=tmp_path)
    assert places.find_files("00", project="/a", config_dir=tmp_path).directory == "/a"
    with pytest.raises(SessionNotFoundError):
        places.find_files("00", project="/c", config_dir=tmp_path)


CALLS: dict[str, Callable[..., object]] = {
    "archive": transcripts.archive,
    "delete": transcripts.delete,
    "fork": transcripts.fork,
    "rename": lambda session_id, **place: transcripts.rename(session_id, "title", **place),
    "tag": lambda session_id, **place: transcripts.tag(session_id, "tag", **place),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_change_is_made_in_the_project_that_is_named(tmp_path: Path, name: str) -> None:
    """Two projects have the session; the other one is newer."""

    def content(folder: Path) -> dict[str, bytes]:
        return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}

    folders = []
    for age, cwd in enumerate(("/b", "/a")):
        writer = Writer(some_id(1), cwd=cwd)
        writer.user(f"in {cwd}")
        path = writer.save(tmp_path)
        os.utime(path, (1_000_000_000 - age, 1_000_000_000 - age))
        folders.append(path.parent)
    newer, named = folders
    before = content(newer), content(named)
    CALLS[name](some_id(1), project="/a", config_dir=tmp_path)
    assert content(newer) == before[0]
    assert content(named) != before[1]


def test_a_conversation_is_read_in_the_project_that_is_named(tmp_path: Path) -> None:
    for age, cwd in enumerate(("/b", "/a")):
        writer = Writer(some_id(1), cwd=cwd)
        writer.user(f"in {cwd}")
        path = writer.save(tmp_path)
        os.utime(path, (1_000_000_000 - age, 1_000_000_000 - age))
    for project in ("/a", "/b"):
        place: Any = {"project": project, "config_dir": tmp_path}
        assert transcripts.read(some_id(1), **place).messages[0].text == f"in {project}"
        assert transcripts.info(some_id(1), **place).title == f"in {project}"
        assert transcripts.find("00", **place).title == f"in {project}"
        assert f"in {project}" in transcripts.export(some_id(1), **place)


def test_a_prefix_has_to_match_one_session(tmp_path: Path) -> None:
    for number in (0x10 << 120, 0x11 << 120, 0xAB << 120):
        writer = Writer(some_id(number))
        writer.user("x")
        writer.save(tmp_path)
    assert places.find_files("AB", config_dir=tmp_path).session_id == some_id(0xAB << 120)
    with pytest.raises(AmbiguousSessionError) as caught:
        places.find_files("1", config_dir=tmp_path)
    assert caught.value.matches == (some_id(0x10 << 120), some_id(0x11 << 120))
    assert caught.value.prefix == "1"
    assert all(each in str(caught.value) for each in caught.value.matches)
    for nothing in ("", "c"):
        with pytest.raises(SessionNotFoundError):
            places.find_files(nothing, config_dir=tmp_path)


def test_subagents_are_found_in_nested_folders(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("x")
    files = places.SessionFiles(writer.session_id, writer.save(tmp_path))
    assert files.subagents() == []
    for name in ("subagents/agent-b.jsonl", "subagents/workflows/run/agent-c.jsonl", "subagents/agent-a.jsonl"):
        path = files.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    (files.folder / "subagents" / "agent-a.meta.json").write_text("{}")
    assert [each.agent_id for each in files.subagents()] == ["a", "b", "c"]
    assert files.subagents()[0].meta_path.exists()


def test_the_files_of_a_folder_are_those_of_sessions_and_their_subagents(tmp_path: Path) -> None:
    session, inner = some_id(1), tmp_path / some_id(1) / "subagents"
    inner.mkdir(parents=True)
    (tmp_path / "agent-old.jsonl").touch()  # beside the sessions, as older versions of the CLI put it
    for path in (
        tmp_path / f"{session}.jsonl",
        tmp_path / "notes.jsonl",
        inner / "agent-a1.jsonl",
        inner / "notes.jsonl",
    ):
        path.touch()
    found = {
        (os.path.relpath(file.path, tmp_path), file.session_id, file.agent_id)
        for file in places.conversation_files(tmp_path)
    }
    assert found == {
        (f"{session}.jsonl", session, None),
        ("agent-old.jsonl", "agent-old", "old"),
        (f"{session}/subagents/agent-a1.jsonl", session, "a1"),
    }


def test_before_the_first_session_there_are_no_projects(tmp_path: Path) -> None:
    assert places.all_project_folders(tmp_path / "missing") == []


@pytest.mark.timeout(30)
def test_odd_files_beside_a_conversation_do_no_harm(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("hello")
    writer.assistant("hi")
    path = writer.save(tmp_path)
    odd = [path.with_name(f"{some_id(number)}.jsonl") for number in range(5)]
    os.mkfifo(odd[0])
    odd[1].mkdir()
    odd[2].symlink_to("/dev/zero")
    odd[3].symlink_to(tmp_path / "nowhere")
    odd[4].symlink_to(odd[4])
    path.with_suffix("").symlink_to(path.parent)
    (tmp_path / "projects" / "loop").symlink_to(path.parent)
    assert [each.session_id for each in transcripts.list(all_projects=True, config_dir=tmp_path)] == [writer.session_id]
    assert len(transcripts.search("hello", config_dir=tmp_path, cache_dir=tmp_path / "cache")) == 1
    report = transcripts.usage("project", config_dir=tmp_path)
    assert [(row.key, row.tokens.replies) for row in report.rows] == [(writer.cwd, 1)]
    for number in range(5):
        with pytest.raises(SessionNotFoundError):
            transcripts.read(some_id(number), config_dir=tmp_path)
    transcripts.delete(writer.session_id, config_dir=tmp_path)
    assert not path.exists()
    assert len([*path.parent.iterdir()]) == len(odd)


def test_the_place_of_an_installed_cli_is_in_the_folder_for_data() -> None:
    usual = "/home/ann/.local/share/hackamore/claude/current/claude"
    for folder, found in (("/data", "/data/hackamore/claude/current/claude"), ("data", usual), ("", usual)):
        assert places.installed_cli({"XDG_DATA_HOME": folder}, "/home/ann") == found
    assert places.installed_cli({}, "/home/ann") == usual
    assert places.installed_cli({}, "~") is None  # no home is known
