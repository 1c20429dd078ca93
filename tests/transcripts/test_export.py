"""Exports: hostile contents do nothing, and an import of a JSONL export is the same conversation again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, cast

import pytest

import bridle.sync
from bridle import transcripts
from bridle.errors import SessionExistsError, TranscriptError
from bridle.testing import Repeat, Reply, ScriptedModel
from bridle.transcripts import ExportFormat
from tests.transcripts.disk import Writer, tool_use
from tests.transcripts.test_changes import BOTH, config_of, options, shown

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI

FORMATS: tuple[ExportFormat, ...] = ("markdown", "json", "jsonl")
HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.test/x onerror=alert(1)><!-- --><style>@import 'http://evil.test'</style>"
    "</pre></title></textarea><svg onload=alert(1)>&lt;b&gt;\" ' onmouseover=x "
    "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u202c\u2028\x00\x9b31m\x7f ```\n# no heading\n```` [x](javascript:alert(1)) {title}"
)
CONTROLS = "\x1b\x07\x00\x9b\x7f\u202e\u202c\u2028"


def hostile() -> Writer:
    writer = Writer(cwd="/home/me/<b>\x1b[31m")
    writer.user(HOSTILE)
    writer.assistant({"type": "thinking", "thinking": HOSTILE}, id="m")
    writer.assistant(HOSTILE, tool_use("t1", f"mcp__<i>{HOSTILE}", command=HOSTILE), id="m", model="<m>")
    writer.result("t1", [{"type": "text", "text": HOSTILE}, {"type": "image", "source": {"data": "AAAA"}}])
    writer.assistant(tool_use("t2", "Write", file_path="/a", content=HOSTILE))
    writer.result("t2", HOSTILE, toolUseResult={"x": HOSTILE})
    writer.user(
        [
            {"type": "image", "source": {"type": "url", "url": "http://evil.test/pixel"}},
            {"type": "odd<i>", "x": HOSTILE},
        ]
    )
    writer.note("custom-title", customTitle=HOSTILE)
    writer.lines.append(json.dumps({"type": "tag", "tag": "<u>"}, separators=(",", ":")))
    return writer


def subagent(path: Path, agent_id: str = "a<1>", **meta: Any) -> None:
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(session_id=path.stem)
    writer.user(f"task {HOSTILE}", isSidechain=True, agentId=agent_id)
    writer.assistant("sub answer", isSidechain=True, agentId=agent_id)
    (folder / f"agent-{agent_id}.jsonl").write_text(writer.text, encoding="utf-8")
    if meta:
        (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(meta))


def test_hostile_contents_stay_inside_of_their_block_in_markdown(tmp_path: Path) -> None:
    writer = hostile()
    writer.save(tmp_path)
    text = transcripts.export(writer.session_id, "markdown", config_dir=tmp_path)
    assert not set(CONTROLS) & set(text)
    fence = ""
    headings = []
    for each in text.splitlines():
        if fence:
            fence = "" if each == fence else fence
        elif each.startswith("```"):
            fence = each[: len(each) - len(each.lstrip("`"))]
        elif each.startswith("#"):
            headings.append(each)
    assert fence == ""
    own = [each for each in headings if each != "# no heading"]
    assert len(headings) - len(own) == 1  # the model's text is Markdown
    assert own[0].startswith("# \\<script\\>")
    assert own[1:4] == ["## User", "## Thinking", "## Assistant"]
    assert own[4].startswith("## Tool: mcp\\_\\_\\<i\\>")
    assert own[5:] == ["## Result", "## Tool: Write", "## Result", "## Content: image", "## Content: odd\\<i\\>"]


def test_json_has_facts_messages_and_subagents(tmp_path: Path) -> None:
    writer = hostile()
    path = writer.save(tmp_path)
    subagent(path, "a1", agentType="explore", toolUseId="t1")
    found = json.loads(transcripts.export(writer.session_id, "json", config_dir=tmp_path))
    assert (found["session_id"], found["tag"], found["cwd"], found["bytes"]) == (
        writer.session_id,
        "<u>",
        writer.cwd,
        path.stat().st_size,
    )
    assert found["usage"]["output"] > 0
    written = [json.loads(each) for each in writer.lines if "uuid" in each]
    assert [each["message"] for each in found["messages"]] == [each["message"] for each in written if "message" in each]
    assert [each["uuid"] for each in found["messages"]] == [each["uuid"] for each in written]
    (sub,) = found["subagents"]
    assert (sub["agent_id"], sub["agent_type"], sub["tool_use_id"], len(sub["messages"])) == ("a1", "explore", "t1", 2)


def test_an_unknown_format_and_a_missing_session(tmp_path: Path) -> None:
    writer = hostile()
    writer.save(tmp_path)
    with pytest.raises(ValueError, match=r"must be one of markdown, json, jsonl, got 'pdf\\x1b'"):
        transcripts.export(writer.session_id, cast("ExportFormat", "pdf\x1b"), config_dir=tmp_path)


@pytest.mark.parametrize("name", FORMATS)
def test_damage_and_odd_lines_do_not_stop_an_export(tmp_path: Path, name: ExportFormat) -> None:
    writer = hostile()
    assert writer.last is not None
    odd = {"type": "user", "uuid": "u", "message": "odd", "timestamp": 9, "isMeta": "x", "parentUuid": writer.last}
    writer.lines += [
        "",
        "[1]",
        "not json",
        '{"type":7,"uuid":"x"}',
        json.dumps(odd),
    ]
    path = writer.save(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"type":"attachment","x":"\xff\xfe"}\n{"type":"assistant","uu')
    found = transcripts.export(writer.session_id, name, config_dir=tmp_path)
    assert "mcp__" in found.replace("\\_", "_")


MARKDOWN = [
    ("a < b `<i>` ``<`>`` <i>x</i>", "a \\< b `<i>` ``<`>`` \\<i>x\\</i>"),
    ("![x](http://evil.test/p) !\n[y](http://ok.test)", "!\\[x](http://evil.test/p) !\n[y](http://ok.test)"),
    ("```html\n<b>![](x)\n```\n<b>", "```html\n<b>![](x)\n```\n\\<b>"),
    ("~~~~\n<b>\n~~~\n```", "~~~~\n<b>\n~~~\n```\n~~~~"),
    ("````x\n<b>\n``` y", "````x\n<b>\n``` y\n````"),
    ("``` a`b\n<b>", "``` a`b\n\\<b>"),
    ("`open <b>", "`open \\<b>"),
]


@pytest.mark.parametrize(("text", "shown"), MARKDOWN)
def test_markdown_of_the_model_has_no_html_no_images_and_no_open_fence(tmp_path: Path, text: str, shown: str) -> None:
    writer = Writer()
    writer.user("x")
    writer.assistant(text)
    writer.save(tmp_path)
    found = transcripts.export(writer.session_id, "markdown", config_dir=tmp_path)
    assert found.endswith(f"\n## Assistant\n\n{shown}\n")


# -- import -----------------------------------------------------------------------------------------------------------


def exported(tmp_path: Path, writer: Writer) -> Path:
    target = tmp_path / "export.jsonl"
    target.write_text(transcripts.export(writer.session_id, "jsonl", config_dir=tmp_path), encoding="utf-8")
    return target


def test_an_import_is_the_same_conversation(tmp_path: Path) -> None:
    writer = hostile()
    path = writer.save(tmp_path)
    subagent(path, "a1", agentType="explore", toolUseId="t1")
    subagent(path, "a2")
    export = exported(tmp_path, writer)
    with pytest.raises(SessionExistsError, match="new_id=True"):
        transcripts.import_(export, project="/home/me/other", config_dir=tmp_path)
    other = tmp_path / "other"
    assert transcripts.import_(export, project="/home/me/other", config_dir=other) == writer.session_id
    new = transcripts.info(writer.session_id, config_dir=other)
    assert new.path.read_bytes() == path.read_bytes()
    assert (new.path.stat().st_mode & 0o777, new.project_key) == (0o600, transcripts.project_key("/home/me/other"))
    for name in ("agent-a1.jsonl", "agent-a1.meta.json", "agent-a2.jsonl"):
        old = path.with_suffix("") / "subagents" / name
        own = new.path.with_suffix("") / "subagents" / name
        assert [json.loads(each) for each in own.read_bytes().split(b"\n") if each] == [
            json.loads(each) for each in old.read_bytes().split(b"\n") if each
        ]
    with pytest.raises(SessionExistsError):
        transcripts.import_(export, project="/home/me/third", config_dir=other)
    copy = transcripts.import_(export, new_id=True, config_dir=other)
    read = transcripts.read(copy, config_dir=other)
    assert read.files.project_key == transcripts.project_key(os.getcwd())
    assert {each.session_id for each in read.entries if each.type != "tag"} == {copy}
    assert read.subagents.keys() == {"a1", "a2"}
    assert [str(each) for each in read.messages] == [
        str(each) for each in transcripts.read(writer.session_id, config_dir=other).messages
    ]


GOOD = '{"type":"user","uuid":"u","sessionId":"5e551011-0000-4000-8000-000000000000","message":{"role":"user","content":"x"}}'
BAD_IMPORTS = {
    "empty": ("", "holds no conversation"),
    "no messages": ('{"type":"mode","sessionId":"5e551011-0000-4000-8000-000000000000"}', "holds no conversation"),
    "not JSON": (f"{GOOD}\nhello\n{GOOD}", "line 2 is not a JSON object"),
    "id that leaves the folder": (GOOD.replace("5e551011-", "../../"), "holds no conversation"),
    "agent that leaves the folder": (
        f'{GOOD}\n{{"type":"bridle-subagent","agentId":"../../x","folder":"subagents"}}\n{GOOD}',
        "line 2 names no subagent",
    ),
    "folder that leaves the folder": (
        f'{GOOD}\n{{"type":"bridle-subagent","agentId":"x","folder":"subagents/../../.."}}\n{GOOD}',
        "line 2 names no subagent",
    ),
    "agent without a name": (f'{GOOD}\n{{"type":"bridle-subagent"}}\n{GOOD}', "line 2 names no subagent"),
}


@pytest.mark.parametrize("name", BAD_IMPORTS)
def test_a_bad_file_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    text, message = BAD_IMPORTS[name]
    source = tmp_path / "in.jsonl"
    source.write_text(text)
    with pytest.raises(TranscriptError, match=message):
        transcripts.import_(source, project="/p", config_dir=tmp_path / "config")
    assert not (tmp_path / "config").exists()


def test_a_subagent_that_comes_twice_leaves_nothing(tmp_path: Path) -> None:
    head = '{"type":"bridle-subagent","agentId":"x","folder":"subagents","meta":{"agentType":"y"}}'
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([GOOD, head, GOOD, head, GOOD]))
    with pytest.raises(TranscriptError):
        transcripts.import_(source, project="/p", config_dir=tmp_path / "config")
    assert [path for path in (tmp_path / "config").rglob("*") if path.is_file()] == []


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="could not be imported: No such file"):
        transcripts.import_(tmp_path / "no", project="/p", config_dir=tmp_path)


@pytest.mark.timeout(120)
def test_an_import_resumes_on_the_real_cli(real_cli: RealCLI) -> None:
    with ScriptedModel(BOTH, Reply("done"), Repeat("more")) as model:
        config = config_of(real_cli, model)
        base = options(real_cli, model)
        with bridle.sync.Session(base) as session:
            for prompt in ("one", "two"):
                session_id = session.send(prompt).result().session_id
        assert session_id is not None
        whole = shown(model.requests[-1].body)
        export = real_cli.directory / "export.jsonl"
        export.write_text(transcripts.export(session_id, "jsonl", config_dir=config), encoding="utf-8")
        elsewhere = real_cli.directory / "elsewhere"
        elsewhere.mkdir()
        for new_id in (True, False):
            if not new_id:
                transcripts.delete(session_id, config_dir=config)
            copy = transcripts.import_(export, project=elsewhere, new_id=new_id, config_dir=config)
            assert (copy == session_id) is not new_id
            before = len(model.requests)
            result = bridle.sync.run("NEXT", base.replace(resume=copy, cwd=elsewhere))
            assert result.session_id == copy
            request = shown(model.requests[before].body)
            assert request[: len(whole)] == whole
            assert "NEXT" in request[-1][1]
