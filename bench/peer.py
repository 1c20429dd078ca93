"""A stand-in for the CLI that asks: hooks, permission questions, tool calls. It measures how long each answer takes.

Run as a program. A prompt is JSON: `{"kind": "hook", "count": 500}`. The clock runs here, from before the request is written until the
line of its answer has been read; the result's text is the list of seconds. The requests are those of the real CLI, field by field.
The kind `turn` asks nothing: it answers with a short message.
It blocks while it waits, so it takes no processor from the client.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SESSION = "0b4a1a52-1111-4222-8333-444455556666"
VERSION = "2.1.330"
CALL = f"toolu_{0:024d}"
ANSWER = {
    "id": f"msg_{0:024d}",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "content": [{"type": "text", "text": "Three files have changed."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 12, "output_tokens": 6},
}
COMMAND = {"command": "git status --short", "description": "Show what has changed"}


class Peer:
    """The lines of stdin and stdout, and the requests."""

    def __init__(self) -> None:
        self._unread = b""
        self._number = 0
        self.initialize: dict[str, Any] = {}

    def write(self, frame: dict[str, Any]) -> None:
        os.write(1, json.dumps(frame, separators=(",", ":")).encode() + b"\n")

    def line(self) -> bytes:
        """Return the next line of stdin; end with the input. As the CLI does, it passes over empty lines."""
        self._unread = self._unread.lstrip(b"\n")
        while b"\n" not in self._unread:
            data = os.read(0, 65_536)
            if not data:
                os._exit(0)
            self._unread = (self._unread + data).lstrip(b"\n")
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def answer(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        payload = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.write({"type": "control_response", "response": payload})

    def ask(self, request: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Send a request; return the seconds until its answer was there, and the answer."""
        self._number += 1
        request_id = f"{self._number:08x}-aaaa-4bbb-8ccc-dddddddddddd"
        frame = {"type": "control_request", "request_id": request_id, "request": request}
        data = json.dumps(frame, separators=(",", ":")).encode() + b"\n"
        name = request_id.encode()
        begin = time.perf_counter()
        os.write(1, data)
        while name not in (line := self.line()):
            pass
        seconds = time.perf_counter() - begin
        response = json.loads(line)["response"]
        if response["subtype"] != "success":
            raise SystemExit(f"the client answered {request['subtype']} with an error: {response}")
        return seconds, response["response"]

    def mcp(self, method: str, number: int | None, params: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        seconds, answer = self.ask({"subtype": "mcp_message", "server_name": "bench", "message": message})
        return seconds, answer["mcp_response"]

    # -- what is measured ----------------------------------------------------------------------------------------------

    def hook(self, number: int) -> float:
        callback = self.initialize["hooks"]["PreToolUse"][0]["hookCallbackIds"][0]
        asked = {
            "session_id": SESSION,
            "transcript_path": f"/home/user/.claude/projects/work/{SESSION}.jsonl",
            "cwd": "/home/user/work",
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": COMMAND,
            "tool_use_id": CALL,
        }
        request = {
            "subtype": "hook_callback",
            "callback_id": callback,
            "input": asked,
            "tool_use_id": CALL,
        }
        seconds, _ = self.ask(request)
        return seconds

    def permission(self, number: int) -> float:
        rule = {"toolName": "Bash", "ruleContent": "git status:*"}
        suggestion = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}
        request = {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "display_name": "Bash",
            "input": COMMAND,
            "description": "Show what has changed",
            "permission_suggestions": [suggestion],
            "tool_use_id": CALL,
        }
        seconds, answer = self.ask(request)
        if answer.get("behavior") != "allow" or answer.get("updatedInput") != COMMAND:
            raise SystemExit(f"the client did not allow: {answer}")
        return seconds

    def tool(self, number: int) -> float:
        params = {
            "name": "price",
            "arguments": {"article": "tea", "amount": number},
            "_meta": {"claudecode/toolUseId": f"toolu_{number:024d}", "progressToken": number},
        }
        seconds, answer = self.mcp("tools/call", number + 2, params)
        if str(2 * number) not in str(answer.get("result")):
            raise SystemExit(f"the client did not call the tool: {answer}")
        return seconds

    def connect(self) -> None:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
        self.mcp("initialize", 0, hello)
        self.mcp("notifications/initialized", None, {})
        self.mcp("tools/list", 1, {})

    # -- the conversation ----------------------------------------------------------------------------------------------

    def prompt(self, frame: dict[str, Any]) -> None:
        content = frame["message"]["content"]
        wanted = json.loads(content if isinstance(content, str) else content[0]["text"])
        state = {"type": "system", "subtype": "session_state_changed", "session_id": SESSION}
        self.write({**state, "state": "running"})
        if wanted["kind"] == "tool":
            self.connect()
        seconds: list[float] = []
        if wanted["kind"] == "turn":
            self.write({"type": "assistant", "message": ANSWER, "parent_tool_use_id": None, "session_id": SESSION})
        else:
            seconds = [getattr(self, wanted["kind"])(number) for number in range(1, wanted["count"] + 1)]
        result: dict[str, Any] = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1,
            "session_id": SESSION,
            "result": json.dumps(seconds),
        }
        if "uuid" in frame:
            result["user_message_uuids"] = [frame["uuid"]]
        self.write(result)
        self.write({**state, "state": "idle"})

    def run(self) -> None:
        while True:
            frame = json.loads(self.line())
            if frame["type"] == "control_request":
                request = frame["request"]
                if request["subtype"] == "initialize":
                    self.initialize = request
                known = {"commands": [], "hooks_applied": True, "hook_on_failure_supported": True}
                self.answer(frame, known)
            elif frame["type"] == "user":
                self.prompt(frame)


if __name__ == "__main__":
    if sys.argv[1:] in (["--version"], ["-v"]):
        print(f"{VERSION} (Claude Code)")
    else:
        Peer().run()
