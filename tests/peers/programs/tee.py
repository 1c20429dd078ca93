"""Stands before a CLI: passes everything on, and writes down what passes. Needs the standard library only."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the CLI that PEER_CLI names; write a file for this process into PEER_LOGS."""
    command = [os.environ["PEER_CLI"], *sys.argv[1:]]
    if sys.argv[1:] in (["-v"], ["--version"]):
        os.execv(command[0], command)
    folder = os.environ["PEER_LOGS"]
    path = os.path.join(folder, f"{len(os.listdir(folder)):03}.jsonl")
    with open(path, "w", buffering=1, encoding="utf-8") as log:
        lock = threading.Lock()

        def note(kind: str, value: object) -> None:
            with lock:
                log.write(json.dumps([kind, value]) + "\n")

        note("arguments", sys.argv[1:])
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        to_child = child.stdin

        def send() -> None:
            for line in sys.stdin.buffer:
                note("sent", line.decode())
                try:
                    to_child.write(line)
                    to_child.flush()
                except BrokenPipeError:
                    break
            with contextlib.suppress(BrokenPipeError):
                to_child.close()

        threading.Thread(target=send, daemon=True).start()
        for line in child.stdout:
            note("received", line.decode())
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                break
        code = child.wait()
        note("exit", code)
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout = None
    os._exit(code if code >= 0 else 128 - code)
