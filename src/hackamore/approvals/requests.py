"""The requests of approvals: their tables, their states, and how a row becomes an object."""

from __future__ import annotations

from enum import auto
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from hackamore.dialogs import ElicitationResult
from hackamore.errors import ApprovalError, escape_terminal
from hackamore.permissions import Allow, Deny, PermissionUpdate, decision_wire
from hackamore.runtime.tables import Member
from hackamore.storage.stores import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.permissions import PermissionUpdateDestination
    from hackamore.storage.stores import Cursor

AnswerTo: TypeAlias = Allow | Deny | ElicitationResult


class Waits(Deny, frozen=True):
    """The denial of a call that waits on without its turn, as the request `pending`."""

    pending: str = ""


class ElicitationWaits(ElicitationResult, frozen=True):
    """The same for a request of an MCP server."""

    pending: str = ""


class State(Member):
    """The state of a request."""

    WAITING = auto()
    ANSWERED = auto()
    """The answer is on record, and no call has had it yet."""
    USED = auto()
    """One call had the answer."""
    CHANGED = auto()
    """The call, or a file that it names, is another one than that which the person saw: the answer counts for nothing."""
    LAPSED = auto()
    """The conversation was continued after the answer, and the model did not repeat the call."""
    WITHDRAWN = auto()
    """The turn was interrupted, or the request was cancelled."""


class Trigger(Member):
    """Events that move a request from one state to the next."""

    ANSWER = auto()
    USE = auto()
    CHANGE = auto()
    LAPSE = auto()
    WITHDRAW = auto()


