"""A stand-in for the CLI of which hundreds can run at once: the standard library alone, about 20 ms and 8 MB for each.

Run as a program. Unlike `stand_in_session.py` it shares no code with the library. LIGHT_BEFORE holds steps for the time before anything
is read, LIGHT_START for that before `initialize` is answered; LIGHT_NAME is its session's id and stands in all that it says. A prompt
that is a JSON list of lists is a list of steps, anything else is repeated as the answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = os.environ.get("LIGHT_NAME", "light")


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def send(frame: dict[str, Any]) -> None:
    write(json.dumps({"session_id": NAME, **frame}).encode() + b"\n")


class LightCLI:
    def __init__(self) -> None:
        self.unread = b""
        self.lines: list[bytes] = []
        self.prompts: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.asked = 0
        self.requests = 0
        self.interrupted = False
        self.deaf = False
        self.shells: list[int] = []
        self.said: dict[str, Any] = {}
        self.seen: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}
        self.info: dict[str, Any] = {"commands": [], "hooks_applied": True, "hook_on_failure_supported": True}

    # -- frames --------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Wait for one frame and take it."""
        while not self.lines:
            try:
                data = os.read(0, 65536)
            except OSError:
                data = b""
            if not data:
                if self.deaf:
                    self.sleep_for_ever()
                os._exit(0)
            *self.lines, self.unread = (self.unread + data).split(b"\n")
        frame = json.loads(self.lines.pop(0))
        match frame["type"]:
            case "user":
                self.report(frame["uuid"], "queued")
                self.prompts.append(frame)
            case "control_request":
                self.on_request(frame["request_id"], frame["request"])
            case "control_response":
                answer = frame["response"]
                self.counts[answer["request_id"]] = self.counts.get(answer["request_id"], 0) + 1
                self.answers[answer["request_id"]] = answer.get("response", answer.get("error"))

    def on_request(self, request_id: str, request: dict[str, Any]) -> None:
        self.requests += 1
        self.seen.append({**request, "request_id": request_id})
        payload: dict[str, Any] = {"asked": request}
        match request["subtype"]:
            case "initialize":
                self.said = request
                for step in json.loads(os.environ.get("LIGHT_START", "[]")):
                    self.play_one(step, "")
                payload = {"pid": os.getpid(), **self.info}
            case "interrupt":
                self.interrupted = True
                while self.shells:
                    os.kill(self.shells.pop(), signal.SIGKILL)
                payload = {"still_queued": []}
            case "rename_session":
                return  # never answered
            case "empty":
                send({"type": "control_response", "response": {"subtype": "success", "request_id": request_id}})
                return
            case "twice":
                first = {"subtype": "success", "request_id": request_id, "response": {"first": True}}
                send({"type": "control_response", "response": first})
            case "refused":
                error = {"subtype": "error", "request_id": request_id, "error": "not with me"}
                send({"type": "control_response", "response": error})
                return
            case "get_settings":
                payload = {"effective": self.said, "argv": sys.argv[1:], "env": dict(os.environ), "seen": self.seen}
        response = {"subtype": "success", "request_id": request_id, "response": payload}
        send({"type": "control_response", "response": response})

    def ask(self, request_id: str, subtype: str, fields: dict[str, Any]) -> Any:
        if request_id not in self.answers:
            send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
        while request_id not in self.answers:
            self.read()
        return self.answers[request_id]

    # -- turns ---------------------------------------------------------------------------------------------------------

    def report(self, uuid: str, state: str) -> None:
        send({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def text(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        send({"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "light", "content": content}})

    def play_one(self, step: list[Any], uuid: str) -> None:
        match step:
            case ["text", text]:
                self.text(text)
            case ["ask", subtype, fields]:
                self.asked += 1
                self.text(json.dumps(self.ask(f"{NAME}-{self.asked}", subtype, fields)))
            case ["timed_ask", subtype, fields]:
                self.asked += 1
                began = time.monotonic()
                answer = self.ask(f"{NAME}-{self.asked}", subtype, fields)
                self.text(json.dumps({"seconds": time.monotonic() - began, "answer": answer}))
            case ["await_requests", count]:
                self.await_requests(count)
            case ["ask_many", subtype, fields, count]:
                for number in range(count):
                    request = {"subtype": subtype, **fields}
                    send({"type": "control_request", "request_id": f"{NAME}-many-{number}", "request": request})
                wanted = [f"{NAME}-many-{number}" for number in range(count)]
                while not all(request_id in self.answers for request_id in wanted):
                    self.read()
                self.text(json.dumps([self.answers[request_id] for request_id in wanted]))
            case ["ask_and_cancel", subtype, fields]:
                self.asked += 1
                request_id = f"{NAME}-{self.asked}"
                send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
                self.await_requests(1)
                send({"type": "control_cancel_request", "request_id": request_id})
            case ["await_answers", count]:
                while len(self.counts) < count:
                    self.read()
            case ["counts"]:
                self.text(json.dumps(list(self.counts.values())))
            case ["info", fields]:
                self.info = fields
            case ["background", tasks]:
                send({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
            case ["touch", path]:
                open(path, "w").close()
            case ["raw", text]:
                write(text.encode())
            case ["bytes", text]:
                write(bytes.fromhex(text))
            case ["flood", count, size]:
                content = [{"type": "text", "text": "x" * size}]
                line = json.dumps({"type": "assistant", "message": {"content": content}}).encode() + b"\n"
                for _ in range(count // 100):
                    write(line * 100)
            case ["hang"]:
                while not self.interrupted:
                    self.read()
            case ["sleep", seconds]:
                time.sleep(seconds)
            case ["out", text]:
                os.write(1, text.encode())
            case ["err", text]:
                os.write(2, text.encode())
            case ["exit", code]:
                os._exit(code)
            case ["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["ignore_term"]:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case ["deaf"]:
                self.deaf = True
            case ["silent"]:
                self.sleep_for_ever()
            case ["close_output"]:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            case ["close_input"]:
                os.close(0)
            case ["await_file", path]:
                while not os.path.exists(path):
                    time.sleep(0.005)
            case ["grandchild", path]:
                self.grandchild(path)
            case _:
                raise ValueError(step)

    def await_requests(self, count: int) -> None:
        """Go on when so many requests of the host have been answered."""
        until = self.requests + count
        while self.requests < until:
            self.read()

    def sleep_for_ever(self) -> None:
        while True:
            time.sleep(60)

    def grandchild(self, path: str) -> None:
        """Start a process in a session of its own, as the CLI starts its shells; its pid goes to the file `path`.

        It ends with an interrupt, as those do.
        """
        pid = os.fork()
        if pid == 0:
            os.setsid()
            self.sleep_for_ever()
        self.shells.append(pid)
        with open(path + ".part", "w") as file:
            file.write(str(pid))
        os.rename(path + ".part", path)

    def play(self, prompt: dict[str, Any]) -> None:
        uuid, content = prompt["uuid"], prompt["message"]["content"]
        steps = json.loads(content) if isinstance(content, str) and content.startswith("[[") else [["text", content]]
        self.interrupted = False
        send({"type": "system", "subtype": "session_state_changed", "state": "running", "sdk_host_only": True})
        self.report(uuid, "started")
        for step in steps:
            self.play_one(step, uuid)
        fields = {"subtype": "success", "is_error": False, "result": "done", "num_turns": 1, "duration_ms": 1}
        if self.interrupted:
            fields |= {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_tools"}
        send({"type": "result", **fields, "user_message_uuids": [uuid]})
        self.report(uuid, "completed")
        send({"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": True})

    def serve(self) -> None:
        while True:
            while self.prompts:
                self.play(self.prompts.pop(0))
            self.read()


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("2.1.328 (Claude Code)")
    else:
        try:
            cli = LightCLI()
            for step in json.loads(os.environ.get("LIGHT_BEFORE", "[]")):
                cli.play_one(step, "")
            cli.serve()
        except BrokenPipeError:
            os._exit(0)
