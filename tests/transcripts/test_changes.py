"""Changes of conversations: hand-written files for the rules, the real CLI for the proof that it sees them."""

from __future__ import annotations

import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import hackamore.sync
from hackamore import Options, transcripts
from hackamore.errors import SessionInUseError, SessionNotFoundError, StreamWarning, TranscriptError, escape_terminal
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transcripts import changes, forking, project_key
from hackamore.transcripts.running import running_sessions
from tests.conftest import RealCLI
from tests.support.patience import patience
from tests.transcripts.disk import Writer, line, some_id, tool_use
from tests.transcripts.picker import Picker
from tests.transcripts.versions import VERSIONS, program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def talk(tmp_path: Path) -> Writer:
    writer = Writer()
    writer.user("one")
    writer.assistant("first")
    writer.user("two")
    writer.assistant("second")
    writer.save(tmp_path)
    return writer


def file_of(writer: Writer, config: Path) -> Path:
    return transcripts.info(writer.session_id, config_dir=config).path


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


# -- rename and tag ---------------------------------------------------------------------------------------------------


def test_a_title_is_written_as_the_cli_writes_it(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    before = path.read_bytes()
    transcripts.rename(talk.session_id, "  My\ttitle\u202e \u00e9\x1b ", config_dir=tmp_path)
    own = f'"sessionId":"{talk.session_id}"}}\n'
    added = f'{{"type":"custom-title","customTitle":"My title \u00e9",{own}{{"type":"agent-name","agentName":"My title \u00e9",{own}'
    assert path.read_bytes() == before + added.encode()
    beside = path.with_suffix("") / "custom-title.json"
    assert beside.read_text(encoding="utf-8") == '{"customTitle":"My title \u00e9"}'
    assert (beside.stat().st_mode & 0o777, beside.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert os.listdir(beside.parent) == ["custom-title.json"]
    found = transcripts.info(talk.session_id, config_dir=tmp_path)
    assert (found.title, found.title_source) == ("My title \u00e9", "custom")


@pytest.mark.parametrize("title", ["", " \n ", "\u200b\u202e", "\u200d", "\ud800", "\U000e0041", " " * 300])
def test_a_title_needs_a_visible_character(tmp_path: Path, talk: Writer, title: str) -> None:
    before = file_of(talk, tmp_path).read_bytes()
    shown = escape_terminal(repr(title), 200)
    with pytest.raises(ValueError, match="visible character") as caught:
        transcripts.rename(talk.session_id, title, config_dir=tmp_path)
    assert str(caught.value) == f"`title` must have a visible character, got {shown}."
    with pytest.raises(ValueError, match="visible character") as caught:
        transcripts.fork(talk.session_id, title=title, config_dir=tmp_path)
    assert str(caught.value) == f"`title` must have a visible character, got {shown}."
    with pytest.raises(ValueError, match="visible character") as caught:
        transcripts.tag(talk.session_id, title, config_dir=tmp_path)
    assert str(caught.value).endswith(f"None to remove the tag; got {shown}.")
    assert file_of(talk, tmp_path).read_bytes() == before


TAGS = [
    ("billed", "billed"),
    (" a\u200bb\u202e ", "ab"),
    ("\ufb01n", "fin"),  # a ligature
    ("x\u00ady", "xy"),  # a soft hyphen
    ("a\n\x1b[31mb", "a [31mb"),
    ("e\u200b\u0301", "\u00e9"),  # composes after the invisible character went
    ("\U000e0041\ue000\u0378z", "z"),  # a tag character, private use, unassigned
    ("t" * 300, "t" * 200),
    ("\u0130" + "s" * 250, "\u0130" + "s" * 199),
]


@pytest.mark.parametrize(("text", "kept"), TAGS)
def test_a_tag_is_cleaned(tmp_path: Path, talk: Writer, text: str, kept: str) -> None:
    transcripts.tag(talk.session_id, text, config_dir=tmp_path)
    assert transcripts.info(talk.session_id, config_dir=tmp_path).tag == kept
    assert changes.clean_tag(kept) == kept
    last = file_of(talk, tmp_path).read_bytes().splitlines()[-1]
    assert last == line({"type": "tag", "tag": kept, "sessionId": talk.session_id}).encode()


def test_a_tag_is_removed_with_none_and_never_by_mistake(tmp_path: Path, talk: Writer) -> None:
    transcripts.tag(talk.session_id, "a", config_dir=tmp_path)
    with pytest.raises(ValueError, match="None to remove"):
        transcripts.tag(talk.session_id, "\u200b", config_dir=tmp_path)
    assert transcripts.info(talk.session_id, config_dir=tmp_path).tag == "a"
    transcripts.tag(talk.session_id, None, config_dir=tmp_path)
    assert transcripts.info(talk.session_id, config_dir=tmp_path).tag is None


def test_a_half_written_line_stays_alone(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"user","mess')
    transcripts.tag(talk.session_id, "kept", config_dir=tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[-2:] == ['{"type":"user","mess', line({"type": "tag", "tag": "kept", "sessionId": talk.session_id})]
    assert transcripts.info(talk.session_id, config_dir=tmp_path).tag == "kept"


def test_changes_beside_a_writer_lose_nothing(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    before = len(path.read_bytes().splitlines())
    start = threading.Barrier(5)

    def tagger(number: int) -> None:
        start.wait(patience(10))
        for each in range(50):
            transcripts.tag(talk.session_id, f"{number}-{each}", config_dir=tmp_path)

    threads = [threading.Thread(target=tagger, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    start.wait(patience(10))
    for each in range(200):
        os.write(descriptor, line({"type": "mode", "mode": f"{each}", "sessionId": talk.session_id}).encode() + b"\n")
    os.close(descriptor)
    for thread in threads:
        thread.join(patience(30))
    found = [each for each in path.read_bytes().splitlines()[before:] if each]
    kinds = [json.loads(each)["type"] for each in found]
    assert (kinds.count("tag"), kinds.count("mode")) == (200, 200)


def test_nothing_is_created_for_a_session_that_vanished(tmp_path: Path, talk: Writer) -> None:
    files = transcripts.info(talk.session_id, config_dir=tmp_path).files
    files.path.unlink()
    with pytest.raises(SessionNotFoundError, match=talk.session_id):
        transcripts.tag(talk.session_id, "a", config_dir=tmp_path)
    with pytest.raises(SessionNotFoundError, match=talk.session_id):
        changes.append(files, [{"type": "tag", "tag": "a"}])
    assert not files.path.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_file_that_is_not_regular_is_not_written(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    files = transcripts.info(talk.session_id, config_dir=tmp_path).files
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(TranscriptError, match="not a regular file"):
        changes.append(files, [{"type": "tag", "tag": "a"}])
    path.unlink()
    path.symlink_to("/dev/full")
    with pytest.raises(TranscriptError, match=f"{os.strerror(errno.ENOSPC)}|not a regular file"):
        changes.append(files, [{"type": "tag", "tag": "a"}])


TITLES = [
    ("a\u200db", "a\u200db"),  # a joiner inside of an emoji
    ("x" * 199 + " y", "x" * 199),
    ("x" * 201, "x" * 200),
    (" a \n\t b ", "a b"),
]


@pytest.mark.parametrize(("text", "kept"), TITLES)
def test_a_title_is_cleaned(tmp_path: Path, talk: Writer, text: str, kept: str) -> None:
    transcripts.rename(talk.session_id, text, config_dir=tmp_path)
    assert transcripts.info(talk.session_id, config_dir=tmp_path).title == kept


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(
    tmp_path: Path, talk: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(talk, tmp_path)
    full = f"^{path} could not be written: {os.strerror(errno.ENOSPC)}\\.$"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda _, data: len(data) - 1)
        with pytest.raises(TranscriptError, match=full):
            transcripts.tag(talk.session_id, "a", config_dir=tmp_path)

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    beside = path.with_suffix("")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(TranscriptError, match=f"^{beside}/archived.json could not be written: No space"):
            transcripts.archive(talk.session_id, config_dir=tmp_path)
    assert os.listdir(beside) == []
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(TranscriptError, match=f"^{path} could not be written: No space"):
            forking.create_file(path, [b"{}"])
    with pytest.raises(TranscriptError, match="could not be written: No such file"):
        forking.create_file(tmp_path / "none" / "x.jsonl", [b"{}"])


# -- archive ----------------------------------------------------------------------------------------------------------


def test_an_archived_conversation_comes_back_with_a_prompt(tmp_path: Path, talk: Writer) -> None:
    def archived() -> bool:
        return transcripts.is_archived(transcripts.info(talk.session_id, config_dir=tmp_path))

    assert not archived()
    transcripts.archive(talk.session_id, config_dir=tmp_path)
    path = file_of(talk, tmp_path)
    mark = json.loads((path.with_suffix("") / "archived.json").read_bytes())
    assert mark["archived"] is True
    assert datetime.now(UTC) - datetime.fromisoformat(mark["at"]) < timedelta(minutes=1)
    assert archived()
    transcripts.tag(talk.session_id, "later", config_dir=tmp_path)  # the file changes; no prompt
    os.utime(path, (2**31, 2**31))
    assert archived()
    transcripts.archive(talk.session_id, archived=False, config_dir=tmp_path)
    assert not archived()
    transcripts.archive(talk.session_id, config_dir=tmp_path)
    talk.clock = 10**8
    talk.result("t")
    talk.user("hidden", isMeta=True)
    talk.user("side", isSidechain=True)
    mark = json.loads((path.with_suffix("") / "archived.json").read_bytes())
    talk.user("at the same time", timestamp=mark["at"])
    talk.user("without a zone", timestamp="2001-01-01T00:00:00")
    talk.lines += ['{"type":"user","timestamp":"soon"}', '{"type":"user"', '{"type":"user","x":' + "[" * 100_000]
    talk.save(tmp_path)
    os.utime(path, (2**31, 2**31))
    assert archived()
    talk.user("again")
    talk.save(tmp_path)
    os.utime(path, (2**31, 2**31))
    assert not archived()
    for broken in ("{", "[]", '{"archived":"yes","at":1}', '{"archived":true,"at":"2999-01-01T00:00:00"}'):
        (path.with_suffix("") / "archived.json").write_text(broken)
        assert not archived()


# -- delete and prune -------------------------------------------------------------------------------------------------


def with_subagent(path: Path, size: int = 100) -> Path:
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent-a1.jsonl").write_bytes(b"x" * size)
    return folder / "agent-a1.jsonl"


def register(config: Path, session_id: str, *, pid: int | None = None, **fields: Any) -> Path:
    """Write the register entry of a process, as the CLI does."""
    folder = config / "sessions"
    folder.mkdir(exist_ok=True)
    own = os.getpid() if pid is None else pid
    path = folder / f"{own}.json"
    path.write_text(json.dumps({"pid": own, "sessionId": session_id, **fields}))
    return path


def test_delete_removes_the_file_and_the_folder(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    with_subagent(path)
    other = Writer()
    other.user("other")
    kept = other.save(tmp_path)
    transcripts.delete(talk.session_id, config_dir=tmp_path)
    assert os.listdir(path.parent) == [kept.name]
    with pytest.raises(SessionNotFoundError):
        transcripts.delete(talk.session_id, config_dir=tmp_path)


def test_delete_does_not_follow_a_link(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    path.with_suffix("").symlink_to(elsewhere)
    transcripts.delete(talk.session_id, config_dir=tmp_path)
    assert os.listdir(path.parent) == []
    assert os.listdir(elsewhere) == ["precious"]


def test_a_running_session_is_not_deleted(tmp_path: Path, talk: Writer) -> None:
    path = file_of(talk, tmp_path)
    mark = register(tmp_path, talk.session_id)
    with pytest.raises(SessionInUseError, match=f"the process {os.getpid()} works on it") as caught:
        transcripts.delete(talk.session_id, config_dir=tmp_path)
    assert (caught.value.pid, caught.value.session_id) == (os.getpid(), talk.session_id)
    with pytest.warns(
        StreamWarning, match=f"SESSION_IN_USE.*process {os.getpid()} works on .*{talk.session_id}"
    ) as told:
        transcripts.rename(talk.session_id, "title", config_dir=tmp_path)
    (warning,) = [each.message for each in told]
    assert isinstance(warning, StreamWarning)
    assert warning.context == {"pid": os.getpid()}
    assert told[0].filename == __file__
    found = transcripts.prune(older_than=timedelta(0), project=talk.cwd, config_dir=tmp_path)
    assert ([each.session_id for each in found.running], found.sessions) == ([talk.session_id], ())
    # A process of the same id that started at another time, one that is gone, files that are no entries.
    register(tmp_path, talk.session_id, procStart="1")
    register(tmp_path, talk.session_id, pid=2**22 + 7)
    register(tmp_path, talk.session_id, pid=-1)
    (tmp_path / "sessions" / "5.json").write_text("[")
    transcripts.rename(talk.session_id, "title", config_dir=tmp_path)
    # A process of another machine counts while its entry is young.
    mark = register(tmp_path, talk.session_id, pidDomain="linux:other:pid:[1]", procStart="1")
    with pytest.raises(SessionInUseError):
        transcripts.delete(talk.session_id, config_dir=tmp_path)
    os.utime(mark, (0, 0))
    assert running_sessions(tmp_path) == {}
    register(tmp_path, talk.session_id)
    transcripts.delete(talk.session_id, force=True, config_dir=tmp_path)
    assert not path.exists()


def aged(
    tmp_path: Path, days: float, *, tag: str | None = None, filler: int = 0, cwd: str = "/home/me/project"
) -> Path:
    writer = Writer(cwd=cwd)
    writer.user("prompt")
    if tag is not None:
        writer.lines.append(line({"type": "tag", "tag": tag}))
    if filler:
        writer.add("attachment", attachment={"type": "file", "content": "x" * filler})
    path = writer.save(tmp_path)
    old = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    os.utime(with_subagent(path, 1000), (old, old))
    os.utime(path, (old, old))
    return path


def test_prune_is_a_dry_run_unless_told(tmp_path: Path) -> None:
    oldest, old, young = aged(tmp_path, 50), aged(tmp_path, 31), aged(tmp_path, 29)
    tagged = aged(tmp_path, 40, tag="keep")
    hidden = aged(tmp_path, 40, tag="keep", filler=200_000)  # the tag is outside the ends of the file
    untagged = aged(tmp_path, 45, tag="", filler=10)
    other = aged(tmp_path, 60, cwd="/home/me/other")
    found = transcripts.prune(older_than=timedelta(days=30), project="/home/me/project", config_dir=tmp_path)
    assert found.dry_run
    assert [each.path for each in found.sessions] == [oldest, untagged, old]
    assert {each.path for each in found.tagged} == {tagged, hidden}
    assert found.bytes == sum(path.stat().st_size + 1000 for path in (oldest, old, untagged))
    assert all(path.exists() for path in (oldest, old, young, untagged))
    done = transcripts.prune(
        older_than=timedelta(days=30), project="/home/me/project", dry_run=False, config_dir=tmp_path
    )
    assert (done.sessions, done.bytes, done.dry_run) == (found.sessions, found.bytes, False)
    assert {path.exists() for path in (oldest, old, untagged)} == {False}
    assert not any(path.with_suffix("").exists() for path in (oldest, old, untagged))
    assert all(path.exists() for path in (young, tagged, hidden, other))
    everything = transcripts.prune(
        older_than=timedelta(0), all_projects=True, keep_tagged=False, dry_run=False, config_dir=tmp_path
    )
    assert {each.path for each in everything.sessions} == {young, tagged, hidden, other}


def test_prune_counts_a_folder_with_a_symbolic_link_once(tmp_path: Path) -> None:
    tree, other = tmp_path / "tree", tmp_path / "other"
    (tree / ".git" / "worktrees" / "other").mkdir(parents=True)
    (tree / ".git" / "worktrees" / "other" / "gitdir").write_text(f"{other}/.git\n")
    path = aged(tmp_path, 50, cwd=str(tree))
    for name in (project_key(other), "-another-link"):
        (path.parent.parent / name).symlink_to(path.parent.name)
    (path.parent.parent / "-itself").symlink_to("-itself")
    for project in (None, tree):
        found = transcripts.prune(
            older_than=timedelta(days=30), project=project, all_projects=project is None, config_dir=tmp_path
        )
        assert [each.path for each in found.sessions] == [path]
        assert found.bytes == path.stat().st_size + 1000


def test_prune_counts_the_changes_of_subagents(tmp_path: Path) -> None:
    path = aged(tmp_path, 50)
    with_subagent(path)
    assert not transcripts.prune(older_than=timedelta(days=30), all_projects=True, config_dir=tmp_path).sessions


def test_prune_keeps_a_conversation_that_cannot_be_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have a tag in the part that a broken disk does not give."""
    damaged, old = aged(tmp_path, 50, tag="keep", filler=200_000), aged(tmp_path, 50)
    opening = type(tmp_path).open

    def read(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == damaged:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return opening(path, *arguments, **named)

    monkeypatch.setattr("pathlib.Path.open", read)
    done = transcripts.prune(older_than=timedelta(days=30), all_projects=True, dry_run=False, config_dir=tmp_path)
    assert ([each.path for each in done.sessions], [each.path for each in done.tagged]) == ([old], [damaged])
    assert (damaged.exists(), old.exists()) == (True, False)


def test_prune_says_what_it_could_not_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    path = aged(tmp_path, 50)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        with pytest.raises(TranscriptError, match="could not be deleted: Permission denied"):
            transcripts.delete(path.stem, config_dir=tmp_path)
        found = transcripts.prune(older_than=timedelta(days=30), all_projects=True, dry_run=False, config_dir=tmp_path)
    assert (found.sessions, found.bytes, [each.path for each in found.failed]) == ((), 0, [path])
    assert path.exists()


def test_prune_keeps_a_conversation_that_goes_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest, old = aged(tmp_path, 50), aged(tmp_path, 40)
    unlink = os.unlink

    def resume(path: Any, **more: Any) -> None:
        os.utime(old)  # while the oldest one is deleted
        unlink(path, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", resume)
        done = transcripts.prune(older_than=timedelta(days=30), all_projects=True, dry_run=False, config_dir=tmp_path)
    assert [each.path for each in done.sessions] == [oldest]
    assert not oldest.exists()
    assert old.exists()
    assert done.failed == ()


def test_prune_refuses_what_it_cannot_mean(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        transcripts.prune(older_than=timedelta(days=-1), config_dir=tmp_path)
    with pytest.raises(ValueError, match="exclude each other"):
        transcripts.prune(older_than=timedelta(1), project="/a", all_projects=True, config_dir=tmp_path)


# -- fork -------------------------------------------------------------------------------------------------------------


def parallel() -> tuple[Writer, list[str]]:
    """Return a conversation with two parallel calls; the walk from its end passes one result. The ids in the order of requests."""
    writer = Writer()
    prompt = writer.user("run both")
    first = writer.assistant(tool_use("t1"), id="m")
    second = writer.assistant(tool_use("t2"), id="m")
    one = writer.result("t1", "one", parent=first)
    two = writer.result("t2", "two", parent=second)
    end = writer.assistant("done")
    return writer, [prompt, first, second, one, two, end]


def texts(session_id: str, config: Path) -> list[str]:
    return [str(each) for each in transcripts.read(session_id, config_dir=config).messages]


def test_a_fork_is_a_line_of_new_ids(tmp_path: Path) -> None:
    writer, ids = parallel()
    writer.add("attachment", attachment={"type": "note", "about": ids[2]}, parent=ids[2])
    writer.add("progress", data={"x": 1}, parent=ids[-1])
    writer.user("a subagent", isSidechain=True, parent=ids[0])
    writer.user("later", parent=ids[-1], sourceToolAssistantUUID=ids[2], near={"uuid": ids[1], "other": "x"})
    writer.assistant("end", requestRef="r1", toolUseResult={"id": ids[1]})
    writer.assistant("last", requestRef="r2", requestSessionId="s0")
    path = writer.save(tmp_path)
    before = path.read_bytes()
    copy = transcripts.fork(writer.session_id, config_dir=tmp_path)
    assert path.read_bytes() == before
    new = transcripts.info(copy, config_dir=tmp_path)
    assert (new.path.parent, new.path.stat().st_mode & 0o777) == (path.parent, 0o600)
    assert (new.title, new.title_source) == ("run both (fork)", "custom")
    found = entries(new.path)
    messages = [each for each in found if "uuid" in each]
    assert {each["sessionId"] for each in found} == {copy}
    assert [each["parentUuid"] for each in messages] == [None, *(each["uuid"] for each in messages[:-1])]
    old = {each["forkedFrom"]["messageUuid"]: each["uuid"] for each in messages}
    assert old.keys() >= set(ids)
    assert not set(old) & set(old.values())
    later = messages[-3]
    assert later["sourceToolAssistantUUID"] == old[ids[2]]
    assert later["near"] == {"uuid": old[ids[1]], "other": "x"}
    assert [each["requestSessionId"] for each in messages[-2:]] == [writer.session_id, "s0"]
    assert messages[-2]["toolUseResult"] == {"id": ids[1]}  # content
    assert {each["type"] for each in messages} == {"user", "assistant", "attachment"} - {"attachment"}
    (last,) = [each for each in found if each["type"] == "last-prompt"]
    assert last == {
        "type": "last-prompt",
        "lastPrompt": "later",
        "leafUuid": messages[-1]["uuid"],
        "sessionId": copy,
    }
    assert "a subagent" not in new.path.read_text(encoding="utf-8")
    assert texts(copy, tmp_path) == texts(writer.session_id, tmp_path)
    # A fork of a fork is one as well.
    assert texts(transcripts.fork(copy, config_dir=tmp_path), tmp_path) == texts(copy, tmp_path)


@pytest.mark.parametrize("place", range(6))
def test_a_fork_ends_at_the_message(tmp_path: Path, place: int) -> None:
    writer, ids = parallel()
    writer.save(tmp_path)
    copy = transcripts.fork(writer.session_id, at=ids[place], title="cut", config_dir=tmp_path)
    new = transcripts.read(copy, config_dir=tmp_path)
    origins = [each.data["forkedFrom"]["messageUuid"] for each in new.entries if each.uuid]
    assert sorted(origins) == sorted(ids[: place + 1])
    assert len(new.messages) == place + 1
    assert new.info.title == "cut"


def test_a_fork_at_another_branch_and_at_a_message_object(tmp_path: Path) -> None:
    writer = Writer()
    first = writer.user("one")
    old = writer.assistant("old way")
    writer.user("new way", parent=first)
    writer.assistant("end")
    writer.save(tmp_path)
    copy = transcripts.fork(writer.session_id, at=old, config_dir=tmp_path)
    assert [each.split(": ")[1] for each in texts(copy, tmp_path)] == ["one", "old way"]
    message = transcripts.read(writer.session_id, config_dir=tmp_path).messages[1]
    copy = transcripts.fork(writer.session_id, at=message, config_dir=tmp_path)
    assert [each.split(": ")[1] for each in texts(copy, tmp_path)] == ["one", "new way"]
    for name in ("no\x1bne", "x" * 300):
        with pytest.raises(TranscriptError) as caught:
            transcripts.fork(writer.session_id, at=name, config_dir=tmp_path)
        assert f"{writer.session_id} has no message {escape_terminal(repr(name), 200)}. Its" in str(caught.value)


SUMMARY, UNKNOWN = some_id(7), some_id(8)
EARLY, KEPT = some_id(5), some_id(6)
AFTER = ["the summary", "later", "end"]


@pytest.mark.parametrize(
    ("preserved", "order"),
    [
        ({"anchorUuid": SUMMARY, "uuids": [KEPT]}, ["the summary", "kept", "later", "end"]),
        (
            {"anchorUuid": SUMMARY, "uuids": [], "allUuids": [EARLY, KEPT]},
            ["the summary", "early", "kept", "later", "end"],
        ),
        ({"anchorUuid": SUMMARY, "uuids": [UNKNOWN, EARLY, SUMMARY]}, ["the summary", "early", "later", "end"]),
        ({"anchorUuid": UNKNOWN, "uuids": [KEPT]}, AFTER),
        (None, AFTER),
        ("odd", AFTER),
    ],
)
def test_a_fork_has_the_messages_that_a_compaction_kept(tmp_path: Path, preserved: Any, order: list[str]) -> None:
    writer = Writer()
    writer.user("early", uuid=EARLY)
    writer.assistant("kept", uuid=KEPT)
    notes = {"trigger": "manual", "preservedSegment": {"headUuid": KEPT}, "preservedMessages": preserved}
    boundary = writer.add("system", parent=None, logicalParentUuid=KEPT, compactMetadata=notes)
    writer.user("the summary", uuid=SUMMARY, isCompactSummary=True, parent=boundary)
    later = writer.user("later")
    writer.assistant("end")
    writer.save(tmp_path)

    def said(copy: str) -> list[str]:
        return [each.split(": ")[1] for each in texts(copy, tmp_path)]

    copy = transcripts.fork(writer.session_id, config_dir=tmp_path)
    assert said(copy) == order
    system = entries(transcripts.info(copy, config_dir=tmp_path).path)[0]
    assert (system["compactMetadata"], "logicalParentUuid" in system) == ({"trigger": "manual"}, False)
    assert said(transcripts.fork(copy, config_dir=tmp_path)) == order
    assert said(transcripts.fork(writer.session_id, at=later, config_dir=tmp_path)) == order[:-1]
    assert said(transcripts.fork(writer.session_id, at=KEPT, config_dir=tmp_path)) == ["early", "kept"]


def test_notes_of_a_compaction_that_are_odd_are_copied_as_they_are(tmp_path: Path) -> None:
    writer = Writer()
    boundary = writer.add("system", parent=None, compactMetadata=7)
    writer.user("go", parent=boundary)
    writer.save(tmp_path)
    copy = transcripts.fork(writer.session_id, config_dir=tmp_path)
    assert entries(transcripts.info(copy, config_dir=tmp_path).path)[0]["compactMetadata"] == 7


@pytest.mark.parametrize(
    ("prompt", "title"),
    [("t" * 160, "t" * 150 + " (fork)"), ("\u00e9 two\nlines", "\u00e9 two lines (fork)")],
)
def test_a_copy_is_named_after_its_original(tmp_path: Path, prompt: str, title: str) -> None:
    writer = Writer()
    writer.user([{"type": "text", "text": prompt}, {"type": "text", "text": 7}, {"type": "text", "text": "more"}])
    path = writer.save(tmp_path)
    copy = transcripts.fork(writer.session_id, config_dir=tmp_path)
    assert transcripts.info(copy, config_dir=tmp_path).title == title
    assert json.loads((path.parent / copy / "custom-title.json").read_bytes()) == {"customTitle": title}
    last = [each for each in entries(path.with_name(f"{copy}.jsonl")) if each["type"] == "last-prompt"]
    assert [each["lastPrompt"] for each in last] == [f"{prompt} more"]


def test_a_copy_of_an_original_without_a_title_is_a_fork(
    tmp_path: Path, talk: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "info_of", lambda _: None)  # it vanished, and is still open
    copy = transcripts.fork(talk.session_id, config_dir=tmp_path)
    assert transcripts.info(copy, config_dir=tmp_path).title == "(fork)"


def test_a_fork_without_messages_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    writer.note("custom-title", customTitle="empty")
    path = writer.save(tmp_path)
    with pytest.raises(TranscriptError, match="no message to fork"):
        transcripts.fork(writer.session_id, config_dir=tmp_path)
    assert os.listdir(path.parent) == [path.name]


def test_a_fork_carries_what_the_next_request_depends_on(tmp_path: Path) -> None:
    writer, ids = parallel()
    kept = {"kind": "tool-result", "toolUseId": "t1", "replacement": "short"}
    writer.note("content-replacement", replacements=[kept, {"toolUseId": "later", "replacement": "secret"}])
    writer.note("content-replacement", replacements=[kept], agentId="a1")
    writer.note("relocated", relocatedCwd="/new")
    writer.note("queue-operation", operation="enqueue", content="secret")
    writer.save(tmp_path)
    copy = transcripts.fork(writer.session_id, at=ids[-1], config_dir=tmp_path)
    path = transcripts.info(copy, config_dir=tmp_path).path
    found = {each["type"]: each for each in entries(path)}
    assert found["content-replacement"]["replacements"] == [kept]
    assert found["relocated"]["relocatedCwd"] == "/new"
    assert {each["sessionId"] for each in entries(path)} == {copy}
    for odd in ({}, {"replacements": [7, {"x": 1}, {"toolUseId": "later"}]}, {"replacements": 7}):
        writer.note("content-replacement", **odd)
    writer.save(tmp_path)
    path = transcripts.info(transcripts.fork(writer.session_id, config_dir=tmp_path), config_dir=tmp_path).path
    shortened = [each["replacements"] for each in entries(path) if each["type"] == "content-replacement"]
    assert shortened == [[kept], [], [7, {"x": 1}], 7]
    assert "secret" not in path.read_text(encoding="utf-8")


def test_a_failed_fork_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"

    def lines() -> Any:
        yield b"{}"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forking.create_file(path, lines())
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        forking.create_file(path, [b"{}"])
    assert path.read_text() == "precious"


# -- the real CLI -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=VERSIONS)
def any_cli(request: pytest.FixtureRequest, tmp_path: Path) -> RealCLI:
    """Return a CLI version, in a place of its own."""
    (tmp_path / "work").mkdir()
    return RealCLI(program(request.param), tmp_path / "work", tmp_path)


def options(real_cli: RealCLI, model: ScriptedModel, **more: Any) -> Options:
    return Options(
        cli_path=real_cli.cli_path,
        cwd=real_cli.cwd,
        env=real_cli.env(model),
        inherit_env=False,
        allowed_tools=["Bash", "Agent"],
        **more,
    )


def config_of(real_cli: RealCLI, model: ScriptedModel) -> Path:
    return real_cli.directory / os.path.relpath(real_cli.env(model)["CLAUDE_CONFIG_DIR"], real_cli.directory)


def shown(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the conversation in a request: texts, calls and results. Reminders that the CLI adds anew each time are left out."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if message["role"] == "system" or block.get("text", "").startswith("<system-reminder>"):
                continue
            kept = {name: value for name, value in block.items() if name != "cache_control"}
            found.append((message["role"], json.dumps(kept, sort_keys=True)))
    return found


LOOK = {"description": "Look", "prompt": "Look around.", "subagent_type": "general-purpose", "run_in_background": False}


def bash(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command})


BOTH = Reply(bash("echo hi"), bash("echo ho"))


@pytest.mark.real_cli
@pytest.mark.timeout(180)
def test_a_fork_resumes_with_exactly_the_history_up_to_each_message(any_cli: RealCLI) -> None:
    with ScriptedModel(
        BOTH,
        "done",
        Reply(ToolCall("Agent", LOOK)),
        Repeat("more"),
        subagents={"*": [Reply(bash("echo a"), bash("echo b")), "seen"]},
        compaction="the summary",
    ) as model:
        config = config_of(any_cli, model)
        with hackamore.sync.Session(options(any_cli, model)) as session:
            for prompt in ("both", "delegate"):
                session.send(prompt).result()
            before = shown(model.requests[-1].body)
            for prompt in ("/compact", "after"):
                session_id = session.send(prompt).result().session_id
            after = shown(model.requests[-1].body)
    assert session_id is not None
    reply = ("assistant", json.dumps({"text": "more", "type": "text"}))
    current, compacted = transcripts.read(session_id, config_dir=config).branches
    assert "".join(type(each).__name__[0] for each in compacted.messages) == "UAAUUAUAUA"
    # The CLI kept the last reply, which follows the summary, and explains the command to the model.
    assert [role for role, _ in after] == ["user", "assistant", "user", "user", "user", "user"]
    assert "the summary" in after[0][1]
    assert after[1] == reply
    assert [each.text for each in current.messages][3:] == ["after", "more"]
    expected = [(each, [*before, reply][: number + 1]) for number, each in enumerate(compacted.messages)]
    ends = zip(current.messages, (1, 4, 5, 6, 7), strict=True)
    expected += [(each, [*after, reply][:end]) for each, end in ends]

    def resumed(message: transcripts.TranscriptMessage) -> list[tuple[str, str]]:
        with ScriptedModel(Repeat("next")) as model:
            copy = transcripts.fork(session_id or "", at=message, config_dir=config)
            result = hackamore.sync.run("NEXT", options(any_cli, model, resume=copy))
            assert result.session_id == copy
            return shown(model.requests[0].body)

    with ThreadPoolExecutor(2) as pool:
        requests = [*pool.map(resumed, (message for message, _ in expected))]
    for request, (_, history) in zip(requests, expected, strict=True):
        assert request[: len(history)] == history
        # The CLI itself answers calls without a result, and prompts without an answer.
        *rest, (_, last) = request[len(history) :]
        assert "NEXT" in last
        for _, text in rest:
            assert "Tool call interrupted" in text or "No response requested" in text


@pytest.mark.real_cli
@pytest.mark.timeout(180)
def test_the_cli_shows_the_title_and_the_tag(any_cli: RealCLI) -> None:
    with ScriptedModel(Repeat("more")) as model:
        config = config_of(any_cli, model)
        base = options(any_cli, model)
        # The list of an interactive CLI leaves out conversations whose entry point is that of an SDK.
        base = base.replace(env={**base.env, "CLAUDE_CODE_ENTRYPOINT": "a-program"})
        with hackamore.sync.Session(base) as session:
            session_id = session.send("one").result().session_id
            session.rename_session("By the CLI")
        assert session_id is not None
        transcripts.rename(session_id, "By Hackamore", config_dir=config)
        transcripts.tag(session_id, "billed", config_dir=config)
        with Picker(any_cli, model) as picker:
            shown = picker.read_until("#billed")
            assert "By Hackamore" in shown
            assert "By the CLI" not in shown
            picker.press("\r")
            assert "By Hackamore " in picker.read_until("By Hackamore \u2500")  # in the line above the prompt
        # By its title it is found as well, and the old one is gone.
        assert hackamore.sync.run("two", base.replace(resume="By Hackamore")).session_id == session_id
        found = transcripts.info(session_id, config_dir=config)
        assert (found.title, found.tag) == ("By Hackamore", "billed")
        # The line is far from the end of the file now: the list shows the small file beside it.
        last = [each for each in transcripts.read(session_id, config_dir=config).entries if each.type == "assistant"][
            -1
        ]
        filler = {**last.data, "parentUuid": last.uuid, "uuid": "5e551011-0000-4000-8000-000000000000"}
        filler["message"] = {**filler["message"], "content": [{"type": "text", "text": "x" * 200_000}]}
        with found.path.open("a", encoding="utf-8") as file:
            file.write(line(filler) + "\n")
        with Picker(any_cli, model) as picker:
            assert "By Hackamore" in picker.read_until("HEAD")


@pytest.mark.timeout(120)
def test_a_session_that_the_cli_runs_is_in_use(real_cli: RealCLI) -> None:
    with ScriptedModel(Repeat("more")) as model:
        config = config_of(real_cli, model)
        with hackamore.sync.Session(options(real_cli, model)) as session:
            session_id = session.send("one").result().session_id
            assert session_id is not None
            with pytest.raises(SessionInUseError) as caught:
                transcripts.delete(session_id, config_dir=config)
            assert caught.value.pid == session.pid
            assert transcripts.prune(older_than=timedelta(0), all_projects=True, config_dir=config).running
            transcripts.tag(session_id, "live", config_dir=config)
            session.send("two").result()
        assert transcripts.info(session_id, config_dir=config).tag == "live"
        transcripts.delete(session_id, config_dir=config)
        assert [*config.rglob(f"projects/**/{session_id}*")] == []
