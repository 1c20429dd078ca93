"""`Approvals`: the option that asks people, and what any process does with the requests.

A request is **warm** while its callback waits: the answer goes to the very call that was asked for. After `hold` seconds, or when the host
is gone, it is **cold**: the record stays, and the conversation needs no process. Once it is answered, somebody continues the conversation
(`answered`), and the model's next call with the same fingerprint gets the answer from the record, once. Any other call is asked anew.

No lock of a request is held while a person thinks: an answer, a use and a withdrawal are each one transaction, and `REQUEST` of `requests`
decides which may follow which.
"""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from hackamore.approvals.fingerprints import fingerprint
from hackamore.approvals.requests import (
    COLUMNS,
    KIND,
    REQUEST,
    AnswerTo,
    ApprovalRequest,
    State,
    Trigger,
    encode_answer,
    not_possible,
    request_of,
)
from hackamore.dialogs import ElicitationRequest, ElicitationResult
from hackamore.errors import ApprovalError, escape_terminal
from hackamore.options.bounds import checked_timeout
from hackamore.permissions import Allow, Deny, PermissionRequest
from hackamore.storage.holders import process_name, runs
from hackamore.storage.postgres_store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from hackamore.storage.stores import Cursor, Store

_INSERT = (
    "INSERT INTO requests (id, conversation, session_id, call, kind, tool, input, details, approvers, tags, fingerprint, follows, "
    "state, holder, asked, deadline) VALUES (:id, :conversation, :session_id, :call, :kind, :tool, :input, :details, "
    ":approvers, :tags, :fingerprint, :follows, 'waiting', :holder, :asked, :deadline)"
)
_POLL_SECONDS = 0.25
"""A person does not notice it, and a waiting session costs one read of a page of memory."""
_WARM_SECONDS = 5.0
"""A callback that still waits takes its answer within `_POLL_SECONDS`: after this, none waits, also on another machine."""
_CLAIM_SECONDS = 900.0
"""For how long a claim of another machine counts: its process cannot be looked at."""
_LAST_SECONDS = 5.0
_KINDS: dict[str, Literal["question", "plan"]] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
_TOLD = (
    "title",
    "display_name",
    "description",
    "decision_reason",
    "decision_reason_type",
    "blocked_path",
    "agent_id",
    "requires_user_interaction",
    "default_to_no",
    "suppress_always_allow_rule",
    "mode",
    "url",
)
"""Fields of requests that a person may need; those that are not set are left out."""


class Continuation(msgspec.Struct, frozen=True):
    """A conversation whose cold requests were answered: continue it with `prompt`.

    Attributes:
        conversation: the key of the conversation in its pool; outside a pool the id of its session.
        session_id: the session of the CLI, for `Options(resume=...)`; None if it is not known.
        requests: the requests, the oldest first.
    """

    conversation: str
    session_id: str | None
    requests: tuple[ApprovalRequest, ...]

    @property
    def prompt(self) -> str:
        """The prompt that makes the model repeat calls that were allowed, and tells it of the others. No text of a call is in it."""
        lines = []
        for request in self.requests:
            name = escape_terminal(request.tool, 100).replace("\n", " ")
            if isinstance(request.answer, Deny):
                lines.append(f"The call of {name} was denied: {request.answer.message}")
            else:
                lines.append(f"The call of {name} was answered. Make it again now, with exactly the same arguments.")
        return "A person has answered what you were waiting for.\n" + "\n".join(lines)


class _Call(NamedTuple):
    """A call that a person is asked about."""

    conversation: str
    session_id: str | None
    details: dict[str, Any]
    cwd: str
    approvers: Sequence[str] | None
    tags: Mapping[str, str]
    kind: str = "elicitation"
    call: str = ""
    tool: str = ""
    given: Any = None

    def print(self) -> str:
        return fingerprint(self.tool, self.given, self.cwd)


