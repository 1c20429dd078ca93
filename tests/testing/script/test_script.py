"""Scripts as values: they read like the conversation, survive a file, and become a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import hackamore.sync
from hackamore.messages import ResultError
from hackamore.testing import HTTPFailure, Reply, Script, SimulatedCLI, Stall
from hackamore.testing.script.model import Compiler
from hackamore.testing.script.steps import UserSays

if TYPE_CHECKING:
    from pathlib import Path


TEXT: Any = "hello"


def everything() -> Script:
    script = Script()
    script.user("Delete the cache").thinks("hm").says("I will.", chunk=3, delay=0.1)
    script.calls("Bash", {"command": "rm -r cache"}, result="gone", structured={"a": [1]})
    script.calls("Read", {"file_path": "/x"}, together=True, error="no such file", id="toolu_1")
    script.expect_permission("Bash", decision="allow", input={"command": "x"})
    script.expect_hook("PreToolUse", output={"continue": True}).expect_result("gone", error=False)
    script.rate_limited(2).overloaded().retries(500, delay=0.1).api_error(400, "no")
    script.user(contains="more").subagent("look", Script().calls("Bash", {}).says("Seen.")).slow(0.5).interrupted(
        after="I"
    )
    script.task_ends(status="failed", exit_code=3).compacts("short", trigger="auto")
    script.crash(3, stderr="boom").hang().ignore_sigterm().garbage(b"\xff\x00").cut(5).frame({"type": "new"})
    return script


def test_it_survives_json_and_a_file(tmp_path: Path) -> None:
    script = everything()
    assert Script.from_json(script.to_json()) == script
    assert Script.load(script.save(tmp_path / "script.json")) == script
    assert Script(forever=True) != Script()
    assert len(script) == len(script.steps) > 20


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda s: s.user(3), "`int`.*text"),
        (lambda s: s.user("a", contains="b"), "give one of them"),
        (lambda s: s.says(None), "`null`.*text"),
        (lambda s: s.calls("Bash", ["ls"]), "`input` must be a dict"),
        (lambda s: s.calls("Bash", "ls"), "`input` must be a dict"),
        (lambda s: s.calls("Bash", {"path": object()}), "object"),
        (lambda s: s.calls("Bash", result="a", error="b"), "give one of them"),
        (lambda s: s.expect_permission("Bash", decision="yes"), "yes"),
        (lambda s: s.slow("2"), "str"),
        (lambda s: s.add("hello"), "hello"),
        (lambda s: Script(TEXT), "'h'"),
        (lambda s: s.says(b"hello"), "`bytes`.*text"),
        (lambda s: s.says("a", delay=-1), ">= 0"),
        (lambda s: s.slow(float("nan")), ">= 0"),
        (lambda s: s.slow(float("inf")), "<= "),
        (lambda s: s.retries(500, 0), ">= 1"),
        (lambda s: s.retries(200), ">= 400"),
        (lambda s: s.api_error(200), ">= 400"),
        (lambda s: s.crash(256), "<= 255"),
        (lambda s: s.crash(-300), ">= -64"),
        (lambda s: s.cut(-1), ">= 0"),
        (lambda s: s.subagent("look", None), "`agent` must be a Script"),
    ],
)
def test_what_cannot_be_is_refused_at_once(wrong: Any, text: str) -> None:
    script = Script()
    with pytest.raises((TypeError, ValueError), match=text):
        wrong(script)
    assert len(script) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "other", "version": 1}',
        '{"format": "hackamore-script", "version": 2}',
        '{"format": "hackamore-script", "version": 1, "steps": [{"step": "never"}]}',
        '{"format": "hackamore-script", "version": 1, "steps": [{"step": "says", "txt": "a"}]}',
        b"\xff",
    ],
)
def test_what_is_no_script_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="not a script of Hackamore"):
        Script.from_json(text)


def test_each_step_has_a_line_of_its_own() -> None:
    lines = everything().describe().splitlines()
    assert len(lines) == len(everything())
    assert lines[0] == "user 'Delete the cache'"
    assert "hang" in lines
    assert "crash exit_code=3, stderr='boom'" in lines


def test_prompts_that_differ_are_shown_where_they_do() -> None:
    assert UserSays(text="Hi").mismatch("Ho") == "the prompt was 'Ho', and the script has user 'Hi'"
    long = "Clean the house. " * 50
    text = UserSays(text=long).mismatch(long.replace("house", "mouse", 30).replace("mouse", "house", 29))
    assert "from character 503 on" in text
    assert "the mouse. Clean" in text
    assert "the house. Clean" in text
    assert len(text) < 400
    assert UserSays(text=long).mismatch(long + "!").endswith("house. ' (its end)")


def test_a_report_shows_how_long_things_begin() -> None:
    script = Script().user("Clean the house. " * 5000).says("Done.")
    with pytest.raises(ResultError) as caught, SimulatedCLI(script) as cli:
        hackamore.sync.run("Clean the mouse. " * 5000, transport=cli)
    [note] = caught.value.__notes__
    assert "[  open] user 'Clean the house." in note
    assert "the host sends the prompt 'Clean the mouse." in note
    assert len(note) < 3000


def test_mistakes_are_refused_when_they_are_made() -> None:
    with pytest.raises(ValueError, match="`together` needs a call"):
        Script().says("a").calls("Bash", together=True)
    with pytest.raises(ValueError, match="at least 1"):
        Script().says("a", chunk=0)
    with pytest.raises(ValueError, match="negative"):
        Script().slow(-1)
    with pytest.raises(ValueError, match="a subagent cannot do this: user"):
        Script().subagent("look", Script().user("x"))


def test_the_model_of_a_script() -> None:
    script = Script().user("go").thinks("hm").says("A.").calls("Bash", {"command": "x"}).expect_result("y").says("B.")
    script.user("again").rate_limited(2, delay=0.1).slow(0.2).says("C.").api_error(402).interrupted(after="I")
    first, second, *failures, third, refused, silent = Compiler().compile(script.steps)
    assert isinstance(first, Reply)
    assert [type(block).__name__ for block in first.content] == ["Thinking", "Text", "ToolCall"]
    assert isinstance(second, Reply)
    assert [failure.status for failure in failures] == [429, 429]
    assert isinstance(third, Stall)
    assert third.seconds == 0.2
    assert isinstance(refused, HTTPFailure)
    assert refused.status == 402
    assert isinstance(silent, Stall)
    assert silent.seconds is None


@pytest.mark.parametrize("fault", ["crash", "hang", "ignore_sigterm", "garbage", "cut"])
def test_no_model_breaks_the_cli(fault: str) -> None:
    script = Script().user().says("x")
    getattr(script, fault)()
    with pytest.raises(ValueError, match=f"do this: {fault}.*only exist on the simulated CLI|do this: ignore"):
        script.model()


def test_a_script_without_end_has_no_model() -> None:
    with pytest.raises(ValueError, match="for ever"):
        Script(forever=True).user().says("x").model()


def test_what_is_expected_behind_an_answer_is_about_that_answer() -> None:
    script = Script().user("a").calls("Bash", {"command": "ls"}).says("x")
    script.expect_permission("Bash", decision="deny").expect_hook("Stop").expect_result("no", error=True)
    script.user("b").says("y")
    assert [repr(reply.expect) for reply in Compiler().compile(script.steps)] == [
        "<user 'a'>",
        "<expect_permission 'Bash', decision='deny'; expect_result 'no', error=True>",
        "<user 'b'>",
    ]


def test_an_expectation_between_two_texts_parts_them() -> None:
    replies = Compiler().compile(Script().user("a").says("x").expect_hook("Stop").says("y").steps)
    assert [[block.text for block in reply.content] for reply in replies] == [["x"], ["y"]]
