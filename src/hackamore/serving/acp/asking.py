"""Questions of the CLI as requests to the client: permissions, questions of the model, questions of MCP servers.

An answer that is not understood is a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp import RequestError, schema
from acp.helpers import text_block, tool_content
from pydantic import ValidationError

from hackamore.activity.words import as_list, one_line
from hackamore.dialogs import ElicitationResult
from hackamore.permissions import Allow, Deny, SetMode
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp import Client

    from hackamore.dialogs import ElicitationRequest
    from hackamore.permissions import PermissionRequest

CANCELLED = Deny("The user cancelled the request.", interrupt=True)
"""The answer when the user closed the request: it ends the turn."""
_REJECTED = Deny("The user rejected this tool call.")
_LOST = Deny("The editor did not answer the permission request.")
_EDITS = Allow(updated_permissions=(SetMode(mode="acceptEdits"),))
_FAILURES = (RequestError, ConnectionError, ValidationError)
_QUESTION_TOOL = "AskUserQuestion"


async def permit(request: PermissionRequest) -> Allow | Deny:
    """Answer a permission request: the option `can_use_tool` of every conversation of an editor."""
    answer = getattr(request.caller, "permit", None)
    found: Allow | Deny = _LOST if answer is None else await answer(request)
    return found


async def elicit(request: ElicitationRequest) -> ElicitationResult:
    """Answer a question of an MCP server: the option `on_elicitation` of every conversation of an editor."""
    answer = getattr(request.caller, "elicit", None)
    found: ElicitationResult = ElicitationResult.decline() if answer is None else await answer(request)
    return found


class Asker:
    """Asks the user of one conversation; `forms` and `urls`: whether the client shows forms and opens addresses."""

    def __init__(self, client: Client, session_id: str, *, forms: bool, urls: bool) -> None:
        self._client, self._session_id = client, session_id
        self._forms, self._urls = forms, urls

    async def permit(self, request: PermissionRequest, shown: Mapping[str, Any]) -> Allow | Deny:
        """Ask for permission, with what the user is shown of the call."""
        questions = request.input.get("questions") if request.tool_name == _QUESTION_TOOL else None
        if isinstance(questions, list) and questions:
            return await self._questions(request, [each for each in questions if isinstance(each, dict)])
        offered: dict[str, tuple[str, Any, Allow | Deny]] = {"allow": ("Allow", "allow_once", Allow())}
        always = Allow.always(request)
        rules = [rule for update in always.updated_permissions for rule in getattr(update, "rules", ())]
        if rules:
            names = ", ".join(f"{each.tool_name}({each.rule_content or '*'})" for each in rules)
            offered["allow_always"] = (f"Always allow {one_line(names)}"[:100], "allow_always", always)
        modes = {getattr(each, "mode", None) for each in request.suggestions}
        if "acceptEdits" in modes and shown["kind"] == "edit" and not request.suppress_always_allow_rule:
            offered["accept_edits"] = ("Allow all edits in this session", "allow_always", _EDITS)
        offered["reject"] = ("Reject", "reject_once", _REJECTED)
        if request.decision_reason:  # of a policy, for example
            shown = {**shown, "content": [*shown["content"], tool_content(text_block(request.decision_reason))]}
        call = schema.ToolCallUpdate(tool_call_id=request.tool_use_id, status="pending", **shown)
        chosen = await self._choose(call, {key: (name, kind) for key, (name, kind, _) in offered.items()})
        if chosen is None:
            return CANCELLED
        return offered[chosen][2] if chosen in offered else _LOST

    async def _choose(self, call: schema.ToolCallUpdate, offered: Mapping[str, tuple[str, Any]]) -> str | None:
        """Return the id of the option that the user chose; None if the request was cancelled, empty without a usable answer."""
        options = [schema.PermissionOption(option_id=key, name=n, kind=kind) for key, (n, kind) in offered.items()]
        try:
            answer = await self._client.request_permission(self._session_id, call, options)
        except _FAILURES as error:
            logger.warning("a permission request was not answered: %s", one_line(error)[:300])
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else None

    async def _questions(self, request: PermissionRequest, questions: list[dict[str, Any]]) -> Allow | Deny:
        """Ask the questions of the model one after the other, with an option for each label: every client shows them."""
        answers: dict[str, str] = {}
        for each in questions:
            text = str(each.get("question", ""))
            options = [option.get("label") for option in as_list(each.get("options")) if isinstance(option, dict)]
            labels = {f"answer_{len(answers)}_{place}": str(label) for place, label in enumerate(options)}
            call = schema.ToolCallUpdate(tool_call_id=request.tool_use_id, status="pending", title=text, kind="other")
            offered = {key: (label, "allow_once") for key, label in labels.items()}
            chosen = await self._choose(call, {**offered, "reject": ("Do not answer", "reject_once")})
            if chosen not in labels:
                return CANCELLED if chosen is None else Deny("The user did not answer the question.")
            answers[text] = labels[chosen]
        return Allow(updated_input={**request.input, "answers": answers})

    async def elicit(self, request: ElicitationRequest) -> ElicitationResult:
        """Ask the user for what an MCP server needs. A client that cannot declines."""
        fields: dict[str, Any] = {"session_id": self._session_id, "requested_schema": request.requested_schema}
        kind: Any = schema.ElicitationFormSessionMode if self._forms else None
        if request.mode != "form":
            fields |= {"elicitation_id": request.elicitation_id, "url": request.url}
            kind = schema.ElicitationUrlSessionMode if self._urls and request.mode == "url" else None
        if kind is None:
            return ElicitationResult.decline()
        try:
            answer = await self._client.create_elicitation(
                f"{request.mcp_server_name}: {request.message}", kind(**fields)
            )
        except _FAILURES as error:
            logger.warning("a question was not answered: %s", one_line(error)[:300])
            return ElicitationResult.decline()
        if isinstance(answer, schema.AcceptElicitationResponse):
            return ElicitationResult.accept(answer.content or {})
        cancelled = isinstance(answer, schema.CancelElicitationResponse)
        return ElicitationResult.cancel() if cancelled else ElicitationResult.decline()
