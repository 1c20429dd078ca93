"""Interrupts are requests of `Approvals`: what a client sees of them, and answers that come with the next run. Everything here blocks."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.approvals.page import Given, Person, answer_of
from hackamore.approvals.requests import denial, encode_answer, verdict
from hackamore.errors import ApprovalError, escape_terminal, text_of
from hackamore.serving.agui.events import Event, call_result, custom
from hackamore.serving.agui.failures import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.continuing import Continuation
    from hackamore.approvals.requests import AnswerTo, ApprovalRequest

_MOST_BYTES = 65_536
"""The largest input of a call that a browser gets with an interrupt."""
_YES_OR_NO = {"approved": {"type": "boolean"}, "message": {"type": "string"}}
_SCHEMAS: dict[str, Event] = {
    "tool": {**_YES_OR_NO, "editedArgs": {"type": "object"}},
    "plan": {**_YES_OR_NO, "editedArgs": {"type": "object"}},
    "question": {**_YES_OR_NO, "answers": {"type": "object", "additionalProperties": {"type": "string"}}},
}
_REASONS = {"tool": "tool_call", "plan": "confirmation", "question": "input_required", "elicitation": "input_required"}


class Asked:
    """The requests of one conversation, for one person.

    Attributes:
        events: events about the answers, for the run that continues.
        continuation: answers that no call had yet; None if there are none.
    """

    def __init__(self, approvals: Approvals, key: str, person: Person) -> None:
        self._approvals = approvals
        self._key = key
        self._person = person
        self.events: list[Event] = []
        self.continuation: Continuation | None = None

    def resume(self, entries: Sequence[Any]) -> None:
        """Take the answers of a client, all or none of them, and find what the conversation can be continued with.

        Raises:
            Refused: an answer is not understood, or is for a request that is not one of this conversation and person, or one is missing.
            ApprovalError: the database cannot be used.
        """
        answers = [self._answer(entry) for entry in entries]
        given = {request.id for request, _ in answers}
        missing = [each for each in self.waiting() if each.id not in given]
        if missing:
            text = "Calls of this thread wait for a person. Answer each of them in `resume` first."
            raise Refused(409, "interrupt_pending", text, interrupts=[self.interrupt(each) for each in missing])
        for request, answer in answers:
            found = request
            if request.state == "waiting":
                try:
                    found = self._approvals.answer(request.id, answer, by=self._person.name, groups=self._person.groups)
                except ApprovalError as error:
                    if error.unknown:
                        raise Refused(403, "forbidden", "You may not answer this interrupt.") from error
                    if error.request is None:
                        raise
                    found = error.request  # another person was first, or its time is over: that counts
            if found.call and found.answer is not None:
                said = f"A person answered this call ({verdict(found)}). The agent continues with it."
                self.events.append({"type": "TOOL_CALL_RESULT", **call_result(found.call, said)})
            about = {"interruptId": found.id, "answeredBy": found.answered_by, "answer": verdict(found)}
            self.events.append(custom("approval_answered", about))
        self.continuation = self._approvals.conversation(self._key).answers()
        if entries and self.continuation is None:
            raise Refused(409, "interrupt_over", "These interrupts are over: no call waits for their answers.")

    def _answer(self, entry: Any) -> tuple[ApprovalRequest, AnswerTo]:
        unknown = Refused(404, "interrupt_unknown", "This thread has no such interrupt.")
        try:
            request = self._approvals.get(entry.interrupt_id)
        except ApprovalError as error:
            raise unknown if error.unknown else error from None
        if request.conversation != self._key:
            raise unknown
        if not request.may_be_answered_by(*self._person):
            raise Refused(403, "forbidden", "You may not answer this interrupt.")
        if entry.status == "cancelled":
            return request, denial(request.kind, "The user cancelled this.")
        try:
            answer = answer_of(request, _given(request, entry.payload))
            encode_answer(answer, request.kind)
        except (ValueError, ApprovalError) as error:
            text = f"The answer to the interrupt is not understood, and nothing was changed: {escape_terminal(text_of(error), 500)}"
            raise Refused(400, "invalid_resume", text) from None
        return request, answer

    def waiting(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, also those that this person may not see."""
        return self._approvals.pending(conversation=self._key)

    def prompt(self, prompt: Any) -> Any:
        """Return a prompt with the answers before it, if there are any."""
        if self.continuation is None:
            return prompt
        about = self.continuation.prompt
        more = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt or ())
        return [{"type": "text", "text": about}, *more] if prompt else about

    def settle(self) -> None:
        """Cancel answers that the model did not use, although it continued: they must not count for a later call."""
        for request in self.continuation.requests if self.continuation is not None else ():
            with suppress(ApprovalError):  # a call had it, as usual
                self._approvals.withdraw(request.id)

    def interrupt(self, request: ApprovalRequest, agent: str = "") -> Event:
        """Return a request as an interrupt; of one that this person may not see, that it waits."""
        found: Event = {"id": request.id, "reason": _REASONS[request.kind]}
        found["expiresAt"] = datetime.fromtimestamp(request.deadline, UTC).isoformat()
        if request.call:
            found["toolCallId"] = request.call
        if agent:
            found["subagentRunId"] = agent
        if not request.may_be_answered_by(*self._person):
            return found | {"message": "This waits for another person.", "metadata": {"answerable": False}}
        about: Event = {"answerable": True, "kind": request.kind, "tool": request.tool}
        if len(msgspec.json.encode(request.input)) <= _MOST_BYTES:
            about["input"] = request.input
        schema = _SCHEMAS.get(request.kind) or {
            **_YES_OR_NO,
            "content": request.input.get("schema") or {"type": "object"},
        }
        found["responseSchema"] = {"type": "object", "properties": schema, "required": ["approved"]}
        return found | {"message": request.reason or f"Allow {request.tool}?", "metadata": about}


def _given(request: ApprovalRequest, payload: Any) -> Given:
    """Return an answer in the form of the page of approvals; that of AG-UI has `approved` in place of `action`."""
    if isinstance(payload, dict) and "action" not in payload:
        fields = dict(payload)
        approved = fields.pop("approved", None)
        if not isinstance(approved, bool):
            raise ValueError("`approved` must be true or false")
        if "editedArgs" in fields:
            fields["input"] = fields.pop("editedArgs")
        yes, no = ("accept", "decline") if request.kind == "elicitation" else ("allow", "deny")
        fields = {name: value for name, value in fields.items() if approved or name == "message"}
        if approved or request.kind == "elicitation":
            fields.pop("message", None)
        payload = {"action": yes if approved else no, **fields}
    return msgspec.convert(payload, Given)
