"""Calls that wait for a person, on the CLI itself: deferred, denied for now, or cut off by its end. docs/reference/approvals-facts.md."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from hackamore import Options, sync, tool, tool_server, version_meets_minimum
from hackamore._engine.protocol import events
from hackamore.hooks import HookOutput
from hackamore.messages import ResultMessage
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.conftest import PROJECT, RealCLI, pinned_cli_path
from tests.contract import shows
from tests.protocol.driving import Driver
from tests.support.leaks import wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.testing import ModelRequest
    from tests.support.shell import Shell

pytestmark = [pytest.mark.real_cli, pytest.mark.usefixtures("leaves_nothing"), pytest.mark.timeout(120)]

PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))
VERSIONS = [str(PIN["version"]), *(older for older in PIN["older"] if version_meets_minimum(older, "2.1.328"))]
BYPASS = "--permission-mode=bypassPermissions"
WAITS = "--await-initialize"
INPUT = {"command": "echo x >> ran", "description": "test"}
OTHER = {"command": "echo other >> ran", "description": "test"}
CALL = Reply(ToolCall("Bash", INPUT))
HOOKS = {"PreToolUse": [{"matcher": None, "hookCallbackIds": ["hook"], "timeout": 60}]}
DEFER, ALLOW, DENY = HookOutput.defer("later"), HookOutput.allow(), HookOutput.deny("no")
REJECTED = "The user doesn't want to proceed with this tool use"
CUT_OFF = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown."
CLOSED = "Tool permission request failed: AbortError"


@pytest.fixture(params=VERSIONS)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> RealCLI:
    """Return a CLI that knows `--await-initialize`, isolated."""
    version = request.param
    path = pinned_cli_path() if version == PIN["version"] else PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(path, os.X_OK):
        pytest.skip(f"Claude Code CLI {version} is not at {path}; `python scripts/install_older.py` installs it")
    (cwd := tmp_path / "work").mkdir()
    return RealCLI(str(path), cwd, tmp_path)


class Asked(NamedTuple):
    """A request of the CLI for a decision: of a hook, of `can_use_tool`, of a dialog."""

    kind: str
    call: str | None
    input: Any


class Host(Driver):
    """A process of the CLI, and a host that answers as told; None leaves a request open."""

    def __init__(
        self,
        cli: RealCLI,
        model: ScriptedModel,
        *arguments: str,
        hook: HookOutput | None = None,
        person: dict[str, Any] | list[dict[str, Any] | None] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.asked: list[Asked] = []
        self._hook = hook
        self._answers = list(person) if isinstance(person, list) else None
        self._answer = None if isinstance(person, list) else person
        command = [cli.cli_path, "--print", "--verbose", "--output-format=stream-json", "--input-format=stream-json"]
        environment = {**cli.env(model), "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1", **(env or {})}
        answers: dict[str, Any] = {
            "hook_callback": self._of_hook,
            "can_use_tool": self._of_person,
            "elicitation": self._of_person,
        }
        super().__init__(
            [*command, "--permission-prompt-tool=stdio", *arguments],
            environment=environment,
            cwd=cli.cwd,
            answers=answers,
        )

    def _of_hook(self, event: events.RequestReceived) -> Any:
        given = event.frame.request["input"]
        self.asked.append(Asked("hook", given["tool_use_id"], given["tool_input"]))
        assert self._hook is not None
        return self._hook.to_wire("PreToolUse")

    def _of_person(self, event: events.RequestReceived) -> Any:
        given = event.frame.request
        self.asked.append(Asked(event.subtype, given.get("tool_use_id"), given.get("input", given)))
        answer = self._answers.pop(0) if self._answers is not None else self._answer
        return {"updatedInput": given["input"], **answer} if answer and answer.get("behavior") == "allow" else answer

    @property
    def results(self) -> list[ResultMessage]:
        return [message for message in self.messages() if isinstance(message, ResultMessage)]

    def ready(self) -> Host:
        self.connection.send_initialize({"hooks": HOOKS} if self._hook else {})
        self.until(lambda: self.of(events.HandshakeCompleted))
        return self

    def prompt(self, text: str = "Go.") -> ResultMessage:
        """Send a prompt; return its result."""
        turn = self.connection.conversation.send_prompt(text)
        self.until(lambda: turn not in self.connection.turns)
        return self.results[-1]

    def first_result(self) -> ResultMessage:
        self.until(lambda: self.results)
        return self.results[0]

    def write(self, frame: dict[str, Any]) -> None:
        """Write a frame that the connection knows nothing of."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Close stdin; return the exit code."""
        self.close()
        self.until(lambda: self.connection.state.over)
        return self.process.wait(patience(20))


