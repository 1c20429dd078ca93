"""The ASGI app: who may run what, the answers before a stream begins, and the stream."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, quote

import anyio
import anyio.to_thread
import msgspec

from hackamore.approvals.page import Person
from hackamore.errors import text_of
from hackamore.runtime import asgi
from hackamore.runtime.event_loops import woken
from hackamore.runtime.pages import refusal
from hackamore.serving import sse
from hackamore.serving.agui.asking import Asked, prompt_of
from hackamore.serving.agui.failures import Failure, Refused, report
from hackamore.serving.agui.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore.aio.pool import SessionPool
    from hackamore.approvals.approvals import Approvals

OPEN_SECONDS = (
    2.0  # how long a response waits for the first event of the agent: until then a failure has a status of its own
)
HEARTBEAT_SECONDS = 15.0
KEEP_SECONDS = 60.0  # for how long an ended run can be read again
_WAITING = 64  # requests beyond the runs that may be open, such as those that stop a run
_MOST_NAME = 256
_STREAM = {**sse.HEADERS, "Content-Type": sse.MEDIA_TYPE}
_UNKNOWN = Failure(404, "run_unknown", "This thread has no such run, or it ended too long ago.")


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
) -> asgi.App:
    """Return an ASGI app that runs the agents of a pool for front ends that speak AG-UI. Needs `hackamore[agui]`.

    POST of a `RunAgentInput` sends its last user message to the conversation of its thread, and streams the turn as events. GET with
    `threadId` and `runId` reads a run again, from the event after `Last-Event-ID`; DELETE with them stops it.

    Args:
        pool: runs the conversations. `Options(include_partial_messages=True, forward_subagent_text=True)` streams every text.
        identity: a function of the ASGI scope that returns the name of the user, or the name and groups; None refuses the request. It
            must only use what the login has checked. It runs in a worker thread, and may be async. Without it the app answers clients on
            this machine only.
        approvals: the `Approvals` of the options of the pool, with `hold=0`: calls that wait for a person are interrupts.
        origins: addresses of web pages, such as `https://app.example.com`, that may use the app beside those of its own address.
        on_disconnect: `interrupt` stops the run of a client that is gone; `continue` lets it end, for a client that comes back.
        prompt: makes the prompt of a `RunAgentInput`; None for its last user messages and its context.
        max_runs: limit on runs at the same time, and on ended ones that are kept for a minute.
        body_bytes: limit on the body of a request.
        buffer_bytes: limit on the events of a run that are kept for a client that is slow, or comes back.

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
    for name, value in (("max_runs", max_runs), ("body_bytes", body_bytes), ("buffer_bytes", buffer_bytes)):
        if value < 1:
            raise ValueError(f"`{name}` must be positive, got {value!r}")
    read, stops, pages = RunAgentInput.model_validate_json, on_disconnect == "interrupt", asgi.checked_origins(origins)
    limits = (max_runs, body_bytes, buffer_bytes)
    return _App(pool, read, prompt or prompt_of, identity, approvals, pages, stops, *limits)


