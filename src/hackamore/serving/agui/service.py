"""The ASGI app: who may run what, the answers before a stream begins, and the stream."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, quote

import anyio
import anyio.to_thread
import msgspec

from hackamore.approvals.page import Person
from hackamore.errors import text_of
from hackamore.runtime import asgi
from hackamore.runtime.log import logger
from hackamore.runtime.pages import refusal
from hackamore.serving import sse
from hackamore.serving.agui.asking import Asked
from hackamore.serving.agui.failures import Failure, Refused, failure_of
from hackamore.serving.agui.prompts import prompt_of
from hackamore.serving.agui.runs import Plan, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore.aio.pool import SessionPool
    from hackamore.approvals.approvals import Approvals

_OPEN_SECONDS = 2.0
"""How long a response waits for the first event of the agent: until then a failure has a status of its own."""
_LAST_SECONDS = 1.0
_THREADS = 8
_WAITING = 64
"""Requests beyond the runs that may be open, such as those that stop a run."""
_MOST_NAME = 256
_STREAM = {**sse.HEADERS, "Content-Type": sse.MEDIA_TYPE}


def thread_key(user: str | None, thread_id: str) -> str:
    """Return the key of a thread in the pool, for `pool.export` and `pool.forget`: no two users share one.

    Args:
        user: the name that `identity` returned; None for an app without it.
        thread_id: the id of the thread, as the client sends it.

    Returns:
        The key.
    """
    return f"{quote(user or '', safe='')}/{thread_id}"


def app(
    pool: SessionPool,
    *,
    identity: asgi.Identity | None = None,
    approvals: Approvals | None = None,
    origins: Sequence[str] = (),
    on_disconnect: Literal["interrupt", "continue"] = "interrupt",
    prompt: Callable[[Any], Any] | None = None,
    max_runs: int = 64,
    body_bytes: int = 1_048_576,
    buffer_bytes: int = 1_048_576,
    timeout: float | None = None,
    heartbeat: float = 15.0,
    keep: float = 60.0,
) -> asgi.App:
    """Return an ASGI app that runs the agents of a pool for front ends that speak AG-UI. Needs `hackamore[agui]`.

    POST of a `RunAgentInput` sends its last user message to the conversation of its thread, and streams the turn as events. GET with
    `threadId` and `runId` reads a run again, from the event after `Last-Event-ID`; DELETE with them stops it.

    Args:
        pool: runs the conversations. `Options(include_partial_messages=True, forward_subagent_text=True)` streams every text.
        identity: a function of the ASGI scope that returns the name of the user, or the name and groups; None refuses the request. It
            must only use what the login has checked. It runs in a worker thread, and may be async. Without it the app answers clients on
            this machine only.
        approvals: the `Approvals` of the options of the pool, with `hold=0`: calls that wait for a person are interrupts, and `resume`
            answers them.
        origins: addresses of web pages, such as `https://app.example.com`, that may use the app beside those of its own address.
        on_disconnect: `interrupt` stops the run of a client that is gone; `continue` lets it end, for a client that comes back.
        prompt: makes the prompt of a `RunAgentInput`; None for its last user messages and its context.
        max_runs: limit on runs at the same time, and on ended ones that are kept.
        body_bytes: limit on the body of a request.
        buffer_bytes: limit on the events of a run that are kept for a client that is slow, or comes back.
        timeout: seconds to wait for a session; None for the timeout of the pool.
        heartbeat: seconds without an event after which a comment is sent.
        keep: seconds for which an ended run can be read again.

    Returns:
        The app. Mount it under a path, or serve it alone.

    Raises:
        ImportError: `ag-ui-protocol` is not installed.
        ValueError: `on_disconnect` has another value, a limit is not positive, or an origin is not `https://host` or `http://host`.

    Example:
        ::

            service.mount("/agent", agui.app(pool, identity=user, approvals=approvals))
    """
    try:
        from ag_ui.core import RunAgentInput
    except ImportError as error:
        raise ImportError("AG-UI needs the package ag-ui-protocol: pip install 'hackamore[agui]'") from error
    if on_disconnect not in ("interrupt", "continue"):
        raise ValueError(f"`on_disconnect` must be 'interrupt' or 'continue', got {on_disconnect!r}")
    for name in ("max_runs", "body_bytes", "buffer_bytes", "heartbeat", "keep"):
        if not (value := locals()[name]) > 0:  # also True for NaN
            raise ValueError(f"`{name}` must be positive, got {value!r}")
    made = _App(pool, RunAgentInput.model_validate_json, prompt or prompt_of, asgi.checked_origins(origins))
    made.identity, made.approvals, made.stops = identity, approvals, on_disconnect == "interrupt"
    made.max_runs, made.body_bytes, made.buffer_bytes = max_runs, body_bytes, buffer_bytes
    made.timeout, made.heartbeat, made.keep = timeout, heartbeat, keep
    return made


class _App:
    identity: asgi.Identity | None
    approvals: Approvals | None
    stops: bool
    max_runs: int
    body_bytes: int
    buffer_bytes: int
    timeout: float | None
    heartbeat: float
    keep: float

    def __init__(
        self, pool: SessionPool, read: Callable[[bytes], Any], prompt: Callable[[Any], Any], origins: frozenset[str]
    ) -> None:
        self._pool = pool
        self._read = read
        self._prompt = prompt
        self._origins = origins
        self._requests = 0
        self._runs: dict[str, Run] = {}  # the last one of each thread
        self._active = 0
        self._ended: deque[tuple[float, str, Run]] = deque()
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "http":
            await asgi.other_than_http(scope, receive, send)
            return
        self._requests += 1
        try:
            if self._requests > self.max_runs + _WAITING:
                raise Refused(429, "too_many_requests", "Too many requests are open. Try again later.", retry_after=1)
            await self._serve(scope, receive, send)
        except Refused as refused:
            await _refuse(send, refused.failure, refused.more)
        except Exception as error:
            failure = failure_of(error)
            logger.error("a request of AG-UI failed (%s): %s", failure.code, text_of(error), exc_info=error)
            await _refuse(send, failure, {})
        finally:
            self._requests -= 1

    async def _serve(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        headers = asgi.headers_of(scope)
        self._check_sender(scope, headers)
        person = await self._person(scope)
        if asgi.path_of(scope):
            raise Refused(404, "not_found", "There is nothing at this address.")
        found = dict(headers)
        last = found.get("last-event-id", "")
        if last and not (last.isdecimal() and last.isascii() and len(last) < 16):
            raise Refused(400, "invalid_request", "`Last-Event-ID` must be the id of an event.")
        if scope["method"] == "POST":
            given = await self._body(found, receive)
            if given is None:
                return  # the client went away
            run = await self._begin(given, person, again=bool(last))
        else:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=8)
            thread, name = query.get("threadId", [""])[0], query.get("runId", [""])[0]
            found_run = self._runs.get(thread_key(person.name, thread))
            if scope["method"] not in ("GET", "DELETE"):
                raise Refused(405, "method_not_allowed", "Only POST, GET and DELETE are possible.")
            if found_run is None or found_run.id != name:
                raise Refused(404, "run_unknown", "This thread has no such run, or it ended too long ago.")
            run = found_run
        if scope["method"] == "DELETE":
            run.stop()
            await asgi.reply(send, 202, {}, b"")
        else:
            await self._follow(run, int(last or 0) + 1, receive, send)

    # -- who, and what -------------------------------------------------------------------------------------------------

    def _check_sender(self, scope: asgi.Scope, headers: Sequence[tuple[str, str]]) -> None:
        """Refuse pages of other sites; without a login also other machines, and names that a page may have pointed here."""
        named = [value.lower() for name, value in headers if name == "host"]
        origin = dict(headers).get("origin")
        allowed = {*self._origins, *(f"{scheme}://{host}" for host in named for scheme in ("http", "https"))}
        hosts = asgi.Hosts(self._origins) if self.identity is None else named
        problem = refusal(named, hosts, origin and origin.lower(), allowed, site="none")
        if problem is not None:
            raise Refused(int(problem[0]), "forbidden", f"{problem[1]} Name this one in `origins`, if it is yours.")
        address = (scope.get("client") or ("",))[0]
        if self.identity is None and not (address.startswith("127.") or address == "::1"):
            raise Refused(403, "forbidden", "Without `identity` only clients on this machine may use this.")

    async def _person(self, scope: asgi.Scope) -> Person:
        if self.identity is None:
            return Person("")
        found = await self._in_thread(partial(asgi.caller_of, self.identity, scope))
        if found is None:
            raise Refused(401, "unauthenticated", "Sign in first.")
        return Person(*found)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    async def _body(self, headers: dict[str, str], receive: asgi.Receive) -> Any:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "invalid_request", "The body must be JSON, and `Content-Type` `application/json`.")
        too_large = Refused(413, "too_large", f"The body has more than {self.body_bytes:,} bytes.")
        if (size := headers.get("content-length", "")).isdecimal() and (len(size) > 15 or int(size) > self.body_bytes):
            raise too_large
        with anyio.move_on_after(asgi.BODY_SECONDS) as limit:
            body = await asgi.body_of(receive, self.body_bytes)
        if limit.cancelled_caught:
            raise Refused(408, "timeout", "The body did not arrive in time.")
        if body is None:
            return None
        if len(body) > self.body_bytes:
            raise too_large
        try:
            given = self._read(body)
            names = (given.thread_id, given.run_id)
            good = all(each.isprintable() and 0 < len(each) <= _MOST_NAME for each in names)
        except (ValueError, RecursionError) as error:
            raise Refused(400, "invalid_request", f"The body is not a RunAgentInput: {text_of(error):.500}") from None
        if not good:
            raise Refused(
                400, "invalid_request", f"`threadId` and `runId` have 1 to {_MOST_NAME} printable characters."
            )
        return given

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def _begin(self, given: Any, person: Person, *, again: bool) -> Run:
        """Return a run that has begun; with `again` the one that the client has read a part of."""
        key = thread_key(person.name, given.thread_id)
        before = self._runs.get(key)
        if before is not None and before.id == given.run_id and again:
            return before
        if again:
            raise Refused(404, "run_unknown", "This thread has no such run, or it ended too long ago.")
        if before is not None and (before.id == given.run_id or not before.over):
            raise Refused(409, "run_in_progress", "A run of this thread has not ended, or this one was sent before.")
        if self._active >= self.max_runs:
            raise Refused(429, "too_many_runs", "Too many runs are open. Try again later.", retry_after=1)
        prompt = self._prompt(given)
        run = self._runs[key] = Run(given.thread_id, given.run_id, self.buffer_bytes)
        self._active += 1
        try:
            asked = None
            if self.approvals is not None:
                asked = Asked(self.approvals, key, person if person.name else Person("local user"))
                await self._in_thread(partial(asked.resume, given.resume or ()))
                prompt = asked.prompt(prompt)
            elif given.resume:
                raise Refused(404, "interrupt_unknown", "This thread has no such interrupt.")
            if not prompt:
                raise Refused(
                    400, "invalid_request", "`messages` must end with a message of the user, or `resume` be set."
                )
        except BaseException:
            run.over = True
            self._end(key, run, kept=False)
            raise
        plan = Plan(key, person.name or None, prompt, asked)
        run.start(self._pool, plan, self.timeout, lambda run: self._end(key, run, kept=run.failure is None))
        return run

    def _end(self, key: str, run: Run, *, kept: bool) -> None:
        self._active -= 1
        now = time.monotonic()
        if kept:
            self._ended.append((now, key, run))
        elif self._runs.get(key) is run:
            del self._runs[key]
        while self._ended and (len(self._ended) > self.max_runs or now - self._ended[0][0] > self.keep):
            _, old, ended = self._ended.popleft()
            if self._runs.get(old) is ended:
                del self._runs[old]

    async def _follow(self, run: Run, position: int, receive: asgi.Receive, send: asgi.Send) -> None:
        if position > run.next or position < run.first:
            text = "Events that you have not read are not kept any more. Read the conversation again."
            lost = {"type": "RUN_ERROR", "message": text, "code": "events_lost"}
            await asgi.reply(send, 200, _STREAM, sse.encode(lost))
            return
        if run.over and position == run.next and run.failure is None:
            await asgi.reply(send, 204, {}, b"")  # it has all: an EventSource stops here
            return
        reader, gone, began = run.attach(position), False, False

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            reader.scope.cancel()

        async def write() -> None:
            nonlocal began
            while (
                not run.over and run.next <= 2 and await asgi.woken(run.changed, _OPEN_SECONDS if run.begun else None)
            ):
                pass
            began = True
            if run.failure is not None:
                await _refuse(send, run.failure, {})
                return
            start = {"type": "http.response.start", "status": 200, "headers": asgi.wire_headers(_STREAM)}
            await send(start)
            while True:
                if chunk := run.take(reader):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                elif run.over:
                    break
                elif not await asgi.woken(run.changed, self.heartbeat):
                    await send({"type": "http.response.body", "body": sse.encode(comment=""), "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            with reader.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(watch)
                    await write()
                    group.cancel_scope.cancel()
            if reader.scope.cancelled_caught and not gone:  # another client reads it, or this one took nothing
                with anyio.move_on_after(_LAST_SECONDS):
                    if began:
                        await send({"type": "http.response.body", "body": b""})
                    else:
                        await _refuse(send, Failure(409, "run_in_progress", "Another client reads this run."), {})
        finally:
            run.leave(reader, stop=self.stops)


async def _refuse(send: asgi.Send, failure: Failure, more: dict[str, object]) -> None:
    body = msgspec.json.encode({"error": {"code": failure.code, "message": failure.text, **more}})
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", "Content-Length": str(len(body))}
    if failure.retry_after is not None:
        headers["Retry-After"] = str(failure.retry_after)
    if failure.status == 405:
        headers["Allow"] = "POST, GET, DELETE"
    await asgi.reply(send, failure.status, headers, body)