_S, _H = State, Trigger
REQUEST: dict[tuple[State, Trigger], State] = {
    (_S.WAITING, _H.ANSWER): _S.ANSWERED,
    (_S.WAITING, _H.WITHDRAW): _S.WITHDRAWN,
    (_S.ANSWERED, _H.USE): _S.USED,
    (_S.ANSWERED, _H.CHANGE): _S.CHANGED,
    (_S.ANSWERED, _H.LAPSE): _S.LAPSED,
    (_S.ANSWERED, _H.WITHDRAW): _S.WITHDRAWN,
}
"""Each change of a request. A missing cell is an error for the caller of the change."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS requests (id TEXT PRIMARY KEY, conversation TEXT NOT NULL, session_id TEXT, call TEXT NOT NULL,
    kind TEXT NOT NULL, tool TEXT NOT NULL, input TEXT NOT NULL, details TEXT NOT NULL, approvers TEXT, tags TEXT NOT NULL,
    fingerprint TEXT NOT NULL, follows TEXT, state TEXT NOT NULL, holder TEXT, asked DOUBLE PRECISION NOT NULL,
    deadline DOUBLE PRECISION NOT NULL, answer TEXT, answered_by TEXT, answered DOUBLE PRECISION, used DOUBLE PRECISION, claimed TEXT,
    claimed_at DOUBLE PRECISION)""",
    "CREATE INDEX IF NOT EXISTS of_state ON requests (state, deadline)",
    "CREATE INDEX IF NOT EXISTS of_conversation ON requests (conversation, fingerprint)",
    """CREATE TABLE IF NOT EXISTS deliveries (request TEXT NOT NULL, event TEXT NOT NULL, target TEXT NOT NULL, message TEXT NOT NULL,
    due DOUBLE PRECISION NOT NULL, tries INTEGER NOT NULL DEFAULT 0, claimed TEXT, claimed_at DOUBLE PRECISION, error TEXT,
    PRIMARY KEY (request, event, target))""",
)
"""The tables. A delivery is deleted when its receiver has it."""
DEADLINE = "deadline"
"""The person of the answer that a timeout gives."""
_MAKER = "a program with `Options(approvals=...)`"
KIND = Kind("database of approvals", ApprovalError, TABLES, 1, {}, 0x48634170, "hackamore_approvals", _MAKER)


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a person answers. Its texts were written by the model or by a server: escape them before they are shown.

    Attributes:
        id: the name of the request, for `Approvals.answer`.
        kind: `tool`: a tool is to run; `question`: the model asks (AskUserQuestion); `plan`: a plan is to be carried out (ExitPlanMode);
            `elicitation`: an MCP server asks.
        conversation: the key of the conversation in its pool; outside a pool the id of its session.
        session_id: the session of the CLI; None if it is not known.
        call: the call of the tool, as the CLI names it.
        tool: the tool; for an elicitation the server.
        input: the input of the tool; for an elicitation its message and schema.
        details: the other facts of the CLI, such as `title`, `decision_reason` and `suggestions`.
        approvers: the people who may see and answer it; None if all may.
        tags: names and values of the host.
        state: `waiting`, `answered`, `used`, `changed`, `lapsed` or `withdrawn`.
        asked_at: seconds since 1970.
        deadline: seconds since 1970: from then on the answer is `otherwise`.
        answer: the answer; None as long as there is none.
        answered_by: the person who answered; `deadline` if no person did in time.
        answered_at: seconds since 1970; None as long as there is no answer.
        used_at: the time at which a call had the answer, in seconds since 1970; None if none had.
        follows: an earlier request of the conversation whose answer does not count for this call; None without one.
    """

    id: str
    kind: Literal["tool", "question", "plan", "elicitation"]
    conversation: str
    session_id: str | None = None
    call: str = ""
    tool: str
    input: Mapping[str, Any]
    details: Mapping[str, Any] = {}
    approvers: Sequence[str] | None = None
    tags: Mapping[str, str] = {}
    state: str
    asked_at: float
    deadline: float
    answer: AnswerTo | None = None
    answered_by: str | None = None
    answered_at: float | None = None
    used_at: float | None = None
    follows: str | None = None

    def __repr__(self) -> str:
        # The input may hold secrets, and errors and logs show objects.
        return f"ApprovalRequest(id={self.id!r}, tool={self.tool!r}, state={self.state!r})"

    @property
    def reason(self) -> str:
        """The reason for the request in a sentence; empty if none is known."""
        names = ("decision_reason", "title", "description", "message")
        return next((str(self.details[name]) for name in names if self.details.get(name)), "")

    def always(self, destination: PermissionUpdateDestination = "session") -> Allow:
        """Return the answer that also adds the permission rules that the CLI suggests, as `Allow.always` does.

        Args:
            destination: where the CLI keeps the rules.

        Returns:
            The answer; without suggested rules it allows this call only.
        """
        if self.details.get("suppress_always_allow_rule"):
            return Allow()
        suggested: Any = SimpleNamespace(suppress_always_allow_rule=False)
        suggested.suggestions = map(PermissionUpdate.from_wire, self.details.get("suggestions") or ())
        return Allow.always(suggested, destination)

    def may_be_answered_by(self, person: str, groups: Sequence[str] = ()) -> bool:
        """Return whether a person may see and answer the request.

        Args:
            person: the name of the person.
            groups: names that also count.

        Returns:
            True also if `approvers` is None.
        """
        return self.approvers is None or not {person, *groups}.isdisjoint(self.approvers)


COLUMNS = ", ".join(name.removesuffix("_at") for name in ApprovalRequest.__struct_fields__)


def request_of(values: Sequence[Any]) -> ApprovalRequest:
    """Return the request of the values of `COLUMNS`."""
    row = dict(zip(ApprovalRequest.__struct_fields__, values, strict=True))
    decoded = {name: msgspec.json.decode(row[name] or "null") for name in ("input", "details", "approvers", "tags")}
    row |= {**decoded, "answer": row["answer"] and decode_answer(row["answer"])}
    return ApprovalRequest(**{**row, "approvers": row["approvers"] and tuple(row["approvers"])})


def insert(cursor: Cursor, table: str, **values: object) -> None:
    """Add a row to a table."""
    names = ", ".join(values)
    cursor.rows(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in values)})", **values)


def text_of_json(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def exact(request: ApprovalRequest) -> str:
    """Return the input for people, as JSON: numbers of a browser are not exact."""
    return msgspec.json.format(text_of_json(request.input), indent=2)


def verdict(request: ApprovalRequest) -> str:
    """Return the answer in a word; none as long as there is none."""
    if request.answer is None or isinstance(request.answer, ElicitationResult):
        return "" if request.answer is None else request.answer.action
    return "allow" if isinstance(request.answer, Allow) else "deny"


def denial(kind: str, message: str = "", *, interrupt: bool = False) -> Deny | ElicitationResult:
    """Return a no to a request of a kind."""
    if kind == "elicitation":
        return ElicitationResult.decline()
    return Deny(message or "A person denied it.", interrupt=interrupt)


def encode_answer(answer: object, kind: str) -> str:
    """Return an answer as text; raise ApprovalError if it is none for the kind of the request."""
    expected = (ElicitationResult,) if kind == "elicitation" else (Allow, Deny)
    if not isinstance(answer, expected):
        names = " or ".join(each.__name__ for each in expected)
        raise ApprovalError(f"The answer to this request must be {names}, not {type(answer).__name__}.")
    try:
        if isinstance(answer, ElicitationResult):
            wire: dict[str, Any] = {"action": answer.action, "content": answer.content}
        else:
            wire = decision_wire(answer)
        return text_of_json(wire)
    except ValueError as error:
        raise ApprovalError(f"The answer cannot be stored: {error}.") from None


def decode_answer(text: str) -> AnswerTo:
    """Return the answer that `encode_answer` made a text of."""
    wire = msgspec.json.decode(text)
    if "action" in wire:
        return ElicitationResult(wire["action"], wire["content"])
    if wire["behavior"] == "deny":
        return Deny(wire["message"], interrupt=wire.get("interrupt", False))
    return Allow(
        updated_input=wire.get("updatedInput"),
        updated_permissions=wire.get("updatedPermissions", ()),
        decision_classification=wire.get("decisionClassification"),
    )


def not_possible(request: ApprovalRequest, trigger: Trigger) -> ApprovalError:
    """Return the error for a change that the state of a request does not allow."""
    name = repr(request.id)
    if request.answered_by == DEADLINE:
        text = f"The request {name} timed out, so its call is denied. Nothing was changed."
    elif request.answered_by is not None:
        person = escape_terminal(repr(request.answered_by), 200)
        how = "allowed" if isinstance(request.answer, Allow) else "answered"
        text = f"The request {name} was {how} by {person} before. An answer counts once; nothing was changed."
    else:
        text = (
            f"The request {name} is {request.state}, so `{trigger.name.lower()}` is not possible. Nothing was changed."
        )
    return ApprovalError(text, request=request)
