"""`hackamore sessions ...`: tables, pipes and JSON; sessions by id, beginning and title; completion; the real CLI."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import transcripts
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.cli.command import Command
from tests.transcripts.disk import Writer, tool_use

if TYPE_CHECKING:
    from tests.conftest import RealCLI

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def config(tmp_path: Path, hackamore: Command) -> Path:
    folder = tmp_path / "config"
    hackamore.environment |= {"CLAUDE_CONFIG_DIR": str(folder), "TZ": "UTC"}
    (tmp_path / "work").mkdir()
    return folder


def talk(config: Path, prompt: str = "first prompt", *, title: str = "", cwd: Path | None = None) -> Writer:
    writer = Writer(cwd=str(cwd or config.parent / "work"))
    writer.user(prompt)
    writer.assistant("the answer", tool_use("t1", "Bash", command="make"))
    writer.result("t1", "needle in a tool")
    writer.assistant("done")
    if title:
        writer.note("custom-title", customTitle=title)
    writer.save(config)
    return writer


def ok(hackamore: Command, *arguments: str, config: Path) -> str:
    ran = hackamore("sessions", *arguments, cwd=config.parent / "work")
    assert (ran.code, ran.errors) == (0, "")
    return ran.text


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_a_list_in_a_pipe_has_whole_columns(hackamore: Command, config: Path) -> None:
    old, new = talk(config, "one\ttab \x1b[31m"), talk(config, title="New " * 99 + "New")
    other = talk(config, cwd=config.parent)
    path = transcripts.info(old.session_id, config_dir=config).path
    os.utime(path, (1_700_000_000, 1_700_000_000))
    transcripts.tag(new.session_id, "billed", config_dir=config)
    size = path.stat().st_size
    found = rows(ok(hackamore, "list", config=config))
    assert [row[0] for row in found] == [new.session_id, old.session_id]
    assert found[0][3:] == ["billed", "New " * 99 + "New"]
    assert found[1][1:] == ["2023-11-14T22:13:20+00:00", str(size), "", "one tab \\x1b[31m"]
    assert {row[0] for row in rows(ok(hackamore, "list", "-a", config=config))} == {
        each.session_id for each in (old, new, other)
    }
    assert rows(ok(hackamore, "list", "--tag", "billed", config=config)) == found[:1]
    assert rows(ok(hackamore, "list", "--since", "1d", config=config)) == found[:1]
    assert rows(ok(hackamore, "list", "--until", "2023-11-15", config=config)) == found[1:]
    assert rows(ok(hackamore, "list", "-n", "1", config=config)) == found[:1]
    assert rows(ok(hackamore, "list", "--project", str(config.parent), config=config))[0][0] == other.session_id
    parsed = [json.loads(line) for line in ok(hackamore, "list", "--json", config=config).splitlines()]
    assert [each["session_id"] for each in parsed] == [new.session_id, old.session_id]
    assert (parsed[1]["bytes"], parsed[1]["archived"], parsed[0]["tag"]) == (size, False, "billed")


def test_a_list_on_a_terminal_is_a_table_that_fits(hackamore: Command, config: Path) -> None:
    writer = talk(config, title="\u6587" * 200)
    hackamore.environment["COLUMNS"] = "70"
    ran = hackamore.on_terminal("sessions", "list", "--project", str(config.parent / "work"))
    head, row = ESCAPES.sub("", ran.text).replace("\r", "").splitlines()
    assert head.split() == ["SESSION", "CHANGED", "SIZE", "TAG", "TITLE"]
    assert row.startswith(writer.session_id[:8] + "  ")
    assert row.endswith("\u2026")
    assert sum(2 if each == "\u6587" else 1 for each in row) <= 70


def test_archived_conversations_are_hidden(hackamore: Command, config: Path) -> None:
    writer = talk(config, title="Old")
    ok(hackamore, "archive", writer.session_id[:8], config=config)
    ran = hackamore("sessions", "list", cwd=config.parent / "work")
    assert (ran.code, ran.text) == (0, "")
    assert "--all-projects" in ran.errors
    assert rows(ok(hackamore, "list", "--archived", config=config))[0][0] == writer.session_id
    ok(hackamore, "archive", "Old", "--undo", config=config)
    assert rows(ok(hackamore, "list", config=config))[0][0] == writer.session_id


def test_show(hackamore: Command, config: Path) -> None:
    writer = talk(config, "hello \u202e\x1b[2J", title="Talk")
    text = ok(hackamore, "show", "Talk", "--ids", config=config)
    assert "\x1b" not in text
    places = [
        text.index(part) for part in ("Talk", "> hello \\u202e\\x1b[2J", "the answer", "Bash make", "needle", "done")
    ]
    assert places == sorted(places)
    assert all(uuid in text for uuid in re.findall(r'"uuid":"([^"]+)"', writer.text))
    lines = ok(hackamore, "show", writer.session_id, "--json", config=config).splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in writer.lines[:4]]


def test_search_and_usage(hackamore: Command, config: Path) -> None:
    writer = talk(config)
    talk(config, "needle elsewhere", cwd=config.parent)
    found = rows(ok(hackamore, "search", "needle", config=config))
    assert [(row[0], row[3], row[4]) for row in found] == [(writer.session_id, "tool", "needle in a tool")]
    assert len(rows(ok(hackamore, "search", "needle", "-a", config=config))) == 3
    assert len(rows(ok(hackamore, "search", "needle", "-a", "--role", "user", config=config))) == 1
    (hit,) = map(json.loads, ok(hackamore, "search", "NEEDLE", "--json", config=config).splitlines())
    assert (hit["session_id"], hit["context"]) == (writer.session_id, "needle in a tool")
    ran = hackamore.on_terminal("sessions", "search", "needle", "-a")
    assert "needle in a tool" in ESCAPES.sub("", ran.text)
    nothing = hackamore("sessions", "search", "absent", cwd=config.parent / "work")
    assert (nothing.code, nothing.text) == (0, "")
    ran = hackamore("sessions", "usage", "--by", "session", cwd=config.parent / "work")
    assert rows(ran.text) == [[writer.session_id, "2", "20", "0", "0", "10", "0.000000"]]
    assert "30 tokens of claude-opus-5-5 have no known price" in ran.errors
    (row,) = map(json.loads, hackamore("sessions", "usage", "--json", cwd=config.parent / "work").text.splitlines())
    assert row["tokens"]["output"] == 10
    shown = ESCAPES.sub("", hackamore.on_terminal("sessions", "usage", "-a").text)
    assert "DAY" in shown
    assert "COST" in shown


def test_rename_tag_fork_export_and_import(hackamore: Command, config: Path, tmp_path: Path) -> None:
    writer = talk(config)
    ok(hackamore, "rename", writer.session_id[:6], "A name", config=config)
    ok(hackamore, "tag", "A name", "billed", config=config)
    found = transcripts.info(writer.session_id, config_dir=config)
    assert (found.title, found.tag) == ("A name", "billed")
    ok(hackamore, "tag", "A name", "--remove", config=config)
    assert transcripts.info(writer.session_id, config_dir=config).tag is None
    second = json.loads(writer.lines[1])["uuid"]
    new = ok(hackamore, "fork", "A name", "--at", second, "--title", "Copy", config=config).strip()
    assert len(transcripts.read(new, config_dir=config).messages) == 2
    assert transcripts.info(new, config_dir=config).title == "Copy"
    target = tmp_path / "talk.md"
    ok(hackamore, "export", "Copy", "-o", str(target), config=config)
    assert target.read_text(encoding="utf-8").startswith("# Copy\n")
    assert target.stat().st_mode & 0o777 == 0o600
    ran = hackamore("sessions", "export", "Copy", "-o", str(target), cwd=tmp_path)
    assert (ran.code, "File exists" in ran.errors) == (1, True)
    text = ok(hackamore, "export", "Copy", "--format", "jsonl", config=config)
    assert text == transcripts.info(new, config_dir=config).path.read_text(encoding="utf-8")
    source = tmp_path / "in.jsonl"
    source.write_text(text, encoding="utf-8")
    copy = ok(hackamore, "import", str(source), "--new-id", config=config).strip()
    assert transcripts.info(copy, config_dir=config).title == "Copy"
    ran = hackamore("sessions", "import", str(source), cwd=tmp_path)
    assert (ran.code, "new_id=True" in ran.errors) == (1, True)
    # Two conversations have this title now.
    ran = hackamore("sessions", "rename", "Copy", "x", cwd=tmp_path)
    assert ran.code == 1
    assert new in ran.errors
    assert copy in ran.errors


def test_delete_and_prune(hackamore: Command, config: Path) -> None:
    first, second, third = talk(config), talk(config, title="Gone"), talk(config)
    ran = hackamore("sessions", "delete", first.session_id, "no such title", cwd=config.parent)
    assert ran.code == 1
    assert len(transcripts.list(all_projects=True, config_dir=config)) == 3
    ran = hackamore("sessions", "delete", first.session_id, "Gone", "Gone", cwd=config.parent)
    assert (ran.code, ran.errors.count("Deleted")) == (0, 2)
    path = transcripts.info(third.session_id, config_dir=config).path
    old = (datetime.now(UTC) - timedelta(days=40)).timestamp()
    os.utime(path, (old, old))
    ran = hackamore("sessions", "prune", "--older-than", "30d", "-a", cwd=config.parent)
    assert (ran.code, rows(ran.text)[0][0]) == (0, third.session_id)
    assert re.search(r"1 conversation, .*B would be deleted\. `--yes` deletes them", ran.errors)
    assert path.exists()
    ran = hackamore("sessions", "prune", "--older-than", "6w", "-a", "--yes", cwd=config.parent)
    assert ran.text == ""
    ran = hackamore("sessions", "prune", "--older-than", "720h", "-a", "--yes", "--json", cwd=config.parent)
    assert [json.loads(line)["deleted"] for line in ran.text.splitlines()] == [True]
    assert not path.exists()
    assert second.session_id not in {each.session_id for each in transcripts.list(all_projects=True, config_dir=config)}


BAD: list[tuple[tuple[str, ...], int, str]] = [
    (("show", "no-such"), 1, "no session 'no-such'"),
    (("list", "--since", "yesterday"), 2, "must be a date such as 2026-11-22, or an age such as 7d, got 'yesterday'"),
    (("list", "-n", "-1"), 2, "`--limit` must be at least 0, got -1"),
    (("list", "-a", "--project", "/"), 2, "exclude each other"),
    (("search", "x", "-a", "--project", "/"), 2, "exclude each other"),
    (("search", "..."), 2, "letter"),
    (("usage", "--by", "colour"), 2, "'colour'"),
    (("export", "x", "-o", "talk.html"), 2, "`hackamore trace html SESSION -o PATH` writes the page of a conversation"),
    (("prune",), 2, "--older-than"),
    (("prune", "--older-than", "3"), 2, "must be an age such as 30d"),
    (("tag", "x"), 2, "`--remove`"),
    (("tag", "x", "y", "--remove"), 2, "`--remove`"),
    (("nonsense",), 2, "There is no command"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD)
def test_mistakes(hackamore: Command, config: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    ran = hackamore("sessions", *arguments, cwd=config.parent)
    assert (ran.code, ran.text) == (code, "")
    assert message in ran.errors
    assert "Traceback" not in ran.errors


def complete(hackamore: Command, config: Path, *words: str) -> list[str]:
    environment = {
        "_HACKAMORE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("hackamore", *words)),
        "COMP_CWORD": str(len(words)),
    }
    ran = hackamore(env=environment, cwd=config.parent / "work")
    assert (ran.code, ran.errors) == (0, "")
    return ran.text.splitlines()


def test_completion_of_ids_and_titles(hackamore: Command, config: Path) -> None:
    plain, spaced = talk(config, title="release-notes"), talk(config, title="Two words; rm -rf /")
    both = {plain.session_id, spaced.session_id}
    for words in (("run", "--resume"), ("chat", "--resume"), ("sessions", "show"), ("sessions", "delete")):
        assert complete(hackamore, config, *words, plain.session_id[:10]) == [plain.session_id]
        assert complete(hackamore, config, *words, "rel") == ["release-notes"]
        assert complete(hackamore, config, *words, "Two") == [r"Two\ words\;\ rm\ -rf\ /"]
    assert set(complete(hackamore, config, "sessions", "show", "")) == both
    assert complete(hackamore, config, "sessions", "li") == ["list"]
    assert complete(hackamore, config, "sessions", "search", "x", "--role", "us") == ["user"]
    assert complete(hackamore, config, "run", "--resume", "zzz") in ([], [""])


@pytest.mark.timeout(120)
def test_with_the_real_cli(real_cli: RealCLI, hackamore: Command, tmp_path: Path) -> None:
    with ScriptedModel(Reply(ToolCall("Bash", {"command": "echo needle"})), Repeat("more")) as model:
        environment: dict[str, Any] = real_cli.env(model)
        hackamore.environment |= environment
        hackamore.cli_path = real_cli.cli_path

        def run(*arguments: str) -> str:
            ran = hackamore(*arguments, cwd=real_cli.cwd)
            assert ran.code == 0, ran.errors
            return ran.text

        run("run", "one", "--allow", "Bash")
        ((session_id, *_),) = rows(run("sessions", "list"))
        run("sessions", "rename", session_id, "By hand")
        assert rows(run("sessions", "search", "needle"))[0][0] == session_id
        first = json.loads(run("sessions", "show", "By hand", "--json").splitlines()[0])
        new = run("sessions", "fork", "By hand", "--at", first["uuid"]).strip()
        before = len(model.requests)
        run("run", "two", "--resume", new)
        assert "needle" not in json.dumps(model.requests[before].body["messages"])
        run("run", "three", "--resume", "By hand")
        assert "needle" in json.dumps(model.requests[-1].body["messages"])
        run("sessions", "delete", new, "By hand")
        assert run("sessions", "list") == ""
