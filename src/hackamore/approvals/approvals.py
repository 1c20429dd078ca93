"""`Approvals`: the option that asks people, and what any process does with the requests.

A request is **warm** while its callback waits: the answer goes to that call. After `hold` seconds, or when the host
is gone, it is **cold**: the record stays, and the conversation needs no process. Once it is answered, a program continues the conversation
(`answered`), and the model's next call with the same fingerprint gets the answer from the record, once. Other calls are new requests.

No lock of a request is held while a person thinks: an answer, a use and a withdrawal are each one transaction, and `REQUEST` of `requests`
decides which may follow which.

Each callback has a name of its own in `holder` of its request, and uses an answer only while it is there. A claim, or the same call of a
resumed conversation, takes the name away: so two processes that run one conversation never use one answer.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar

from hackamore.approvals.continuing import Answered, Continuation, ConversationApprovals
from hackamore.approvals.delivering import Courier, announce, named
from hackamore.approvals.fingerprints import fingerprint
from hackamore.approvals.requests import (
    COLUMNS,
    DEADLINE,
    KIND,
    REQUEST,
    AnswerTo,
    ApprovalRequest,
    ElicitationWaits,
    State,
    Trigger,
    Waits,
    denial,
    encode_answer,
    insert,
    not_possible,
    request_of,
    text_of_json,
)
from hackamore.dialogs import ElicitationRequest, ElicitationResult
from hackamore.errors import ApprovalError, escape_terminal
from hackamore.options.bounds import checked_timeout
from hackamore.permissions import Allow, Deny, PermissionRequest
from hackamore.runtime.log import logger
from hackamore.runtime.threads import Call
from hackamore.storage.holders import holder_name, process_name, runs
from hackamore.storage.postgres_store import open_store
from hackamore.storage.sqlite import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hackamore.storage.stores import Cursor, Store

_POLL_SECONDS = 0.25
"""A person does not notice it. One read serves all callbacks of an object."""
_STALE_SECONDS = 2.0
"""After this without a read, each callback reads for itself: the database may be slow, or the process a fork."""
_WARM_SECONDS = 5.0
"""A callback that still waits takes its answer within `_POLL_SECONDS`: after this, none waits, also on another machine."""
_CLAIM_SECONDS = 900.0
"""For how long a claim of another machine counts: its process cannot be looked at."""
_LAST_SECONDS = 5.0
"""How long the database may take once the CLI does not wait for it any more: an end must not hang with it."""
_DATABASE_SECONDS = 45.0
"""How long it may take before, which is longer than SQLite waits for other programs. A stopped server never answers."""
_FAILING_SECONDS = 60.0
"""A server may be started again while a person thinks: only after this the call is denied."""
_THREADS = 16
"""Worker threads for each event loop: a slow database must not use up those of the program."""
_MOST_BYTES = 1_048_576
"""A person cannot review a larger input."""
_OWN = "own"
"""Claims the requests of a conversation that its runner continues."""
_NOT_OWN = f"(claimed IS NULL OR claimed <> '{_OWN}')"
_KINDS: dict[str, Literal["question", "plan"]] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
_TOLD = (
    "title display_name description decision_reason decision_reason_type blocked_path agent_id requires_user_interaction "
    "default_to_no suppress_always_allow_rule mode url"
)
"""Fields of requests that a person may need; those that are not set are left out."""


_Taken: TypeAlias = tuple[State, AnswerTo | None]


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
    claimed: str | None = None

    def print(self) -> str:
        return fingerprint(self.tool, self.given, self.cwd)


class _Wait:
    """A callback that waits for the answer to a call."""

    def __init__(self, call: _Call, courier: Courier) -> None:
        self.call = call
        self.courier = courier  # `close` replaces that of the object
        self.holder = holder_name()
        self.id = ""  # of its request; empty until it is on record
        self.over = False  # no answer is used from here on
        self.cold = False  # its turn ends, and the request waits on without it
        self.withdraw = False  # its turn was interrupted
        self.used: ApprovalRequest | None = None  # the request whose answer it has


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
            conversation when it is resumed. None waits for the whole `timeout`.
        approvers: the people who may see and answer a request, or a function of the request that returns them; None if all people may.
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
        self._approvers = approvers if callable(approvers) else _names(approvers)
        self._tags = tags if callable(tags) else _pairs(tags)
        seconds = checked_timeout(timeout)
        if seconds is None or not 0 < seconds < float("inf"):
            raise ValueError(f"`timeout` must be a positive number of seconds, got {timeout!r}")
        self._timeout = seconds
        self._otherwise = otherwise
        self._hold = checked_timeout(hold)
        self._notify = named(notify)
        self._remind = checked_timeout(remind)
        self._use_place(place)

    def _use_place(self, place: str | os.PathLike[str]) -> None:
        self._waits: set[_Wait] = set()
        self._reading = threading.Lock()
        self._pending: frozenset[str] = frozenset()  # the requests without an answer, at `_looked`
        self._looked = float("-inf")
        self._store: Store = open_store(KIND, place)
        self._courier = Courier(self._store, self._notify, self._settle)

    def __repr__(self) -> str:
        return f"Approvals({self._store.title!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process opens the same database with."""
        names = ("_timeout", "_otherwise", "_hold", "_approvers", "_tags", "_notify", "_remind")
        return {**{name: getattr(self, name) for name in names}, "place": self._store.address}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop("place")
        vars(self).update(state)
        self._use_place(place)

    def close(self) -> None:
        """Send what is due to notifiers, for a few seconds at most, and close the database; the next call opens it again."""
        courier, self._courier = self._courier, Courier(self._store, self._notify, self._settle)
        courier.close()
        self._store.close()

    def deliver(self, seconds: float | None = None) -> int:
        """Send announcements to the notifiers that this object has, in the calling thread's time.

        While a callback waits in this process, its announcements are sent without this call. A worker sends those of all processes: also
        reminders of requests that wait on without a process, and what a receiver did not accept before.

        Args:
            seconds: for how long; 0 sends what is due now. None sends until another thread calls `close`.

        Returns:
            The number of messages that notifiers have taken.

        Raises:
            ApprovalError: the database cannot be used; with other values than 0 this is logged, and tried again.
        """
        courier = self._courier
        before = courier.delivered
        courier.deliver(seconds)
        return courier.delivered - before

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
        return self._listed("state = 'waiting'", conversation, by, groups)

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
        return self._listed("state <> 'waiting'", conversation, by, groups, f"asked DESC, id DESC LIMIT {int(limit)}")

    def get(self, id: str) -> ApprovalRequest:
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

    def answer(self, id: str, answer: AnswerTo, *, by: str, groups: Sequence[str] = ()) -> ApprovalRequest:
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
            ApprovalError: it was answered before (`request` of the error says by whom), is cancelled or over, does not exist, or the
                person may not answer it; or the database cannot be used.
            ValueError: `by` is empty.
        """
        if not by or by == DEADLINE or not str(by).isprintable() or not isinstance(by, str):
            raise ValueError(f"`by` must be the name of the person who answers, got {by!r:.100}")

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

    def withdraw(self, id: str) -> None:
        """Cancel a request: no person can answer it any more, and an answer that no call had counts for nothing.

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
        mine = "conversation = :key AND state = 'answered'"
        take = f"UPDATE requests SET claimed = :me, claimed_at = :now, holder = NULL WHERE {mine}"
        open_ones = (
            f"SELECT {', '.join(_Open._fields)} FROM requests r WHERE state = 'answered' AND conversation <> '' AND {_NOT_OWN} AND "
            "NOT EXISTS (SELECT 1 FROM requests w WHERE w.conversation = r.conversation AND w.state = 'waiting') ORDER BY answered"
        )

        def work(cursor: Cursor) -> Continuation | None:
            now = time.time()
            found = [_Open(*row) for row in cursor.rows(open_ones)]
            taken = {each.conversation for each in found if not each.is_free(now)}
            for row in found:
                if row.conversation in taken:
                    continue
                cursor.rows(take, me=_me(), now=now, key=row.conversation)
                requests = _select(cursor, f"{mine} ORDER BY asked, id", key=row.conversation)
                return Continuation(row.conversation, row.session_id, tuple(requests))
            return None

        if not self._store.look(lambda cursor: cursor.rows(open_ones)):
            return None  # the usual case, without a write
        return self._store.transaction(work)

    def done(self, continuation: Continuation) -> None:
        """End a claim, because the conversation was continued: an answer that the model did not ask for again counts for nothing any more.

        Answers that another process has claimed in the meantime are left to it.

        Args:
            continuation: the conversation that `claim` returned in this process.

        Raises:
            ApprovalError: the database cannot be used.
        """
        self._end_claim(continuation, lapse=True)

    def _end_claim(self, continuation: Continuation, *, lapse: bool) -> None:
        """Let the answers that no call has used lapse, or be claimed again."""

        def work(cursor: Cursor) -> None:
            for each in continuation.requests:
                mine = "SELECT 1 FROM requests WHERE id = :id AND state = 'answered' AND claimed = :me"
                if cursor.rows(mine, id=each.id, me=_me()) and lapse:
                    self._move(cursor, self._one(cursor, each.id), Trigger.LAPSE)
                cursor.rows("UPDATE requests SET claimed = NULL WHERE id = :id AND claimed = :me", id=each.id, me=_me())

        self._store.transaction(work)

    def release(self, continuation: Continuation) -> None:
        """Give back a conversation that could not be continued: `claim` returns it again, in this process or another one.

        Args:
            continuation: the conversation that `claim` returned.

        Raises:
            ApprovalError: the database cannot be used.
        """
        self._end_claim(continuation, lapse=False)

    def answered(self) -> Answered:
        """Return the conversations that can be continued, one at a time, for ever. Several loops and processes share them.

        A conversation is done when its loop takes the next one. If the body raises or leaves the loop, it is given back.

        Returns:
            An object for `async for`, and for `for` in blocking programs.

        Raises:
            ApprovalError: the database cannot be used.

        Example:
            ::

                async for waiting in approvals.answered():
                    async with pool.conversation(waiting.conversation) as session:
                        turn = await session.send(waiting.prompt)
                        await turn.result()
        """
        return Answered(self)

    def conversation(self, key: str) -> ConversationApprovals:
        """Return the value of the option `approvals` for a conversation that your program continues by itself, as a fleet does.

        `claim` and `answered` leave it out.

        Args:
            key: the name of the conversation.

        Returns:
            The value, and the answers of this conversation.
        """
        return ConversationApprovals(
            partial(self.permit, own=key),
            partial(self.elicit, own=key),
            partial(self._unused, key),
            partial(self._withdraw_all, key),
        )

    def waiting(self) -> set[str]:
        """Return the names of the conversations that have a request without an answer.

        Returns:
            The names, as in `ApprovalRequest.conversation`.

        Raises:
            ApprovalError: the database cannot be used.
        """
        self._settle()
        sql = "SELECT DISTINCT conversation FROM requests WHERE state = 'waiting'"
        return {key for (key,) in self._store.look(lambda cursor: cursor.rows(sql))}

    def _unused(self, key: str) -> Continuation | None:
        found = self._listed("state = 'answered'", key, None, ())
        return Continuation(key, found[-1].session_id, tuple(found)) if found else None

    def _withdraw_all(self, key: str) -> None:
        for request in self.pending(conversation=key):
            with suppress(ApprovalError):  # it has been answered meanwhile
                self.withdraw(request.id)

    async def permit(
        self, request: PermissionRequest, *, cwd: str | None = None, own: str | None = None
    ) -> Allow | Deny:
        """Return the answer of a person to a permission request; a session calls it.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session, for paths in the input; None for the current one.
            own: the name of a conversation that its runner continues by itself; None for that of the pool or session.

        Returns:
            The answer. `Deny` with `interrupt` if the request waits on without the turn.

        Raises:
            ApprovalError: the database cannot be used: the call is denied.
        """
        kind, tool = _KINDS.get(request.tool_name, "tool"), request.tool_name
        call: _Call = await _in_thread(partial(self._call, request, cwd, own))
        call = call._replace(kind=kind, call=request.tool_use_id, tool=tool, given=request.input)
        if request.suggestions_raw:
            call.details["suggestions"] = msgspec.json.decode(request.suggestions_raw)
        answer = await self._asked(call, request)
        if not isinstance(answer, str):
            return answer if isinstance(answer, (Allow, Deny)) else Deny("The answer is not one to a call.")
        return Waits("This call waits for the answer of a person. It has not run.", interrupt=True, pending=answer)

    async def elicit(
        self, request: ElicitationRequest, *, cwd: str | None = None, own: str | None = None
    ) -> ElicitationResult:
        """Return the answer of a person to a request of an MCP server; a session calls it.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session, for paths in the input; None for the current one.
            own: as for `permit`.

        Returns:
            The answer; it is cancelled if the request waits on without the turn.

        Raises:
            ApprovalError: the database cannot be used: the request is declined.
        """
        given = {"message": request.message, "schema": request.requested_schema}
        call = (await _in_thread(partial(self._call, request, cwd, own)))._replace(
            tool=request.mcp_server_name, given=given
        )
        answer = await self._asked(call, request)
        if isinstance(answer, str):
            return ElicitationWaits("cancel", pending=answer)
        return answer if isinstance(answer, ElicitationResult) else ElicitationResult.decline()

    def _call(self, request: Any, cwd: str | None, own: str | None) -> _Call:
        session_id = getattr(request.session, "session_id", None)
        return _Call(
            conversation=own or request.conversation or session_id or "",
            session_id=session_id,
            details={name: value for name in _TOLD.split() if (value := getattr(request, name, None)) is not None},
            cwd=os.path.abspath(cwd or os.curdir),
            approvers=_names(self._approvers(request) if callable(self._approvers) else self._approvers),
            tags=_pairs(self._tags(request) if callable(self._tags) else self._tags),
            claimed=_OWN if own else None,
        )

    async def _asked(self, call: _Call, request: Any) -> AnswerTo | str:
        """Return the answer to a call; the id of its request if it did not come in time, or the CLI does not wait any more."""
        wait = _Wait(call, self._courier)
        _waiting.add(wait.holder)
        self._waits.add(wait)
        used = False
        try:
            with self._courier.working():
                answer = await self._held(wait, request)
            used = answer is not None
            return wait.id if answer is None else answer
        except BaseException as error:
            # A call that a failure has denied needs no answer any more.
            wait.withdraw = isinstance(error, Exception) or not _stops(request.session)
            raise
        finally:
            wait.over = True
            self._waits.discard(wait)
            _waiting.discard(wait.holder)
            if wait.id and not used:
                try:
                    with anyio.CancelScope(shield=True):
                        await self._use(wait, _LAST_SECONDS, self._leave, wait)
                except ApprovalError as error:  # the holder of the record is gone, and others see that
                    logger.warning("the request %s stays on record as it was: %s", wait.id, error)

    async def _held(self, wait: _Wait, request: Any) -> AnswerTo | None:
        hold = float("inf") if self._hold is None or not wait.call.conversation else self._hold
        until = anyio.current_time() + hold
        follows: str | None = None
        while True:
            opened = await self._use(wait, _DATABASE_SECONDS, self._open, wait, follows)
            state, answer = await self._answered(wait, opened, until, request)
            if state is State.CHANGED:
                follows = opened.id  # the call is another one than that which the person saw
            elif state is State.WITHDRAWN:
                return Deny("The request for this call was cancelled. It has not run.")
            else:
                # Nothing is awaited here: a caller that is cancelled would lose the answer.
                request.__dict__["(approval)"] = wait.used
                return answer

    async def _answered(self, wait: _Wait, opened: ApprovalRequest, until: float, request: Any) -> _Taken:
        """Wait for the answer of a request; `WAITING` if it waits on without this callback."""
        # The clock of the machine may be set back meanwhile.
        deadline, whole = opened.deadline, opened.deadline - opened.asked_at
        last = anyio.current_time() + min(max(deadline - time.time(), 0.0), whole)
        failing: float | None = None
        while True:
            now = anyio.current_time()
            late = now >= last or time.time() >= deadline
            cold = wait.cold or request.cancelled or now >= until
            try:
                seconds = min(_DATABASE_SECONDS, max(min(until, last) - now, _LAST_SECONDS))
                if late or cold or await self._is_over(wait, seconds):
                    found: _Taken = await self._use(wait, seconds, self._take, wait, deadline if late else 0.0)
                    if found[0] is not State.WAITING:
                        return found
                failing = None
            except ApprovalError as error:
                failing = now if failing is None else failing
                ends = late or wait.cold or request.cancelled
                if ends or not error.retryable or now - failing > _FAILING_SECONDS:
                    raise
                cold = False  # it is not known yet whether there is an answer
            if cold:
                for each in tuple(self._waits) if now >= until else ():
                    # The turn ends for all of its calls, also those of subagents.
                    each.cold = each.cold or each.call.conversation == wait.call.conversation
                wait.withdraw = not wait.cold and not _stops(request.session)
                return State.WAITING, None
            # Thousands that wait share a processor with those that work.
            await anyio.sleep(_POLL_SECONDS * (1 + len(self._waits) / 500))

    async def _is_over(self, wait: _Wait, seconds: float) -> bool:
        """Return whether a request may have an answer. Of all callbacks of this object, one reads the database."""
        if time.monotonic() - self._looked > _POLL_SECONDS and not self._reading.locked():
            await self._use(wait, seconds, self._read)
        return wait.id not in self._pending or time.monotonic() - self._looked > _STALE_SECONDS

    def _read(self) -> None:
        if self._reading.acquire(blocking=False):
            try:
                began = time.monotonic()
                held = "SELECT id FROM requests WHERE state = 'waiting' AND holder IS NOT NULL"  # thousands may wait without a callback
                rows = self._store.look(lambda cursor: cursor.rows(held))
                self._pending, self._looked = frozenset(name for (name,) in rows), began
            finally:
                self._reading.release()

    async def _use(self, wait: _Wait, seconds: float, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method that uses the database in a worker thread, which is left alone if it takes too long."""

        def whole() -> Any:
            try:
                return work(*arguments)
            finally:
                if (
                    self._courier is not wait.courier
                ):  # closed meanwhile, and opened again by a callback or thread that is late
                    self._store.close()

        with anyio.move_on_after(seconds):
            return await _in_thread(whole)
        raise KIND.failed(self._store.title, StorageError(f"did not answer within {seconds:g} s.", "failed"))

    def _open(self, wait: _Wait, follows: str | None) -> ApprovalRequest:
        """Return the request for a call: that of an earlier process, or a new one, which is written down before it is announced."""
        call = wait.call
        given, details = _shown(call.tool, call.given), _shown(call.tool, call.details)
        mark = call.print()

        def work(cursor: Cursor) -> ApprovalRequest:
            now = time.time()
            self._expire(cursor, now)
            earlier = cursor.rows(
                "SELECT id, tool, fingerprint, holder FROM requests WHERE conversation = :key AND conversation <> '' "
                "AND state IN ('waiting', 'answered') ORDER BY asked, id",
                key=call.conversation,
            )
            # Two equal calls of one turn are two requests: the first one has a callback that waits.
            left = [(name, tool, known) for name, tool, known, holder in earlier if not _holds(holder)]
            for name, _, known in left:
                if known == mark:
                    change = "UPDATE requests SET holder = :me, call = :call WHERE id = :id"
                    cursor.rows(change, me=wait.holder, call=call.call, id=name)
                    return self._one(cursor, name)
            same = [name for name, tool, known in left if tool == call.tool]
            name = secrets.token_hex(8)  # no id begins with `-`, as flags of the command do
            names = ("conversation", "session_id", "call", "kind", "tool", "claimed")
            values = {each: getattr(call, each) for each in names}
            values |= {"input": given, "details": details, "tags": text_of_json(call.tags), "fingerprint": mark}
            values |= {"approvers": None if call.approvers is None else text_of_json(call.approvers)}
            values |= {"follows": follows or (same[-1] if same else None), "holder": wait.holder}
            insert(cursor, "requests", id=name, state="waiting", asked=now, deadline=now + self._timeout, **values)
            request = self._one(cursor, name)
            self._announce(cursor, request, "asked", now)
            return request

        opened = self._store.transaction(work)
        wait.id = opened.id
        if wait.over:  # the callback has ended meanwhile, and left this thread alone
            self._leave(wait)
        return opened

    def _take(self, wait: _Wait, now: float) -> _Taken:
        """Use the answer of a request, if there is one and the call is still what the person saw; `now` is the time at least."""
        seen = self._store.look(lambda cursor: self._one(cursor, wait.id))
        if seen.state == "waiting" and max(time.time(), now) < seen.deadline:
            return State.WAITING, None
        mark = wait.call.print()  # before the transaction: files may be slow

        def work(cursor: Cursor) -> _Taken:
            self._expire(cursor, max(time.time(), now))
            request = self._one(cursor, wait.id)
            state = State[request.state.upper()]
            [(holder, asked_for)] = cursor.rows("SELECT holder, fingerprint FROM requests WHERE id = :id", id=wait.id)
            if holder != wait.holder:  # another process continues the conversation
                return State.LAPSED, None
            if state is State.USED:  # by this callback, which did not hear of it: a connection was lost
                wait.used = request
                return state, request.answer
            if state is not State.ANSWERED or wait.over:
                return state, None
            if asked_for != mark and isinstance(request.answer, Allow):
                self._move(cursor, request, Trigger.CHANGE)
                return State.CHANGED, None
            self._move(cursor, request, Trigger.USE, used=time.time(), call=wait.call.call)
            wait.used = request
            return State.USED, request.answer

        return self._store.transaction(work)

    def _leave(self, wait: _Wait) -> None:
        """Free a request that a callback does not wait for any more; after an interruption of its turn, take it back."""

        def work(cursor: Cursor) -> None:
            mine = "SELECT 1 FROM requests WHERE id = :id AND holder = :me AND state IN ('waiting', 'answered')"
            if wait.withdraw and cursor.rows(mine, id=wait.id, me=wait.holder):
                self._move(cursor, self._one(cursor, wait.id), Trigger.WITHDRAW)
            cursor.rows("UPDATE requests SET holder = NULL WHERE id = :id AND holder = :me", id=wait.id, me=wait.holder)

        self._store.transaction(work)

    def _listed(
        self, where: str, key: str | None, by: str | None, groups: Sequence[str], order: str = "asked, id"
    ) -> list[ApprovalRequest]:
        self._settle()
        where += f" AND (:all OR conversation = :key) ORDER BY {order}"
        found = self._store.look(lambda cursor: _select(cursor, where, all=key is None, key=key or ""))
        return [each for each in found if by is None or each.may_be_answered_by(by, groups)]

    def _one(self, cursor: Cursor, name: str) -> ApprovalRequest:
        for found in _select(cursor, "id = :id", id=name):
            return found
        raise _unknown(name)

    def _move(self, cursor: Cursor, request: ApprovalRequest, trigger: Trigger, **values: object) -> None:
        state = REQUEST.get((State[request.state.upper()], trigger))
        if state is None:
            raise not_possible(request, trigger)
        sets = ", ".join(f"{name} = :{name}" for name in ("state", *values))
        cursor.rows(f"UPDATE requests SET {sets} WHERE id = :id", id=request.id, state=state.name.lower(), **values)
        if trigger is Trigger.WITHDRAW:
            self._announce(cursor, request, "withdrawn", time.time())

    def _settle(self) -> None:
        """Answer what is past its deadline."""
        late = "SELECT 1 FROM requests WHERE state = 'waiting' AND deadline <= :now LIMIT 1"
        now = time.time()
        if self._store.look(lambda cursor: cursor.rows(late, now=now)):
            self._store.transaction(lambda cursor: self._expire(cursor, now))

    def _expire(self, cursor: Cursor, now: float) -> None:
        for request in _select(cursor, "state = 'waiting' AND deadline <= :now", now=now):
            answer = denial(request.kind, "No person answered in time.", interrupt=self._otherwise == "interrupt")
            text = encode_answer(answer, request.kind)
            self._move(cursor, request, Trigger.ANSWER, answer=text, answered_by=DEADLINE, answered=now)
            self._announce(cursor, request, "expired", now)

    def _announce(self, cursor: Cursor, request: ApprovalRequest, event: str, now: float) -> None:
        """Write down what is to be delivered, in the transaction of its cause: it is neither lost nor made up."""
        announce(cursor, self._one(cursor, request.id), event, now, notifiers=self._notify, remind=self._remind)


class _Open(NamedTuple):
    conversation: str
    session_id: str | None
    holder: str | None
    answered: float
    claimed: str | None
    claimed_at: float | None

    def is_free(self, now: float) -> bool:
        """Return whether no callback waits for the answer, and no program continues the conversation. Clocks may be set back."""
        if self.claimed is not None and (alive := runs(self.claimed)) is not False:
            return alive is None and abs(now - (self.claimed_at or 0.0)) > _CLAIM_SECONDS
        return not _holds(self.holder, unknown=True) or abs(now - self.answered) > _WARM_SECONDS


_waiting: set[str] = set()
"""The holders of requests in this process: of all objects, as two may have one file."""
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("hackamore-approvals")


def _holds(holder: str | None, *, unknown: bool = False) -> bool:
    """Return whether a callback waits for a request; `unknown` is the answer for one of another machine."""
    if holder is None or holder in _waiting:
        return holder is not None
    alive = runs(holder)
    return unknown if alive is None else alive and not holder.startswith(f"{_me()}|")


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Call a function in a thread that does not keep the program from ending."""
    try:
        limiter = _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(_THREADS))
    async with limiter:
        call = Call(work)
        try:
            return await call.wait()
        finally:
            call.leave()


