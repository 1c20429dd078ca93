"""The clients that are compared. Run as a program: reads one JSON command per line from stdin, answers each with one JSON line.

A process serves one client, so that no library pays for another one's modules, and runs its rounds one after the other, so that every
round but the first finds warm caches. The clock runs inside of the client: from its first message to its last.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES = 262_144


class Round:
    """What one round measured. A client calls `first` at its first message and `last` at its last one."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.count = 0
        self.characters = 0
        self.begin = time.perf_counter()
        self.first_at = self.last_at = 0.0
        self.first_cpu = self.last_cpu = 0.0

    def first(self) -> None:
        self.first_at, self.first_cpu = time.perf_counter(), _cpu()

    def last(self) -> None:
        self.last_at, self.last_cpu = time.perf_counter(), _cpu()

    def report(self, before: int) -> dict[str, float]:
        end = time.perf_counter()
        if self.count != self.expected:
            raise SystemExit(f"{sys.argv[1]}: {self.count} messages instead of {self.expected}")
        return {
            "seconds": self.last_at - self.first_at,
            "cpu": self.last_cpu - self.first_cpu,
            "begin_to_last": self.last_at - self.begin,
            "total": end - self.begin,
            "characters": self.characters,
            "rss_before": before,
            "rss_peak": memory("VmHWM"),
        }


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory(field: str) -> int:
    """Return a figure of this process in bytes.

    On Linux from /proc: `ru_maxrss` of a new process starts with the size of the one that started it.
    """
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# -- reading what a message says: the same code for both libraries, whose names agree ----------------------------------


def touch_message(message: Any) -> int:
    """Read all text of a message; return how many characters it has."""
    kind = type(message).__name__
    if kind == "StreamEvent":
        return len(message.event["delta"]["text"])
    if kind != "AssistantMessage":
        return 0
    size = 0
    for block in message.content:
        if type(block).__name__ == "TextBlock":
            size += len(block.text)
        else:
            size += len(block.input["content"])
    return size


def touch_plain(frame: Any) -> int:
    """Do the same to the plain objects of a decoded line."""
    if frame["type"] == "stream_event":
        return len(frame["event"]["delta"]["text"])
    if frame["type"] != "assistant":
        return 0
    size = 0
    for block in frame["message"]["content"]:
        size += len(block["text"] if block["type"] == "text" else block["input"]["content"])
    return size


# -- the clients -------------------------------------------------------------------------------------------------------


async def _consume(stream: Any, expected: int, touched: bool) -> Round:
    figures = Round(expected)
    count = size = 0
    if touched:
        async for message in stream():
            count += 1
            if count == 1:
                figures.first()
            size += touch_message(message)
            if count == expected:
                figures.last()
    else:
        async for _ in stream():
            count += 1
            if count == 1:
                figures.first()
            if count == expected:
                figures.last()
    figures.count, figures.characters = count, size
    return figures


class HackamoreAsyncio:
    """`async for message in hackamore.query(...)` on asyncio."""

    def __init__(self) -> None:
        import hackamore

        self.hackamore = hackamore

    def stream(self, command: dict[str, Any]) -> Any:
        options = self.options(command)
        return lambda: self.hackamore.query("hello", options)

    def options(self, command: dict[str, Any]) -> Any:
        more = {} if command.get("version_check") else {"version_check": "skip"}
        return self.hackamore.Options(cli_path=command["path"], include_partial_messages=True, **more)

    def run(self, command: dict[str, Any]) -> Round:
        import asyncio

        return asyncio.run(_consume(self.stream(command), command["expected"], command["touched"]))


class HackamoreTrio(HackamoreAsyncio):
    """The same on trio."""

    def run(self, command: dict[str, Any]) -> Round:
        import trio

        return trio.run(_consume, self.stream(command), command["expected"], command["touched"])


class HackamoreBlocking(HackamoreAsyncio):
    """`for message in hackamore.sync.query(...)`."""

    def run(self, command: dict[str, Any]) -> Round:
        from hackamore.sync import query

        options = self.options(command)
        expected = command["expected"]
        figures = Round(expected)
        count = size = 0
        if command["touched"]:
            for message in query("hello", options):
                count += 1
                if count == 1:
                    figures.first()
                size += touch_message(message)
                if count == expected:
                    figures.last()
        else:
            for _ in query("hello", options):
                count += 1
                if count == 1:
                    figures.first()
                if count == expected:
                    figures.last()
        figures.count, figures.characters = count, size
        return figures


class Official:
    """`async for message in claude_agent_sdk.query(...)` on asyncio.

    A program without an event loop would put `asyncio.run` around it, which is what happens here.
    """

    def __init__(self) -> None:
        import claude_agent_sdk

        self.package = claude_agent_sdk

    def stream(self, command: dict[str, Any]) -> Any:
        if command.get("version_check"):
            os.environ.pop("CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK", None)
        else:
            os.environ["CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK"] = "1"
        options = self.package.ClaudeAgentOptions(
            cli_path=command["path"], include_partial_messages=True, max_buffer_size=200_000_000
        )
        return lambda: self.package.query(prompt="hello", options=options)

    def run(self, command: dict[str, Any]) -> Round:
        import asyncio

        return asyncio.run(_consume(self.stream(command), command["expected"], command["touched"]))


class BareLoop:
    """`os.read`, split, `msgspec.json.decode` to plain objects: what is left if one writes it by hand and handles nothing."""

    def __init__(self) -> None:
        import msgspec

        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
        self.touch: Callable[[Any], int] = touch_plain

    def run(self, command: dict[str, Any]) -> Round:
        import subprocess

        argv = [command["path"], "--print", "--output-format", "stream-json", "--verbose"]
        expected, touched, decode, touch = command["expected"], command["touched"], self.decode, self.touch
        figures = Round(expected)
        count = size = 0
        parts: list[bytes] = []
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"hello")
            process.stdin.close()
            descriptor = process.stdout.fileno()
            while data := os.read(descriptor, READ_BYTES):
                lines = data.split(b"\n")
                tail = lines.pop()
                if parts and lines:
                    parts.append(lines[0])
                    lines[0] = b"".join(parts)
                    parts.clear()
                if tail:
                    parts.append(tail)
                for line in lines:
                    frame = decode(line)
                    count += 1
                    if count == 1:
                        figures.first()
                    if touched:
                        size += touch(frame)
                    if count == expected:
                        figures.last()
        figures.count, figures.characters = count, size
        return figures


class TypedBareLoop(BareLoop):
    """The same loop into Hackamore's union of message classes."""

    def __init__(self) -> None:
        from hackamore.messages import decode as module_function

        module = sys.modules[module_function.__module__]
        module.prepare()  # type: ignore[attr-defined]
        self.decode = module.decode_typed  # type: ignore[attr-defined]
        self.touch = touch_message


CLIENTS: dict[str, type[Any]] = {
    "hackamore": HackamoreAsyncio,
    "hackamore-trio": HackamoreTrio,
    "hackamore-blocking": HackamoreBlocking,
    "official": Official,
    "bare": BareLoop,
    "bare-typed": TypedBareLoop,
}


def main() -> None:
    client = CLIENTS[sys.argv[1]]()
    for line in sys.stdin:
        command = json.loads(line)
        before = memory("VmRSS")
        begin = time.perf_counter()
        figures = client.run(command)
        # `wall` holds the making and the end of an event loop as well, `total` does not.
        report = {"wall": time.perf_counter() - begin, **figures.report(before)}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
