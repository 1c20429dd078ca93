"""Questions of servers, and dialogs: typed requests, typed answers, safe defaults."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from hackamore import ElicitationRequest, ElicitationResult, Options, UserDialogRequest, UserDialogResult
from hackamore.errors import OptionsError
from hackamore.messages import UserMessage
from hackamore.testing import Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.support.talking import Running, ask, each, got, make, steps

if TYPE_CHECKING:
    from tests.conftest import RealCLI
    from tests.support.session_fixtures import StandIn
    from tests.support.shell import Shell

FORM = {
    "mcp_server_name": "crm",
    "message": "Who?",
    "mode": "form",
    "requested_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "property_order": ["name"],
    "title": "crm asks",
    "display_name": "CRM",
    "description": "a name",
    "from_the_future": [1],
}
PAGE = {
    "mcp_server_name": "crm",
    "message": "Look",
    "mode": "url",
    "url": "https://example.org",
    "elicitation_id": "e1",
}
DIALOG = {"dialog_kind": "confirm", "payload": {"text": "Sure?"}, "tool_use_id": "toolu_1"}


def both(answer: Any) -> list[Any]:
    """A plain and an async callback that give `answer`, or raise it."""

    def plain(request: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def asynchronous(request: Any) -> Any:
        return plain(request)

    return [plain, asynchronous]


def codes(session: Any) -> list[str]:
    return [warning.code for warning in session.warnings]


@shows("asked.dialog.dispatch")
def test_every_field_is_typed_and_the_rest_is_kept(shell: Shell, playing: StandIn) -> None:
    asked: list[Any] = []

    def on_elicitation(request: ElicitationRequest) -> ElicitationResult:
        asked.append(request)
        assert request.session is not None
        return ElicitationResult.accept({"name": "Ann", "request": request.request_id})

    async def on_user_dialog(request: UserDialogRequest) -> UserDialogResult:
        asked.append(request)
        return UserDialogResult.completed([request.payload["text"], True])

    async def scenario() -> None:
        options = playing(on_elicitation=on_elicitation, on_user_dialog=on_user_dialog)
        async with Running(shell, options) as session:
            answer = await ask(session, "elicitation", **FORM)
            form = asked[0]
            assert answer == {"action": "accept", "content": {"name": "Ann", "request": form.request_id}}
            assert (form.mcp_server_name, form.message, form.mode) == ("crm", "Who?", "form")
            assert form.requested_schema == FORM["requested_schema"]
            assert form.property_order == ("name",)
            assert (form.title, form.display_name, form.description) == ("crm asks", "CRM", "a name")
            assert form.data["from_the_future"] == [1]
            assert (form.url, form.elicitation_id, form.cancelled) == (None, None, False)
            await ask(session, "elicitation", **PAGE)
            page = asked[1]
            assert (page.mode, page.url, page.elicitation_id) == ("url", "https://example.org", "e1")
            assert page.requested_schema == {}
            answer = await ask(session, "request_user_dialog", **DIALOG)
            assert answer == {"behavior": "completed", "result": ["Sure?", True]}
            dialog = asked[2]
            assert (dialog.dialog_kind, dialog.payload, dialog.tool_use_id) == (
                "confirm",
                {"text": "Sure?"},
                "toolu_1",
            )
            assert session.warnings == []
        with pytest.raises(AttributeError):
            form.message = "other"

    shell.play(scenario)


@shows("asked.dialog.dispatch")
@pytest.mark.parametrize(
    ("subtype", "answer", "sent"),
    [
        ("elicitation", ElicitationResult.accept(), {"action": "accept"}),
        ("elicitation", ElicitationResult.accept({"n": 1}), {"action": "accept", "content": {"n": 1}}),
        ("elicitation", ElicitationResult.decline(), {"action": "decline"}),
        ("elicitation", ElicitationResult.cancel(), {"action": "cancel"}),
        ("elicitation", {"action": "accept", "content": {"a": [None]}}, {"action": "accept", "content": {"a": [None]}}),
        ("elicitation", None, {"action": "decline"}),
        ("request_user_dialog", UserDialogResult.completed({"a": 1}), {"behavior": "completed", "result": {"a": 1}}),
        ("request_user_dialog", UserDialogResult.completed(), {"behavior": "completed", "result": None}),
        ("request_user_dialog", UserDialogResult.cancelled(), {"behavior": "cancelled"}),
        ("request_user_dialog", {"behavior": "completed", "result": 3}, {"behavior": "completed", "result": 3}),
        ("request_user_dialog", None, {"behavior": "cancelled"}),
    ],
)
def test_answers(shell: Shell, playing: StandIn, subtype: str, answer: Any, sent: Any) -> None:
    async def scenario() -> None:
        for callback in both(answer):
            name = "on_elicitation" if subtype == "elicitation" else "on_user_dialog"
            async with Running(shell, playing(**{name: callback})) as session:
                fields = FORM if subtype == "elicitation" else DIALOG
                assert await ask(session, subtype, **fields) == sent
                assert session.warnings == []

    shell.play(scenario)


@shows("asked.dialog.fails", "callbacks.harmless")
@pytest.mark.parametrize(
    "bad",
    [
        LookupError("nothing there"),
        SystemExit(3),
        "yes",
        True,
        {"action": "maybe"},
        {"behavior": "maybe"},
        {"action": "accept", "content": "no dict"},
        {"action": "accept", "content": {"x": {1, 2}}, "behavior": "completed", "result": {1, 2}},
        ElicitationResult.accept({"x": object()}),
        UserDialogResult.completed(object()),
    ],
    ids=range(10),
)
def test_bad_answers_are_safe_ones(shell: Shell, playing: StandIn, bad: Any) -> None:
    async def scenario() -> None:
        for callback in both(bad):
            options = playing(on_elicitation=callback, on_user_dialog=callback)
            async with Running(shell, options) as session:
                assert await ask(session, "elicitation", **FORM) == {"action": "decline"}
                assert await ask(session, "request_user_dialog", **DIALOG) == {"behavior": "cancelled"}
                assert codes(session) == ["CALLBACK_FAILED"] * 2

    shell.play(scenario)


@shows("asked.dialog.fails")
def test_one_that_hangs_is_answered_at_the_deadline(shell: Shell, playing: StandIn) -> None:
    seen: list[bool] = []
    done = threading.Event()

    def plain(request: Any) -> None:
        for _ in range(2_000):
            if request.cancelled:
                break
            threading.Event().wait(0.01)
        seen.append(request.cancelled)
        done.set()

    async def asynchronous(request: Any) -> None:
        await anyio.sleep_forever()

    async def scenario() -> None:
        options = playing(on_elicitation=plain, on_user_dialog=asynchronous, timeouts={"permission": 0.3})
        async with Running(shell, options) as session:
            assert await ask(session, "elicitation", **FORM) == {"action": "decline"}
            assert await ask(session, "request_user_dialog", **DIALOG) == {"behavior": "cancelled"}
            assert codes(session) == ["CALLBACK_TIMED_OUT"] * 2
            while not done.is_set():
                await shell.let_others_run()
        assert seen == [True]

    shell.play(scenario)


@shows("callbacks.cancelled")
def test_the_cli_takes_a_question_back(shell: Shell, playing: StandIn) -> None:
    cancelled = threading.Event()

    async def waiting(request: Any) -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            cancelled.set()
            raise

    async def scenario() -> None:
        async with Running(shell, playing(on_elicitation=waiting)) as session:
            await got((await got(session.send(steps(["ask_and_cancel", "elicitation", FORM])))).result())
            while not cancelled.is_set():
                await shell.let_others_run()
            assert session.warnings == []

    shell.play(scenario)


@shows("asked.dialog.nobody")
def test_nobody_is_there_to_be_asked(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            assert await ask(session, "elicitation", **FORM) == {"action": "decline"}
            assert await ask(session, "request_user_dialog", **DIALOG) == {"behavior": "cancelled"}
            assert session.warnings == []

    shell.play(scenario)


def test_fields_of_the_wrong_shape_are_left_out(shell: Shell, playing: StandIn) -> None:
    asked: list[Any] = []

    async def scenario() -> None:
        async with Running(shell, playing(on_elicitation=asked.append)) as session:
            answer = await ask(session, "elicitation", mcp_server_name="s", message="m", url=3, property_order="x")
            assert answer == {"action": "decline"}
            assert (asked[0].message, asked[0].url, asked[0].property_order) == ("m", None, ())
            assert set(codes(session)) == {"FIELD_DROPPED"}

    shell.play(scenario)


@shows("callbacks.unbindable")
@pytest.mark.parametrize("name", ["on_elicitation", "on_user_dialog"])
def test_a_callback_that_cannot_be_called_is_refused(shell: Shell, name: str) -> None:
    with pytest.raises(OptionsError) as caught:
        wrong: dict[str, Any] = {name: lambda: None}
        make(shell, Options(**wrong))
    assert caught.value.field == name


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ElicitationResult("maybe"),  # type: ignore[arg-type]
        lambda: ElicitationResult("decline", {"a": 1}),
        lambda: ElicitationResult("accept", "text"),  # type: ignore[arg-type]
        lambda: UserDialogResult("maybe"),  # type: ignore[arg-type]
        lambda: UserDialogResult("cancelled", 1),
    ],
)
def test_impossible_answers_cannot_be_made(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        wrong()


SERVER = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

QUESTIONS = {
    "greet": {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "visit": {"mode": "url", "message": "Please look", "url": "https://example.org/x", "elicitationId": "e1"},
}
calls = {}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        info = {"name": "ask", "version": "1"}
        send(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=message["id"], result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in QUESTIONS]})
    elif method == "tools/call":
        calls[f"q{message['id']}"] = message["id"]
        send(id=f"q{message['id']}", method="elicitation/create", params=QUESTIONS[message["params"]["name"]])
    elif method is None and message.get("id") in calls:
        text = json.dumps(message.get("result") or message.get("error"))
        send(id=calls.pop(message["id"]), result={"content": [{"type": "text", "text": text}]})
    elif "id" in message:
        send(id=message["id"], error={"code": -32601, "message": "no"})
"""


