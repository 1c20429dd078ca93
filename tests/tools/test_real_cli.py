"""The real CLI and a tool server, over plain pipes and with control frames written by hand: is the wire shape what the CLI reads?"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import Reply, ScriptedModel, ToolCall
from hackamore.tools import (
    CancelledCall,
    Image,
    ToolCallPlan,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
    tool_server,
)
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.tools import ToolServer
    from tests.conftest import RealCLI

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)

pytestmark = pytest.mark.real_cli


class Wire:
    """The CLI's two pipes, and everything that came over them."""

    def __init__(self, process: subprocess.Popen[bytes], server: ToolServer) -> None:
        self.process = process
        self.server = server
        self.frames: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.outcomes: list[Any] = []

    def send(self, frame: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, request_id: str, **request: Any) -> None:
        self.send({"type": "control_request", "request_id": request_id, "request": request})

    def answer(self, request_id: str, rpc: dict[str, Any]) -> None:
        response = {"subtype": "success", "request_id": request_id, "response": {"mcp_response": rpc}}
        self.send({"type": "control_response", "response": response})

    def drive(self, on_call: Callable[[str, ToolCallPlan], bool] = lambda *_: False) -> None:
        """Serve until the first result. `on_call` may take a call over by returning True."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            frame = json.loads(line)
            self.frames.append(frame)
            if frame["type"] == "result":
                return
            if frame["type"] != "control_request":
                continue
            assert frame["request"]["subtype"] == "mcp_message"
            assert frame["request"]["server_name"] == "shop"
            message = frame["request"]["message"]
            self.asked.append(message)
            made = self.server.handle(message, notify=self.notify)
            self.outcomes.append(made)
            if isinstance(made, ToolCallPlan):
                if on_call(frame["request_id"], made):
                    continue
                try:
                    made = made.finish(made.call())
                except Exception as error:
                    assert isinstance(made, ToolCallPlan)
                    made = made.finish(error)
            self.answer(frame["request_id"], made)
        raise AssertionError(f"no result came: {self.frames}")

    def notify(self, message: dict[str, Any]) -> None:
        self.ask("progress-1", subtype="mcp_message", server_name="shop", message=message)

    def response(self, request_id: str) -> dict[str, Any]:
        [found] = [
            frame["response"]
            for frame in self.frames
            if frame["type"] == "control_response" and frame["response"]["request_id"] == request_id
        ]
        return dict(found)


@contextlib.contextmanager
def wire(cli: RealCLI, model: ScriptedModel, server: ToolServer) -> Iterator[Wire]:
    command = [cli.cli_path, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    command += ["--permission-mode", "bypassPermissions", "--allow-dangerously-skip-permissions"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cli.env(model),
        cwd=cli.cwd,
    ) as process:
        deadline = threading.Timer(45, process.kill)
        deadline.start()
        try:
            opened = Wire(process, server)
            opened.ask("start", subtype="initialize", sdkMcpServers=["shop"])
            opened.send(
                {
                    "type": "user",
                    "message": {"role": "user", "content": "go"},
                    "parent_tool_use_id": None,
                    "session_id": "",
                }
            )
            yield opened
            assert process.stdin is not None
            process.stdin.close()
            process.wait(patience(30))
        finally:
            deadline.cancel()
            process.kill()


def calling(name: str, **arguments: Any) -> Reply:
    return Reply(ToolCall(f"mcp__shop__{name}", arguments))


@tool(always_load=True, read_only=True)
def price(article: str, amounts: list[int]) -> dict[str, Any]:
    """Return what an article costs."""
    return {"article": article, "total": sum(amounts) * 1.5}


@tool
def picture() -> Image:
    return Image(PNG)


@tool
def broken() -> str:
    raise ToolError("Out of stock.")


@tool
def nothing() -> None: ...


@tool
def big_number() -> dict[str, int]:
    return {"id": 2**53 + 1}


@tool
def both() -> ToolResult:
    return ToolResult(["not seen", Image(PNG)], structured={"seen": 1})


@tool
def slow(context: ToolContext) -> str:
    context.report_progress(1, 2, "half-way")
    return "done at last"


@shows("tools.results")
def test_a_conversation_with_tools(real_cli: RealCLI) -> None:
    server = tool_server(
        "any name", [price, picture, broken, nothing, big_number, both], instructions="Ask for prices."
    )
    with ScriptedModel(
        calling("price", article="tea", amounts=[1, 3]),
        calling("price", article="tea", amounts=[1, "x"]),
        calling("picture"),
        calling("broken"),
        calling("nothing"),
        calling("big_number"),
        calling("both"),
        Reply("That is all."),
    ) as model:
        with wire(real_cli, model, server) as opened:
            opened.drive()
        requests = model.requests_of("main")

    # The CLI asks in this order, the first before it answers our own initialize.
    assert [message["method"] for message in opened.asked[:3]] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    assert opened.asked[0]["params"]["protocolVersion"] == "2025-11-25"
    assert opened.response("start")["subtype"] == "success"
    [init] = [frame for frame in opened.frames if frame.get("subtype") == "init"]
    assert [(entry["name"], entry["status"]) for entry in init["mcp_servers"]] == [("shop", "connected")]

    # The model is told about the tool that is always loaded, in our words; the others wait for a search.
    offered = {entry["name"]: entry for entry in requests[0].body["tools"] if entry["name"].startswith("mcp__shop__")}
    assert list(offered) == ["mcp__shop__price"]
    assert offered["mcp__shop__price"]["description"] == "Return what an article costs."
    assert offered["mcp__shop__price"]["input_schema"] == price.input_schema
    assert "Ask for prices." in json.dumps(requests[0].body)

    calls = [made for made in opened.outcomes if isinstance(made, ToolCallPlan)]
    assert calls[0].arguments == {"article": "tea", "amounts": [1, 3]}
    [used] = [
        block["id"]
        for frame in opened.frames
        if frame["type"] == "assistant"
        for block in frame["message"]["content"]
        if block["type"] == "tool_use" and block["input"] == {"article": "tea", "amounts": [1, 3]}
    ]
    assert calls[0].context.tool_use_id == used

    given = [request.tool_results[0] for request in requests[1:]]
    assert (given[0].text, given[0].is_error) == ('{"article":"tea","total":6}', False)
    assert "Bad arguments for `price`: `amounts[1]`: expected `int`, got `str`." in given[1].text
    assert given[1].is_error
    image = given[2].content[0]
    assert image["type"] == "image"
    assert image["source"]["media_type"] == "image/png"
    assert given[3].text.startswith("Out of stock.")
    assert given[3].is_error
    assert (given[4].text, given[4].is_error) == ("(mcp__shop__nothing completed with no output)", False)
    assert given[5].text == '{"id":9007199254740993}'
    # Why the page says that structured content hides texts.
    assert "not seen" not in given[6].text
    assert '{"seen":1}' in given[6].text
    assert given[6].content[0]["type"] == "image"


@shows("tools.progress")
def test_progress_is_accepted_while_a_tool_works(real_cli: RealCLI) -> None:
    script = (calling("slow"), Reply("Thanks.", expect_text="done at last"))
    with ScriptedModel(*script) as model, wire(real_cli, model, tool_server("shop", [slow])) as opened:
        opened.drive()
    assert opened.response("progress-1")["subtype"] == "success"
    assert opened.frames[-1]["subtype"] == "success"


@shows("tools.progress")
def test_an_interrupt_cancels_the_call_by_its_id(real_cli: RealCLI) -> None:
    open_calls: list[ToolCallPlan] = []

    def interrupt(request_id: str, planned: ToolCallPlan) -> bool:
        open_calls.append(planned)
        opened.ask("stop", subtype="interrupt")
        return True

    with ScriptedModel(calling("slow")) as model:
        with wire(real_cli, model, tool_server("shop", [slow])) as opened:
            opened.drive(interrupt)
        [cancelled] = [made for made in opened.outcomes if isinstance(made, CancelledCall)]
    assert cancelled.request_id == open_calls[0].request_id
    assert opened.frames[-1]["terminal_reason"] == "aborted_tools"


def test_read_only_tools_run_beside_each_other_and_dots_become_underscores(real_cli: RealCLI) -> None:
    @tool(name="one.look", read_only=True)
    def one() -> str:
        return "first"

    @tool(name="other.look", read_only=True)
    def other() -> str:
        return "second"

    held: list[tuple[str, ToolCallPlan]] = []

    def both_first(request_id: str, planned: ToolCallPlan) -> bool:
        held.append((request_id, planned))
        if len(held) == 2:  # neither was answered before the other came
            for waiting, call in held:
                opened.answer(waiting, call.finish(call.call()))
        return True

    calls = Reply(ToolCall("mcp__shop__one_look"), ToolCall("mcp__shop__other_look"))
    with ScriptedModel(calls, "Seen.") as model, wire(real_cli, model, tool_server("shop", [one, other])) as opened:
        opened.drive(both_first)
    assert [result.text for result in model.requests_of("main")[1].tool_results] == ["first", "second"]


def test_long_results_go_to_a_file_unless_the_tool_says_otherwise(real_cli: RealCLI) -> None:
    long = " ".join(str(number) for number in range(50_000))
    default = tool(lambda: long, name="default", always_load=True)
    allowed = tool(lambda: long, name="allowed", always_load=True, max_result_size_chars=len(long))
    server = tool_server("shop", [default, allowed])
    with (
        ScriptedModel(calling("default"), calling("allowed"), "Read.") as model,
        wire(real_cli, model, server) as opened,
    ):
        opened.drive()
    cut, whole = (request.tool_results[0] for request in model.requests_of("main")[1:])
    assert "saved to" in cut.text
    assert len(cut.text) < 10_000
    assert whole.text == long