def runs(cli: RealCLI) -> list[str]:
    """Return a line for each run of the command."""
    path = cli.cwd / "ran"
    return path.read_text().splitlines() if path.exists() else []


def transcript(cli: RealCLI) -> list[dict[str, Any]]:
    files = (cli.directory / "claude-config" / "projects").rglob("*.jsonl")
    return [json.loads(line) for path in files for line in path.read_text().splitlines() if line.endswith("}")]


def blocks(entries: Any, kind: str) -> list[dict[str, Any]]:
    """Return the blocks of a kind in messages: of a transcript, or of a request to the model."""
    contents = [entry.get("message", entry).get("content") for entry in entries]
    return [block for content in contents if isinstance(content, list) for block in content if block["type"] == kind]


def read_by_the_model(request: ModelRequest) -> list[str]:
    """Return the texts of all tool results of a request."""
    return [str(block["content"]) for block in blocks(request.messages, "tool_result")]


def deferred(cli: RealCLI, model: ScriptedModel, *arguments: str) -> tuple[str, ResultMessage]:
    """Return the id of a session with a deferred call, and its result."""
    with Host(cli, model, *arguments, hook=DEFER) as host:
        result = host.ready().prompt()
        assert host.end() == 0
    assert result.session_id is not None
    return result.session_id, result


# -- deferred calls -----------------------------------------------------------------------------------------------------


@shows("approvals.facts.deferred")
def test_the_result_of_a_deferred_call(cli: RealCLI) -> None:
    with ScriptedModel(CALL) as model:
        _, result = deferred(cli, model)
    assert (result.subtype, result.is_error, result.result) == ("success", False, "")
    assert (result.stop_reason, result.terminal_reason) == ("tool_deferred", "tool_deferred")
    assert result.deferred_tool_use is not None
    assert (result.deferred_tool_use.name, result.deferred_tool_use.input) == ("Bash", INPUT)
    assert blocks(transcript(cli), "tool_result") == []


@shows("approvals.facts.late")
@pytest.mark.parametrize("late", [0, 1, 5, 10])
def test_a_late_host_is_waited_for(late: int, cli: RealCLI) -> None:
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, result = deferred(cli, model, BYPASS)
        assert result.deferred_tool_use is not None
        with Host(cli, model, BYPASS, WAITS, f"--resume={session}", hook=DENY) as host:
            host.pause(late)
            assert (host.events, len(model.requests)) == ([], 1)
            # No prompt: the start of the process replays the call.
            assert host.ready().first_result().terminal_reason == "completed"
            assert host.asked == [Asked("hook", result.deferred_tool_use.id, INPUT)]
            assert host.prompt().result == "Done."
    assert runs(cli) == []
    assert "no" in read_by_the_model(model.requests[-1])[0]


@shows("approvals.facts.unguarded")
def test_without_the_flag_the_call_runs_before_its_hook_is_known(cli: RealCLI) -> None:
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, _ = deferred(cli, model, BYPASS)
        with Host(cli, model, BYPASS, f"--resume={session}", hook=DENY) as host:
            host.first_result()
            assert runs(cli) == ["x"]
            assert host.ready().asked == []


@shows("approvals.facts.unguarded")
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_the_flag_does_not_guard_against_a_host_that_is_gone_before_initialize(mode: str, cli: RealCLI) -> None:
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, _ = deferred(cli, model, f"--permission-mode={mode}")
        with Host(cli, model, f"--permission-mode={mode}", WAITS, f"--resume={session}", hook=DENY) as host:
            assert host.end() == 0
            assert host.asked == []
    assert runs(cli) == (["x"] if mode == "bypassPermissions" else [])