@shows("asked.dialog.dispatch")
def test_a_server_asks_on_the_real_cli(shell: Shell, real_cli: RealCLI) -> None:
    import sys

    asked: list[ElicitationRequest] = []

    def answering(request: ElicitationRequest) -> ElicitationResult:
        asked.append(request)
        return ElicitationResult.accept({"name": "Ann"}) if request.mode == "form" else ElicitationResult.decline()

    async def scenario() -> None:
        program = real_cli.directory / "server.py"
        program.write_text(SERVER)
        script: list[Any] = [Reply(ToolCall("mcp__ask__greet")), Reply(ToolCall("mcp__ask__visit")), "Done."]
        with ScriptedModel(*script) as model:
            options = Options(
                cli_path=real_cli.cli_path,
                cwd=real_cli.cwd,
                env=real_cli.env(model),
                inherit_env=False,
                permission_mode="bypassPermissions",
                mcp_servers={"ask": {"command": sys.executable, "args": [str(program)]}},
                on_elicitation=answering,
            )
            async with Running(shell, options) as session:
                while (await got(session.get_mcp_status())).mcp_servers[0].status == "pending":
                    await shell.let_others_run()
                results = []
                async for message in each(await got(session.send("go"))):
                    if isinstance(message, UserMessage) and isinstance(message.content, list):
                        results += [str(getattr(block, "content", "")) for block in message.content]
                assert session.warnings == []
        assert '"name": "Ann"' in results[0].replace('\\"', '"')
        assert "decline" in results[1]
        assert [(request.mcp_server_name, request.mode) for request in asked] == [("ask", "form"), ("ask", "url")]
        assert asked[0].requested_schema["properties"] == {"name": {"type": "string"}}
        assert asked[0].property_order == ("name",)
        assert (asked[1].url, asked[1].elicitation_id) == ("https://example.org/x", "e1")

    shell.play(scenario)
