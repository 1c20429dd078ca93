"""Each row of the table of differences as a program meets it: on the official package, and on the layer.

Both run the same program with a simulated CLI. `before` is a line of shell that runs in front of it; a file has what the program sends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hackamore.compat._check import differences
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.disk import Writer

OFFICIAL = Path(__file__).resolve().parents[2] / ".dev" / "official"
HEAD = """
import json, os, subprocess, sys
import anyio
from claude_agent_sdk import *
FOLDER = os.environ["FOLDER"]
LIMIT = float(os.environ["LIMIT"])  # seconds after which a call hangs, or a process lives on

def options(**more):
    return ClaudeAgentOptions(cli_path=os.environ["CLI"], cwd=FOLDER, **more)

def alive(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    return state[:1] not in ("", "Z")

async def lives_on(pid):
    with anyio.move_on_after(LIMIT):
        while alive(pid):
            await anyio.sleep(0.05)
    return alive(pid)

async def ask(prompt="go", **more):
    try:
        async for message in query(prompt=prompt, options=options(**more)):
            if isinstance(message, AssistantMessage):
                print(len(message.content[0].text) if isinstance(message.content[0], TextBlock) else message.content[0].name)
    except Exception as error:
        print(type(error).__name__)

"""


@dataclass
class Case:
    """A program, and the lines that it prints on each side."""

    program: str
    official: list[str]
    here: list[str]
    script: Script = field(default_factory=lambda: said("4."))
    before: str = ""
    find_cli: bool = False


def said(*texts: str) -> Script:
    script = Script()
    script.user()
    for text in texts:
        script.says(text)
    return script


def called() -> Script:
    script = Script()
    script.user()
    script.calls("Bash", {"command": "rm -r cache"})
    script.says("Done.")
    return script


CASES = {
    "Processes": Case(
        """
        async def main():
            async with ClaudeSDKClient(options()) as client:
                await client.query("go")
                async for message in client.receive_messages():
                    if isinstance(message, AssistantMessage):
                        break
            print(await lives_on(open(f"{FOLDER}/pids").read().strip()))
        """,
        official=["True"],
        here=["False"],
        script=said("Working.").hang(),
        before='sleep 300 </dev/null >/dev/null 2>&1 & echo $! >>"$FOLDER/pids"',
    ),
    "Lines over 1 MiB": Case(
        """
        async def main():
            await ask()
        """,
        official=["CLIJSONDecodeError"],
        here=[str(2 << 20)],
        script=said("x" * (2 << 20)),
    ),
    "Lines that are not valid JSON": Case(
        """
        async def main():
            await ask()
        """,
        official=["CLIJSONDecodeError"],
        here=["2"],
        before="echo '{\"type\": broken}'",
    ),
    "Unread messages": Case(
        """
        async def main():
            async with ClaudeSDKClient(options()) as client:
                await client.query("go")
                with anyio.move_on_after(LIMIT) as scope:
                    await client.get_mcp_status()
                print("blocked" if scope.cancelled_caught else "answered")
        """,
        official=["blocked"],
        here=["answered"],
        script=said(*map(str, range(150))),
    ),
    "Refused control requests": Case(
        """
        async def main():
            async with ClaudeSDKClient(options()) as client:
                try:
                    await client.reconnect_mcp_server("none")
                except Exception as error:
                    print(type(error).__name__, isinstance(error, ClaudeSDKError), error)
        """,
        official=["Exception False Server not found: none"],
        here=["ControlRequestError True Server not found: none"],
    ),
    "Values that the CLI would misread": Case(
        """
        async def main():
            await ask(disallowed_tools="Bash")
        """,
        official=["2"],
        here=["OptionsError"],
    ),
    "`rewind_files` without checkpoints": Case(
        """
        async def main():
            async with ClaudeSDKClient(options()) as client:
                try:
                    await client.rewind_files("00000000-0000-4000-8000-000000000000")
                except Exception as error:
                    print("enable_file_checkpointing" in str(error))
        """,
        official=["False"],
        here=["True"],
    ),
    "`connect()` twice": Case(
        """
        async def main():
            client = ClaudeSDKClient(options())
            await client.connect()
            await client.connect()
            first, second = open(f"{FOLDER}/pids").read().split()
            print(await lives_on(first), alive(second))
            await client.disconnect()
        """,
        official=["True True"],
        here=["False True"],
        before='echo $$ >>"$FOLDER/pids"',
    ),
    "A prompt that is not a str or async iterable": Case(
        """
        async def main():
            with anyio.move_on_after(LIMIT) as scope:
                await ask(["go"])
            if scope.cancelled_caught:
                print("hangs")
        """,
        official=["hangs"],
        here=["TypeError"],
    ),
    "Failing callbacks": Case(
        """
        async def decide(name, given, context):
            raise RuntimeError("broken")

        async def main():
            async def frames():
                yield {"type": "user", "message": {"role": "user", "content": "go"}}
            await ask(frames(), can_use_tool=decide)
            for line in open(f"{FOLDER}/sent"):
                answer = json.loads(line).get("response")
                if answer:
                    print(answer["subtype"], answer.get("response", {}).get("behavior"))
        """,
        official=["Bash", "5", "error None"],
        here=["Bash", "5", "success deny"],
        script=called(),
    ),
    "A hook's answer that names another event": Case(
        """
        async def hook(data, tool_use_id, context):
            return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "more"}}

        async def main():
            await ask(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
            for line in open(f"{FOLDER}/sent"):
                answer = json.loads(line).get("response")
                if answer:
                    print(json.dumps(answer.get("response", {})))
        """,
        official=[
            "Bash",
            "5",
            '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "more"}}',
        ],
        here=["Bash", "5", "{}"],
        script=called(),
    ),
    "stderr without a callback": Case(
        """
        async def main():
            try:
                async for _ in query(prompt="go", options=options()):
                    pass
            except Exception as error:
                print("words" in str(getattr(error, "stderr", "")))
        """,
        official=["False", "stderr: words"],
        here=["True"],
        before="echo words >&2; exit 3",
    ),
    "The bundled CLI": Case(
        """
        async def main():
            try:
                async for message in query(prompt="go", options=ClaudeAgentOptions(cwd=FOLDER)):
                    pass
                print("found on PATH")
            except Exception:
                print("bundled" if os.path.exists(f"{FOLDER}/bundled") else "none")
        """,
        official=["bundled"],
        here=["found on PATH"],
        find_cli=True,
    ),
    "Missing sessions": Case(
        """
        async def main():
            try:
                rename_session("00000000-0000-4000-8000-000000000000", "Title")
            except FileNotFoundError as error:
                print(os.environ["CLAUDE_CONFIG_DIR"] in str(error))
        """,
        official=["False"],
        here=["True"],
    ),
    "`rename_session`, `fork_session`": Case(
        """
        async def main():
            [path] = [os.path.join(*each) for each in json.load(open(f"{FOLDER}/talk"))]
            before = len(open(path).readlines())
            rename_session(os.path.basename(path).partition(".")[0], "Title")
            print(*sorted(json.loads(line)["type"] for line in open(path).readlines()[before:]))
        """,
        official=["custom-title"],
        here=["agent-name custom-title"],
    ),
    "Private names": Case(
        """
        from claude_agent_sdk._internal.query import Query
        async def main():
            try:
                print(type(Query(transport=None, is_streaming_mode=True)).__name__)
            except NotImplementedError:
                print("NotImplementedError")
        """,
        official=["Query"],
        here=["NotImplementedError"],
    ),
}


def bundling(folder: Path) -> Path:
    """Return a folder with the official package and a bundled CLI, which only leaves a mark."""
    package = folder / "bundling" / "claude_agent_sdk"
    (package / "_bundled").mkdir(parents=True)
    for each in (OFFICIAL / "claude_agent_sdk").iterdir():
        if each.name != "_bundled":
            (package / each.name).symlink_to(each)
    cli = package / "_bundled" / "claude"
    cli.write_text('#!/bin/sh\ntouch "$FOLDER/bundled"\nexit 3\n')
    cli.chmod(0o755)
    return package.parent


def printed(case: Case, folder: Path, *, layer: bool) -> list[str]:
    """Return the lines that a program prints, and those of its stderr that the CLI wrote."""
    folder.mkdir()
    simulated = SimulatedCLI(case.script).install(folder / "simulated")
    cli = folder / "bin" / "claude"
    cli.parent.mkdir()
    cli.write_text(f'#!/bin/sh\n{case.before}\ntee -a "$FOLDER/sent" | {simulated} "$@"\n')
    if "$$" in case.before or not case.program.count("sent"):
        cli.write_text(f'#!/bin/sh\n{case.before}\nexec {simulated} "$@"\n')
    cli.chmod(0o755)
    config = folder / "config"
    environment = {
        "PATH": f"{cli.parent}{os.pathsep}{os.defpath}" if case.find_cli else os.defpath,
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(config),
        "FOLDER": str(folder),
        "CLI": str(cli),
        "LIMIT": str(patience(30) if layer else 3),
        "PYTHONPATH": "" if layer else str(bundling(folder) if case.find_cli else OFFICIAL),
    }
    if "talk" in case.program:
        writer = Writer(cwd=str(folder))
        writer.user("one")
        path = writer.save(config)
        (folder / "talk").write_text(json.dumps([[str(path.parent), path.name]]))
    program = folder / "program.py"
    program.write_text(f"{HEAD}{textwrap.dedent(case.program)}\nanyio.run(main)\n")
    command = [sys.executable, *(["-m", "hackamore.compat"] if layer else []), str(program)]
    try:
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=patience(60)
        )
    finally:
        pids = (folder / "pids").read_text().split() if (folder / "pids").exists() else []
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert ran.returncode == 0, ran.stderr
    return [*ran.stdout.splitlines(), *(f"stderr: {line}" for line in ran.stderr.splitlines() if line == "words")]


@shows("compat.tools.differences")
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package, which `./dev ci` installs")
@pytest.mark.parametrize("subject", CASES)
def test_both_sides_of_a_difference(tmp_path: Path, subject: str) -> None:
    case = CASES[subject]
    assert printed(case, tmp_path / "official", layer=False) == case.official
    assert printed(case, tmp_path / "layer", layer=True) == case.here


@shows("compat.tools.differences")
def test_each_row_of_the_table_has_a_case() -> None:
    rows = {row["subject"]: row.get("shown", "") for row in differences()}
    assert CASES.keys() <= rows.keys()
    for subject in rows.keys() - CASES.keys():
        file, _, test = rows[subject].partition("::")  # another test shows it
        assert f"def {test}(" in (Path(__file__).parent / file).read_text(encoding="utf-8"), subject
    assert sum(len(row.get("cases", ())) for row in differences()) <= 10
