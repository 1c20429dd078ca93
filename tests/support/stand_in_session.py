"""A stand-in for the CLI in a session: plays what a prompt tells it.

Run as a program. It uses nothing but the standard library, so that it starts in a tenth of the time that the library takes, and shares no
mistake with it. A prompt that is a JSON list is a list of steps, anything else is repeated as the answer. STAND_IN_START holds
steps for the time before `initialize` is answered.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

SESSION = "5e551011-0000-4000-8000-000000000000"


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class Connection:
    """The frames that wait to be written, and the requests that wait for an answer."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.asked = 0
        self.open: set[str] = set()

    def send_message(self, frame: dict[str, Any]) -> None:
        self.lines.append(json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def send_request(self, subtype: str, fields: dict[str, Any]) -> str:
        self.asked += 1
        request_id = f"asked_{self.asked}"
        self.open.add(request_id)
        request = {"subtype": subtype, **fields}
        self.send_message({"type": "control_request", "request_id": request_id, "request": request})
        return request_id

    def cancel_request(self, request_id: str) -> None:
        self.open.discard(request_id)
        self.send_message({"type": "control_cancel_request", "request_id": request_id})

    def send_response(self, request_id: str, answer: dict[str, Any]) -> None:
        response = {"subtype": "success", "request_id": request_id, "response": answer}
        self.send_message({"type": "control_response", "response": response})

    def send_error(self, request_id: str, error: str, **more: Any) -> None:
        response = {"subtype": "error", "request_id": request_id, "error": error, **more}
        self.send_message({"type": "control_response", "response": response})


class StandIn:
    def __init__(self) -> None:
        self.connection = Connection()
        self.turns: list[tuple[str, Generator[Any, Any, None]]] = []
        self.waiting: Any = None
        self.answers: dict[str, Any] = {}
        self.interrupted = False
        self.fields: dict[str, Any] = {}
        self.deaf = False

    def say(self, frame: dict[str, Any]) -> None:
        self.connection.send_message({"session_id": SESSION, **frame})

    def text(self, text: str) -> None:
        block = {"type": "text", "text": text}
        self.say({"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "s", "content": [block]}})

    def state(self, state: str) -> None:
        self.say({"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True})

    def result(self, uuid: str, **more: Any) -> None:
        fields = {"subtype": "success", "is_error": False, "result": "done", "num_turns": 1, "duration_ms": 1}
        self.say({"type": "result", **fields, "user_message_uuids": [uuid], **more})

    def report(self, uuid: str, state: str) -> None:
        self.say({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def play(self, uuid: str, content: Any) -> Generator[Any, Any, None]:
        steps = json.loads(content) if isinstance(content, str) and content.startswith("[[") else [["text", content]]
        self.state("running")
        self.report(uuid, "started")
        later: list[Any] = []
        for step in steps:
            match step:
                case ["later", more]:
                    later = more
                case ["error_result"]:
                    self.result(uuid, subtype="error_during_execution", is_error=True, errors=["it went wrong"])
                    self.report(uuid, "completed")
                    self.state("idle")
                    return
                case ["text", text]:
                    self.text(text if isinstance(text, str) else str(text))
                case ["flood", count, size]:
                    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * size}]}}
                    self.flush()
                    data = json.dumps(line).encode() + b"\n"
                    for _ in range(count // 100):
                        write(data * 100)
                case ["ask", subtype, fields]:
                    answer = yield self.connection.send_request(subtype, fields)
                    self.text(json.dumps(answer))
                case ["ask_many", subtype, fields, count]:
                    ids = [self.connection.send_request(subtype, fields) for _ in range(count)]
                    for request_id in ids:
                        if request_id not in self.answers:
                            yield request_id
                    self.text(json.dumps([self.answers[request_id] for request_id in ids]))
                case ["ask_and_cancel", subtype, fields]:
                    request_id = self.connection.send_request(subtype, fields)
                    self.flush()
                    time.sleep(0.1)
                    self.connection.cancel_request(request_id)
                case ["background", tasks]:
                    self.say({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
                case ["raw", text]:
                    self.flush()
                    write(text.encode())
                case ["hang"]:
                    while not self.interrupted:
                        yield "interrupt"
                    self.result(uuid, subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools")
                    self.report(uuid, "completed")
                    self.state("idle")
                    return
                case _:
                    self.common(step)
        self.result(uuid)
        self.report(uuid, "completed")
        self.state("idle")
        for step in later:  # what a background task does
            match step:
                case ["ask", subtype, fields]:
                    yield self.connection.send_request(subtype, fields)
                case ["background", tasks]:
                    self.say({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
                case ["text", text]:
                    self.text(str(text))
                case _:
                    self.common(step)

    def common(self, step: list[Any]) -> None:
        self.flush()
        match step:
            case ["exit", code]:
                os._exit(code)
            case ["raw", text]:
                write(text.encode())
            case ["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["close_output"]:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            case ["sleep", seconds]:
                time.sleep(seconds)
            case ["err", text]:
                os.write(2, text.encode())
            case ["deaf"]:
                self.deaf = True
            case ["ignore_term"]:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case ["close_input"]:
                os.close(0)
            case ["silent"]:
                while True:
                    time.sleep(60)
            case ["touch", path]:
                open(path, "w").close()
            case ["await_file", path]:
                while not os.path.exists(path):
                    time.sleep(0.005)
            case _:
                raise ValueError(step)

    def go_on(self, answer: Any = None) -> None:
        while self.turns:
            _, steps = self.turns[0]
            try:
                self.waiting = steps.send(answer)
                return
            except StopIteration:
                self.turns.pop(0)
                self.waiting = answer = None
                self.interrupted = False

    def on_event(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "user":
                uuid = frame.get("uuid", "")
                self.report(uuid, "queued")
                self.turns.append((uuid, self.play(uuid, frame["message"]["content"])))
                if len(self.turns) == 1:
                    self.go_on()
            case "control_response":
                answer = frame["response"]
                request_id = answer["request_id"]
                if request_id in self.connection.open:
                    self.connection.open.remove(request_id)
                    data = answer.get("response", answer.get("error"))
                    self.answers[request_id] = data
                    if self.waiting == request_id:
                        self.go_on(data)
            case "control_request":
                self.on_request(frame["request_id"], frame["request"])

    def on_request(self, request_id: str, request: dict[str, Any]) -> None:
        match request["subtype"]:
            case "initialize":
                self.fields = request
                for step in json.loads(os.environ.get("STAND_IN_START", "[]")):
                    if step[0] == "ask":
                        self.connection.send_request(step[1], step[2])
                    elif step[0] == "refuse":
                        self.connection.send_error(request_id, step[1])
                    elif step[0] == "unanswered":
                        return
                    else:
                        self.common(step)
                self.connection.send_response(
                    request_id,
                    {"commands": [], "pid": os.getpid(), "hooks_applied": True, "hook_on_failure_supported": True},
                )
            case "interrupt":
                self.connection.send_response(request_id, {"still_queued": []})
                if self.waiting == "interrupt":
                    self.interrupted = True
                    self.go_on()
            case "set_color":
                self.connection.send_error(request_id, "no such colour")
            case "hologram":
                self.connection.send_error(request_id, "Unknown subtype: hologram", error_code="unsupported_request")
            case "rename_session":
                pass  # never answered
            case "get_settings":
                self.connection.send_response(request_id, {"effective": self.fields})
            case _:
                self.connection.send_response(request_id, {"asked": request, "version": "2", "text": "free"})

    def flush(self) -> None:
        lines, self.connection.lines = self.connection.lines, []
        if lines:
            write(b"".join(lines))

    def run(self) -> None:
        unread = bytearray()
        while True:
            self.flush()
            data = os.read(0, 65536)
            if not data:
                if self.deaf:
                    self.common(["silent"])
                os._exit(0)
            unread += data
            if b"\n" in data:
                *lines, unread = unread.split(b"\n")
                for line in lines:
                    self.on_event(json.loads(line))


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("2.1.328 (Claude Code)")
    else:
        StandIn().run()
