"""`hackamore acp` as an editor starts it, with the real CLI: conversations, permissions, and a server that is killed."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp import RequestError, schema
from acp.client.connection import ClientSideConnection

from hackamore.testing import Reply, ScriptedModel, ToolCall
from tests.conftest import RealCLI
from tests.contract import shows
from tests.serving.acp.editor import Editor
from tests.support.patience import patience

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def text(value: str) -> list[Any]:
    """Return a prompt of one text."""
    return [schema.TextContentBlock(type="text", text=value)]


@asynccontextmanager
async def started(
    real_cli: RealCLI, model: ScriptedModel, editor: Editor, *arguments: str
) -> AsyncIterator[tuple[ClientSideConnection, asyncio.subprocess.Process]]:
    """Start the command; yield a client that has initialized, and the process. It has ended well afterwards, if it was not killed."""
    command = [sys.executable, "-m", "hackamore", "acp", "--cli-path", real_cli.cli_path, *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=real_cli.env(model),
        cwd=real_cli.cwd,
        limit=1 << 24,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = ClientSideConnection(cast(Any, editor), process.stdin, process.stdout, use_unstable_protocol=True)
    try:
        made = await client.initialize(1)
        assert made.agent_capabilities is not None
        assert made.agent_capabilities.load_session is True
        yield client, process
    finally:
        await client.close()
        process.stdin.close()
        code = await asyncio.wait_for(process.wait(), patience(30))
    assert code in (0, -signal.SIGKILL)


@shows("acp.client.killed")
async def test_a_conversation_is_loaded_after_the_server_was_killed(real_cli: RealCLI) -> None:
    editor = Editor()
    cwd = str(real_cli.cwd)
    (real_cli.cwd / "a.txt").write_text("one\n")
    edit = {"file_path": str(real_cli.cwd / "a.txt"), "old_string": "one", "new_string": "two"}
    replies = [
        Reply(ToolCall("Read", {"file_path": edit["file_path"]})),
        Reply("I change it.", ToolCall("Edit", edit)),
        Reply("Changed."),
        Reply("It was one.", expect_text="What was it?"),
        Reply("From the copy."),
    ]
    with ScriptedModel(*replies) as model:
        async with started(real_cli, model, editor) as (client, process):
            session = (await client.new_session(cwd=cwd)).session_id
            answer = await client.prompt(session_id=session, prompt=text("Change it"))
            assert answer.stop_reason == "end_turn"
            assert [call.kind for _, call, _ in editor.asked] == ["edit"]
            assert {"allow", "accept_edits", "reject"} <= {each.option_id for each in editor.asked[0][2]}
            assert (real_cli.cwd / "a.txt").read_text() == "two\n"
            assert editor.text(session) == "I change it.Changed."
            process.send_signal(signal.SIGKILL)
            await process.wait()

        later = Editor()
        async with started(real_cli, model, later) as (client, _):
            listed = await client.list_sessions(cwd=cwd)
            assert [each.session_id for each in listed.sessions] == [session]
            loaded = await client.load_session(cwd=cwd, session_id=session)
            assert loaded.modes is not None
            assert later.text(session, "user_message_chunk") == "Change it"
            assert later.text(session) == "I change it.Changed."
            starts = [each for each in later.calls(session) if each.session_update == "tool_call"]
            ends = [each for each in later.calls(session) if each.session_update == "tool_call_update"]
            assert [each.kind for each in starts] == ["read", "edit"]
            assert [each.status for each in ends] == ["completed", "completed"]
            assert starts[1].content[0].new_text == "two"
            await client.prompt(session_id=session, prompt=text("What was it?"))
            assert later.text(session).endswith("It was one.")

            copy = await client.fork_session(session_id=session, cwd=cwd)
            assert copy.session_id != session
            await client.prompt(session_id=copy.session_id, prompt=text("And here?"))
            assert later.text(copy.session_id) == "From the copy."
            await client.close_session(session_id=session)
            with pytest.raises(RequestError) as error:
                await client.prompt(session_id=session, prompt=text("Still there?"))
            assert error.value.code == -32002
            await client.resume_session(session_id=session, cwd=cwd)
            assert later.kinds(session).count("user_message_chunk") == 1  # a resume shows nothing again


async def test_a_cancelled_turn_and_servers_of_the_editor(real_cli: RealCLI, tmp_path: Path) -> None:
    waits: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    editor = Editor(lambda session, call, options: waits)
    program = Path(__file__).with_name("mcp_program.py")
    server = schema.McpServerStdio(name="editor", command=sys.executable, args=[str(program)], env=[])
    replies = [Reply(ToolCall("mcp__editor__open_file", {"name": "a"})), Reply("After it.")]
    with ScriptedModel(*replies) as model:
        async with started(real_cli, model, editor) as (client, _):
            session = (await client.new_session(cwd=str(real_cli.cwd), mcp_servers=[server])).session_id
            prompt = asyncio.create_task(client.prompt(session_id=session, prompt=text("Open it")))
            await asyncio.wait_for(editor.until(lambda: editor.asked), patience(30))
            assert editor.asked[0][1].title == "editor: open_file"
            await client.cancel(session_id=session)
            assert (await asyncio.wait_for(prompt, patience(30))).stop_reason == "cancelled"
            waits.set_result(None)
            assert editor.calls(session)[-1].status == "failed"
            await client.prompt(session_id=session, prompt=text("Go on"))
            assert editor.text(session) == "After it."


async def test_a_login_that_is_missing_is_an_error_of_the_protocol(real_cli: RealCLI) -> None:
    from hackamore.testing import HTTPFailure

    with ScriptedModel(HTTPFailure(401, retry=False)) as model:
        async with started(real_cli, model, editor := Editor()) as (client, _):
            session = (await client.new_session(cwd=str(real_cli.cwd))).session_id
            with pytest.raises(RequestError) as error:
                await client.prompt(session_id=session, prompt=text("Hello"))
            assert error.value.code == -32000
            assert json.dumps(error.value.data)
            await client.authenticate(method_id="claude-login")
    assert "agent_message_chunk" not in editor.kinds(session) or editor.text(session)