KILLED = """
import json, os, signal, sys, time
from hackamore import HookOutput, Options, sync
from hackamore.transports.process import spawn

given, start = json.loads(sys.argv[1]), spawn.start

def starts(argv, **how):
    found = start(argv, **how)
    if argv[0] == given["cli_path"]:
        print(found[0].pid, flush=True)
        time.sleep(float(sys.argv[2]))  # a host that is stopped at the worst moment: there is no event to wait for
        os.kill(os.getpid(), signal.SIGKILL)
    return found

spawn.start = starts
sync.run("And?", Options(**given, hooks={"PreToolUse": lambda call, context: HookOutput.deny("no")}))
"""


@shows("approvals.facts.guarded")
@pytest.mark.parametrize("seconds", [0, 0.5, 3])
def test_the_watchdog_ends_what_a_host_has_left_before_initialize(seconds: float, cli: RealCLI) -> None:
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, _ = deferred(cli, model, BYPASS)
        options = {"cli_path": cli.cli_path, "cwd": str(cli.cwd), "env": cli.env(model), "inherit_env": False}
        given = json.dumps({**options, "resume": session, "permission_mode": "bypassPermissions"})
        command = [sys.executable, "-c", KILLED, given, str(seconds)]
        host = subprocess.run(command, stdout=subprocess.PIPE, timeout=patience(30), check=False)
        assert host.returncode == -signal.SIGKILL
        wait_gone(int(host.stdout))
    assert runs(cli) == []


COMMAND = {"type": "command", "command": "echo closed >&2; exit 2"}
GUARDS: dict[str, dict[str, Any]] = {
    "a hook of the settings": {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [COMMAND]}]}},
    "an ask rule": {"permissions": {"ask": ["Bash"]}},
    "a deny rule": {"permissions": {"deny": ["Bash"]}},
    "initialize in the pipe": {},
}