def _me() -> str:
    return process_name(os.getpid())


def _names(found: Any) -> tuple[str, ...] | None:
    """Return the people who may answer."""
    if found is None:
        return None
    names = () if isinstance(found, (str, bytes)) else tuple(found)
    if isinstance(found, (str, bytes)) or not all(isinstance(each, str) for each in names):
        raise TypeError(
            f"`approvers` must be a list of names, None, or a function that returns one, got {found!r:.100}"
        )
    return names


def _pairs(found: Any) -> dict[str, str]:
    pairs = dict(found or {})
    if not all(isinstance(each, str) for pair in pairs.items() for each in pair):
        raise TypeError(f"`tags` must be a dict of str, or a function that returns one, got {found!r:.100}")
    return pairs


def _shown(tool: str, value: Any) -> str:
    """Return a part of a request as JSON; raise ApprovalError if no person can be shown it."""
    try:
        text = text_of_json(value)
        # Later, a record that cannot be read would hide all others.
        if msgspec.json.decode(text) != value:
            problem = "has a number that is too large"
        elif len(text) <= _MOST_BYTES:
            return text
        else:
            problem = f"has {len(text):,} bytes, more than the {_MOST_BYTES:,} that a person can review"
    except (ValueError, OverflowError, RecursionError) as error:
        problem = f"cannot be kept ({type(error).__name__})"
    raise ApprovalError(
        f"The input of {escape_terminal(tool, 100)} {problem}. No person was asked, and the call is denied."
    )


def _stops(session: Any) -> bool:
    """Return whether a session is being stopped, or is gone: then a request stays, for the program that resumes it."""
    return session is None or getattr(getattr(session, "state", None), "name", "") in ("STOPPING", "STOPPED", "FAILED")


def _select(cursor: Cursor, where: str, **values: object) -> list[ApprovalRequest]:
    return [request_of(row) for row in cursor.rows(f"SELECT {COLUMNS} FROM requests WHERE {where}", **values)]


def _unknown(name: object) -> ApprovalError:
    shown = escape_terminal(repr(name), 200)
    return ApprovalError(
        f"There is no request {shown} that you may see. `hackamore approvals list` shows those that wait.", unknown=True
    )


os.register_at_fork(after_in_child=_waiting.clear)
