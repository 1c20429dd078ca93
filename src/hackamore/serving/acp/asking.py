"""Questions of the CLI as requests to the client: permissions, questions of the model, questions of MCP servers.

An answer that is not understood is a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp import RequestError, schema
from pydantic import ValidationError

from hackamore.activity.words import one_line
from hackamore.dialogs import ElicitationResult
from hackamore.permissions import Allow, Deny, SetMode
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp import Client

    from hackamore.dialogs import ElicitationRequest
    from hackamore.permissions import PermissionRequest

QUESTION_TOOL = "AskUserQuestion"
_REFUSED = "The user rejected this tool call."
CANCELLED = Deny("The user cancelled the request.", interrupt=True)
"""The answer when the user closed the request: it ends the turn."""
_LOST = Deny("The editor did not answer the permission request.")
_LABEL = 100
_FAILURES = (RequestError, ConnectionError, ValidationError)


async def permit(request: PermissionRequest) -> Allow | Deny:
    """Answer a permission request: the option `can_use_tool` of every conversation of an editor."""
    answer = getattr(request.caller, "permit", None)
    if answer is None:
        return Deny("This conversation has no editor that could answer.")
    found: Allow | Deny = await answer(request)
    return found


async def elicit(request: ElicitationRequest) -> ElicitationResult:
    """Answer a question of an MCP server: the option `on_elicitation` of every conversation of an editor."""
    answer = getattr(request.caller, "elicit", None)
    found: ElicitationResult = ElicitationResult.decline() if answer is None else await answer(request)
    return found


class Asker:
    """Asks the user of one conversation.

    Args:
        client: the client.
        session_id: the conversation.
        forms: whether the client shows forms.
        urls: whether the client opens addresses.
    """

    def __init__(self, client: Client, session_id: str, *, forms: bool, urls: bool) -> None:
        self._client = client
        self._session_id = session_id
        self._forms, self._urls = forms, urls

    async def permit(self, request: PermissionRequest, shown: Mapping[str, Any]) -> Allow | Deny:
        """Ask for permission, with what the user is shown of the call."""
        questions = request.input.get("questions") if request.tool_name == QUESTION_TOOL else None
        if isinstance(questions, list) and questions:
            return await self._questions(request, [each for each in questions if isinstance(each, dict)])
        call = schema.ToolCallUpdate(tool_call_id=request.tool_use_id, status="pending", **shown)
        answers: dict[str, tuple[str, Any, Allow | Deny]] = {"allow": ("Allow", "allow_once", Allow())}
        always = Allow.always(request)
        if always.updated_permissions:
            rules = ", ".join(
                one_line(f"{rule.tool_name}({rule.rule_content})" if rule.rule_content else rule.tool_name)
                for update in always.updated_permissions
                for rule in getattr(update, "rules", ())
            )
            answers["allow_always"] = (f"Always allow {rules}"[:_LABEL], "allow_always", always)
        mode = next(
            (each for each in request.suggestions if isinstance(each, SetMode) and each.mode == "acceptEdits"), None
        )
        if mode is not None and shown.get("kind") == "edit" and not request.suppress_always_allow_rule:
            edits = Allow(updated_permissions=(SetMode(mode=mode.mode),))
            answers["accept_edits"] = ("Allow all edits in this session", "allow_always", edits)
        answers["reject"] = ("Reject", "reject_once", Deny(_REFUSED))
        chosen = await self._choose(call, {key: (name, kind) for key, (name, kind, _) in answers.items()})
        if chosen in answers:
            return answers[chosen][2]
        return CANCELLED if chosen is None else _LOST

    async def _choose(self, call: schema.ToolCallUpdate, offered: Mapping[str, tuple[str, Any]]) -> str | None:
        """Return the id of the option that the user chose; None if the request was cancelled, empty if there was no usable answer."""
        options = [
            schema.PermissionOption(option_id=key, name=name, kind=kind) for key, (name, kind) in offered.items()
        ]
        try:
            answer = await self._client.request_permission(self._session_id, call, options)
        except _FAILURES as error:
            logger.warning("a permission request was not answered: %s", one_line(error)[:300])
            return ""
        outcome = answer.outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else None

    async def _questions(self, request: PermissionRequest, questions: list[dict[str, Any]]) -> Allow | Deny:
        answers = await (self._by_form(request, questions) if self._forms else self._by_choice(request, questions))
        if answers is None:
            return Deny("The user did not answer the question.")
        return Allow(updated_input={**request.input, "answers": answers})

    async def _by_form(self, request: PermissionRequest, questions: list[dict[str, Any]]) -> dict[str, str] | None:
        fields: dict[str, Any] = {}
        for number, each in enumerate(questions):
            text, header, labels = _question(each)
            options = [{"const": label, "title": label} for label in labels]
            field: dict[str, Any] = {"title": header or text, "description": text}
            if each.get("multiSelect") is True:
                field |= {"type": "array", "items": {"anyOf": options}}
            else:
                field |= {"type": "string", "oneOf": options}
            fields[f"question_{number}"] = field
        form = {"type": "object", "properties": fields, "required": [*fields]}
        texts = "\n".join(_question(each)[0] for each in questions)
        found = await self._form(texts, form, request.tool_use_id)
        if found.action != "accept":
            return None
        answers = {}
        for number, each in enumerate(questions):
            value = (found.content or {}).get(f"question_{number}")
            chosen = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            if not chosen or not all(isinstance(one, str) for one in chosen):
                return None
            answers[_question(each)[0]] = ", ".join(chosen)
        return answers

    async def _by_choice(self, request: PermissionRequest, questions: list[dict[str, Any]]) -> dict[str, str] | None:
        """Ask one question after the other, with an option for each label: for clients without forms."""
        answers = {}
        for number, each in enumerate(questions):
            text, _, labels = _question(each)
            call = schema.ToolCallUpdate(tool_call_id=request.tool_use_id, status="pending", title=text, kind="other")
            offered: dict[str, tuple[str, Any]] = {
                f"answer_{number}_{place}": (label, "allow_once") for place, label in enumerate(labels)
            }
            chosen = await self._choose(call, {**offered, "reject": ("Do not answer", "reject_once")})
            if chosen not in offered:
                return None
            answers[text] = offered[chosen][0]
        return answers

    async def elicit(self, request: ElicitationRequest) -> ElicitationResult:
        """Ask the user for what an MCP server needs. A client that cannot declines."""
        message = f"{request.mcp_server_name}: {request.message}"
        if request.mode == "form" and self._forms:
            return await self._form(message, request.requested_schema, None)
        if request.mode == "url" and self._urls and request.url and request.elicitation_id:
            try:
                mode = schema.ElicitationUrlSessionMode.model_validate(
                    {"sessionId": self._session_id, "elicitationId": request.elicitation_id, "url": request.url}
                )
            except ValidationError:
                return ElicitationResult.decline()
            return await self._create(message, mode)
        return ElicitationResult.decline()

    async def _form(self, message: str, form: Mapping[str, Any], call: str | None) -> ElicitationResult:
        try:
            wanted = schema.ElicitationSchema.model_validate(form)
        except ValidationError as error:
            logger.warning("a form cannot be shown by an editor: %s", one_line(error)[:300])
            return ElicitationResult.decline()
        mode = schema.ElicitationFormSessionMode(
            session_id=self._session_id, tool_call_id=call or None, requested_schema=wanted
        )
        return await self._create(message, mode)

    async def _create(self, message: str, mode: Any) -> ElicitationResult:
        try:
            answer = await self._client.create_elicitation(message, mode)
        except _FAILURES as error:
            logger.warning("a question was not answered: %s", one_line(error)[:300])
            return ElicitationResult.cancel()
        match answer:
            case schema.AcceptElicitationResponse():
                return ElicitationResult.accept(answer.content or {})
            case schema.DeclineElicitationResponse():
                return ElicitationResult.decline()
        return ElicitationResult.cancel()


def _question(given: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """Return the text of a question, its heading, and the labels of its options."""
    options = given.get("options")
    labels = [each.get("label") for each in options if isinstance(each, dict)] if isinstance(options, list) else []
    return (
        str(given.get("question", "")),
        str(given.get("header", "")),
        [label for label in labels if isinstance(label, str)],
    )
