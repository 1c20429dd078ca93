"""Scripts in files: JSON and TOML mean the same as the methods, and errors name the place."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import pytest

from hackamore.testing import Script
from hackamore.testing.script.files import STEPS, fields_of
from hackamore.testing.script.steps import UsageLimit
from tests.contract import shows

# `expect_denied` adds the step `expect_result`.
_NOT_STEPS = {"add", "model", "to_json", "from_json", "save", "load", "describe", "expect_denied"}

WHOLE = """
forever = true

[[steps]]
step = "user"
contains = "tests"

[[steps]]
step = "calls"
tool = "Bash"
input = { command = "pytest" }
error = "1 failed"

[[steps]]
step = "subagent"
prompt = "look"
agent = "Found."

[[steps]]
step = "subagent"
prompt = "count"
agent = [{ step = "calls", tool = "Read", result = "x" }, { step = "says", text = "One." }]

[[steps]]
step = "rate_limited"
attempts = 2

[[steps]]
step = "overloaded"
delay = 1.5

[[steps]]
step = "usage_limited"
until = 2030-01-01T00:00:00Z

[[steps]]
step = "garbage"
text = "no frame"

[[steps]]
step = "frame"
frame = { type = "new" }
"""


def written() -> Script:
    script = Script(forever=True).user(contains="tests").calls("Bash", {"command": "pytest"}, error="1 failed")
    script.subagent("look", "Found.").subagent("count", Script().calls("Read", result="x").says("One."))
    script.rate_limited(2).overloaded(delay=1.5).usage_limited(datetime(2030, 1, 1, tzinfo=UTC))
    return script.garbage("no frame").frame({"type": "new"})


@shows("testing.elsewhere.files")
def test_a_file_in_toml_is_the_script_of_the_methods(tmp_path: Path) -> None:
    file = tmp_path / "script.toml"
    file.write_text(WHOLE)
    assert Script.load(file) == written()


@shows("testing.elsewhere.files")
def test_what_save_writes_is_read_again(tmp_path: Path) -> None:
    assert Script.load(written().save(tmp_path / "script.json")) == written()


def test_the_steps_of_files_are_the_methods_with_their_arguments() -> None:
    methods = {name: value for name, value in vars(Script).items() if inspect.isfunction(value)}
    assert {name for name in methods if not name.startswith("_")} - _NOT_STEPS == set(STEPS)
    for name, kind in STEPS.items():
        missing = set(inspect.signature(methods[name]).parameters) - {"self"} - set(fields_of(kind))
        assert not missing, name


def test_a_limit_may_be_relative() -> None:
    before = time()
    [step] = Script.from_json('{"steps": [{"step": "usage_limited", "seconds": 30}]}').steps
    assert isinstance(step, UsageLimit)
    assert before + 30 <= step.until <= time() + 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"steps": [{"step": "user"}, {"step": "cals"}]}', r"steps\[1\]: there is no step `cals`. Did you mean `cal"),
        ('{"steps": [{"step": "calls", "tol": "x"}]}', r"steps\[0\] \(calls\): there is no field `tol`. .* `tool`\?"),
        ('{"steps": [{"step": "calls"}]}', r"steps\[0\] \(calls\): missing field `tool`"),
        ('{"steps": [{"step": "says", "text": 3}]}', r"steps\[0\] \(says\)\.text: expected `str`, got `int`"),
        ('{"steps": [{"step": "overloaded", "attempts": 0}]}', r"steps\[0\].attempts: expected `int` >= 1"),
        ('{"steps": [{"text": "x"}]}', r"steps\[0\]: `step` is missing"),
        ('{"steps": [3]}', r"steps\[0\]: a step is an object such as .*, not int"),
        ('{"step": []}', "there is no field `step`. Did you mean `steps`?"),
        ("{}", "missing field `steps`"),
        ("[]", "an object with `steps`, not a list"),
        ('{"steps": [\n{,}]}', "not valid JSON: .* line 2 column 2"),
        ('{"steps": NaN}', "not valid JSON: it contains NaN"),
        ('{"steps": [{"step": "user", "text": "a", "contains": "b"}]}', r"steps\[0\]: `text` is the whole prompt"),
        ('{"steps": [{"step": "calls", "tool": "A", "together": true}]}', r"steps\[0\]: `together` needs a call"),
        ('{"steps": [{"step": "subagent", "prompt": "p", "agent": [{"step": "user"}]}]}', r"steps\[0\].agent: a sub"),
        ('{"steps": [{"step": "calls", "tool": "A", "agent": [{"step": "say"}]}]}', r"agent\[0\]: .* mean `says`"),
        ('{"steps": [{"step": "usage_limited"}]}', "needs `until` or `seconds`"),
        ('{"steps": [{"step": "usage_limited", "until": "2030-01-01T00:00:00"}]}', "`until` must have a time zone"),
    ],
)
@shows("testing.elsewhere.files")
def test_errors_name_the_place_and_the_nearest_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"this is not a script of Hackamore: .*{message}"):
        Script.from_json(text)


@pytest.mark.parametrize(("name", "text"), [("a.toml", "[[steps]\n"), ("a.json", "{"), ("a.toml", "x = 1")])
def test_errors_of_load_begin_with_the_file(tmp_path: Path, name: str, text: Any) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ValueError) as caught:
        Script.load(file)
    assert str(caught.value).startswith(f"{file}: ")
