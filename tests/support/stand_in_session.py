"""A stand-in for the CLI in a session: plays what a prompt tells it, over the role CLI of the connection.

Run as a program. A prompt that is a JSON list is a list of steps, anything else is repeated as the answer. STAND_IN_START holds
steps for the time before `initialize` is answered.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from bridle.options.bounds import Limits
from bridle.protocol import events
from bridle.protocol.connection import Connection, Role

if TYPE_CHECKING:
    from collections.abc import Generator

SESSION = "5e551011-0000-4000-8000-000000000000"


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class StandIn:
    def __init__(self) -> None:
        self.connection = Connection(Role.CLI, limits=Limits(pending_requests=1_000))
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
            case ["close_output"]:
                os.close(1)
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

    def on_event(self, event: events.Event) -> None:
        match event:
            case events.PromptReceived():
                uuid = event.uuid or ""
                self.report(uuid, "queued")
                self.turns.append((uuid, self.play(uuid, event.message.content)))
                if len(self.turns) == 1:
                    self.go_on()
            case events.RequestResolved():
                data = event.result.data if event.result is not None else str(event.error)
                self.answers[event.request_id] = data
                if self.waiting == event.request_id:
                    self.go_on(data)
            case events.RequestReceived():
                self.on_request(event)

    def on_request(self, event: events.RequestReceived) -> None:
        request = event.frame.request
        match event.subtype:
            case "initialize":
                self.fields = request
                for step in json.loads(os.environ.get("STAND_IN_START", "[]")):
                    if step[0] == "ask":
                        self.connection.send_request(step[1], step[2])
                    elif step[0] == "refuse":
                        self.connection.send_error(event.request_id, step[1])
                    elif step[0] == "unanswered":
                        return
                    else:
                        self.common(step)
                self.connection.send_response(
                    event.request_id,
                    {"commands": [], "pid": os.getpid(), "hooks_applied": True, "hook_on_failure_supported": True},
                )
            case "interrupt":
                self.connection.send_response(event.request_id, {"still_queued": []})
                if self.waiting == "interrupt":
                    self.interrupted = True
                    self.go_on()
            case "set_color":
                self.connection.send_error(event.request_id, "no such colour")
            case "rename_session":
                pass  # never answered
            case "get_settings":
                self.connection.send_response(event.request_id, {"effective": self.fields})
            case _:
                self.connection.send_response(event.request_id, {"asked": request, "version": "2", "text": "free"})

    def flush(self) -> None:
        if data := self.connection.data_to_send():
            write(data)

    def run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        while True:
            while happened := self.connection.events_received():
                for event in happened:
                    self.on_event(event)
            self.flush()
            selector.select()
            data = os.read(0, 65536)
            if not data:
                if self.deaf:
                    self.common(["silent"])
                os._exit(0)
            self.connection.receive_data(data)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("2.1.328 (Claude Code)")
    else:
        StandIn().run()