@dataclass(eq=False)
class _App:
    pool: SessionPool
    read: Callable[[bytes], Any]
    make_prompt: Callable[[Any], Any]
    identity: asgi.Identity | None
    approvals: Approvals | None
    origins: frozenset[str]
    stops: bool
    max_runs: int
    body_bytes: int
    buffer_bytes: int
    requests: int = 0
    active: int = 0
    runs: dict[str, Run] = field(default_factory=dict)  # the last one of each thread
    ended: deque[tuple[float, str, Run]] = field(default_factory=deque)

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "http":
            await asgi.other_than_http(scope, receive, send)
            return
        self.requests += 1
        try:
            if self.requests > self.max_runs + _WAITING:
                raise Refused(429, "too_many_requests", "Too many requests are open. Try again later.", 1)
            await self._serve(scope, receive, send)
        except Refused as refused:
            await _refuse(send, refused.failure, refused.more)
        except Exception as error:
            await _refuse(send, report(error))
        finally:
            self.requests -= 1

    async def _serve(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        named, method = asgi.headers_of(scope), scope["method"]
        headers = dict(named)
        self._check_sender(scope, [value.lower() for name, value in named if name == "host"], headers)
        person = Person("") if self.identity is None else await self._person(scope, self.identity)
        last = headers.get("last-event-id", "")
        if asgi.path_of(scope):
            raise Refused(404, "not_found", "There is nothing at this address.")
        if method not in ("POST", "GET", "DELETE"):
            raise Refused(405, "method_not_allowed", "Only POST, GET and DELETE are possible.")
        if last and not (last.isdecimal() and last.isascii() and len(last) < 16):
            raise Refused(400, "invalid_request", "`Last-Event-ID` must be the id of an event.")
        if method == "POST":
            given = await self._body(headers, receive)
            if given is None:
                return  # the client went away
            thread, name = given.thread_id, given.run_id
        else:
            query = parse_qs(scope["query_string"].decode("latin-1"))
            thread, name = (query.get(each, [""])[0] for each in ("threadId", "runId"))
        key = thread_key(person.name, thread)
        run = self.runs.get(key)
        if method == "POST" and not last:
            run = await self._begin(given, key, person, run)
        elif run is None or run.id != name:
            raise Refused(*_UNKNOWN)
        if method == "DELETE":
            run.stop()
            await asgi.reply(send, 202, {}, b"")
        else:
            await self._follow(run, int(last or 0) + 1, receive, send)

    def _check_sender(self, scope: asgi.Scope, hosts: Sequence[str], headers: dict[str, str]) -> None:
        """Refuse pages of other sites; without a login also other machines, and names that a page may have pointed here."""
        allowed = {*self.origins, *(f"{scheme}://{host}" for host in hosts for scheme in ("http", "https"))}
        known = asgi.Hosts(self.origins) if self.identity is None else hosts
        origin = headers.get("origin", "").lower() or None
        site = "none" if origin else headers.get("sec-fetch-site", "none")  # of an image of another site, for example
        problem = refusal(hosts, known, origin, allowed, site=site)
        address = (scope.get("client") or ("",))[0]
        if problem is not None:
            raise Refused(int(problem[0]), "forbidden", f"{problem[1]} `origins` names the pages that may use this.")
        if self.identity is None and not (address.startswith("127.") or address == "::1"):
            raise Refused(403, "forbidden", "Without `identity` only clients on this machine may use this.")

    async def _person(self, scope: asgi.Scope, identity: asgi.Identity) -> Person:
        if (found := await anyio.to_thread.run_sync(asgi.caller_of, identity, scope)) is None:
            raise Refused(401, "unauthenticated", "Sign in first.")
        return Person(*found)

    async def _body(self, headers: dict[str, str], receive: asgi.Receive) -> Any:
        """Return the `RunAgentInput` of a request; None if its client went away."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "invalid_request", "The body must be JSON, and `Content-Type` `application/json`.")
        size, body = headers.get("content-length", "0"), None
        large = not size.isdecimal() or len(size) > 15 or int(size) > self.body_bytes
        with anyio.move_on_after(asgi.BODY_SECONDS) as limit:
            body = None if large else await asgi.body_of(receive, self.body_bytes)
        if limit.cancelled_caught:
            raise Refused(408, "timeout", "The body did not arrive in time.")
        if large or (body is not None and len(body) > self.body_bytes):
            raise Refused(413, "too_large", f"The body has more than {self.body_bytes:,} bytes.")
        if body is None:
            return None
        try:
            given = self.read(body)
        except (ValueError, RecursionError) as error:
            raise Refused(400, "invalid_request", f"The body is not a RunAgentInput: {text_of(error):.500}") from None
        if all(each.isprintable() and 0 < len(each) <= _MOST_NAME for each in (given.thread_id, given.run_id)):
            return given
        raise Refused(400, "invalid_request", f"`threadId` and `runId` have 1 to {_MOST_NAME} printable characters.")

    async def _begin(self, given: Any, key: str, person: Person, before: Run | None) -> Run:
        if before is not None and (before.id == given.run_id or not before.over):
            raise Refused(409, "run_in_progress", "A run of this thread has not ended, or this one was sent before.")
        if self.active >= self.max_runs:
            raise Refused(429, "too_many_runs", "Too many runs are open. Try again later.", 1)
        prompt, asked = self.make_prompt(given), None
        run = self.runs[key] = Run(given.thread_id, given.run_id, self.buffer_bytes)
        self.active += 1
        try:
            if self.approvals is not None:
                asked = Asked(self.approvals, key, person if person.name else Person("local user"))
                await anyio.to_thread.run_sync(asked.resume, given.resume or ())
                prompt = asked.prompt(prompt)
            elif given.resume:
                raise Refused(404, "interrupt_unknown", "This thread has no such interrupt.")
            if not prompt:
                raise Refused(400, "invalid_request", "`messages` must end with one of the user, or `resume` be set.")
            held = self.pool.conversation(key, caller=person.name or None)
        except BaseException:
            run.fail(_UNKNOWN)
            self._end(key, run)
            raise
        run.start(held, prompt, asked, partial(self._end, key))
        return run

    def _end(self, key: str, run: Run) -> None:
        """Keep an ended run for a while, unless it ended before its first event."""
        self.active -= 1
        now = time.monotonic()
        if run.failure is None:
            self.ended.append((now, key, run))
        elif self.runs.get(key) is run:
            del self.runs[key]
        while self.ended and (len(self.ended) > self.max_runs or now - self.ended[0][0] > KEEP_SECONDS):
            _, old, ended = self.ended.popleft()
            if self.runs.get(old) is ended:
                del self.runs[old]

    async def _follow(self, run: Run, position: int, receive: asgi.Receive, send: asgi.Send) -> None:
        if not run.first <= position <= run.next:
            text = "Events that you have not read are not kept any more. Read the conversation again."
            lost = {"type": "RUN_ERROR", "message": text, "code": "events_lost"}
            return await asgi.reply(send, 200, _STREAM, sse.encode(lost))
        if run.over and position == run.next and run.failure is None:
            return await asgi.reply(send, 204, {}, b"")  # it has all: an EventSource stops here
        reader, gone, began = run.attach(position), False, False

        async def part(body: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            reader.scope.cancel()

        async def write() -> None:
            nonlocal began
            while not run.over and run.next <= 2 and await woken(run.changed, OPEN_SECONDS if run.begun else None):
                pass
            began = True
            if run.failure is not None:
                return await _refuse(send, run.failure)
            run.opened = True
            await send({"type": "http.response.start", "status": 200, "headers": asgi.wire_headers(_STREAM)})
            while (chunk := run.take(reader)) or not run.over:
                if chunk:
                    await part(chunk)
                elif not await woken(run.changed, HEARTBEAT_SECONDS):
                    await part(sse.encode(comment=""))
            return await part(b"", more=False)

        try:
            with reader.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(watch)
                    await write()
                    group.cancel_scope.cancel()
            if reader.scope.cancelled_caught and not gone:  # another client reads it, or this one took nothing
                with anyio.move_on_after(1):
                    await (part(b"", more=False) if began else _refuse(send, _UNKNOWN))
        except* OSError:
            pass  # some servers report so that a client is gone
        finally:
            run.leave(reader, stop=self.stops)


async def _refuse(send: asgi.Send, failure: Failure, more: dict[str, object] | None = None) -> None:
    body = msgspec.json.encode({"error": {"code": failure.code, "message": failure.text, **(more or {})}})
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", "Content-Length": str(len(body))}
    headers |= {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    headers |= {"Allow": "POST, GET, DELETE"} if failure.status == 405 else {}
    await asgi.reply(send, failure.status, headers, body)
