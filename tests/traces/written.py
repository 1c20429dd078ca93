"""Traces that are written by hand: one with an item in every lane, hostile ones, large ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = {
    "format": "hackamore-cassette",
    "version": 1,
    "library": "0.1.0",
    "cli": "2.1.330",
    "created": "2026-01-01T00:00:00+00:00",
}
CANARY = "sk-ant-" + "canary0123456789abcdef"
RUN = (
    "<img src=x onerror=\"document.title='ran';fetch('https://evil.example/x')\"><script>document.title='ran'</script>"
)
HOSTILE = (
    f"{RUN}</script><!-- <svg onload=alert(1)> javascript:alert(1) https://evil.example/beacon \u202egnp.exe\u2066 "
    "\x1b[31mred\x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \u2028 \u0000 ]]> ${7*7} {{7*7}}"
)


class Tape:
    """Lines of a trace, with times."""

    def __init__(self, session: str = "s1") -> None:
        self.lines = [json.dumps(HEADER, separators=(",", ":"))]
        self.session = session
        self.at = 0.0

    def put(self, kind: str, *, after: float = 0.1, **fields: Any) -> None:
        self.at = round(self.at + after, 4)
        self.lines.append(json.dumps({"s": self.session, "t": self.at, "k": kind, **fields}, separators=(",", ":")))

    def into(self, frame: dict[str, Any], after: float = 0.1) -> None:
        self.put("in", after=after, f=frame)

    def out(self, frame: dict[str, Any], after: float = 0.1) -> None:
        self.put("out", after=after, f=frame)

    def prompt(self, text: str) -> None:
        self.out({"type": "user", "message": {"role": "user", "content": text}})

    def reply(self, number: int, *blocks: dict[str, Any], parent: str | None = None) -> None:
        usage = {
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_input_tokens": 90 * number,
            "cache_creation_input_tokens": 7,
        }
        for block in blocks:
            message = {"id": f"msg_{number}", "model": "m", "content": [block], "usage": usage}
            self.into({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def result_of(self, call: str, text: Any, *, failed: bool = False, **more: Any) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
        self.into({"type": "user", "message": {"role": "user", "content": [block]}, **more})

    def asked(self, request: str, subtype: str, **fields: Any) -> None:
        self.into({"type": "control_request", "request_id": request, "request": {"subtype": subtype, **fields}})

    def answered(self, request: str, payload: dict[str, Any]) -> None:
        response = {"subtype": "success", "request_id": request, "response": payload}
        self.out({"type": "control_response", "response": response})

    def result(self, subtype: str = "success", **more: Any) -> None:
        usage = {
            "input_tokens": 40,
            "output_tokens": 20,
            "cache_read_input_tokens": 300,
            "cache_creation_input_tokens": 60,
        }
        self.into(
            {
                "type": "result",
                "subtype": subtype,
                "is_error": subtype != "success",
                "result": "All is done.",
                "terminal_reason": "completed" if subtype == "success" else subtype,
                "num_turns": 3,
                "total_cost_usd": 0.25,
                "usage": usage,
                **more,
            }
        )

    def write(self, path: Path) -> Path:
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return path


def call(name: str, call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def everything(tape: Tape | None = None, said: str = "Look at <b>this</b>.", end: bool = True) -> Tape:
    """Return a trace with an item in every lane."""
    tape = tape or Tape()
    arguments = ["--verbose", "--allowedTools=Bash(echo:*)", "--permission-mode", "default"]
    tape.put("start", arguments=arguments, cwd="/home/me", one_shot=False)
    tape.prompt(said)
    tape.into({"type": "system", "subtype": "init", "model": "m", "permissionMode": "default", "session_id": "x"})
    tape.reply(
        1,
        {"type": "thinking", "thinking": f"I think {said}"},
        text(f"I say {said}"),
        call("Bash", "t1", command=f"echo {said}"),
    )
    hook = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "echo"},
        "tool_use_id": "t1",
    }
    tape.asked("h1", "hook_callback", callback_id="hook_0", input=hook)
    tape.answered("h1", {})
    tape.asked("p1", "can_use_tool", tool_name="Bash", input={"command": f"echo {said}"}, tool_use_id="t1")
    rules = [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "ls"}],
            "behavior": "allow",
            "destination": "session",
        }
    ]
    tape.answered("p1", {"behavior": "allow", "updatedInput": {}, "updatedPermissions": rules})
    tape.result_of("t1", f"it said {said}")
    tape.reply(2, call("Edit", "t2", file_path="/home/me/a.py", old_string="one\ntwo\n", new_string="one\nthree\n"))
    tape.asked("p2", "can_use_tool", tool_name="Edit", input={"file_path": "/home/me/a.py"}, tool_use_id="t2")
    tape.answered("p2", {"behavior": "deny", "message": f"No: {said}"})
    meta = [{"id": "t2", "permission_decision": {"decision": "reject", "source": "user_reject", "reason_type": "rule"}}]
    tape.result_of("t2", f"No: {said}", failed=True, tool_result_meta=meta)
    tape.reply(3, call("Agent", "t3", description="Count", prompt="Count it.", subagent_type="general-purpose"))
    tape.into(
        {
            "type": "system",
            "subtype": "task_started",
            "task_id": "a1",
            "tool_use_id": "t3",
            "task_type": "local_agent",
            "is_backgrounded": False,
        }
    )
    tape.reply(4, call("Bash", "t4", command="wc"), parent="t3")
    tape.result_of("t4", "12", parent_tool_use_id="t3")
    tape.result_of("t3", [text("There are 12.")])
    tape.into(
        {
            "type": "system",
            "subtype": "task_started",
            "task_id": "b1",
            "tool_use_id": "t1",
            "description": f"Wait {said}",
            "task_type": "local_bash",
            "is_backgrounded": True,
        }
    )
    tape.into(
        {
            "type": "system",
            "subtype": "task_notification",
            "task_id": "b1",
            "status": "completed",
            "summary": "It is ready.",
        }
    )
    tape.reply(5, text("All is done."))
    if end:
        tape.result()
        tape.put("exit", code=0)
        tape.put("stderr", text=f"a warning: {said}\n")
        tape.put("end", redactions={"key": 1})
    return tape


def large(path: Path, size: int, *, seed: int = 7) -> Path:
    """Write a trace of at least `size` bytes, with results that compress as real ones do."""
    words = [f"{(number * 2654435761 + seed) % 2**32:08x}" for number in range(5000)]

    def lines() -> Iterator[str]:
        tape = Tape()
        everything(tape, end=False)
        written = sum(map(len, tape.lines))
        number = 100
        while written < size:
            before = len(tape.lines)
            tape.reply(number, text(f"Step {number}."), call("Bash", f"t{number}", command=f"make step-{number}"))
            body = " ".join(words[(number * 31 + place * 7) % 5000] for place in range(150 + number % 400))
            tape.result_of(f"t{number}", body, failed=number % 50 == 0)
            written += sum(map(len, tape.lines[before:]))
            number += 1
            yield from tape.lines
            tape.lines = []
        tape.reply(number, text("needle-in-the-haystack"))
        tape.result()
        yield from tape.lines

    with path.open("w", encoding="utf-8") as file:
        for line in lines():
            file.write(line + "\n")
    return path