@shows("approvals.facts.guarded")
@pytest.mark.parametrize("guard", GUARDS)
def test_guards_that_do_not_need_the_host(guard: str, cli: RealCLI) -> None:
    settings = f"--settings={json.dumps(GUARDS[guard])}"
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, _ = deferred(cli, model, BYPASS)
        with Host(cli, model, BYPASS, WAITS, settings, f"--resume={session}", hook=DENY) as host:
            if not GUARDS[guard]:
                host.write(
                    {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize", "hooks": HOOKS}}
                )
            host.end()
    assert runs(cli) == []


@shows("approvals.facts.late")
def test_a_prompt_before_initialize_ends_the_cli(cli: RealCLI) -> None:
    with ScriptedModel(CALL) as model:
        session, _ = deferred(cli, model, BYPASS)
        with Host(cli, model, BYPASS, WAITS, f"--resume={session}") as host:
            host.write({"type": "user", "message": {"role": "user", "content": "And?"}, "parent_tool_use_id": None})
            assert host.end() == 1
    assert runs(cli) == []


@shows("approvals.facts.answers")
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize(
    ("hook", "ran", "person"),
    [
        (ALLOW, ["x"], False),
        (HookOutput.allow(updated_input=OTHER), ["other"], False),
        (DENY, [], False),
        (HookOutput.ask("look"), [], True),
        (HookOutput.proceed(), [], True),
    ],
    ids=["allow", "changed", "deny", "ask", "nothing"],
)
def test_an_answer_after_the_resume_counts_once(
    hook: HookOutput, ran: list[str], person: bool, mode: str, cli: RealCLI
) -> None:
    if hook == HookOutput.proceed() and mode == "bypassPermissions":
        ran, person = ["x"], False
    arguments = (f"--permission-mode={mode}", WAITS)
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, result = deferred(cli, model, *arguments)
        assert result.deferred_tool_use is not None
        for again in (False, True):
            refuse = {"behavior": "deny", "message": "not now"}
            with Host(cli, model, *arguments, f"--resume={session}", hook=hook, person=refuse) as host:
                assert host.ready().prompt("And?").result == "Done."
                kinds = [] if again else ["hook", "can_use_tool"] if person else ["hook"]
                assert host.asked == [Asked(kind, result.deferred_tool_use.id, INPUT) for kind in kinds]
            assert runs(cli) == ran


@shows("approvals.facts.lost")
def test_a_prompt_before_the_answer_loses_the_call(cli: RealCLI) -> None:
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        session, _ = deferred(cli, model, BYPASS)
        for _ in range(2):
            with Host(cli, model, BYPASS, WAITS, f"--resume={session}", hook=DEFER) as host:
                again = host.ready().first_result()
                assert (again.stop_reason, again.deferred_tool_use is not None) == ("tool_deferred", True)
        with Host(cli, model, BYPASS, WAITS, f"--resume={session}", hook=DEFER) as host:
            assert host.ready().prompt("And?").result == "Done."
        with Host(cli, model, BYPASS, WAITS, f"--resume={session}", hook=ALLOW) as host:
            assert host.ready().prompt("And now?").result == "Done."
            assert host.asked == []
    assert runs(cli) == []
    assert blocks(model.requests[-1].messages, "tool_use") == []


@shows("approvals.facts.several")
@pytest.mark.parametrize("calls", [2, 3])
def test_of_several_deferred_calls_the_last_one_is_replayed(calls: int, cli: RealCLI) -> None:
    inputs = [{"command": f"echo {number} >> ran", "description": "test"} for number in range(calls)]
    with ScriptedModel(Reply(*(ToolCall("Bash", each) for each in inputs)), Repeat("Done.")) as model:
        session, result = deferred(cli, model, BYPASS)
        assert result.deferred_tool_use is not None
        assert result.deferred_tool_use.input == inputs[-1]
        for asked in ([inputs[-1]], []):
            with Host(cli, model, BYPASS, WAITS, f"--resume={session}", hook=ALLOW) as host:
                host.ready().prompt("And?")
                assert [each.input for each in host.asked] == asked
    assert runs(cli) == [str(calls - 1)]
    assert [block["input"] for block in blocks(model.requests[-1].messages, "tool_use")] == inputs[-1:]


@shows("approvals.facts.answers")
def test_the_replay_has_a_result_of_its_own(cli: RealCLI) -> None:
    options = Options(
        cli_path=cli.cli_path, cwd=cli.cwd, inherit_env=False, permission_mode="bypassPermissions", env={}
    )
    later, now = ({"PreToolUse": lambda call, context, hook=hook: hook} for hook in (DEFER, ALLOW))
    with ScriptedModel(CALL, "Replayed.", "Answer.") as model:
        first = sync.run("Go.", options.replace(env=cli.env(model), hooks=later))
        resumed = options.replace(env=cli.env(model), hooks=now, resume=first.session_id)
        with sync.Session(resumed) as session:
            messages = session.messages()
            assert session.send("And?").result().result == "Answer."
            session.stop()
            results = [message.result for message in messages if isinstance(message, ResultMessage)]
    assert results == ["Replayed.", "Answer."]
    assert runs(cli) == ["x"]


@shows("approvals.facts.inside")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_deferred_call_of_an_in_process_tool_waits_for_a_prompt(allowed: bool, cli: RealCLI) -> None:
    called: list[str] = []

    @tool
    def price(article: str) -> float:
        """Return a price."""
        called.append(article)
        return 2.5

    with ScriptedModel(Reply(ToolCall("mcp__shop__price", {"article": "tea"})), Repeat("Done.")) as model:
        options = Options(
            cli_path=cli.cli_path,
            cwd=cli.cwd,
            env=cli.env(model),
            inherit_env=False,
            permission_mode="bypassPermissions",
            mcp_servers={"shop": tool_server("shop", [price])},
        )
        first = sync.run("Go.", options.replace(hooks={"PreToolUse": lambda call, context: DEFER}))
        assert (first.result.terminal_reason, called) == ("tool_deferred", [])
        hook = ALLOW if allowed else DENY
        resumed = options.replace(resume=first.session_id, hooks={"PreToolUse": lambda call, context: hook})
        with sync.Session(resumed) as session:
            messages = session.messages()
            for _ in range(10):  # a prompt that is read before the server is connected ends like the replay
                answer = session.send("And?").result()
                if answer.terminal_reason != "tool_deferred_unavailable":
                    break
            assert answer.result == "Done."
            session.stop()
            reasons = [message.terminal_reason for message in messages if isinstance(message, ResultMessage)]
    # On a busy machine the server may also be connected before the replay: then the first result is missing.
    assert (reasons[-1], {*reasons[:-1]} - {"tool_deferred_unavailable"}) == ("completed", set())
    assert called == (["tea"] if allowed else [])


# -- calls that are denied for now --------------------------------------------------------------------------------------


@shows("approvals.facts.denied")
@pytest.mark.parametrize("interrupt", [True, False], ids=["interrupt", "message"])
def test_a_denied_call_is_a_new_request_in_the_resumed_session(interrupt: bool, cli: RealCLI) -> None:
    refuse = {"behavior": "deny", "message": "A person decides.", **({"interrupt": True} if interrupt else {})}
    steps = [CALL, CALL] if interrupt else [CALL, "Denied.", CALL]
    with ScriptedModel(*steps, Repeat("Done.")) as model:
        with Host(cli, model, person=refuse) as host:
            result = host.ready().prompt()
            [first] = host.asked
            assert host.end() == (1 if interrupt else 0)
        expected = ("error_during_execution", True, "aborted_tools") if interrupt else ("success", False, "completed")
        assert (result.subtype, result.is_error, result.terminal_reason) == expected
        assert [denial.tool_use_id for denial in result.permission_denials] == [first.call]
        [settled] = blocks(transcript(cli), "tool_result")
        # With `interrupt` the model never reads the message.
        assert str(settled["content"]).startswith(REJECTED if interrupt else "A person decides.")
        asked = len(model.requests)
        with Host(cli, model, WAITS, f"--resume={result.session_id}", person={"behavior": "allow"}) as host:
            host.ready().ask("get_settings")
            assert (host.results, runs(cli), len(model.requests)) == ([], [], asked)
            assert host.prompt("It is allowed. Make the same call again.").result == "Done."
            [second] = host.asked
    assert (second.input, runs(cli)) == (first.input, ["x"])
    assert second.call != first.call


@shows("approvals.facts.never")
@pytest.mark.parametrize("alone", [True, False], ids=["continues by itself", "waits for a prompt"])
@pytest.mark.parametrize("interrupt", [True, False], ids=["interrupt", "message"])
def test_a_denied_call_never_runs_by_itself(interrupt: bool, alone: bool, cli: RealCLI) -> None:
    refuse = {"behavior": "deny", "message": "Later.", **({"interrupt": True} if interrupt else {})}
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        with Host(cli, model, person=refuse) as host:
            session = host.ready().prompt().session_id
            host.until(lambda: blocks(transcript(cli), "tool_result"))
            host.process.kill()
        env = {"CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1"} if alone else {}
        with Host(cli, model, BYPASS, f"--resume={session}", env=env) as host:
            assert host.ready().prompt("And?").result == "Done."
    assert runs(cli) == []


@shows("approvals.facts.together")
@pytest.mark.parametrize(
    ("answers", "ran"),
    [
        ([{"behavior": "deny", "message": "Later.", "interrupt": True}], []),
        ([{"behavior": "allow"}, {"behavior": "deny", "message": "Later.", "interrupt": True}], ["0"]),
        ([{"behavior": "allow"}, {"behavior": "deny", "message": "No."}, {"behavior": "allow"}], ["0", "2"]),
    ],
    ids=["first", "second", "no interrupt"],
)
def test_calls_of_a_message_are_asked_about_one_by_one(answers: Any, ran: list[str], cli: RealCLI) -> None:
    calls = [ToolCall("Bash", {"command": f"echo {number} >> ran", "description": "test"}) for number in range(3)]
    with ScriptedModel(Reply(*calls), Repeat("Done.")) as model, Host(cli, model, person=answers) as host:
        host.ready().prompt()
        # A denial with `interrupt` settles the calls behind it without a request.
        assert len(host.asked) == len(answers)
    assert runs(cli) == ran


@shows("approvals.facts.together")
@pytest.mark.parametrize("interrupt", [True, False], ids=["interrupt", "message"])
def test_read_only_calls_of_a_message_are_asked_about_at_the_same_time(interrupt: bool, cli: RealCLI) -> None:
    files = [cli.directory / f"{number}.txt" for number in range(3)]
    for file in files:
        file.write_text("x")
    calls = [ToolCall("Read", {"file_path": str(file)}) for file in files]
    with ScriptedModel(Reply(*calls), Repeat("Done.")) as model, Host(cli, model) as host:
        turn = host.ready().connection.conversation.send_prompt("Go.")
        host.until(lambda: len(host.asked) == len(calls))
        first, *others = [event.request_id for event in host.of(events.RequestReceived)]
        refuse = {"behavior": "deny", "message": "Later."}
        host.connection.exchanges.send_response(first, {**refuse, "interrupt": True} if interrupt else refuse)
        if not interrupt:
            for other in others:
                host.connection.exchanges.send_response(other, refuse)
        host.until(lambda: turn not in host.connection.turns)
        # A denial with `interrupt` cancels the other requests.
        cancelled = [event.request_id for event in host.of(events.RequestCancelled)]
        assert sorted(cancelled) == (sorted(others) if interrupt else [])
        assert host.results[-1].terminal_reason == ("aborted_tools" if interrupt else "completed")
        assert len(host.results[-1].permission_denials) == 3


# -- the end of the CLI or of its host at a question --------------------------------------------------------------------


QUESTION = {
    "question": "Tea or coffee?",
    "header": "Drink",
    "options": [{"label": "Tea", "description": "hot"}, {"label": "Coffee", "description": "black"}],
    "multiSelect": False,
}
SERVER = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, given = message.get("method"), message.get("params")
    if method == "initialize":
        capable = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}}
        send(id=message["id"], result={**capable, "serverInfo": {"name": "form", "version": "1"}})
    elif method == "tools/list":
        send(id=message["id"], result={"tools": [{"name": "fill", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        called = message["id"]
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        send(id="form", method="elicitation/create", params={"message": "Name?", "requestedSchema": schema})
    elif message.get("id") == "form":
        send(id=called, result={"content": [{"type": "text", "text": json.dumps(message["result"])}]})
    elif "id" in message:
        send(id=message["id"], result={})
"""


def form(cli: RealCLI) -> str:
    """Return the argument that adds a server whose tool lets the user fill in a form."""
    (cli.directory / "form.py").write_text(SERVER)
    server = {"command": sys.executable, "args": ["-I", str(cli.directory / "form.py")]}
    return f"--mcp-config={json.dumps({'mcpServers': {'form': server}})}"


@shows("approvals.facts.cut-off")
@pytest.mark.parametrize("kind", ["command", "question", "plan", "form"])
@pytest.mark.parametrize("way", ["SIGTERM", "SIGKILL", "the host"])
def test_a_question_that_was_cut_off_is_not_answered_by_the_resumed_session(way: str, kind: str, cli: RealCLI) -> None:
    call, arguments = {
        "command": (ToolCall("Bash", INPUT), []),
        "question": (ToolCall("AskUserQuestion", {"questions": [QUESTION]}), []),
        "plan": (ToolCall("ExitPlanMode", {}), ["--permission-mode=plan"]),
        "form": (ToolCall("mcp__form__fill", {}), [form(cli), BYPASS]),
    }[kind]
    with ScriptedModel(Reply(call), Repeat("Done.")) as model:
        with Host(cli, model, *arguments) as host:
            host.ready().connection.conversation.send_prompt("Go.")
            # What is not in the transcript yet is lost.
            host.until(lambda: host.asked and blocks(transcript(cli), "tool_use"))
            session = host.connection.state.session_id
            if way == "the host":
                host.end()
            else:
                host.process.send_signal(getattr(signal, way))
                host.process.wait(patience(20))
        arguments = [each for each in arguments if each != "--permission-mode=plan"]
        with Host(cli, model, *{*arguments, BYPASS}, f"--resume={session}") as host:
            asked = len(model.requests)
            host.ready().ask("get_settings")
            assert (len(model.requests), host.results) == (asked, [])
            assert host.prompt("And?").result == "Done."
            assert host.asked == []
        [text] = read_by_the_model(model.requests[-1])
    assert runs(cli) == []
    if way != "the host":
        # The CLI may notice that a server has ended before it ends itself.
        assert text.startswith((CUT_OFF, "Connection closed") if kind == "form" else CUT_OFF)
    elif kind == "form":
        assert '{"action": "cancel"}' in text
    else:
        assert text.startswith(REJECTED if kind == "question" else CLOSED)


@shows("approvals.facts.killed")
def test_a_killed_host_leaves_no_cli_and_runs_nothing(shell: Shell, cli: RealCLI) -> None:
    """A session has a watchdog, which ends the CLI with its host."""
    with ScriptedModel(CALL, Repeat("Done.")) as model:
        wire = {"cli_path": cli.cli_path, "cwd": str(cli.cwd), "env": cli.env(model), "inherit_env": False}
        command = [sys.executable, "-m", "tests.real_cli.waiting_host", shell.backend, json.dumps(wire)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as host:
            assert host.stdout is not None
            pid = int(host.stdout.readline())
            assert host.stdout.readline() == "asked\n"
            host.kill()
            host.wait(patience(20))
        assert wait_gone(pid, patience(30))
    assert runs(cli) == []


# -- questions of the model and of servers ------------------------------------------------------------------------------


@shows("approvals.facts.questions")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            {"behavior": "allow", "updatedInput": {"questions": [QUESTION], "answers": {"Tea or coffee?": "Tea"}}},
            '"Tea"',
        ),
        ({"behavior": "deny", "message": "Not now."}, "Not now."),
        ({"behavior": "deny", "message": "Not now.", "interrupt": True}, REJECTED),
    ],
    ids=["answered", "denied", "interrupted"],
)
@pytest.mark.parametrize("hook", [None, ALLOW], ids=["no hook", "a hook allows"])
def test_a_question_of_the_model_is_a_permission_request(
    hook: HookOutput | None, answer: dict[str, Any], text: str, cli: RealCLI
) -> None:
    call = Reply(ToolCall("AskUserQuestion", {"questions": [QUESTION]}))
    with ScriptedModel(call, Repeat("Done.")) as model, Host(cli, model, hook=hook, person=answer) as host:
        result = host.ready().prompt()
        assert result.is_error is ("interrupt" in answer)
        # A hook that allows is not an answer.
        assert [each.input for each in host.asked if each.kind == "can_use_tool"] == [{"questions": [QUESTION]}]
        if "interrupt" in answer:
            host.prompt("And?")
        assert text in read_by_the_model(model.requests[-1])[0]


def write_plan(request: ModelRequest) -> Reply:
    """Write the plan into the file that the CLI names."""
    found = re.search(r"/[^\s\"\\]+/plans/[\w-]+\.md", json.dumps(request.messages))
    assert found is not None
    return Reply(ToolCall("Write", {"file_path": found[0], "content": "1. Look."}))


@shows("approvals.facts.questions")
def test_a_plan_is_a_permission_request_that_may_be_changed(cli: RealCLI) -> None:
    plan = Reply(ToolCall("ExitPlanMode", {}))
    with (
        ScriptedModel(write_plan, plan, Repeat("Done.")) as model,
        Host(
            cli, model, "--permission-mode=plan", person={"behavior": "allow", "updatedInput": {"plan": "2. Go."}}
        ) as host,
    ):
        assert host.ready().prompt().result == "Done."
        [asked] = host.asked
        assert asked.input["plan"] == "1. Look."
        assert "2. Go." in read_by_the_model(model.requests[-1])[-1]


@shows("approvals.facts.questions")
@pytest.mark.parametrize(
    "answer", [{"action": "accept", "content": {"name": "Ann"}}, {"action": "decline"}, {"action": "cancel"}], ids=str
)
def test_a_server_gets_the_answer_to_its_question(answer: dict[str, Any], cli: RealCLI) -> None:
    call = Reply(ToolCall("mcp__form__fill", {}))
    with (
        ScriptedModel(call, Repeat("Done.")) as model,
        Host(cli, model, form(cli), BYPASS, person=answer) as host,
    ):
        assert host.ready().prompt().result == "Done."
        [asked] = host.asked
        assert (asked.kind, asked.call, asked.input["message"]) == ("elicitation", None, "Name?")
        assert json.dumps(answer) in read_by_the_model(model.requests[-1])[0]
