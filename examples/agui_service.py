"""A service for web front ends that speak AG-UI: each user has threads of their own, and is asked before the agent writes a file.

Needs `hackamore[agui]` and Starlette; with FastAPI it is the same. `uvicorn agui_service:service` serves it. This program plays a
browser: it sends a message, allows the call that waits, and reads the answer.
"""

# scripted: Reply("I write it.", ToolCall("Write", {"file_path": "note.txt", "content": "tea"})),
#   Reply(ToolCall("Write", {"file_path": "note.txt", "content": "tea"})), Reply("The note is written.")

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette

from hackamore import Approvals, Options, SessionPool
from hackamore.serving import agui

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

DATA = Path(tempfile.mkdtemp())
APPROVALS = Approvals(DATA / "approvals.db", hold=0, approvers=lambda request: [request.caller])
OPTIONS = Options(
    cwd=DATA,
    approvals=APPROVALS,
    include_partial_messages=True,
    forward_subagent_text=True,
    verbatim_prompts=True,
)


def user(scope: Mapping[str, Any]) -> str | None:
    """Return the user who is logged in. A real service reads the session that its login has checked."""
    return dict(scope["headers"]).get(b"x-demo-user", b"").decode() or None


@asynccontextmanager
async def lifespan(service: Starlette) -> AsyncIterator[None]:
    async with SessionPool(OPTIONS, warm=0, registry=DATA / "conversations.db") as pool:
        service.mount("/agent", agui.app(pool, identity=user, approvals=APPROVALS))
        yield
        await pool.drain(timeout=10)


service = Starlette(lifespan=lifespan)


async def post(run: str, **given: Any) -> list[dict[str, Any]]:
    """Send a run as a browser does; return its events."""
    body = json.dumps({"threadId": "notes", "runId": run, "messages": [], **given}).encode()
    headers = {"host": "agents.example.com", "content-type": "application/json", "x-demo-user": "ada"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/agent/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent = bytearray()
    requests = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if not requests:
            await asyncio.Event().wait()  # the browser stays
        return requests.pop()

    async def send(message: Mapping[str, Any]) -> None:
        sent.extend(message.get("body", b""))

    await service(scope, receive, send)
    return [json.loads(line[6:]) for line in sent.decode().splitlines() if line.startswith("data: ")]


async def main() -> None:
    async with lifespan(service):
        events = await post("run-1", messages=[{"id": "1", "role": "user", "content": "Write a note."}])
        [interrupt] = events[-1]["outcome"]["interrupts"]
        print("waits for the user:", interrupt["metadata"]["tool"], interrupt["metadata"]["input"]["content"])
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        events = await post("run-2", resume=[answer])
        print("".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"))
        print(events[-1]["outcome"], (DATA / "note.txt").read_text())
    APPROVALS.close()


if __name__ == "__main__":
    asyncio.run(main())