class Approvals:
    """Requests that people answer: in a SQLite file, or in PostgreSQL for programs on several machines.

    It is the option `approvals` of sessions, queries, pools and fleets: without a policy each permission request of the CLI goes to it,
    with one each call that the policy does not decide; questions and plans of the model and requests of MCP servers too. Its plain methods
    may be called from any thread and any process; each is one transaction.

    Args:
        place: the path of a SQLite file, which is created, readable by its owner only; or a URL `postgresql://...` (needs
            `hackamore[postgres]`).
        timeout: seconds until `otherwise` is the answer. The clock of the machine counts, as the answer may come from another one.
        otherwise: `deny` denies the call then; `interrupt` also ends the turn.
        hold: seconds for which a call keeps the CLI waiting. After that the turn ends, and the answer is for the same call in the
            conversation when it is resumed. None waits until the deadline.
        approvers: the people who may see and answer a request, or a function of the request that returns them; None for everybody.
        tags: names and values to keep with each request, or a function of the request that returns them.
        notify: where requests are announced, such as `hackamore.approvals.Webhook(url, secret)`.
        remind: seconds after which an unanswered request is announced again; None for never.

    Raises:
        ApprovalError: the database cannot be used, or another version of Hackamore made it.
        ValueError: `timeout`, `hold`, `remind` or `otherwise` has an impossible value.
        TypeError: `approvers` is a str.
        ImportError: `psycopg` is not installed.

    Example:
        ::

            approvals = Approvals("approvals.db", timeout=86_400)
            options = Options(approvals=approvals)
            # in any process:
            for request in approvals.pending():
                approvals.answer(request.id, Allow(), by="ada")
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        *,
        timeout: float = 86_400.0,
        otherwise: Literal["deny", "interrupt"] = "deny",
        hold: float | None = 300.0,
        approvers: Sequence[str] | Callable[[Any], Sequence[str] | None] | None = None,
        tags: Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None = None,
        notify: Sequence[Any] = (),
        remind: float | None = None,
    ) -> None:
        if otherwise not in ("deny", "interrupt"):
            raise ValueError(
                f"`otherwise` must be 'deny' or 'interrupt', got {otherwise!r}: nothing runs without a yes"
            )
        if isinstance(approvers, str):
            raise TypeError("`approvers` must be a list of names or a function, not a str")
        seconds = checked_timeout(timeout)
        if seconds is None or not 0 < seconds < float("inf"):
            raise ValueError(f"`timeout` must be a positive number of seconds, got {timeout!r}")
        self._timeout = seconds
        self._otherwise = otherwise
        self._hold = checked_timeout(hold)
        self._approvers = approvers
        self._tags = tags
        self._notify = tuple(notify)
        self._remind = checked_timeout(remind)
        self._cold: set[str] = set()  # conversations whose turn ends because a request waits on without them
        self._store: Store = open_store(KIND, place)

    def __repr__(self) -> str:
        return f"Approvals({self._store.title!r})"

    def close(self) -> None:
        """Close the database; the next call opens it again."""
        self._store.close()

    # -- what any process does -----------------------------------------------------------------------------------------

    def pending(
        self, *, by: str | None = None, groups: Sequence[str] = (), conversation: str | None = None
    ) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, the oldest first.

        Args:
            by: only those that this person may see; None for all.
            groups: names that also count for `by`.
            conversation: only those of this conversation.

        Returns:
            The requests.

        Raises:
            ApprovalError: the database cannot be used.
        """
        found = self._listed("state = 'waiting'", conversation)
        return [each for each in found if by is None or each.may_be_answered_by(by, groups)]

    def history(
        self, *, by: str | None = None, groups: Sequence[str] = (), conversation: str | None = None, limit: int = 1_000
    ) -> list[ApprovalRequest]:
        """Return the requests that do not wait any more, the last one first.

        Args:
            by: only those that this person may see; None for all.
            groups: names that also count for `by`.
            conversation: only those of this conversation.
            limit: the most requests to look at.

        Returns:
            The requests.

        Raises:
            ApprovalError: the database cannot be used.
        """
        found = self._listed("state <> 'waiting'", conversation, f"asked DESC, id DESC LIMIT {int(limit)}")
        return [each for each in found if by is None or each.may_be_answered_by(by, groups)]

    def get(self, id: str) -> ApprovalRequest:  # noqa: A002 - as in records of databases
        """Return a request.

        Args:
            id: its name.

        Returns:
            The request.

        Raises:
            ApprovalError: there is none with this name, or the database cannot be used.
        """
        self._settle()
        return self._store.look(lambda cursor: self._one(cursor, id))

    def answer(
        self,
        id: str,  # noqa: A002
        answer: AnswerTo,
        *,
        by: str,
        groups: Sequence[str] = (),
    ) -> ApprovalRequest:
        """Answer a request. The first answer counts.

        Args:
            id: the name of the request.
            answer: `Allow` or `Deny`; `ElicitationResult` for a request of an MCP server. For a question of the model:
                `Allow({**request.input, "answers": {question: label}})`.
            by: the person who answers. Check it before: the name is believed.
            groups: names that count as the person for `approvers`.

        Returns:
            The request with its answer.

        Raises:
            ApprovalError: it was answered before (`request` of the error says by whom), is withdrawn or over, does not exist, or the
                person may not answer it; or the database cannot be used.
            ValueError: `by` is empty.
        """
        if not by or not isinstance(by, str):
            raise ValueError("`by` must be the name of the person who answers")

        def work(cursor: Cursor) -> ApprovalRequest:
            request = self._one(cursor, id)
            if not request.may_be_answered_by(by, groups):
                raise _unknown(id)  # a stranger does not learn that it exists
            now = time.time()
            self._expire(cursor, now)
            request = self._one(cursor, id)
            text = encode_answer(answer, request.kind)
            self._move(cursor, request, Trigger.ANSWER, answer=text, answered_by=by, answered=now)
            self._announce(cursor, request, "answered", now)
            return self._one(cursor, id)

        return self._store.transaction(work)

    def withdraw(self, id: str) -> None:  # noqa: A002
        """Take a request back: nobody can answer it any more, and an answer that no call had counts for nothing.

        Args:
            id: the name of the request.

        Raises:
            ApprovalError: a call had its answer, it does not exist, or the database cannot be used.
        """
        self._store.transaction(lambda cursor: self._move(cursor, self._one(cursor, id), Trigger.WITHDRAW))

    def claim(self) -> Continuation | None:
        """Take a conversation that can be continued: each of its requests is answered, and no callback waits.

        No other process gets the same one, unless this process ends before `done`.

        Returns:
            The conversation; None if there is none at the moment.

        Raises:
            ApprovalError: the database cannot be used.
        """
        self._settle()
        names = "id, conversation, session_id, holder, answered, claimed, claimed_at"
        open_ones = (
            f"SELECT {names} FROM requests r WHERE state = 'answered' AND NOT EXISTS "
            "(SELECT 1 FROM requests w WHERE w.conversation = r.conversation AND w.state = 'waiting') ORDER BY answered"
        )

        def work(cursor: Cursor) -> Continuation | None:
            now = time.time()
            for found in cursor.rows(open_ones):
                row = _Open(*found)
                if not row.is_free(now):
                    continue
                cursor.rows(
                    "UPDATE requests SET claimed = :me, claimed_at = :now WHERE conversation = :key AND state = 'answered'",
                    me=_me(),
                    now=now,
                    key=row.conversation,
                )
                mine = cursor.rows(
                    f"SELECT {COLUMNS} FROM requests WHERE conversation = :key AND state = 'answered' ORDER BY asked, id",
                    key=row.conversation,
                )
                return Continuation(row.conversation, row.session_id, tuple(map(request_of, mine)))
            return None

        if not self._store.look(lambda cursor: cursor.rows(open_ones)):
            return None  # the usual case, without a write
        return self._store.transaction(work)

    def done(self, continuation: Continuation) -> None:
        """Say that a conversation was continued: an answer that the model did not ask for again counts for nothing any more.

        Args:
            continuation: the conversation that `claim` returned.

        Raises:
            ApprovalError: the database cannot be used.
        """

        def work(cursor: Cursor) -> None:
            for each in continuation.requests:
                request = self._one(cursor, each.id)
                if request.state == "answered":
                    self._move(cursor, request, Trigger.LAPSE)

        self._store.transaction(work)

    async def answered(self) -> AsyncIterator[Continuation]:
        """Yield conversations that can be continued, one at a time, for ever; the one before is done when the next one is asked for.

        Yields:
            The conversation, for the body of the loop to continue.

        Raises:
            ApprovalError: the database cannot be used.

        Example:
            ::

                async for waiting in approvals.answered():
                    async with pool.conversation(waiting.conversation) as session:
                        turn = await session.send(waiting.prompt)
                        await turn.result()
        """
        while True:
            found = await anyio.to_thread.run_sync(self.claim)
            if found is None:
                await anyio.sleep(2 * _POLL_SECONDS)
                continue
            yield found
            await anyio.to_thread.run_sync(self.done, found)

    # -- what a session asks -------------------------------------------------------------------------------------------

    async def permit(self, request: PermissionRequest, *, cwd: str | None = None) -> Allow | Deny:
        """Return the answer of a person to a permission request; a session calls it.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session, for paths in the input; None for the current one.

        Returns:
            The answer. `Deny` with `interrupt` if the request waits on without the turn.

        Raises:
            ApprovalError: the database cannot be used: the call is denied.
        """
        call = self._call(request, cwd)._replace(
            kind=_KINDS.get(request.tool_name, "tool"),
            call=request.tool_use_id,
            tool=request.tool_name,
            given=request.input,
        )
        if request.suggestions_raw:
            call.details["suggestions"] = msgspec.json.decode(request.suggestions_raw)
        answer = await self._asked(call, request)
        if isinstance(answer, (Allow, Deny)):
            return answer
        return Deny("This call waits for the answer of a person. It has not run.", interrupt=True)

    async def elicit(self, request: ElicitationRequest, *, cwd: str | None = None) -> ElicitationResult:
        """Return the answer of a person to a request of an MCP server; a session calls it.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session, for paths in the input; None for the current one.

        Returns:
            The answer; it is cancelled if the request waits on without the turn.

        Raises:
            ApprovalError: the database cannot be used: the request is declined.
        """
        given = {"message": request.message, "schema": request.requested_schema}
        call = self._call(request, cwd)._replace(tool=request.mcp_server_name, given=given)
        answer = await self._asked(call, request)
        if isinstance(answer, ElicitationResult):
            return answer
        if isinstance(answer, Deny):
            return ElicitationResult.decline()
        session: Any = request.session
        if session is not None:
            await session.interrupt()
        return ElicitationResult.cancel()

    def _call(self, request: Any, cwd: str | None) -> _Call:
        session_id = getattr(request.session, "session_id", None)
        approvers: Any = self._approvers(request) if callable(self._approvers) else self._approvers
        tags: Any = self._tags(request) if callable(self._tags) else self._tags
        return _Call(
            conversation=request.conversation or session_id or "",
            session_id=session_id,
            details={name: value for name in _TOLD if (value := getattr(request, name, None)) is not None},
            cwd=os.path.abspath(cwd or os.curdir),
            approvers=None if approvers is None else tuple(approvers),
            tags=dict(tags or {}),
        )

    async def _asked(self, call: _Call, request: Any) -> AnswerTo | None:
        """Return the answer to a call; None if it did not come in time, or the CLI does not wait any more."""
        run = anyio.to_thread.run_sync
        self._cold.discard(call.conversation)
        hold = float("inf") if self._hold is None else self._hold
        until = anyio.current_time() + hold
        follows: str | None = None
        while True:
            opened = await run(self._open, call, follows)
            try:
                answer = await self._answered(opened.id, call, request, until)
            finally:
                _waiting.discard(opened.id)
            if not isinstance(answer, _Void):
                if answer is not None:
                    request.__dict__["(approval)"] = await run(self.get, opened.id)  # for observers of the session
                return answer
            follows = opened.id  # the call is another one than that which the person saw

    async def _answered(self, name: str, call: _Call, request: Any, until: float) -> AnswerTo | _Void | None:
        run = anyio.to_thread.run_sync
        while True:
            state, answer = await run(self._take, name, call)
            if state is State.USED:
                return answer
            if state is not State.WAITING:
                return _Void()
            if request.cancelled:
                if call.conversation not in self._cold and not _stops(request.session):
                    with anyio.move_on_after(_LAST_SECONDS, shield=True):
                        await run(self._withdraw_quietly, name)
                return None
            if anyio.current_time() >= until:
                self._cold.add(call.conversation)
                await run(self._let_go, name)
                return None
            await anyio.sleep(_POLL_SECONDS)

    def _open(self, call: _Call, follows: str | None) -> ApprovalRequest:
        """Return the request for a call: that of an earlier process, or a new one, which is written down before anybody is asked."""
        mark = call.print()

        def work(cursor: Cursor) -> ApprovalRequest:
            now = time.time()
            self._expire(cursor, now)
            earlier = [
                request_of(row)
                for row in cursor.rows(
                    f"SELECT {COLUMNS} FROM requests WHERE conversation = :key AND state IN ('waiting', 'answered') ORDER BY asked, id",
                    key=call.conversation,
                )
            ]
            for each in earlier:
                [(known,)] = cursor.rows("SELECT fingerprint FROM requests WHERE id = :id", id=each.id)
                # Two equal calls of one turn are two requests: the first one has a callback that waits in this process.
                if known == mark and each.id not in _waiting:
                    change = "UPDATE requests SET holder = :me, call = :call WHERE id = :id"
                    cursor.rows(change, me=_me(), call=call.call, id=each.id)
                    _waiting.add(each.id)
                    return each
            same = [each for each in earlier if each.tool == call.tool and each.id not in _waiting]
            name = secrets.token_urlsafe(12)
            cursor.rows(
                _INSERT,
                id=name,
                conversation=call.conversation,
                session_id=call.session_id,
                call=call.call,
                kind=call.kind,
                tool=call.tool,
                input=_text(call.given),
                details=_text(call.details),
                approvers=None if call.approvers is None else _text(call.approvers),
                tags=_text(call.tags),
                fingerprint=mark,
                follows=follows or (same[-1].id if same else None),
                holder=_me(),
                asked=now,
                deadline=now + self._timeout,
            )
            request = self._one(cursor, name)
            self._announce(cursor, request, "asked", now)
            _waiting.add(name)
            return request

        return self._store.transaction(work)

    def _take(self, name: str, call: _Call) -> tuple[State, AnswerTo | None]:
        """Use the answer of a request, if there is one and the call is still what the person saw."""
        seen = self._store.look(lambda cursor: self._one(cursor, name))
        if seen.state == "waiting" and time.time() < seen.deadline:
            return State.WAITING, None
        mark = call.print()  # before the transaction: files may be slow

        def work(cursor: Cursor) -> tuple[State, AnswerTo | None]:
            now = time.time()
            self._expire(cursor, now)
            request = self._one(cursor, name)
            if request.state != "answered":
                return State[request.state.upper()], None
            [(asked_for,)] = cursor.rows("SELECT fingerprint FROM requests WHERE id = :id", id=name)
            if asked_for != mark and isinstance(request.answer, Allow):
                self._move(cursor, request, Trigger.CHANGE)
                return State.CHANGED, None
            self._move(cursor, request, Trigger.USE, used=now, call=call.call)
            return State.USED, request.answer

        return self._store.transaction(work)

    def _let_go(self, name: str) -> None:
        self._store.transaction(lambda cursor: cursor.rows("UPDATE requests SET holder = NULL WHERE id = :id", id=name))

    def _withdraw_quietly(self, name: str) -> None:
        def work(cursor: Cursor) -> None:
            request = self._one(cursor, name)
            if request.state == "waiting":
                self._move(cursor, request, Trigger.WITHDRAW)

        self._store.transaction(work)

    # -- the database --------------------------------------------------------------------------------------------------

    def _listed(self, where: str, conversation: str | None, order: str = "asked, id") -> list[ApprovalRequest]:
        self._settle()
        statement = f"SELECT {COLUMNS} FROM requests WHERE {where} AND (:all OR conversation = :key) ORDER BY {order}"
        values = {"all": conversation is None, "key": conversation or ""}
        return [request_of(row) for row in self._store.look(lambda cursor: cursor.rows(statement, **values))]

    def _one(self, cursor: Cursor, name: str) -> ApprovalRequest:
        found = cursor.rows(f"SELECT {COLUMNS} FROM requests WHERE id = :id", id=name)
        if not found:
            raise _unknown(name)
        return request_of(found[0])

    def _move(self, cursor: Cursor, request: ApprovalRequest, trigger: Trigger, **values: object) -> None:
        state = REQUEST.get((State[request.state.upper()], trigger))
        if state is None:
            raise not_possible(request, trigger)
        sets = ", ".join(f"{name} = :{name}" for name in ("state", *values))
        cursor.rows(f"UPDATE requests SET {sets} WHERE id = :id", id=request.id, state=state.name.lower(), **values)

    def _settle(self) -> None:
        """Answer what is past its deadline."""
        late = "SELECT 1 FROM requests WHERE state = 'waiting' AND deadline <= :now LIMIT 1"
        now = time.time()
        if self._store.look(lambda cursor: cursor.rows(late, now=now)):
            self._store.transaction(lambda cursor: self._expire(cursor, now))

    def _expire(self, cursor: Cursor, now: float) -> None:
        late = f"SELECT {COLUMNS} FROM requests WHERE state = 'waiting' AND deadline <= :now"
        for row in cursor.rows(late, now=now):
            request = request_of(row)
            if request.kind == "elicitation":
                answer: AnswerTo = ElicitationResult.decline()
            else:
                answer = Deny("Nobody answered in time.", interrupt=self._otherwise == "interrupt")
            text = encode_answer(answer, request.kind)
            self._move(cursor, request, Trigger.ANSWER, answer=text, answered_by="deadline", answered=now)
            self._announce(cursor, request, "expired", now)

    def _announce(self, cursor: Cursor, request: ApprovalRequest, event: str, now: float) -> None:
        """Write down what is to be delivered, in the transaction of its cause: it is neither lost nor made up."""


