"""Requests of the CLI for `Approvals`, without a CLI: for tests of what a person and a database do to them."""

from __future__ import annotations

import json
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from hackamore.checked.functions import Reach
from hackamore.permissions import PermissionRequest, decode_permission_request
from tests.support.patience import patience

if TYPE_CHECKING:
    from hackamore import Approvals
    from hackamore.approvals import ApprovalRequest
    from hackamore.approvals.requests import AnswerTo


def running(state: str = "READY") -> Any:
    """Return a session in a state; callbacks look at it when they are cancelled."""
    return SimpleNamespace(session_id="session-1", state=SimpleNamespace(name=state))


def asked(
    tool: str = "Bash", conversation: str | None = "talk", session: Any = None, **given: object
) -> PermissionRequest:
    """Return a request of the CLI; `given` is the input of the tool."""
    frame = {
        "subtype": "can_use_tool",
        "tool_name": tool,
        "input": given or {"command": "make"},
        "tool_use_id": f"call-{time.monotonic_ns()}",
    }
    reach = Reach(lambda: session or running(), conversation)
    request: PermissionRequest = decode_permission_request(json.dumps(frame).encode(), session=reach)
    return request


async def first_pending(approvals: Approvals, count: int = 1) -> ApprovalRequest:
    """Wait until `count` requests wait; return the last one."""
    with anyio.fail_after(patience(20)):
        while len(found := await anyio.to_thread.run_sync(approvals.pending)) < count:
            await anyio.sleep(0.01)  # another task writes it down
    return found[-1]


async def answered_with(
    approvals: Approvals, request: PermissionRequest, *answers: AnswerTo, before: Any = None, cwd: str | None = None
) -> AnswerTo:
    """Ask, and answer each request that comes with the next answer; call `before` before the first of them. Return what the CLI gets."""
    result: list[AnswerTo] = []

    async def ask() -> None:
        result.append(await approvals.permit(request, cwd=cwd))
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        for number, answer in enumerate(answers):
            pending = await first_pending(approvals)
            if before is not None and number == 0:
                before()
            await anyio.to_thread.run_sync(partial(approvals.answer, pending.id, answer, by="ada"))
    return result[0]
