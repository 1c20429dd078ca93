"""The program at the other end of a transport under test: plays what its argument says, with nothing but the standard library.

It is handed over as text (`python -c`), so that it runs wherever the transport leads; any Python from 3.8 on will do.
"""

import json
import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def write(data: bytes, descriptor: int = 1) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def processes() -> str:
    """Return a name for the processes of which this one can see the ids: those of a machine, or of a container on it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return socket.gethostname()


def play(step: "list[Any]") -> None:
    """Play one step."""
    name, arguments = step[0], step[1:]
    if name == "echo":
        while True:
            data = os.read(0, 65536)
            if not data:
                return
            write(data)
    elif name == "read":
        left = arguments[0]
        while left > 0:
            data = os.read(0, min(left, 65536))
            if not data:
                return
            left -= len(data)
    elif name == "read_to_end":
        total = 0
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            total += len(data)
        write(b"%d\n" % total)
    elif name == "out":
        write(arguments[0].encode("utf-8"))
    elif name == "fill":
        block = b"x" * 65536
        for _ in range(arguments[0] // len(block)):
            write(block)
        write(b"\n")
    elif name == "numbers":
        for number in range(arguments[0]):
            write(b"%d\n" % number)
            time.sleep(arguments[1])
    elif name == "err":
        block = b"e" * 99 + b"\n"
        for _ in range(arguments[0] // len(block)):
            write(block, 2)
        write(arguments[1].encode("utf-8"), 2)
    elif name == "tell":
        found = {"cwd": os.getcwd(), "variable": os.environ.get(arguments[0], ""), "pid": os.getpid()}
        found["processes"] = processes()
        write(json.dumps(found).encode("utf-8") + b"\n")
    elif name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    elif name == "deaf":
        os.close(0)
    elif name == "stay":
        until = time.time() + 120
        while time.time() < until:
            time.sleep(0.5)
    elif name == "exit":
        os._exit(arguments[0])


if __name__ == "__main__":
    steps: "list[list[Any]]" = json.loads(sys.argv[1])
    for _step in steps:
        play(_step)
    os._exit(0)
