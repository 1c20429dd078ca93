"""Every update and request that an editor gets, with its own Python client and the simulated CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema

import hackamore
from hackamore import Allow, Deny, Options, PermissionRequest, tool
from hackamore.serving import acp
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.serving.acp.editor import Editor, connected

pytestmark = pytest.mark.anyio


def text(value: str) -> list[Any]:
    """Return a prompt of one text."""
    return [schema.TextContentBlock(type="text", text=value)]


async def played(
    script: Script, editor: Editor, cwd: Path, options: Options | None = None, policy: Path | None = None, **more: Any
) -> tuple[str, Any]:
    """Send the prompt `go` to an agent that plays a script; return the session and the answer."""
    with SimulatedCLI(script) as cli:
        async with (
            acp.agent(options, policy=policy, transport=cli) as agent,
            connected(agent, editor, **more) as client,
        ):
            session = (await client.new_session(cwd=str(cwd))).session_id
            answer = await client.prompt(session_id=session, prompt=text("go"))
    return session, answer


async def test_text_and_thoughts_arrive_in_pieces_and_in_order(tmp_path: Path) -> None:
    editor = Editor()
    script = Script().user("go").thinks("Let me see.").says("One two three", chunk=4)
    session, answer = await played(script, editor, tmp_path)
    assert editor.text(session) == "One two three"
    assert editor.text(session, "agent_thought_chunk") == "Let me see."
    kinds = editor.kinds(session)
    assert kinds[:2] == ["available_commands_update", "agent_thought_chunk"]
    assert kinds.count("agent_message_chunk") == 4
    assert kinds[-1] == "usage_update"
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


async def test_a_call_has_kind_place_and_diff_and_ends(tmp_path: Path) -> None:
    editor = Editor()
    script = Script().user("go").says("I change it.")
    script.calls("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"}, result="done", id="e1")
    script.calls("Bash", {"command": "ls"}, result="a.py ``` b.py", id="b1")
    script.calls("Bash", {"command": "false"}, error="exit 1", id="b2").says("Ready.")
    session, _ = await played(script, editor, tmp_path)
    edit, edited, _, listed, _, failed = editor.calls(session)
    assert (edit.kind, edit.title, edit.status) == ("edit", "Edit a.py", "pending")
    assert [each.path for each in edit.locations] == [str(tmp_path / "a.py")]
    [diff] = edit.content
    assert (diff.type, diff.path, diff.old_text, diff.new_text) == ("diff", str(tmp_path / "a.py"), "1", "2")
    assert (edited.status, edited.content) == ("completed", None)  # the diff stays
    assert listed.content[0].content.text == "````console\na.py ``` b.py\n````"
    assert (failed.status, "exit 1" in failed.content[0].content.text) == ("failed", True)


async def test_a_todo_list_is_a_plan(tmp_path: Path) -> None:
    editor = Editor()
    todos = [{"content": "read", "status": "completed", "activeForm": "reading"}, {"content": "write", "status": "odd"}]
    script = Script().user("go").calls("TodoWrite", {"todos": todos}, result="ok").says("Ready.")
    session, _ = await played(script, editor, tmp_path)
    [plan] = [each for each in editor.updates[session] if each.session_update == "plan"]
    assert [(each.content, each.status) for each in plan.entries] == [("read", "completed"), ("write", "pending")]
    assert editor.calls(session) == []


@shows("acp.client.permissions")
@pytest.mark.parametrize(
    ("option", "decision", "status"),
    [
        ("allow", "allow", "completed"),
        ("allow_always", "allow", "completed"),
        ("reject", "deny", "failed"),
        (None, "deny", "failed"),
    ],
)
async def test_the_user_decides(option: str | None, decision: Any, status: str, tmp_path: Path) -> None:
    editor = Editor(lambda session, call, options: option)
    script = Script().user("go").says("I clean up.").calls("Bash", {"command": "rm x"}, result="gone", id="c1")
    script.expect_permission("Bash", decision=decision)
    if option is not None:
        script.says("Ready.")
    session, answer = await played(script, editor, tmp_path)
    assert answer.stop_reason == ("cancelled" if option is None else "end_turn")
    [(asked, call, options)] = editor.asked
    assert (asked, call.tool_call_id, call.title, call.kind) == (session, "c1", "rm x", "execute")
    assert [each.kind for each in options] == ["allow_once", "allow_always", "reject_once"]
    kinds = editor.kinds(session)
    assert kinds.index("agent_message_chunk") < kinds.index(
        "tool_call"
    )  # the words before the call are shown before it
    assert editor.calls(session)[-1].status == status


async def test_an_answer_that_is_not_understood_denies(tmp_path: Path) -> None:
    editor = Editor(lambda session, call, options: "allow-everything")
    script = (
        Script().user("go").calls("Bash", {"command": "rm x"}).expect_permission("Bash", decision="deny").says("No.")
    )
    await played(script, editor, tmp_path)

    def broken(session: str, call: Any, options: Any) -> str:
        raise RequestError.internal_error()

    script = (
        Script().user("go").calls("Bash", {"command": "rm x"}).expect_permission("Bash", decision="deny").says("No.")
    )
    await played(script, Editor(broken), tmp_path)


QUESTIONS = {
    "questions": [
        {
            "question": "Which?",
            "header": "Colour",
            "multiSelect": False,
            "options": [{"label": "red"}, {"label": "blue"}],
        },
        {"question": "What else?", "header": "More", "multiSelect": True, "options": [{"label": "a"}, {"label": "b"}]},
    ]
}


async def test_questions_of_the_model_are_choices(tmp_path: Path) -> None:
    editor = Editor(lambda session, call, options: options[1].option_id)
    script = Script().user("go").calls("AskUserQuestion", QUESTIONS, result="ok")
    script.expect_permission("AskUserQuestion", decision="allow").says("Thanks.")
    await played(script, editor, tmp_path)
    assert [[each.name for each in options] for _, _, options in editor.asked] == [
        ["red", "blue", "Do not answer"],
        ["a", "b", "Do not answer"],
    ]


async def test_the_callback_of_the_program_comes_before_the_editor(tmp_path: Path) -> None:
    def decide(request: PermissionRequest) -> Allow | Deny:
        return Deny("not here")

    editor = Editor()
    script = (
        Script().user("go").calls("Bash", {"command": "rm x"}).expect_permission("Bash", decision="deny").says("No.")
    )
    await played(script, editor, tmp_path, Options(can_use_tool=decide))
    assert editor.asked == []


@tool
def price(article: str) -> float:
    """Return the price of an article."""
    return 2.5


async def test_tools_of_the_program_and_a_policy_work_as_in_any_session(tmp_path: Path) -> None:
    editor = Editor()
    rules = [hackamore.Rule(name="prices", tool="mcp__shop__price", decision="allow")]
    script = Script().user("go").calls("mcp__shop__price", {"article": "tea"}, id="p1").expect_result("2.5")
    script.calls("Bash", {"command": "ls"}, id="b1").says("2.50.")
    options = Options(mcp_servers={"shop": [price]}, policy=hackamore.Policy(rules))
    session, _ = await played(script, editor, tmp_path, options)
    calls = editor.calls(session)
    assert (calls[0].title, calls[0].kind) == ("shop: price", "other")
    assert "2.5" in calls[1].content[0].content.text
    assert [call.tool_call_id for _, call, _ in editor.asked] == ["b1"]  # no rule: the policy has somebody to ask


@shows("acp.client.permissions")
async def test_the_roots_of_a_policy_file_are_the_folder_of_the_conversation(tmp_path: Path) -> None:
    """Not that of the program: an editor may start it anywhere."""
    file, editor, inside = tmp_path / "policy.toml", Editor(), str(tmp_path / "work" / "a")
    texts = (
        'name = "inside"\ntool = "Write"\npath = "{repo}/**"\ndecision = "allow"',
        ('name = "commands"\ntool = "Bash"\ndecision = "ask"\nreason = "Commands need a person."'),
    )
    file.write_text("".join(f"[[rule]]\n{text}\n" for text in texts))
    script = Script().user("go").calls("Write", {"file_path": inside, "content": "x"}, id="w1")
    script.calls("Write", {"file_path": str(Path("a").resolve()), "content": "x"}, id="w2").calls(
        "Bash", {"command": "ls"}, id="b1"
    )
    (tmp_path / "work").mkdir()
    await played(script.says("Done."), editor, tmp_path / "work", policy=file)
    assert [call.tool_call_id for _, call, _ in editor.asked] == ["w2", "b1"]
    assert "Commands need a person." in str(editor.asked[1][1].content)


async def test_the_mode_and_the_model_are_chosen_in_the_editor(tmp_path: Path) -> None:
    editor = Editor()
    script = (
        Script()
        .user("go")
        .calls("Edit", {"file_path": "a", "old_string": "1", "new_string": "2"}, result="ok")
        .says("Done.")
    )
    with SimulatedCLI(script) as cli:
        async with acp.agent(transport=cli) as agent, connected(agent, editor) as client:
            made = await client.new_session(cwd=str(tmp_path))
            session = made.session_id
            assert made.modes is not None
            assert made.modes.current_mode_id == "default"
            assert [each.id for each in made.config_options or ()] == ["mode", "model"]
            await client.set_session_mode(session_id=session, mode_id="acceptEdits")
            found = await client.set_config_option(session_id=session, config_id="model", value="haiku")
            assert [each.current_value for each in found.config_options] == ["acceptEdits", "haiku"]
            await client.prompt(session_id=session, prompt=text("go"))
            for config, value in (("model", "gpt"), ("speed", "fast"), ("mode", "bypassPermissions")):
                with pytest.raises(RequestError) as error:
                    await client.set_config_option(session_id=session, config_id=config, value=value)
                assert error.value.code == -32602
    assert editor.asked == []
    assert {"current_mode_update", "config_option_update"} <= set(editor.kinds(session))


async def test_a_mode_that_the_cli_changes_is_shown(tmp_path: Path) -> None:
    editor = Editor(lambda session, call, options: "accept_edits")
    script = Script().user("go")
    script.frame({"type": "system", "subtype": "status", "permissionMode": "plan", "status": None}).says("I plan.")
    session, _ = await played(script, editor, tmp_path)
    [mode] = [each for each in editor.updates[session] if each.session_update == "current_mode_update"]
    assert mode.current_mode_id == "plan"


async def test_the_limit_of_turns_is_a_reason_of_the_end(tmp_path: Path) -> None:
    script = Script().user("go").calls("Read", {"file_path": "a"}, result="x").says("Ready.")
    with pytest.raises(hackamore.testing.ScriptError, match="open"):  # the last step is not reached
        await played(script, editor := Editor(), tmp_path, Options(max_turns=1))
    assert "tool_call_update" in [kind for kinds in map(editor.kinds, editor.updates) for kind in kinds]


async def test_a_prompt_that_fails_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    script = Script().user("go").api_error(500)
    with pytest.raises(RequestError) as error:
        await played(script, Editor(), tmp_path)
    assert error.value.code == -32603
    assert error.value.data is not None
    assert error.value.data["type"] == "ResultError"