class _Void:
    """The answer does not count: the call has changed, or the request was taken back."""


class _Open(NamedTuple):
    id: str
    conversation: str
    session_id: str | None
    holder: str | None
    answered: float
    claimed: str | None
    claimed_at: float | None

    def is_free(self, now: float) -> bool:
        """Return whether no callback waits for the answer, and nobody continues the conversation."""
        if self.claimed is not None and (alive := runs(self.claimed)) is not False:
            return alive is None and now - (self.claimed_at or 0.0) > _CLAIM_SECONDS
        return self.holder is None or runs(self.holder) is False or now - self.answered > _WARM_SECONDS


_waiting: set[str] = set()
"""Requests that callbacks of this process wait for: of all objects, as two may have one file."""


def _me() -> str:
    return process_name(os.getpid())


def _stops(session: Any) -> bool:
    """Return whether a session is being stopped: then a request stays, for whoever resumes it."""
    return getattr(getattr(session, "state", None), "name", "") in ("STOPPING", "STOPPED", "FAILED", "COMPLETED")


def _unknown(name: object) -> ApprovalError:
    shown = escape_terminal(repr(name), 200)
    return ApprovalError(
        f"There is no request {shown} that you may see. `hackamore approvals list` shows those that wait."
    )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


os.register_at_fork(after_in_child=_waiting.clear)
