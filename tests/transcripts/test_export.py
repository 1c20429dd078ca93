"""Exports: hostile contents do nothing, and an import of a JSONL export is the same conversation again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

import hackamore.sync
from hackamore import transcripts
from hackamore.errors import SessionExistsError, TranscriptError
from hackamore.testing import Repeat, Reply, ScriptedModel
from hackamore.transcripts import ExportFormat
from tests.transcripts.disk import Writer, some_id, tool_use
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


DOCUMENT = """# Look, \\*please\\*

- session: `00000000-0000-4000-8000-000000000001`
- folder: `` /home/me/a`b ``
- branch: `main`
- model: `claude-opus-5-5`
- tag: `billed`
- created: `2026-11-01 00:00:01 UTC`
- modified: `2027-01-15 08:00:00 UTC`

## User

```text
Look, *please*
```

## Thinking

```text
Hm.
```

## Assistant

I **look**.

## Tool: Bash

```text
ls
```

## Tool: mcp\\_\\_x\\_\\_y

```text
{
  "a": 1,
  "b": "\u00e9"
}
```

## Result

````text
a
```b
````

## Result \\(error\\)

```text
no
```

## Content: document



## Subagent explore a1

### User

```text
inner
```

## Subagent a2

### Assistant

found
"""


def whole(tmp_path: Path) -> tuple[Writer, Path]:
    writer = Writer(some_id(1), cwd="/home/me/a`b")
    writer.user("Look, *please*")
    calls = (tool_use("t1", command="ls"), tool_use("t2", "mcp__x__y", a=1, b="\u00e9"))
    writer.assistant({"type": "thinking", "thinking": "Hm."}, "I **look**.", *calls, id="m")
    writer.result("t1", "\na\n```b\n")
    writer.user([{"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True}])
    writer.user([{"type": "document", "source": {}}], isCompactSummary=True)
    writer.lines.append('{"type":"tag","tag":"billed"}')
    path = writer.save(tmp_path)
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    for agent_id, said in (("a1", Writer.user), ("a2", Writer.assistant)):
        agent = Writer(writer.session_id)
        said(agent, "inner" if agent_id == "a1" else "found", isSidechain=True, agentId=agent_id)
        (folder / f"agent-{agent_id}.jsonl").write_text(agent.text)
    (folder / "agent-a1.meta.json").write_text('{"agentType":"explore","toolUseId":"t1"}')
    os.utime(path, (1_800_000_000, 1_800_000_000))
    return writer, path


def test_a_document_to_read(tmp_path: Path) -> None:
    writer, _ = whole(tmp_path)
    assert transcripts.export(writer.session_id, config_dir=tmp_path) == DOCUMENT


def test_a_document_has_the_tools_of_the_api(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("Look it up")
    call = {"type": "server_tool_use", "id": "t1", "name": "web_search", "input": {"query": "anchor"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "An anchor."}]}
    writer.assistant(call, found)
    writer.save(tmp_path)
    document = transcripts.export(writer.session_id, config_dir=tmp_path)
    call_text = "## Tool: web\\_search\n\n```text\nanchor\n```\n"
    assert document.endswith(f"\n{call_text}\n## Result\n\n```text\nAn anchor.\n```\n")


def test_a_document_for_programs(tmp_path: Path) -> None:
    writer, path = whole(tmp_path)
    found = json.loads(transcripts.export(writer.session_id, "json", config_dir=tmp_path))

    def messages(lines: list[str]) -> list[dict[str, Any]]:
        names = ("type", "uuid", "parentUuid", "timestamp", "isMeta", "message")
        new = ("type", "uuid", "parent_uuid", "timestamp", "is_meta", "message")
        read = [json.loads(each) for each in lines if "uuid" in each]
        return [{own: each.get(name) for name, own in zip(names, new, strict=True)} for each in read]

    def agent(agent_id: str) -> list[dict[str, Any]]:
        return messages((path.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl").read_text().splitlines())

    assert found == {
        "session_id": writer.session_id,
        "title": "Look, *please*",
        "tag": "billed",
        "cwd": "/home/me/a`b",
        "git_branch": "main",
        "model": "claude-opus-5-5",
        "created": "2026-11-01T00:00:01Z",
        "modified": "2027-01-15T08:00:00Z",
        "bytes": path.stat().st_size,
        "usage": msgspec.to_builtins(transcripts.read(writer.session_id, config_dir=tmp_path).usage),
        "messages": messages(writer.lines),
        "subagents": [
            {"agent_id": "a1", "agent_type": "explore", "tool_use_id": "t1", "messages": agent("a1")},
            {"agent_id": "a2", "agent_type": None, "tool_use_id": None, "messages": agent("a2")},
        ],
    }


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
    with pytest.raises(ValueError, match=r"got \[\.\.\. 102 characters left out\] x{99}'\.$"):
        transcripts.export(writer.session_id, cast("ExportFormat", "x" * 200), config_dir=tmp_path)


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
        f'{GOOD}\n{{"type":"hackamore-subagent","agentId":"../../x","folder":"subagents"}}\n{GOOD}',
        "line 2 names no subagent",
    ),
    "folder that leaves the folder": (
        f'{GOOD}\n{{"type":"hackamore-subagent","agentId":"x","folder":"subagents/../../.."}}\n{GOOD}',
        "line 2 names no subagent",
    ),
    "agent without a name": (f'{GOOD}\n{{"type":"hackamore-subagent"}}\n{GOOD}', "line 2 names no subagent"),
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
    head = '{"type":"hackamore-subagent","agentId":"x","folder":"subagents","meta":{"agentType":"y"}}'
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([GOOD, head, GOOD, head, GOOD]))
    with pytest.raises(TranscriptError):
        transcripts.import_(source, project="/p", config_dir=tmp_path / "config")
    assert [path for path in (tmp_path / "config").rglob("*") if path.is_file()] == []


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="could not be imported: No such file"):
        transcripts.import_(tmp_path / "no", project="/p", config_dir=tmp_path)


def test_an_error_of_an_import_shows_the_file_escaped_and_cut(tmp_path: Path) -> None:
    source = tmp_path / ("n" * 120) / ("n" * 120) / ("\x1b" + "n" * 100)
    source.parent.mkdir(parents=True)
    source.write_text("")
    shown = str(source)[-300:].replace("\x1b", r"\x1b")
    with pytest.raises(TranscriptError) as caught:
        transcripts.import_(source, project="/p", config_dir=tmp_path)
    assert str(caught.value).startswith(f"[... {len(str(source)) - 300} characters left out] {shown} holds no")


def test_a_file_of_another_host_gets_the_id_of_its_session(tmp_path: Path) -> None:
    other, session = some_id(2), "5e551011-0000-4000-8000-000000000000"
    source = tmp_path / "in.jsonl"
    head = '{"type":"hackamore-subagent","agentId":"x","folder":"subagents/deep"}'
    odd = '{"type":"note","about":"hackamore-subagent"}'
    source.write_text("\n".join(['{"type":"mode"}', GOOD, odd, GOOD.replace(session, other), head, GOOD, ""]))
    assert transcripts.import_(source, project=tmp_path / "p", config_dir=tmp_path) == session
    (path,) = (tmp_path / "projects").glob(f"*/{session}.jsonl")
    assert path.parent.name == transcripts.project_key(tmp_path / "p")
    assert path.read_text() == "\n".join(['{"type":"mode"}', GOOD, odd, GOOD, ""])
    files = [each for each in path.with_suffix("").rglob("*") if each.is_file()]
    assert [(each.name, each.parent.name, each.read_text()) for each in files] == [
        ("agent-x.jsonl", "deep", GOOD + "\n")
    ]
    for folder in (path.parent, *(each.parent for each in files)):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.timeout(120)
def test_an_import_resumes_on_the_real_cli(real_cli: RealCLI) -> None:
    with ScriptedModel(BOTH, Reply("done"), Repeat("more")) as model:
        config = config_of(real_cli, model)
        base = options(real_cli, model)
        with hackamore.sync.Session(base) as session:
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
            result = hackamore.sync.run("NEXT", base.replace(resume=copy, cwd=elsewhere))
            assert result.session_id == copy
            request = shown(model.requests[before].body)
            assert request[: len(whole)] == whole
            assert "NEXT" in request[-1][1]
