"""The input of a run: the prompt that it adds to the conversation, and answers to interrupts, which are requests of `Approvals`."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.approvals.page import Given, Person, answer_of
from hackamore.approvals.requests import denial, encode_answer, verdict
from hackamore.errors import ApprovalError, escape_terminal, text_of
from hackamore.serving.agui.events import Event, call_result, custom
from hackamore.serving.agui.failures import Failure, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.continuing import Continuation
    from hackamore.approvals.requests import AnswerTo, ApprovalRequest

_MOST_BYTES = 65_536  # the largest input of a call that a browser gets with an interrupt
_YES_OR_NO: Event = {"approved": {"type": "boolean"}, "message": {"type": "string"}}
_EDIT: Event = {**_YES_OR_NO, "editedArgs": {"type": "object"}}
_ANSWERS: Event = {**_YES_OR_NO, "answers": {"type": "object", "additionalProperties": {"type": "string"}}}
_KINDS = {"tool": ("tool_call", _EDIT), "plan": ("confirmation", _EDIT), "question": ("input_required", _ANSWERS)}
"""The reason of an interrupt of each kind, and the fields of its answer."""
_UNKNOWN = Failure(404, "interrupt_unknown", "This thread has no such interrupt.")


def prompt_of(given: Any) -> list[Event] | str:
    """Return the last user messages and the context of a `RunAgentInput` as a prompt; empty if it ends with another message."""
    blocks: list[Event] = []
    for message in reversed(given.messages):
        if message.role != "user":
            break
        parts = [_text(message.content)] if isinstance(message.content, str) else list(map(_block, message.content))
        blocks[:0] = [part for part in parts if part.get("text") != ""]
    if blocks and given.context:
        lines = "\n".join(f"- {each.description}: {each.value}" for each in given.context)
        blocks.append(_text(f"Context of the application:\n{lines}"))
    return blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else blocks


def _text(text: str) -> Event:
    return {"type": "text", "text": text}


def _block(part: Any) -> Event:
    source: Any = getattr(part, "source", None)
    match part.type, source and source.type:
        case "text", _:
            return _text(part.text)
        case (("image" | "document"), "url"):
            return {"type": part.type, "source": {"type": "url", "url": source.value}}
        case (("image" | "document"), "data"):
            data = {"type": "base64", "media_type": source.mime_type, "data": source.value}
            return {"type": part.type, "source": data}
    raise Refused(400, "invalid_request", f"Messages with a part of the type {part.type!r:.40} are not supported.")


class Asked:
    """The requests of a conversation, for a person; all methods block. `events` are about the answers, for the run that continues."""

    def __init__(self, approvals: Approvals, key: str, person: Person) -> None:
        self.events: list[Event] = []
        self._approvals = approvals
        self._key = key
        self._person = person
        self._found: Continuation | None = None

    def resume(self, entries: Sequence[Any]) -> None:
        """Take the answers of a client, all or none of them, and find the answers that no call has had; raise Refused for the rest."""
        answers = [self._answer(entry) for entry in entries]
        given = {request.id for request, _ in answers}
        if missing := [each for each in self.waiting() if each.id not in given]:
            text = "Calls of this thread wait for a person. Answer each of them in `resume` first."
            raise Refused(409, "interrupt_pending", text, interrupts=[self.interrupt(each) for each in missing])
        for request, answer in answers:
            found = request
            if request.state == "waiting":
                try:
                    found = self._approvals.answer(request.id, answer, by=self._person.name, groups=self._person.groups)
                except ApprovalError as error:
                    if error.request is None:
                        raise
                    found = error.request  # another person was first, or its time is over: that counts
            if found.call and found.answer is not None:
                said = f"A person answered this call ({verdict(found)}). The agent continues with it."
                self.events.append(call_result(found.call, said))
            about = {"interruptId": found.id, "answeredBy": found.answered_by, "answer": verdict(found)}
            self.events.append(custom("approval_answered", about))
        self._found = self._approvals.conversation(self._key).answers()
        if entries and self._found is None:
            raise Refused(409, "interrupt_over", "These interrupts are over: no call waits for their answers.")

    def _answer(self, entry: Any) -> tuple[ApprovalRequest, AnswerTo]:
        try:
            request = self._approvals.get(entry.interrupt_id)
        except ApprovalError as error:
            raise Refused(*_UNKNOWN) if error.unknown else error from None
        if request.conversation != self._key:
            raise Refused(*_UNKNOWN)
        if not request.may_be_answered_by(*self._person):
            raise Refused(403, "forbidden", "You may not answer this interrupt.")
        if entry.status == "cancelled":
            return request, denial(request.kind, "The user cancelled this.")
        try:
            answer = answer_of(request, _given(request, entry.payload))
            encode_answer(answer, request.kind)
        except (ValueError, ApprovalError) as error:
            text = escape_terminal(text_of(error), 500)
            raise Refused(400, "invalid_resume", f"The answer is not understood, nothing was changed: {text}") from None
        return request, answer

    def waiting(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, also those that this person may not see."""
        return self._approvals.pending(conversation=self._key)

    def prompt(self, prompt: Any) -> Any:
        """Return a prompt with the answers before it, if there are any."""
        if self._found is None or not prompt:
            return prompt if self._found is None else self._found.prompt
        return [_text(self._found.prompt), *([_text(prompt)] if isinstance(prompt, str) else prompt)]

    def settle(self) -> None:
        """Cancel answers that the model did not use, although it continued: they must not count for a later call."""
        for request in self._found.requests if self._found is not None else ():
            with suppress(ApprovalError):  # a call had it, as usual
                self._approvals.withdraw(request.id)

    def interrupt(self, request: ApprovalRequest, agent: str = "") -> Event:
        """Return a request as an interrupt; of one that this person may not see, that it waits."""
        content = {"content": request.input.get("schema") or {"type": "object"}}
        reason, fields = _KINDS.get(request.kind) or ("input_required", _YES_OR_NO | content)
        found: Event = {"id": request.id, "reason": reason}
        found["expiresAt"] = datetime.fromtimestamp(request.deadline, UTC).isoformat()
        found |= {"toolCallId": request.call} if request.call else {}
        found |= {"subagentRunId": agent} if agent else {}
        if not request.may_be_answered_by(*self._person):
            return found | {"message": "This waits for another person.", "metadata": {"answerable": False}}
        about: Event = {"answerable": True, "kind": request.kind, "tool": request.tool}
        if len(msgspec.json.encode(request.input)) <= _MOST_BYTES:
            about["input"] = request.input
        schema = {"type": "object", "properties": fields, "required": ["approved"]}
        more = {"message": request.reason or f"Allow {request.tool}?", "responseSchema": schema, "metadata": about}
        return found | more


def _given(request: ApprovalRequest, payload: Any) -> Given:
    """Return an answer in the form of the page of approvals. That page may also add rules for all sessions, which a user must not."""
    fields = dict(payload) if isinstance(payload, dict) else {}
    approved = fields.pop("approved", None)
    if not isinstance(approved, bool) or "action" in fields:
        raise ValueError("it must have `approved`, true or false")
    if "editedArgs" in fields:
        fields["input"] = fields.pop("editedArgs")
    yes, no = ("accept", "decline") if request.kind == "elicitation" else ("allow", "deny")
    dropped = {"message"} if approved or request.kind == "elicitation" else {"input", "answers"}  # of a form
    kept = {name: value for name, value in fields.items() if name not in dropped}
    return msgspec.convert({"action": yes if approved else no, **kept}, Given)
