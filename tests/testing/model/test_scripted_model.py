"""The scripted model by itself: a plain HTTP client plays the CLI."""

from __future__ import annotations

import http.client
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.errors import HackamoreError
from hackamore.testing import (
    Dropped,
    HTTPFailure,
    ModelRequest,
    Repeat,
    Reply,
    Script,
    ScriptedModel,
    Stall,
    Text,
    Thinking,
    ToolCall,
    UnconsumedStepsError,
    UnexpectedModelRequestError,
    Usage,
)
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def connect(model: ScriptedModel) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", int(model.url.rpartition(":")[2]), timeout=patience(20))


def post(
    model: ScriptedModel,
    *messages: Mapping[str, Any],
    path: str = "/v1/messages?beta=true",
    headers: Mapping[str, str] | None = None,
    **body: Any,
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send one request on a connection of its own; the messages default to one prompt."""
    payload = {"model": "some-model", "max_tokens": 10, "messages": list(messages) or [user("Hello")], **body}
    with closing(connect(model)) as connection:
        connection.request("POST", path, json.dumps(payload), {"x-api-key": "secret", **(headers or {})})
        with connection.getresponse() as answer:
            return answer.status, answer.headers, answer.read()


def events(stream: bytes) -> list[dict[str, Any]]:
    found = []
    for block in stream.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def text_of(body: bytes) -> str:
    return "".join(block["text"] for block in json.loads(body)["content"] if block["type"] == "text")


def test_a_stream_has_the_shape_of_the_messages_api() -> None:
    with ScriptedModel(Reply(Thinking("Hm."), "Hi!", ToolCall("Bash", {"command": "ls"}, id="toolu_1"))) as model:
        status, headers, body = post(model, stream=True)

    assert status == 200
    assert headers["content-type"] == "text/event-stream"
    found = events(body)
    assert [event["type"] for event in found] == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"] * 2,
        "message_delta",
        "message_stop",
    ]
    assert found[0]["message"]["model"] == "some-model"
    assert found[-2]["delta"]["stop_reason"] == "tool_use"
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas] == [
        "thinking_delta",
        "signature_delta",
        "text_delta",
        "input_json_delta",
    ]
    assert json.loads(deltas[-1]["partial_json"]) == {"command": "ls"}


def test_chunks_put_together_are_the_whole() -> None:
    with ScriptedModel(Reply("wörter 🐎 und mehr", chunk=3)) as model:
        _, _, body = post(model, stream=True)

    pieces = [event["delta"]["text"] for event in events(body) if event["type"] == "content_block_delta"]
    assert "".join(pieces) == "wörter 🐎 und mehr"
    assert {len(piece) for piece in pieces[:-1]} == {3}


def test_without_stream_the_answer_is_one_message() -> None:
    usage = {"input_tokens": 7, "server_tool_use": {"web_search_requests": 1}}
    reply = Reply("Hi.", ToolCall("Read", {"file_path": "/x"}), model="other", stop_reason="max_tokens", usage=usage)
    with ScriptedModel(reply) as model:
        status, _, body = post(model)

    message = json.loads(body)
    assert status == 200
    assert message["model"] == "other"
    assert message["stop_reason"] == "max_tokens"
    assert message["usage"]["input_tokens"] == 7
    assert message["usage"]["output_tokens"] == Usage().output_tokens
    assert message["usage"]["server_tool_use"] == {"web_search_requests": 1}
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    assert message["content"][1]["id"].startswith("toolu_")


def test_blocks_in_the_form_of_the_api_are_sent_as_they_are() -> None:
    block = {"type": "redacted_thinking", "data": "abc"}
    with ScriptedModel(Reply(block), Reply(block)) as model:
        _, _, whole = post(model)
        _, _, streamed = post(model, stream=True)

    assert json.loads(whole)["content"] == [block]
    assert events(streamed)[1]["content_block"] == block


def test_failures_carry_status_headers_and_error_type() -> None:
    with ScriptedModel(
        HTTPFailure(429, retry_after=1.5, retry=False, headers={"x-extra": "1"}),
        HTTPFailure(529, message="Overloaded"),
        HTTPFailure(502, body=b"<html>"),
    ) as model:
        limited, overloaded, strange = post(model), post(model), post(model)

    assert limited[0] == 429
    assert (limited[1]["retry-after"], limited[1]["x-should-retry"], limited[1]["x-extra"]) == ("1.5", "false", "1")
    assert json.loads(limited[2])["error"]["type"] == "rate_limit_error"
    assert json.loads(overloaded[2])["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert strange[2] == b"<html>"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after_events", [0, 2])
def test_a_dropped_connection_never_looks_like_an_end(after_events: int, *, stream: bool) -> None:
    with ScriptedModel(Dropped(after_events)) as model, pytest.raises(http.client.HTTPException):
        post(model, stream=stream)


def test_a_stall_waits_for_its_release() -> None:
    stall = Stall(then="Late.")
    with ScriptedModel(stall) as model:
        answers: list[bytes] = []
        client = threading.Thread(target=lambda: answers.append(post(model)[2]))
        client.start()
        stall.wait_started()
        assert not answers
        stall.release()
        client.join(patience(20))

    assert text_of(answers[0]) == "Late."


def test_a_stall_can_come_in_the_middle_and_end_by_itself() -> None:
    with ScriptedModel(Stall(0.05, then=Reply("In two parts.", chunk=4), after_events=3)) as model:
        started = time.monotonic()
        _, _, body = post(model, stream=True)

    assert time.monotonic() - started >= 0.05
    assert events(body)[-1]["type"] == "message_stop"


@pytest.mark.parametrize("step", [Stall(), Stall(then=Reply("x", chunk=1), after_events=2), Reply("slow", delay=60)])
def test_closing_ends_every_answer_at_once(step: Stall | Reply) -> None:
    before = set(threading.enumerate())
    with ScriptedModel(step) as model, closing(connect(model)) as connection:
        connection.request("POST", "/v1/messages", json.dumps({"messages": [user("Hello")], "stream": True}))
        model.wait_for_requests(1)
        started = time.monotonic()
        model.close()
        assert time.monotonic() - started < patience(5)
    assert set(threading.enumerate()) <= before


def test_a_stall_ends_when_the_client_hangs_up() -> None:
    stall = Stall()
    before = set(threading.enumerate())
    with ScriptedModel(stall) as model:
        with closing(connect(model)) as connection:
            connection.request("POST", "/v1/messages", json.dumps({"messages": [user("Hello")]}))
            stall.wait_started()
        deadline = time.monotonic() + patience(10)
        # The thread that accepts stays.
        while len(set(threading.enumerate()) - before) > 1 and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        assert len(set(threading.enumerate()) - before) == 1


def test_a_request_that_was_to_be_interrupted_and_was_not() -> None:
    script = Script().user("Hello").interrupted(after="I will")
    body = json.dumps({"messages": [user("Hello")], "stream": True})
    with script.model() as model, closing(connect(model)) as connection:
        connection.request("POST", "/v1/messages", body)
        assert b"message_start" in connection.getresponse().read1()
    # Hung up in time: by now that may be a moment ago.
    model = script.model().start()
    with closing(connect(model)) as connection:
        connection.request("POST", "/v1/messages", body)
        assert b"message_start" in connection.getresponse().read1()
        with pytest.raises(UnconsumedStepsError, match="the host did not interrupt it"):
            model.__exit__(None, None, None)


def test_one_connection_serves_many_requests() -> None:
    with ScriptedModel("one", HTTPFailure(529), "two", "three") as model, closing(connect(model)) as connection:
        for expected in ("one", "Scripted failure", "two", "three"):
            streamed = expected == "two"
            connection.request("POST", "/v1/messages", json.dumps({"messages": [user("Hello")], "stream": streamed}))
            with connection.getresponse() as answer:
                assert expected in answer.read().decode()


def test_what_is_not_http_is_ignored() -> None:
    with ScriptedModel() as model, closing(connect(model)) as connection:
        connection.connect()
        connection.sock.sendall(b"nonsense\r\n\r\n")
        assert connection.sock.recv(10) == b""


def test_a_closed_model_does_not_pretend_to_start_again() -> None:
    model = ScriptedModel(Repeat("x"))
    with model:
        post(model, messages=[user("hi")])
    with pytest.raises(RuntimeError, match="make a new one"), model:
        pass


def test_a_function_is_a_step() -> None:
    def echo(request: ModelRequest) -> Reply:
        return Reply(Text(request.prompt_text.upper()))

    with ScriptedModel(echo, lambda request: f"{len(request.messages)} messages") as model:
        assert text_of(post(model)[2]) == "HELLO"
        assert text_of(post(model)[2]) == "1 messages"


def fail_an_assertion(request: ModelRequest) -> None:
    assert request.model == "another"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Reply("x", expect_text="Goodbye"), "expected the text 'Goodbye', got 'Hello'"),
        (Reply("x", expect=lambda request: request.stream), "`expect` returned false"),
        (Reply("x", expect=fail_an_assertion), "`expect` raised AssertionError"),
        (Reply("x", expect=lambda _: pytest.fail("not this")), "`expect` raised Failed: not this"),
        (lambda request: request.nonsense, "the step's function raised AttributeError"),
        (lambda _: 17, "not int"),
    ],
)
def test_a_request_that_does_not_fit_its_step_fails_the_test(step: Any, reason: str) -> None:
    with pytest.raises(UnexpectedModelRequestError) as caught, ScriptedModel(step) as model:
        status, headers, body = post(model)

    assert reason in str(caught.value)
    assert "prompt 'Hello'" in str(caught.value)
    assert reason in caught.value.reasons[0]
    assert (status, headers["x-should-retry"]) == (418, "false")
    assert reason in json.loads(body)["error"]["message"]


def test_an_expectation_sees_the_tool_results() -> None:
    conversation = [
        user("Look"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.txt"}]},
                {"type": "text", "text": "<system-reminder>\nBe nice.\n</system-reminder>"},
            ],
        },
    ]
    step = Reply("x", expect_text="a.txt", expect=lambda request: request.tool_results[0].text == "a.txt")
    with ScriptedModel(step) as model:
        post(model, *conversation)

    [request] = model.requests
    assert request.prompt_text == "Look"
    assert request.prompts == ("Look",)
    assert "Be nice." in request.newest_text


def test_an_error_of_the_body_is_not_hidden_and_gets_a_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught, ScriptedModel("never asked for") as model:
        post(model, path="/v1/messages", headers={"x-claude-code-request-class": "compaction"})
        raise ZeroDivisionError

    assert "the script of the compaction has no step left" in caught.value.__notes__[0]

    with pytest.raises(ZeroDivisionError) as caught, ScriptedModel("asked for", "never asked for") as model:
        post(model)
        raise ZeroDivisionError

    assert "[  open] Reply('never asked for')" in caught.value.__notes__[0]

    with pytest.raises(ZeroDivisionError) as caught, ScriptedModel("asked for") as model:
        post(model)
        raise ZeroDivisionError

    assert not hasattr(caught.value, "__notes__")


def test_left_over_steps_are_named() -> None:
    scripted = ScriptedModel("one", "two", compaction="short", subagents={"count": ["three"], "*": "four"})
    with pytest.raises(UnconsumedStepsError) as caught, scripted as model:
        post(model)

    assert len(caught.value.steps) == 4
    assert "'two'" in caught.value.steps[0]
    assert "'count' (never started)" in str(caught.value)
    assert isinstance(caught.value, HackamoreError)
    assert isinstance(caught.value, AssertionError)


def agent(number: int, kind: str = "subagent") -> dict[str, str]:
    return {"x-claude-code-agent-id": f"a{number}", "x-claude-code-request-class": kind}


def test_each_subagent_gets_its_script_from_the_beginning() -> None:
    with ScriptedModel("main", subagents={"ount": ["first", "second"], "*": Repeat("else")}) as model:
        answers = [
            text_of(post(model, user(task), headers=agent(number))[2])
            for number, task in [
                (1, "Count 5"),
                (2, "count 6"),
                (1, "Count 5"),
                (3, "Sing"),
                (2, "count 6"),
                (3, "Sing"),
            ]
        ]
        post(model)

    assert answers == ["first", "first", "second", "else", "second", "else"]


def test_subagents_of_a_script_that_are_told_nearly_or_quite_the_same() -> None:
    script = (
        Script().user("go").subagent("Look", "First.").subagent("Look, and tell", "Second.").subagent("Look", "Third.")
    )
    script.says("Done.")
    tasks = ["Look", "Look, and tell", "Look"]
    with script.model() as model:
        for _ in range(4):
            post(model, user("go"))
        asked = [post(model, user(task), headers=agent(number)) for number, task in enumerate(tasks)]
    assert [text_of(answer) for _, _, answer in asked] == ["First.", "Second.", "Third."]

    with (
        pytest.raises(UnconsumedStepsError, match=r"subagent 'Look' \(never started\): .*Third"),
        script.model() as model,
    ):
        for _ in range(4):
            post(model, user("go"))
        for number, task in enumerate(tasks[:2]):
            post(model, user(task), headers=agent(number))


def test_a_prompt_of_several_blocks_is_the_one_of_the_script() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    kept = {"type": "text", "text": "[Image: source: /tmp/1.png]"}
    words = [{"type": "text", "text": text} for text in ("<system-reminder>now</system-reminder>\nlook", "here")]
    content = [words[0], picture, words[1], kept]
    for script in (Script().user("look\n[image]\nhere"), Script().user(contains="look")):
        with script.says("Seen.").model() as model:
            post(model, {"role": "user", "content": content})

    with (
        pytest.raises(UnexpectedModelRequestError, match=r"the prompt was 'look\\n\[image\]\\nhere', and the script"),
        Script().user("look").says("Seen.").model() as model,
    ):
        post(model, {"role": "user", "content": content})


def test_what_a_script_expects_is_shown_as_it_is_written() -> None:
    script = Script().user("go").calls("Bash", {"command": "ls"}).expect_result("README").says("Done.")
    with pytest.raises(UnconsumedStepsError) as caught, script.model() as model:
        post(model, user("go"))
    assert "expect=<user 'go'>" in str(caught.value)
    assert "expect=<expect_result 'README'>" in str(caught.value)


def test_a_subagent_without_a_script_fails_the_test() -> None:
    with (
        pytest.raises(
            UnexpectedModelRequestError, match=r"no script for this subagent; there are scripts for: 'Count'"
        ),
        ScriptedModel(subagents={"Count": Repeat("1")}) as model,
    ):
        post(model, user("Sing"), headers=agent(1))


TITLE_SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


@pytest.mark.parametrize(
    ("kind", "path", "headers", "body"),
    [
        ("main", "/v1/messages", {}, {}),
        ("main", "/v1/messages?beta=true", {"x-claude-code-request-class": "main"}, {"max_tokens": 1}),
        ("main", "/v1/messages", {"x-claude-code-request-class": "something-new"}, {}),
        ("subagent", "/v1/messages", {"x-claude-code-agent-id": "a1"}, {}),
        ("subagent", "/v1/messages", {"x-claude-code-request-class": "workflow"}, {}),
        ("subagent", "/v1/messages", {}, {"system": [{"type": "text", "text": "x-header: cc_is_subagent=true;"}]}),
        ("compaction", "/v1/messages", agent(1, "compaction"), {}),
        ("side", "/v1/messages", {"x-claude-code-request-class": "auxiliary"}, {}),
        ("side", "/v1/messages", {}, {"max_tokens": 1}),
        ("side", "/v1/messages", {}, {"output_config": {"format": {"type": "json_schema", "schema": TITLE_SCHEMA}}}),
        ("count_tokens", "/v1/messages/count_tokens?beta=true", {}, {}),
        ("probe", "/api/event_logging/batch", {}, {}),
    ],
)
def test_kinds(kind: str, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
    routes: dict[str, Any] = {"subagents": {"*": Repeat("x")}, "compaction": Repeat("x")}
    with ScriptedModel(Repeat("x"), **routes) as model:
        status, _, _ = post(model, path=path, headers=headers, **body)

    assert [request.kind for request in model.requests] == [kind]
    assert status == (404 if kind == "probe" else 200)


def test_helpers_get_an_answer_that_fits_their_schema_or_the_one_of_the_test() -> None:
    schema = {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean"},
            "why": {"enum": ["fine", "bad"]},
            "tags": {"type": "array"},
            "note": {"type": "string"},
        },
        "required": ["ok", "why", "tags"],
    }
    helper = {"x-claude-code-request-class": "auxiliary"}
    with ScriptedModel(side=lambda request: "scripted" if request.prompt_text == "Mine" else None) as model:
        fitting = post(model, headers=helper, output_config={"format": {"schema": schema}})
        plain = post(model, headers=helper)
        mine = post(model, user("Mine"), headers=helper)

    assert json.loads(text_of(fitting[2])) == {"ok": True, "why": "fine", "tags": []}
    assert (text_of(plain[2]), text_of(mine[2])) == ("OK", "scripted")


def test_probes_and_counts_are_answered_and_take_no_step() -> None:
    with ScriptedModel() as model:
        with closing(connect(model)) as connection:
            connection.request("HEAD", "/api/hello")
            with connection.getresponse() as answer:
                assert (answer.status, answer.read()) == (200, b"")
        status, _, body = post(model, path="/v1/messages/count_tokens")

    assert status == 200
    assert json.loads(body)["input_tokens"] > 0


def test_no_secret_is_recorded() -> None:
    with ScriptedModel("x") as model:
        post(model, headers={"Authorization": "Bearer secret", "X-App": "cli"})

    [request] = model.requests
    assert "secret" not in f"{request!r}{dict(request.headers)}"
    assert request.headers["x-app"] == "cli"


def test_steps_can_be_added_and_requests_awaited() -> None:
    with ScriptedModel() as model:
        model.add("one", "two")
        client = threading.Thread(target=lambda: [post(model), post(model)])
        client.start()
        assert len(model.wait_for_requests(2)) == 2
        client.join(patience(20))
        with pytest.raises(TimeoutError, match="2 of 3 main requests"):
            model.wait_for_requests(3, timeout=0.01)


def test_mistakes_in_a_script_are_found_when_it_is_written() -> None:
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (TypeError, lambda: ScriptedModel(17)),  # type: ignore[arg-type]
        (ValueError, lambda: ScriptedModel(Repeat("x"), "y")),
        (TypeError, lambda: Reply(17)),  # type: ignore[arg-type]
        (ValueError, lambda: Reply("x", chunk=0)),
        (ValueError, lambda: Reply("x", delay=-1)),
        (ValueError, lambda: Stall(after_events=2)),
        (TypeError, lambda: Repeat(Stall())),
        (ValueError, lambda: ScriptedModel(Repeat("x")).add("y")),
        (RuntimeError, lambda: ScriptedModel().url),
    ]
    for error, mistake in wrong:
        with pytest.raises(error):
            mistake()


def test_the_environment_names_the_server_and_unsets_what_is_in_the_way(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        env = model.env
        isolated = model.isolated_env(tmp_path)

    assert env["ANTHROPIC_BASE_URL"] == model.url
    assert "HOME" not in env
    assert env["CLAUDE_CODE_USE_BEDROCK"] == ""
    assert env.items() <= isolated.items()
    assert isolated["CLAUDECODE"] is None
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "TMPDIR"):
        assert str(isolated[name]).startswith(str(tmp_path))
        assert os.path.isdir(str(isolated[name]))


def test_errors_survive_pickling() -> None:
    with pytest.raises(UnexpectedModelRequestError) as caught, ScriptedModel() as model:
        post(model)

    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.requests == caught.value.requests


def test_control_characters_of_a_request_do_not_reach_the_report() -> None:
    with pytest.raises(UnexpectedModelRequestError) as caught, ScriptedModel() as model:
        post(model, user("\x1b[31mred"))

    assert "\x1b" not in str(caught.value)


def test_the_plugin_loads_nothing_that_others_would_have_to_pay_for() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import hackamore.testing.plugin; "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith(('hackamore', 'msgspec', 'anyio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patience(50), check=True
    )
    loaded = set(eval(done.stdout))
    assert {name for name in loaded if name.startswith("hackamore.testing")} == {
        "hackamore.testing",
        "hackamore.testing.plugin",
    }


def test_the_fixture_makes_models(scripted_model: Callable[..., ScriptedModel]) -> None:
    first, second = scripted_model("one"), scripted_model(Reply("two"))
    assert (text_of(post(first)[2]), text_of(post(second)[2])) == ("one", "two")


def test_steps_show_only_what_is_special_about_them() -> None:
    steps = [
        Reply("x", ToolCall("Read"), chunk=3),
        HTTPFailure(429, retry_after=1),
        HTTPFailure(),
        Dropped(2),
        Stall(3),
        Repeat("x"),
    ]
    assert [repr(step) for step in steps] == [
        "Reply('x', ToolCall(name='Read', input={}, id=None), chunk=3)",
        "HTTPFailure(status=429, retry_after=1)",
        "HTTPFailure()",
        "Dropped(after_events=2)",
        "Stall(seconds=3)",
        "Repeat('x')",
    ]
