"""A stand-in for the Claude Code CLI, for the claims: it answers the handshake, and answers a prompt as the variable CLAIM says.

Run as a program. It speaks both forms of the protocol: a prompt as text on stdin (`--print`), and frames (`--input-format stream-json`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

SESSION = "0b4a1a52-1111-4222-8333-444455556666"
CLAIM = os.environ.get("CLAIM", "")
FILE = os.environ.get("CLAIM_FILE", os.devnull)


def write(**frame: Any) -> None:
    os.write(1, json.dumps(frame, separators=(",", ":")).encode() + b"\n")


def assistant(text: str, **fields: Any) -> None:
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
    }
    message["usage"] = {"input_tokens": 1, "output_tokens": 1}
    write(type="assistant", message=message | fields, parent_tool_use_id=None, session_id=SESSION, uuid="a")


def result(text: str, **fields: Any) -> None:
    common = {
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": False,
        "num_turns": 1,
        "session_id": SESSION,
        "uuid": "r",
    }
    write(type="result", subtype="success", result=text, total_cost_usd=0.0, usage={}, **common, **fields)


def on_prompt() -> None:
    """Play the turn of the claim."""
    if CLAIM == "fails":
        print("cannot read the credentials: permission denied", file=sys.stderr, flush=True)
        os._exit(3)
    if CLAIM == "works":
        # A tool that works: a shell in its own session, as the CLI starts them. The CLI itself ignores SIGTERM.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        script = f"while sleep 0.1; do echo shell >> '{FILE}'; done"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        shell = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, **quiet)
        with open(f"{FILE}.pids", "w") as pids:
            pids.write(f"{os.getpid()} {shell.pid}")
        assistant("Working.")
        while True:
            time.sleep(0.1)
            with open(FILE, "a") as file:
                file.write("cli\n")
    if CLAIM == "floods":
        for number in range(1000):
            assistant(f"Message {number}")
        return  # the turn is open until it is interrupted
    if CLAIM == "waits":
        assistant("Working.")
        return
    if CLAIM == "is_newer":
        write(type="invented_yesterday", session_id=SESSION, uuid="u")
        write(type="assistant", message={"content": [{"type": "text", "text": "No model here."}]}, session_id=SESSION)
    if CLAIM == "structured":
        result("", structured_output={"title": "It leaks", "severity": 3})
        return
    if CLAIM == "arguments":
        at = sys.argv.index("--disallowedTools") if "--disallowedTools" in sys.argv else -1
        result(sys.argv[at + 1] if at >= 0 else next(word for word in sys.argv if word.startswith("--disallowedTools")))
        return
    assistant("4")
    result("4")


def main() -> None:
    if {"-v", "--version"} & set(sys.argv):
        print("2.1.328 (Claude Code)")
        return
    if "--input-format" not in sys.argv and "--input-format=stream-json" not in sys.argv:
        sys.stdin.read()
        on_prompt()
        return
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "user":
            on_prompt()
        elif frame["type"] == "control_request":
            subtype = frame["request"]["subtype"]
            if subtype == "interrupt" and CLAIM == "waits":
                os._exit(0)
            answer = {"subtype": "success", "request_id": frame["request_id"], "response": {"commands": []}}
            write(type="control_response", response=answer)
            if subtype == "interrupt":
                result("stopped")


if __name__ == "__main__":
    main()
