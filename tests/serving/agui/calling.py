"""Calls of the app as a server makes them: bodies in parts, clients that leave, and clients that read slowly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import anyio

from tests.serving.agui.verifying import Run, frames

_NUMBERS = itertools.count(1)


class Answer:
    """The answer to a request, as far as it has come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.complete = False
        self.changed = anyio.Event()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the stream."""
        return [event for _, event in frames(bytes(self.body))]

    @property
    def ids(self) -> list[int]:
        """The ids of the events."""
        return [number for number, _ in frames(bytes(self.body))]

    @property
    def run(self) -> Run:
        """The stream as a client understands it; fails if it is not a valid one."""
        assert self.status == 200, (self.status, self.body)
        assert self.complete
        return Run(self.events)

    @property
    def code(self) -> str:
        """The code of a refusal."""
        found: str = json.loads(self.body)["error"]["code"]
        return found

    async def until(self, text: str) -> None:
        """Wait until the body has a text."""
        while text.encode() not in self.body:
            self.changed = anyio.Event()
            await self.changed.wait()


class Client:
    """A client of an app.

    Args:
        app: the app.
        user: the name that the header `x-user` has; None for none.
        address: the address of the client.
    """

    def __init__(self, app: Any, user: str | None = None, address: str = "127.0.0.1") -> None:
        self.app = app
        self.user = user
        self.address = address

    def given(self, text: str | None = "Go.", thread: str = "t", **more: Any) -> dict[str, Any]:
        """Return a `RunAgentInput`."""
        messages = [{"id": "1", "role": "user", "content": text}] if text is not None else []
        base = {"threadId": thread, "runId": f"run-{next(_NUMBERS)}", "messages": messages, "tools": [], "context": []}
        return {**base, "state": {}, "forwardedProps": {}, **more}

    async def post(self, text: str | None = "Go.", thread: str = "t", **more: Any) -> Answer:
        """Send a run and return its whole answer."""
        return await self.request(self.given(text, thread, **more))

    async def request(
        self,
        given: Any,
        *,
        method: str = "POST",
        query: str = "",
        answer: Answer | None = None,
        gone: anyio.Event | None = None,
        slow: anyio.Event | None = None,
        path: str = "/",
        **headers: str,
    ) -> Answer:
        """Send a request; `gone` is set when the client leaves, and until `slow` is set it takes nothing of the body."""
        answer = answer or Answer()
        body = given if isinstance(given, bytes) else json.dumps(given).encode()
        named: Mapping[str, str] = {"host": "127.0.0.1:8000", "content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        if self.user is not None:
            named = {**named, "x-user": self.user}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "client": (self.address, 5),
            "headers": [(name.encode(), value.encode()) for name, value in named.items() if value],
        }
        parts = [body[start : start + 65_536] for start in range(0, len(body), 65_536)] or [b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop(0)
            if gone is None:
                await anyio.sleep_forever()
            else:
                await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                if slow is not None:
                    await slow.wait()
                answer.body += message["body"]
                answer.complete = not message.get("more_body", False)
            answer.changed.set()
            await anyio.lowlevel.checkpoint()

        await self.app(scope, receive, send)
        return answer

    async def again(self, run: str, after: int, thread: str = "t", **more: Any) -> Answer:
        """Read a run again."""
        last: dict[str, Any] = {"last_event_id": str(after)} if after else {}
        return await self.request(b"", method="GET", query=f"threadId={thread}&runId={run}", **last, **more)
