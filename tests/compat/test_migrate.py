"""`hackamore compat migrate`: what is rewritten, what stays on the layer and why, and that files keep all else."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import messages
from hackamore.compat import claude_agent_sdk
from hackamore.compat._migrate import Migrated, migrate
from tests.cli.command import Command
from tests.contract import shows

TABLE: dict[str, Any] = tomllib.loads(Path(hackamore.__file__).with_name("official.toml").read_text(encoding="utf-8"))
HEAD = "from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, query\n"


def moved(folder: Path, text: str, name: str = "program.py") -> Migrated:
    """Return how a program is migrated."""
    path = folder / name
    path.write_bytes(textwrap.dedent(text).encode())
    (done,), unread = migrate([path])
    assert unread == []
    ast.parse(done.after)
    return done


def lines(done: Migrated) -> list[str]:
    return done.after.decode().splitlines()


@shows("compat.tools.migrate")
def test_a_conversation_becomes_a_session_with_turns(tmp_path: Path) -> None:
    done = moved(
        tmp_path,
        """\
        from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient  # the agent

        async def main():
            options = ClaudeAgentOptions(model="sonnet")  # cheap
            async with ClaudeSDKClient(options) as client:
                await client.query("one")
                async for message in client.receive_response():
                    if isinstance(message, AssistantMessage):
                        print(message.model)
                await client.set_model("haiku")
                info = await client.get_server_info()
        """,
    )
    assert done.native
    assert lines(done) == [
        "from hackamore import AssistantMessage, Options, Session  # the agent",
        "",
        "async def main():",
        '    options = Options(system_prompt="", model="sonnet")  # cheap',
        "    async with Session(options) as client:",
        '        turn = await client.send("one")',
        "        async for message in turn:",
        "            if isinstance(message, AssistantMessage):",
        "                print(message.model)",
        '        await client.set_model("haiku")',
        "        info = (client.server_info.data if client.server_info else None)",
    ]


@shows("compat.tools.migrate")
def test_a_query_still_raises_after_an_error_result(tmp_path: Path) -> None:
    done = moved(
        tmp_path,
        """\
        from claude_agent_sdk import query, ResultMessage, CLIConnectionError
        async def main():
            count = 0
            try:
                async for message in query(prompt="go"):
                    count += 1
                    if isinstance(message, ResultMessage) and message.usage:
                        print(f"used {message.usage['input_tokens']}")  # so far
            except CLIConnectionError:
                pass
        """,
    )
    assert done.native
    assert lines(done) == [
        "from hackamore import Options, ResultMessage, SessionClosedError, StartError, query",
        "from hackamore.messages import CommandLifecycleMessage, UnknownMessage",
        "async def main():",
        "    count = 0",
        "    try:",
        '        async for message in query(prompt="go", options=Options(system_prompt="")):',
        "            if isinstance(message, (CommandLifecycleMessage, UnknownMessage)):",
        "                continue",
        "            count += 1",
        '            if isinstance(message, ResultMessage) and message.data.get("usage"):',
        "                print(f\"used {message.data.get('usage')['input_tokens']}\")  # so far",
        "            if isinstance(message, ResultMessage):",
        "                message.raise_for_error()",
        "    except (StartError, SessionClosedError):",
        "        pass",
    ]


@shows("compat.tools.migrate")
def test_callbacks_take_the_arguments_of_hackamore(tmp_path: Path) -> None:
    done = moved(
        tmp_path,
        """\
        from typing import Any
        from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, PermissionResultAllow, PermissionResultDeny, AgentDefinition

        async def watch(data: dict[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
            print(data["tool_name"], tool_use_id)
            return {}

        async def decide(name, given, context):
            if name == "Bash" and "rm" in given["command"]:
                return PermissionResultDeny(message=f"{context.tool_use_id} removes")
            return PermissionResultAllow()

        options = ClaudeAgentOptions(
            system_prompt="Be brief.",
            load_timeout_ms=500,
            hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[watch])]},
            can_use_tool=decide,
            agents={"a": AgentDefinition(description="d", prompt="p", maxTurns=3)},
        )
        """,
    )
    assert done.native
    text = done.after.decode()
    assert "async def watch(data: HookInput, context: HookContext) -> dict[str, Any]:" in text
    assert 'print(data.data["tool_name"], context.tool_use_id)' in text
    assert "async def decide(context: PermissionRequest):" in text
    assert 'if context.tool_name == "Bash" and "rm" in context.input["command"]:' in text
    assert 'return Deny(message=f"{context.tool_use_id} removes")' in text
    assert "timeouts=Timeouts(store=(500) / 1000)," in text
    assert "max_turns=3" in text
    names: dict[str, Any] = {}
    exec(text, names)
    assert names["options"].can_use_tool is names["decide"]
    assert names["options"].timeouts.store == 0.5


@shows("compat.tools.migrate")
def test_names_in_f_strings_and_aliases_keep_their_places(tmp_path: Path) -> None:
    done = moved(
        tmp_path,
        """\
        from claude_agent_sdk import (
            ClaudeAgentOptions as O,  # the options
            PermissionResultAllow,
        )

        async def decide(name, given, context):
            print(f"{name} {name} {given!r}" f"{name:>10}")
            print(f'''
        {given["x"]} {context.tool_use_id}''')
            return PermissionResultAllow()

        options = O(can_use_tool=decide)
        """,
    )
    assert done.native
    assert lines(done) == [
        "# the options",
        "from hackamore import (",
        "    Allow,",
        "    Options as O,",
        "    PermissionRequest,",
        ")",
        "",
        "async def decide(context: PermissionRequest):",
        '    print(f"{context.tool_name} {context.tool_name} {context.input!r}" f"{context.tool_name:>10}")',
        "    print(f'''",
        "{context.input[\"x\"]} {context.tool_use_id}''')",
        "    return Allow()",
        "",
        'options = O(system_prompt="", can_use_tool=decide)',
    ]


@shows("compat.tools.kept")
def test_an_import_inside_a_function_cannot_bring_further_names(tmp_path: Path) -> None:
    loop = "async for m in query(prompt='x'):\n            pass\n"
    text = f"def f():\n    from claude_agent_sdk import query\n    async def g():\n        {loop}"
    done = moved(tmp_path, text)
    assert [text for _, text in done.todos] == [
        "Import the names at the top of the file: Hackamore needs further ones."
    ]


KEPT = {
    "two prompts": ("await client.query('b')\n", "Write `turn = await session.send(...)`"),
    "a message as a whole": (
        "async for m in client.receive_response():\n            print(m)\n",
        "`m` is passed on or shown",
    ),
    "all messages": ("async for m in client.receive_messages():\n            break\n", "`receive_messages` differs"),
    "a client that is passed on": ("await other(client)\n", "`client` is passed on"),
    "a message that is built": ("AssistantMessage([], 'm')\n", "`AssistantMessage` is used as a value"),
    "a name of a module": ("import claude_agent_sdk.types\n", "Name what the file uses"),
    "a text for a mock": ("patch('claude_agent_sdk.query')\n", "The text `claude_agent_sdk.query`"),
    "a prompt of frames": ("await client.query('x', session_id='s')\n", "Send each frame of the iterable"),
    "another field": ("ClaudeAgentOptions(debug_stderr=f)\n", "`debug_stderr` differs"),
    "a comprehension": ("[m async for m in query(prompt='x')]\n", "An error result must raise"),
    "a name that is taken": ("Session = 3\n", "names of its own that Hackamore also has: Session"),
    "a transport": ("ClaudeSDKClient(transport=t)\n", "Use `transport=`"),
}


@shows("compat.tools.kept")
@pytest.mark.parametrize("use", KEPT)
def test_a_use_without_an_equal_keeps_the_file_on_the_layer(tmp_path: Path, use: str) -> None:
    code, reason = KEPT[use]
    text = f"{HEAD}async def main():\n    async with ClaudeSDKClient() as client:\n        await client.query('a')\n        {code}"
    done = moved(tmp_path, text)
    assert not done.native
    assert any(reason in text for _, text in done.todos), done.todos
    body = [line for line in lines(done) if not line.strip().startswith("# TODO(hackamore): ")]
    assert "\n".join(body).split("async def main", 1)[1].strip() == text.split("async def main", 1)[1].strip()
    number, _ = next(todo for todo in done.todos if reason in todo[1])
    assert lines(done)[number - 1].strip().startswith("# TODO(hackamore): ")
    compile(done.after, "program.py", "exec")


@shows("compat.tools.kept")
def test_files_that_import_each_other_stay_together(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(
        "from claude_agent_sdk import ClaudeAgentOptions\nOPTIONS = ClaudeAgentOptions()\n"
    )
    (tmp_path / "main.py").write_text("from parts import OPTIONS\nfrom claude_agent_sdk import query\nprint(query)\n")
    (tmp_path / "alone.py").write_text(
        "from claude_agent_sdk import ClaudeAgentOptions\nOPTIONS = ClaudeAgentOptions()\n"
    )
    (tmp_path / "other.py").write_text("print('claude')\n")
    done, _ = migrate(sorted(tmp_path.glob("*.py")))
    assert {each.path.name: each.native for each in done} == {"alone.py": True, "main.py": False, "parts.py": False}


@shows("compat.tools.migrate")
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("use", ["native", "kept"])
def test_writing_keeps_mode_line_ends_and_encoding_and_is_done_once(
    hackamore: Command, tmp_path: Path, end: bytes, use: str
) -> None:
    program = tmp_path / "program.py"
    more = "print(query)\n" if use == "kept" else ""
    text = (
        f"# -*- coding: latin-1 -*-\n{HEAD}# Zürich\nif True:\n\toptions = ClaudeAgentOptions(\n\t\tmodel='x')\n{more}"
    )
    program.write_bytes(text.encode("latin-1").replace(b"\n", end))
    program.chmod(0o751)
    shown = hackamore("compat", "migrate", str(program))
    assert program.read_bytes() == text.encode("latin-1").replace(b"\n", end)
    assert b"--- a/" in shown.out
    assert "`--write` writes them" in shown.errors
    ran = hackamore("compat", "migrate", str(program), "--write")
    assert ran.code == shown.code == (1 if use == "kept" else 0)
    once = program.read_bytes()
    assert "Zürich".encode("latin-1") in once
    assert once.count(b"\n") == once.count(end)
    assert program.stat().st_mode & 0o777 == 0o751
    assert (b"hackamore.compat" in once) == (use == "kept")
    if use == "native":
        assert end.join([b"\toptions = Options(", b'\t\tsystem_prompt="",', b"\t\tmodel='x')"]) in once
    hackamore("compat", "migrate", str(program), "--write")
    assert program.read_bytes() == once


@shows("compat.tools.kept")
def test_a_file_that_is_not_a_program_is_refused(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from claude_agent_sdk import (\n")
    (tmp_path / "fine.py").write_text(
        "from claude_agent_sdk import ClaudeAgentOptions\nOPTIONS = ClaudeAgentOptions()\n"
    )
    ran = hackamore("compat", "migrate", str(tmp_path), "--write")
    assert ran.code == 1
    assert "broken.py is not migrated" in ran.errors
    assert (tmp_path / "broken.py").read_text() == "from claude_agent_sdk import (\n"
    assert (tmp_path / "fine.py").read_text().startswith("from hackamore import Options")
    assert hackamore("compat", "migrate", str(tmp_path / "none.py")).code == 2


def test_a_solved_use_moves_the_file(tmp_path: Path) -> None:
    done = moved(tmp_path, f"{HEAD}print(query)\noptions = ClaudeAgentOptions()\n")
    assert "from hackamore.compat.claude_agent_sdk import" in done.after.decode()
    again = moved(tmp_path, done.after.decode().replace("print(query)\n", ""))
    assert again.native
    assert "TODO" not in again.after.decode()


def test_a_function_that_was_changed_by_hand_keeps_no_other_on_the_layer(tmp_path: Path) -> None:
    done = moved(
        tmp_path,
        """\
        from hackamore import Options, Session
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

        async def by_hand():
            async with Session(Options(system_prompt="")) as client:
                turn = await client.send({"type": "user", "message": {"content": "one"}})
                async for message in client.messages():
                    print(message)

        async def by_the_command():
            async with ClaudeSDKClient() as client:
                await client.interrupt()
        """,
    )
    assert done.todos == []
    assert done.native
    assert "await client.send({" in done.after.decode()
    assert "async with Session(options=Options" in done.after.decode()


def test_each_name_of_the_table_is_one_of_both_packages() -> None:
    for module, names in TABLE["names"].items():
        known = importlib.import_module(module).__all__
        assert [name for name in names.split() if name not in known or name not in claude_agent_sdk.__all__] == []
    new = [name for text in TABLE["renamed"].values() for name in re.findall(r"\b[A-Z]\w+", text)]
    assert [name for name in new if name not in hackamore.__all__] == []
    assert [name for name in TABLE["renamed"] if name not in claude_agent_sdk.__all__] == []
    same = {name for names in TABLE["names"].values() for name in names.split()}
    for names in TABLE["kinds"].values():
        assert set(names.split()) <= same | TABLE["renamed"].keys()


PLAIN = {"Any", "ContentBlock", "Integer", "Mapping", "Number", "Sequence"}


def test_each_field_of_a_message_is_equal_or_in_the_table() -> None:
    """A field is another object in Hackamore if its annotation names a class of messages: the table has all of those."""
    for name in [name for names in TABLE["names"].values() for name in names.split() if name.endswith("Message")]:
        official = getattr(claude_agent_sdk, name)
        native = getattr(messages, name, None) or getattr(hackamore, name)
        for field in fields(official) if is_dataclass(official) else ():
            assert hasattr(native, field.name), f"{name}.{field.name}"
            declared = [vars(kind).get("__annotations__", {}).get(field.name, "") for kind in native.__mro__]
            words = set(
                re.findall(r"\b[A-Z]\w*", re.sub(r"'[^']*'|\"[^\"]*\"", "", str(next(filter(None, declared), ""))))
            )
            if any(hasattr(messages, word) for word in words - PLAIN):
                assert f"{name}.{field.name}" in TABLE["fields"], f"{name}.{field.name}: {words}"


def test_options_of_the_table_exist() -> None:
    official = {field.name for field in fields(claude_agent_sdk.ClaudeAgentOptions)}
    here = set(hackamore.Options.__fields__)
    changed = {row["field"] for row in TABLE["options"] if "field" in row}
    assert changed <= official
    assert official - here <= changed
    for row in TABLE["options"]:
        template = row.get("template", "")
        assert set(re.findall(r"(?:^|, )(\w+)=", template)) <= here
    methods = [row["method"] for row in TABLE["client"] if "method" in row]
    methods += [name for row in TABLE["client"] for name in row.get("same", "").split()]
    public = {name for name in dir(claude_agent_sdk.ClaudeSDKClient) if not name.startswith("_")}
    assert set(methods) == public
