"""A host that writes frames to a simulated CLI in memory, and keeps exactly what it sends."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from hackamore.testing.script.run import ScriptRun
from hackamore.testing.simulation.launch import VERSION, parse_launch
from hackamore.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hackamore.testing import Script

FLAGS = ("--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
FOLDER = "/repo"
READS_STATE = {"CLAUDE_CODE_SDK_READS_SESSION_STATE": "1", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
_IDS = re.compile(
    r"(?P<session>51b00000-0000-4000-8000-[0-9a-f]{12})|(?P<id>[0-9a-f]{8}-51b0-4000-8000-[0-9a-f]{12})|(?P<call>toolu_simulated_\d+)"
    r"|(?P<message>msg_simulated_\d+)|(?P<request>req_\d+_[0-9a-f]+)|(?P<run>\b[0-9a-f]{9}-[0-9a-f]{8}\b)|(?P<task>\b[ab][0-9a-f]{8,16}\b)"
)


class Peer:
    """One process of a simulated CLI, and its host.

    Args:
        answers: responses by the event of a hook, the method of a server, or the subtype of another request; by default empty ones. A
            function makes the response of the request, and None leaves the request open.
        run: the run of the script that the process continues; None starts `script`.
    """

    def __init__(
        self,
        script: Script,
        *arguments: str,
        answers: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] = READS_STATE,
        run: ScriptRun | None = None,
    ) -> None:
        self.run = ScriptRun(script) if run is None else run
        self.simulation = Simulation(self.run, parse_launch([*FLAGS, *arguments], environment, FOLDER), time_scale=0)
        self.frames: list[dict[str, Any]] = []
        self.answers: Mapping[str, Any] = answers or {}
        self._requests = 0
        self._unanswered: list[dict[str, Any]] = []
        self._read()

    def send(self, frame: Mapping[str, Any]) -> None:
        """Write a frame, and take what follows."""
        self.simulation.receive_data(json.dumps(frame).encode() + b"\n")
        self._read()

    def say(self, text: str, uuid: str = "prompt-1") -> None:
        """Send a prompt."""
        self.send({"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}})

    def ask(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Send a control request; return the response, empty if there is none yet."""
        self._requests += 1
        name = f"host-{self._requests}"
        self.send({"type": "control_request", "request_id": name, "request": {"subtype": subtype, **fields}})
        found = [frame["response"] for frame in self.frames if frame["type"] == "control_response"]
        return next((each for each in found if each["request_id"] == name), {})

    def end(self) -> int | None:
        """End the input; return the exit status."""
        self.simulation.receive_eof()
        self._read()
        return self.simulation.exit_code

    def answer(self, request_id: str, response: Any) -> None:
        """Answer a request of the CLI that was left open."""
        self._respond(request_id, {"subtype": "success", "response": response})
        self._read()

    def _read(self) -> None:
        """Take all that is sent, and then answer the requests in it, one after the other."""
        while True:
            data, seconds = self.simulation.next()
            if data:
                frames = [json.loads(line) for line in data.splitlines()]
                self.frames += frames
                self._unanswered += [frame for frame in frames if frame["type"] == "control_request"]
            elif self._unanswered:
                frame = self._unanswered.pop(0)
                self._answer(frame["request_id"], frame["request"])
            elif data is not None or seconds != 0:
                return

    def _answer(self, request_id: str, request: dict[str, Any]) -> None:
        inner = {"hook_callback": ("input", "hook_event_name"), "mcp_message": ("message", "method")}
        part, name = inner.get(request["subtype"], ("", ""))
        answer = self.answers.get(request[part][name] if part else request["subtype"], {})
        found = answer(request) if callable(answer) else answer
        if isinstance(found, Exception):
            self._respond(request_id, {"subtype": "error", "error": str(found)})
        elif found is not None:
            self._respond(request_id, {"subtype": "success", "response": found})

    def _respond(self, request_id: str, outcome: dict[str, Any]) -> None:
        frame = {"type": "control_response", "response": {**outcome, "request_id": request_id}}
        self.simulation.receive_data(json.dumps(frame).encode() + b"\n")

    def lines(self) -> list[str]:
        """Return the frames as JSON: equal ids have equal numbers, and the id of a frame and its session are left out."""
        shown = []
        for frame in self.frames:
            own = {name: frame[name] for name in ("uuid", "session_id") if name in frame}
            if not frame["type"].startswith("control_"):
                assert all(_IDS.fullmatch(str(each)) for each in (frame["uuid"], frame["session_id"])), frame
            shown.append(
                json.dumps({name: value for name, value in frame.items() if name not in own}, ensure_ascii=False)
            )
        counted = Counter(found.group() for line in shown for found in _IDS.finditer(line))
        numbers: dict[str, str] = {}

        def marked(found: re.Match[str]) -> str:
            if counted[found.group()] == 1:
                return f"<{found.lastgroup}>"
            return numbers.setdefault(found.group(), f"<{found.lastgroup} {len(numbers) + 1}>")

        return [_IDS.sub(marked, line).replace(VERSION, "<version>") for line in shown]


def of_server(**result: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that answers a message for a server with a result."""
    return lambda request: {"mcp_response": {"jsonrpc": "2.0", "id": request["message"].get("id"), "result": result}}
