"""A stand-in for the CLI: plays a list of steps, for what the real one cannot be made to do (crashes, garbage, hangs, floods).

Run as a program. The steps come as JSON in the variable STAND_IN_STEPS; each is a list of a name and its arguments. It uses nothing but
the standard library and starts in about 15 ms.
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

INIT = {"type": "system", "subtype": "init", "session_id": "5e551011", "model": "stand-in", "tools": [], "cwd": "/"}
ASSISTANT = {
    "type": "assistant",
    "message": {"id": "m", "role": "assistant", "model": "stand-in", "content": [{"type": "text", "text": "hello"}]},
    "session_id": "5e551011",
    "parent_tool_use_id": None,
}
RESULT = {
    "duration_ms": 1,
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "hello",
    "num_turns": 1,
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 3, "output_tokens": 5},
    "session_id": "5e551011",
}
ERROR_RESULT = {
    **RESULT,
    "subtype": "error_during_execution",
    "is_error": True,
    "errors": ["it went wrong"],
    "result": "",
}
NAMED = {"init": INIT, "assistant": ASSISTANT, "result": RESULT, "error_result": ERROR_RESULT}


def write(data: bytes, descriptor: int = 1) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def frame(value: object) -> bytes:
    return (
        json.dumps(NAMED.get(value, value) if isinstance(value, str) else value, separators=(",", ":")).encode() + b"\n"
    )


def grandchild(seconds: float, *, mark: str, new_session: bool) -> None:
    """Start a process that outlives this one; its pid goes to the file `mark`."""
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({seconds})"], start_new_session=new_session
    )
    with open(mark + ".part", "w") as file:
        file.write(str(process.pid))
    os.rename(mark + ".part", mark)


def play(step: list[Any]) -> None:
    match step:
        case ["frame", value]:
            write(frame(value))
        case ["frames", value, count]:
            line = frame(value)
            block = line * max(1, 65536 // len(line))
            whole, rest = divmod(count, max(1, 65536 // len(line)))
            for _ in range(whole):
                write(block)
            write(line * rest)
        case ["out", text]:
            write(text.encode("utf-8", "surrogateescape"))
        case ["hex", text]:
            write(bytes.fromhex(text))
        case ["fill", count]:
            write(b"x" * count)
        case ["line", count]:
            write(b'{"type":"assistant","message":{"content":[{"type":"text","text":"' + b"x" * count + b'"}]}}\n')
        case ["err", text]:
            write(text.encode(), 2)
        case ["err_flood", count]:
            write((b"e" * 99 + b"\n") * (count // 100), 2)
        case ["read_prompt"]:
            text = sys.stdin.buffer.read()
            write(
                frame({"type": "user", "message": {"role": "user", "content": text.decode("utf-8", "surrogatepass")}})
            )
        case ["echo_argv"]:
            write(frame({"type": "user", "message": {"role": "user", "content": json.dumps(sys.argv[1:])}}))
        case ["echo_env"]:
            write(frame({"type": "user", "message": {"role": "user", "content": json.dumps(dict(os.environ))}}))
        case ["sleep", seconds]:
            time.sleep(seconds)
        case ["touch", path]:
            open(path, "w").close()
        case ["await_file", path]:
            until = time.monotonic() + 30
            while not os.path.exists(path) and time.monotonic() < until:
                time.sleep(0.005)
        case ["ignore_term"]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case ["close_stdout"]:
            os.close(1)
        case ["close_stdin"]:
            os.close(0)
        case ["grandchild", seconds, mark, new_session]:
            grandchild(seconds, mark=mark, new_session=new_session)
        case ["exit", code]:
            os._exit(code)
        case ["die", number]:
            signal.signal(number, signal.SIG_DFL) if number != 9 else None
            os.kill(os.getpid(), number)
            time.sleep(30)
        case _:
            raise ValueError(step)


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        answer = os.environ.get("STAND_IN_VERSION", "2.1.328 (Claude Code)")
        if answer == "hang":
            time.sleep(60)
        if answer.startswith("exit "):
            os._exit(int(answer[5:]))
        print(answer)
        return
    steps = json.loads(os.environ.get("STAND_IN_STEPS", "[]"))
    for step in steps:
        play(step)
    os._exit(0)


if __name__ == "__main__":
    main()
