"""A stand-in for the CLI that keeps transcripts: about 20 ms for each, so that thousands can be started.

TALKER_HOME is the folder of the transcripts. A prompt is answered with JSON: the prompts of this session so far, its id, the pid, the
model, the mode and TALKER_NAME. A prompt that begins with `!` is a command: `die`, `die-first` (before it is kept), `hang`, `background`,
`agent`, `clear`, `probe` (ask for a permission, call hooks and tools; with `dialogs` at its end show dialogs). A session that two
processes answer at the same time is logged as `overlap`. `--session-id` of a session with a transcript is refused, and so is `--resume`
of one without, as by the real CLI.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HOME = os.environ["TALKER_HOME"]


def flag(name: str) -> str | None:
    for argument in sys.argv:
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
    return None


def send(frame: dict[str, object]) -> None:
    data = json.dumps({"session_id": session, **frame}).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def path() -> str:
    return os.path.join(HOME, session + ".jsonl")


def prompts() -> list[str]:
    try:
        with open(path()) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def log(text: str) -> None:
    with open(os.path.join(HOME, "log"), "a") as file:
        file.write(f"{text} {os.getpid()} {session}\n")


locked: dict[str, int] = {}


def own() -> None:
    """Lock the session for the life of this process."""
    if session in locked:
        return
    locked[session] = os.open(os.path.join(HOME, session + ".lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(locked[session], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log("overlap")


resumed, given = flag("--resume"), flag("--session-id")
session = resumed or given or "none"
settings = {"model": flag("--model"), "mode": flag("--permission-mode")}


asked: dict[str, Any] = {}


def ask(name: str, request: dict[str, object]) -> dict[str, Any]:
    """Send a request; return the answer, and keep what comes before it."""
    request_id = f"{name}-{os.getpid()}-{len(asked)}"
    asked[name] = None
    send({"type": "control_request", "request_id": request_id, "request": request})
    for frame in received:
        if frame["type"] == "control_response" and frame["response"]["request_id"] == request_id:
            return frame["response"].get("response") or {"error": frame["response"].get("error")}
        later.append(frame)
    os._exit(0)


def probe(text: str) -> dict[str, Any]:
    """Ask all that this host offers: a permission, each hook, each tool server."""
    found: dict[str, Any] = {}
    common = {"tool_name": "Bash", "tool_use_id": "toolu_1"}
    if "--permission-prompt-tool=stdio" in sys.argv:
        found["permission"] = ask(f"p{len(asked)}", {"subtype": "can_use_tool", "input": {"command": text}, **common})
    for matcher in (known.get("hooks") or {}).get("PreToolUse", []):
        place = {"session_id": session, "transcript_path": "/t", "cwd": "/", "hook_event_name": "PreToolUse"}
        values = {**place, **common, "tool_input": {"command": text}, "permission_mode": "default"}
        for callback in matcher["hookCallbackIds"]:
            request = {"subtype": "hook_callback", "callback_id": callback, "input": values, "tool_use_id": "toolu_1"}
            found["hook"] = ask(f"h{len(asked)}", request)
    for kind in ("elicitation", "request_user_dialog") if text.endswith("dialogs") else ():
        fields = {"mcp_server_name": "s", "message": "?", "dialog_kind": "k", "payload": {}}
        found[kind] = ask(f"d{len(asked)}", {"subtype": kind, **fields})
    for server in known.get("sdkMcpServers", []):
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        calls = [("initialize", hello), ("tools/call", {"name": "whose", "arguments": {"text": text}})]
        for number, (method, params) in enumerate(calls):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            request = {"subtype": "mcp_message", "server_name": server, "message": message}
            found["tool"] = ask(f"m{len(asked)}", request)
    return found


later: list[dict[str, Any]] = []
agents: list[dict[str, str]] = []
known: dict[str, Any] = {}


def frames() -> Iterator[dict[str, Any]]:
    while True:
        while later:
            yield later.pop(0)
        frame = next(received, None)
        if frame is None:
            return
        yield frame


def lines() -> Iterator[dict[str, Any]]:
    rest = b""
    while data := os.read(0, 65536):
        *whole, rest = (rest + data).split(b"\n")
        yield from (json.loads(line) for line in whole)


received = lines()


def respond(request_id: str, payload: dict[str, object], error: str = "") -> None:
    kind = {"subtype": "error", "error": error} if error else {"subtype": "success", "response": payload}
    send({"type": "control_response", "response": {**kind, "request_id": request_id}})


def idle(state: str) -> None:
    send({"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True})


def finish(uuid: str, text: str, failed: bool = False) -> None:
    content = [{"type": "text", "text": text}]
    send({"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "talker", "content": content}})
    result = {"subtype": "success", "is_error": False, "result": text, "num_turns": 1, "duration_ms": 1}
    if failed:
        result |= {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_tools"}
    send({"type": "result", **result, "user_message_uuids": [uuid]})
    send({"type": "command_lifecycle", "command_uuid": uuid, "state": "completed"})
    idle("idle")


def main() -> None:
    global session
    hanging = ""
    log("start")
    for frame in frames():
        if frame["type"] == "control_request":
            request, request_id = frame["request"], frame["request_id"]
            match request["subtype"]:
                case "initialize" if resumed and not prompts():
                    error = f"No conversation found with session ID: {resumed}"
                    sys.stderr.write(error)
                    failure = {"subtype": "error_during_execution", "is_error": True, "errors": [error]}
                    send({"type": "result", **failure, "num_turns": 0, "duration_ms": 1})
                    os._exit(1)
                case "initialize" if given and prompts():
                    sys.stderr.write(f"Error: Session ID {given} is already in use.")
                    sys.stderr.flush()
                    os._exit(1)
                case "initialize":
                    known.update(request)
                case "set_model" if request["model"] == "refused":
                    respond(request_id, {}, "no such model")
                    continue
                case "set_model":
                    settings["model"] = request["model"]
                case "set_permission_mode":
                    settings["mode"] = request["mode"]
                case "apply_flag_settings":
                    settings["flags"] = json.dumps(request["settings"])
                case "interrupt" if hanging:
                    respond(request_id, {"still_queued": []})
                    finish(hanging, "interrupted", failed=True)
                    hanging = ""
                    continue
                case "stop_task" if agents:
                    respond(request_id, {})
                    time.sleep(0.2)  # it needs time to end
                    agents.clear()
                    send({"type": "system", "subtype": "background_tasks_changed", "tasks": []})
                    idle("idle")
                    continue
            respond(request_id, {"commands": []})
        elif frame["type"] == "user":
            uuid, text = frame["uuid"], frame["message"]["content"]
            send({"type": "command_lifecycle", "command_uuid": uuid, "state": "queued"})
            if text == "!die-first":
                os.kill(os.getpid(), signal.SIGKILL)
            if text == "!clear":
                session = text = f"cleared-{os.getpid()}"
            own()
            with open(path(), "a") as file:
                file.write(json.dumps(text) + "\n")
            idle("running")
            send({"type": "command_lifecycle", "command_uuid": uuid, "state": "started"})
            if text == "!die":
                os.kill(os.getpid(), signal.SIGKILL)
            if text == "!hang":
                hanging = uuid
                content = [{"type": "text", "text": "hanging"}]
                send(
                    {
                        "type": "assistant",
                        "message": {"id": "h", "role": "assistant", "model": "talker", "content": content},
                    }
                )
                continue
            if text == "!background":
                tasks = [{"task_id": "t", "type": "shell", "description": "d", "status": "running"}]
                send({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
            if text == "!agent":
                agents[:] = [{"task_id": "t", "task_type": "local_agent", "description": "d", "status": "running"}]
                send({"type": "system", "subtype": "background_tasks_changed", "tasks": agents})
            name = os.environ.get("TALKER_NAME", "")
            answer = {"prompts": prompts(), "session": session, "pid": os.getpid(), "name": name, **settings}
            if text.startswith("!probe"):
                answer |= probe(text)
            finish(uuid, json.dumps(answer))
    log("end")


if sys.argv[1:] == ["--version"]:
    print("2.1.328 (Claude Code)")
else:
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
