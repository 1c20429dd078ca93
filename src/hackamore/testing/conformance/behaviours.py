"""The checks of `check_cli`: the behaviours of a CLI that Hackamore depends on."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hackamore import MINIMUM_SESSION, CLIVersion, Options
from hackamore.errors import ControlRejectedError, ControlTimeoutError
from hackamore.hooks import HOOK_EVENTS, HookMatcher, HookOutput
from hackamore.messages import AssistantMessage, InitMessage, ResultMessage, StreamEvent, ToolResultBlock, UserMessage
from hackamore.permissions import Allow, Deny
from hackamore.testing.conformance.bench import Bench, cli_check
from hackamore.testing.conformance.report import Failed, Skipped, expect, one_line
from hackamore.testing.model.scripted_model import ScriptedModel
from hackamore.testing.model.steps import HTTPFailure, Repeat, Reply, ToolCall
from hackamore.tools import tool, tool_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hackamore.messages import Message

# Requests to a session that 2.1.328 answers with success, and whether Hackamore's own methods build on the answer.
CONTROLS: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("set_permission_mode", {"mode": "default"}, True),
    ("set_model", {"model": "claude-sonnet-4-5"}, True),
    ("interrupt", {}, True),
    ("mcp_status", {}, True),
    ("mcp_set_servers", {"servers": {}}, True),
    ("get_context_usage", {}, True),
    ("get_settings", {}, True),
    ("set_max_thinking_tokens", {"max_thinking_tokens": 2_000}, False),
    ("get_usage", {}, False),
    ("list_models", {}, False),
    ("list_permission_rules", {}, False),
    ("get_hooks_listing", {}, False),
    ("get_session_cost", {}, False),
    ("get_binary_version", {}, False),
    ("file_suggestions", {"query": "a"}, False),
    ("background_tasks", {}, False),
    ("stop_task", {"task_id": "never"}, False),
    ("read_file", {"path": "seen.txt"}, False),
    ("reload_skills", {}, False),
    ("reload_plugins", {}, False),
    ("reload_output_styles", {}, False),
    ("apply_flag_settings", {"settings": {}}, False),
    ("rename_session", {"title": "Conformance"}, False),
    ("cancel_async_message", {"message_uuid": "never"}, False),
    ("set_has_subscribers", {"has_subscribers": True}, False),
    ("set_mcp_permission_mode_override", {"serverName": "never", "mode": None}, False),
)
_BYPASS: dict[str, Any] = {"permission_mode": "bypassPermissions"}


def _bash(command: str) -> Reply:
    return Reply(ToolCall("Bash", {"command": command, "description": "conformance"}))


def _kinds(messages: Iterable[Message]) -> str:
    count = Counter(
        f"{message.type}/{message.wire_subtype}" if message.wire_subtype else message.type for message in messages
    )
    return one_line(f"{number} {kind}" for kind, number in count.items())


def _ended(messages: Sequence[Message], text: str | None = None) -> ResultMessage:
    results = [message for message in messages if isinstance(message, ResultMessage)]
    expect(results, f"there was no `result`; there were: {_kinds(messages) or 'no messages'}")
    if text is not None:
        expect(not results[-1].is_error, f"the result is an error: {results[-1].result or results[-1].errors}")
        expect(results[-1].result == text, f"the result says {results[-1].result!r} and not {text!r}")
    return results[-1]


def _tool_results(messages: Iterable[Message]) -> list[ToolResultBlock]:
    contents = [m.content for m in messages if isinstance(m, UserMessage) and not isinstance(m.content, str)]
    return [block for content in contents for block in content if isinstance(block, ToolResultBlock)]


def _answered(bench: Bench, *steps: Any, text: str | None = None, **fields: Any) -> list[Message]:
    """Return the messages of a one-shot. A problem in them says more than the rest of the script."""
    with ScriptedModel(*steps) as model, bench.query(model, **fields) as stream:
        collected = stream.collect()
        if collected.terminal_error is not None:
            raise collected.terminal_error
        _ended(collected.messages, text)
    return list(collected.messages)


@cli_check("start", f"`--version` says a version, {'.'.join(map(str, MINIMUM_SESSION))} or newer")
def _version(bench: Bench) -> None:
    done = bench.run("--version")
    said = done.stdout.decode("utf-8", "replace").strip()
    found = CLIVersion.parse(said)
    if found is None:
        raise Failed(f"it printed {said[:200]!r} and exited with {done.returncode}")
    bench.facts["version"] = ".".join(map(str, found))
    expect(found >= MINIMUM_SESSION, f"it is {bench.facts['version']}")


# -- one-shots ----------------------------------------------------------------------------------------------------------


@cli_check("one-shot", "a prompt on stdin gives `system/init`, `assistant` and `result`, and exit 0")
def _plain_answer(bench: Bench) -> None:
    with ScriptedModel("Hello.") as model, bench.query(model, "Say hello") as stream:
        collected = stream.collect()
        if collected.terminal_error is not None:
            raise collected.terminal_error
        result = _ended(collected.messages, "Hello.")
        asked = model.requests_of("main")
    expect(any(isinstance(message, InitMessage) for message in collected.messages), "there was no `system/init`")
    expect(any(isinstance(message, AssistantMessage) for message in collected.messages), "there was no `assistant`")
    expect(result.session_id, "the result names no session")
    expect(asked and asked[0].prompt_text == "Say hello", "the model received another prompt")
    expect(not collected.warnings, f"there were warnings: {one_line(map(str, collected.warnings))}")
    bench.facts["session_id"] = result.session_id


@cli_check("one-shot", "a tool call runs, and its result comes as a `user` message")
def _tool_call(bench: Bench) -> None:
    messages = _answered(
        bench, _bash("echo out-of-the-tool > made.txt; cat made.txt"), "Done.", text="Done.", **_BYPASS
    )
    expect((bench.project / "made.txt").exists(), "the command did not run in the working directory")
    results = _tool_results(messages)
    expect([r.text for r in results] == ["out-of-the-tool"], f"the tool's result was {[r.text for r in results]}")


@cli_check("one-shot", "with `--include-partial-messages` the pieces of a text add up to it")
def _partial_messages(bench: Bench) -> None:
    reply = Reply("One two three four.", chunk=4)
    messages = _answered(bench, reply, text="One two three four.", include_partial_messages=True)
    text = "".join(message.text_delta or "" for message in messages if isinstance(message, StreamEvent))
    expect(text == "One two three four.", f"the pieces add up to {text!r}")


@cli_check("one-shot", "a failure of the API is an error result with its status, and a non-zero exit")
def _api_failure(bench: Bench) -> None:
    result = _ended(_answered(bench, Repeat(HTTPFailure(401, retry=False))))
    expect(result.is_error, "the result is not an error")
    expect(result.api_error_status == 401, f"`api_error_status` is {result.api_error_status!r} and not 401")


@cli_check("one-shot", "a session is resumed by its id")
def _resume(bench: Bench) -> None:
    session_id = bench.facts.get("session_id")
    if not session_id:
        raise Skipped("the first one-shot gave no session id")
    with ScriptedModel("Again.") as model:
        result = _ended(bench.query(model, "And now?", resume=session_id).collect().messages, "Again.")
        prompts = model.requests_of("main")[0].prompts
    expect(result.session_id == session_id, f"it continued as {result.session_id} instead of {session_id}")
    expect("Say hello" in str(prompts), "the model was not sent what came before")


@cli_check("one-shot", "`--json-schema` gives structured output", required=False)
def _structured_output(bench: Bench) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fields: dict[str, Any] = {"output_format": {"type": "json_schema", "schema": schema}}
    result = _ended(_answered(bench, Reply(ToolCall("StructuredOutput", {"n": 3})), **fields))
    expect(result.structured_output == {"n": 3}, f"`structured_output` is {result.structured_output!r}")


@cli_check("one-shot", "an unknown flag is refused: `unknown option` on stderr, a non-zero exit")
def _unknown_flag(bench: Bench) -> None:
    done = bench.run("--print", "--hackamore-conformance")
    said = done.stderr.decode("utf-8", "replace")
    expect(done.returncode != 0, "it exited with 0")
    expect("unknown option" in said, f"it said {said[:200]!r}")


# -- sessions -----------------------------------------------------------------------------------------------------------


@cli_check(
    "session", "`initialize` is answered, prompts are matched to their results by uuid, the state goes back to idle"
)
def _conversation(bench: Bench) -> None:
    with ScriptedModel("One.", "Two.") as model, bench.session(model) as session:
        expect(session.server_info is not None, "`initialize` was not answered")
        if session.server_info is not None:
            bench.facts["initialize"] = sorted(session.server_info.data)
        first, second = session.send("1"), session.send("2")
        for turn, text in ((first, "One."), (second, "Two.")):
            result = turn.result()
            expect(result.result == text, f"the prompt for {text!r} was answered by {result!r}")
            expect(turn.id in (result.user_message_uuids or []), "the result does not name its prompt")
        session.wait_idle()
        expect(not session.warnings, f"there were warnings: {one_line(map(str, session.warnings))}")
        session.finish()
        expect(session.exit_code == 0, f"after the end of its input it exited with {session.exit_code}")


@cli_check(
    "session",
    "hooks are called, and may deny and change; a permission request is sent, its answer counts; a tool of the program is called",
)
def _callbacks(bench: Bench) -> None:
    asked: list[str] = []
    unread: Counter[str] = Counter()

    @tool
    def price(article: str) -> float:
        """Return a price."""
        asked.append(f"tool {article}")
        return 2.5

    def hook(event: Any, context: Any) -> HookOutput | None:
        bench.hooks.add(event.wire_event or event.hook_event_name)
        for name in set(event.data) - set(event.__struct_encode_fields__):
            unread[f"{type(event).__name__}.{name}"] += 1
        if event.hook_event_name == "PreToolUse" and "denied-by-hook" in str(event.tool_input):
            return HookOutput.deny("the hook says no")
        return None

    def decide(request: Any) -> Allow | Deny:
        asked.append(f"permission {request.tool_name}")
        if "denied-by-callback" in str(request.input):
            return Deny("the callback says no")
        changed = {**request.input, "command": "echo changed > changed.txt; exit 3"}
        return Allow(updated_input=changed if "command" in request.input else None)

    script = (
        _bash("touch denied-by-hook"),
        _bash("touch denied-by-callback"),
        _bash("touch unchanged.txt"),
        Reply(ToolCall("mcp__shop__price", {"article": "tea"})),
        "Done.",
    )
    options: dict[str, Any] = {
        "hooks": {event: [HookMatcher(hooks=[hook])] for event in HOOK_EVENTS},
        "can_use_tool": decide,
        "mcp_servers": {"shop": tool_server("shop", [price])},
    }
    with ScriptedModel(*script) as model, bench.session(model, **options) as session:
        turn = session.send("Go")
        messages = list(turn)
        _ended(messages, "Done.")
        texts = [block.text or "" for block in _tool_results(messages)]
        session.wait_idle()
        warnings = list(map(str, session.warnings))
    bench.facts["hook_fields"] = unread
    expect(len(texts) == 4, f"{len(texts)} of 4 tool calls had a result: {texts}")
    expect("the hook says no" in texts[0], f"a denial by a hook became {texts[0]!r}")
    expect("the callback says no" in texts[1], f"a denial by the permission callback became {texts[1]!r}")
    expect((bench.project / "changed.txt").exists(), "an input that the permission callback changed was not used")
    expect("2.5" in texts[3], f"the result of a tool of the program was {texts[3]!r}")
    made = {"denied-by-hook", "denied-by-callback", "unchanged.txt"} & {path.name for path in bench.project.iterdir()}
    expect(not made, f"a denied call had an effect: {made}")
    expect(asked.count("tool tea") == 1, f"asked were: {asked}")
    expect(not warnings, f"there were warnings: {one_line(warnings)}")


@cli_check("session", "an interrupt ends the turn, with an error result, and not the session")
def _interrupt(bench: Bench) -> None:
    with (
        ScriptedModel(Reply("x" * 5_000, chunk=10, delay=0.05), "Afterwards.") as model,
        bench.session(model, include_partial_messages=True) as session,
    ):
        turn = session.send("Go")
        for message in turn:
            if isinstance(message, StreamEvent):
                session.interrupt()
                break
        result = turn.result()
        expect(result.is_error, f"the interrupted turn ended in {result!r}")
        again = session.send("Again").result()
        expect(again.result == "Afterwards.", f"the next turn ended in {again!r}")


@cli_check("session", "an interrupt that names a turn spares another one", required=False)
def _named_interrupt(bench: Bench) -> None:
    with (
        ScriptedModel(Reply("x" * 5_000, chunk=10, delay=0.05)) as model,
        bench.session(model, include_partial_messages=True) as session,
    ):
        turn = session.send("Go")
        next(message for message in turn if isinstance(message, StreamEvent))
        names = ("00000000-0000-4000-8000-000000000000", turn.id)
        answers = [session.request("interrupt", for_user_message_uuids=[name]).data.get("turn") for name in names]
        expect(answers == ["spared", "stopped"], f"the answers to interrupts of another and of this turn: {answers}")
        expect(turn.result().is_error, "the turn that was named was not interrupted")


@cli_check("session", "a background task outlives its result, is listed, and its end starts a turn", required=False)
def _background(bench: Bench) -> None:
    mark = bench.project / "go"
    call = {
        "command": f"while [ ! -e {mark} ]; do sleep 0.05; done; echo finished",
        "description": "wait",
        "run_in_background": True,
    }
    with (
        ScriptedModel(Reply(ToolCall("Bash", call)), "Started.", Repeat("It is done.")) as model,
        bench.session(model, **_BYPASS) as session,
    ):
        messages = session.messages()
        session.send("Go").result()
        running = [task.task_id for task in session.background_tasks]
        expect(running, "no background task is listed after the result")
        mark.touch()
        session.wait_idle()
        session.stop()
        results = [message.result for message in messages if isinstance(message, ResultMessage)]
    expect(len(results) == 2, f"there were {len(results)} results instead of 2: {results}")


@cli_check("session", "`rewind_files` restores files to their state at a prompt", required=False)
def _rewinding(bench: Bench) -> None:
    path = bench.project / "rewound.txt"
    call = Reply(ToolCall("Write", {"file_path": str(path), "content": "x"}))
    fields: dict[str, Any] = {"enable_file_checkpointing": True, **_BYPASS}
    with ScriptedModel(call, "Written.") as model, bench.session(model, **fields) as session:
        turn = session.send("Go")
        turn.result()
        expect(path.exists(), "the file was not written")
        session.rewind_files(turn.id)
        expect(not path.exists(), "the file is still there")


@cli_check("session", "stopping in the middle of a tool call leaves nothing running")
def _stopping(bench: Bench) -> None:
    from hackamore.transports.process.processes import identity

    pids = bench.project / "pid"
    with (
        ScriptedModel(_bash(f"echo $$ > {pids}.part; mv {pids}.part {pids}; sleep 60")) as model,
        bench.session(model, **_BYPASS) as session,
    ):
        turn = session.send("Go")
        waited = threading.Event()
        for _ in range(2_000):
            if pids.exists():
                break
            waited.wait(0.01)
        expect(pids.exists(), f"the command did not start; the turn is {turn.state}")
        shell, cli = int(pids.read_text()), session.pid
        session.stop()
        expect(cli is None or identity(cli) is None, "the CLI still runs")
        expect(identity(shell) is None, "the command still runs")


# -- approvals ----------------------------------------------------------------------------------------------------------


def _turn(bench: Bench, model: ScriptedModel, **fields: Any) -> ResultMessage:
    with bench.session(model, **fields) as session:
        return session.send("Go").result()


@cli_check(
    "approvals", "a denial with `interrupt` ends the turn; in the resumed session the same call is a new request"
)
def _denied_for_now(bench: Bench) -> None:
    asked: list[str] = []

    def decide(request: Any) -> Allow | Deny:
        asked.append(request.tool_use_id)
        return Deny("later", interrupt=True) if len(asked) == 1 else Allow()

    with ScriptedModel(*[_bash("echo x >> for-now")] * 2, "Done.") as model:
        first = _turn(bench, model, can_use_tool=decide)
        expect(first.terminal_reason == "aborted_tools", f"the turn ended with {first.terminal_reason!r}")
        expect(not (bench.project / "for-now").exists(), "the denied call ran")
        _turn(bench, model, can_use_tool=decide, resume=first.session_id)
    expect(len(set(asked)) == 2, f"the requests were for {asked}")
    expect((bench.project / "for-now").read_text() == "x\n", "the allowed call did not run once")


@cli_check("approvals", "a call that waits for a permission when the CLI ends is not run by a resumed session")
def _unanswered(bench: Bench) -> None:
    asked, over = threading.Event(), threading.Event()

    def decide(request: Any) -> Deny:
        asked.set()
        over.wait(bench.seconds)
        return Deny("too late")

    with ScriptedModel(_bash("touch unanswered"), Repeat("Done.")) as model:
        with bench.session(model, can_use_tool=decide) as session:
            session.send("Go")
            expect(asked.wait(bench.seconds), "no permission request was sent")
            session.stop()
            over.set()
        _turn(bench, model, resume=session.session_id, **_BYPASS)
    expect(not (bench.project / "unanswered").exists(), "the call ran")


@cli_check(
    "approvals", "a deferred call is replayed by a resumed session with its id, and not before a late `initialize`"
)
def _deferred(bench: Bench) -> None:
    asked: list[tuple[str, Any]] = []

    def hook(event: Any, context: Any) -> HookOutput:
        asked.append((event.tool_use_id, event.tool_input))
        return HookOutput.defer() if len(asked) == 1 else HookOutput.deny("no")

    fields: dict[str, Any] = {"hooks": {"PreToolUse": hook}, **_BYPASS}
    with ScriptedModel(_bash("touch deferred"), Repeat("Done.")) as model:
        first = _turn(bench, model, **fields)
        expect(first.deferred_tool_use, f"the turn ended with {first.terminal_reason!r}")
        _turn(bench, model, resume=first.session_id, late=2.0, **fields)
    expect(asked[1:] == asked[:1], f"the hook was called for {asked}")
    expect(not (bench.project / "deferred").exists(), "the call ran")


@cli_check("approvals", "a question of the model is a permission request; the answer is a field of the changed input")
def _questions(bench: Bench) -> None:
    choices = [{"label": name, "description": name} for name in ("Tea", "Coffee")]
    question = {"question": "Which?", "header": "Drink", "multiSelect": False, "options": choices}
    with ScriptedModel(Reply(ToolCall("AskUserQuestion", {"questions": [question]})), "Done.") as model:
        _turn(bench, model, can_use_tool=lambda r: Allow(updated_input={**r.input, "answers": {"Which?": "Tea"}}))
        texts = [result.text for result in model.requests_of("main")[-1].tool_results]
    expect('"Which?"="Tea"' in str(texts), f"the model reads {texts}")


# -- control requests ---------------------------------------------------------------------------------------------------


def _ask(bench: Bench, wanted: Sequence[tuple[str, dict[str, Any], bool]]) -> list[str]:
    """Return what came of these requests, for those that were not answered with success."""
    (bench.project / "seen.txt").write_text("seen\n")
    wrong = []
    with ScriptedModel() as model, bench.session(model) as session:
        for subtype, fields, _ in wanted:
            try:
                session.request(subtype, **fields)
            except ControlRejectedError as error:
                wrong.append(f"{subtype} is refused ({error.message})")
            except ControlTimeoutError:
                wrong.append(f"{subtype} is not answered")
    return wrong


@cli_check(
    "control",
    "the requests that Hackamore's methods build on are answered: "
    + one_line(name for name, _, needed in CONTROLS if needed),
)
def _controls(bench: Bench) -> None:
    wrong = _ask(bench, [row for row in CONTROLS if row[2]])
    expect(not wrong, one_line(wrong))


@cli_check("control", "further requests are answered as 2.1.328 does", required=False)
def _further_controls(bench: Bench) -> None:
    wrong = _ask(bench, [row for row in CONTROLS if not row[2]])
    expect(not wrong, one_line(wrong))


@cli_check("control", "an unknown request gets an error response, and not silence")
def _unknown_request(bench: Bench) -> None:
    with ScriptedModel() as model, bench.session(model) as session:
        try:
            session.request("hackamore_conformance")
        except ControlRejectedError:
            return
        except ControlTimeoutError:
            raise Failed("it was not answered") from None
    raise Failed("it was answered with success")


# Hooks that a turn with tools makes fire in 2.1.328, and that users build on.
EXPECTED_HOOKS = frozenset(
    {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "Stop"}
)


@cli_check("wire", "every line on stdout is a frame")
def _only_frames(bench: Bench) -> None:
    expect(not bench.bad_lines, one_line(bench.bad_lines, 3))


@cli_check("wire", "known fields have the shape that is modelled")
def _shapes(bench: Bench) -> None:
    expect(not bench.dropped, one_line(bench.dropped, 6))


@cli_check("wire", "the CLI asks nothing that Hackamore cannot answer", required=False)
def _requests_known(bench: Bench) -> None:
    expect(not bench.unknown_requests, one_line(bench.unknown_requests, 6))


@cli_check("wire", "these hooks fire in a turn with tools: " + ", ".join(sorted(EXPECTED_HOOKS)))
def _hooks_fire(bench: Bench) -> str:
    if not bench.hooks:
        raise Skipped("no hook fired: the check of callbacks did not get that far")
    missing = EXPECTED_HOOKS - bench.hooks
    expect(not missing, f"these did not: {one_line(sorted(missing))}")
    return f"fired: {one_line(sorted(bench.hooks), 40)}"


# Set by Hackamore itself, in no row of the table of options.
_ALWAYS = frozenset({"--print", "--output-format", "--verbose", "--input-format"})


def our_flags() -> set[str]:
    """Return every flag that an option can become."""
    rows = [field.row for field in Options.__fields__.values()]
    return {flag for row in rows for flag in re.findall(r"--[a-z][a-zA-Z-]*", row.becomes)} | _ALWAYS


def flags_of_help(text: str) -> set[str]:
    """Return the flags in what `claude --help` printed."""
    options = text.partition("\nOptions:\n")[2].partition("\nCommands:\n")[0]
    lines = re.findall(r"^  (-.*)$", options, re.MULTILINE)
    return {flag for line in lines for flag in re.findall(r"(?:^|, )(--[a-zA-Z][a-zA-Z-]*)", line)}


@cli_check("wire", "every flag that an option becomes is known to the CLI")
def _flags_known(bench: Bench) -> str:
    text = bench.run("--help").stdout.decode("utf-8", "replace")
    listed = flags_of_help(text)
    expect(len(listed) > 10, f"`--help` lists {len(listed)} flags; its layout must have changed")
    bench.facts["listed"] = listed

    def is_refused(flag: str) -> bool:
        # With no input and a wrong value it ends soon, even if it accepts the value.
        tries = (bench.run("--print", given).stderr.decode("utf-8", "replace") for given in (f"{flag}=1", flag))
        return all(f"unknown option '{flag}" in said for said in tries)

    hidden = sorted(our_flags() - listed)
    with ThreadPoolExecutor(4) as pool:
        refused = [flag for flag, refused in zip(hidden, pool.map(is_refused, hidden), strict=True) if refused]
    expect(not refused, f"unknown to it: {one_line(refused)}")
    return f"{len(our_flags())} flags, {len(hidden)} of which `--help` does not list"
