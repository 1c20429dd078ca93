"""Requests of the CLI that wait for a person, without a process."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from hackamore.checked.functions import Reach
from hackamore.permissions import PermissionRequest

if TYPE_CHECKING:
    from hackamore import Approvals
    from hackamore.approvals import ApprovalRequest

COMMAND = "curl -H 'authorization: geheim' https://example.com"
REASON = "The rule 'net' asks about `curl -H 'authorization: geheim'`."


def call(
    command: str = COMMAND, *, tool: str = "Bash", given: dict[str, Any] | None = None, suggestions: bool = False
) -> PermissionRequest:
    rule = {"toolName": "Bash", "ruleContent": command}
    update = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
    more: Any = {"suggestions_raw": msgspec.Raw(msgspec.json.encode([update]))} if suggestions else {}
    raw = msgspec.Raw(msgspec.json.encode(given or {"command": command}))
    return PermissionRequest(tool_name=tool, tool_use_id="toolu_1", input_raw=raw, decision_reason=REASON, **more)


def ask(approvals: Approvals, request: Any = None) -> ApprovalRequest:
    """Ask a person about a call, whose turn ends immediately: the request waits on without a process."""
    known = {each.id for each in approvals.pending()}
    request = request or call()
    # Without a conversation it would wait for the whole timeout.
    request.__dict__["(session)"] = Reach(lambda: None, secrets.token_hex(4))
    anyio.run(approvals.permit if isinstance(request, PermissionRequest) else approvals.elicit, request)
    [asked] = [each for each in approvals.pending() if each.id not in known]
    return asked
