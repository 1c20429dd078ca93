"""The servers of this process: their messages (JSON-RPC), which one a message is for, and how they are replaced while a session runs.

Nothing here waits. A replacement is a generator: it yields what is to be sent and is given the answer, so both shells drive the same one.
`hackamore.runtime.mcp_objects.serve` moves the messages between an `ObjectRun` and a server object of the `mcp` package.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from hackamore._engine.answering.jobs import Callee, Job, RpcCall
from hackamore.checked.functions import Answer
from hackamore.errors import ControlRejectedError, HackamoreError, escape_terminal
from hackamore.options.observing import CallbackCall
from hackamore.tools import mcp_instance
from hackamore.tools.server import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from hackamore._engine.answering.jobs import Jobs, JobState
    from hackamore._engine.protocol.connection import Connection
    from hackamore.messages.results import McpServersChange
    from hackamore.tools import ToolCallPlan


ACKNOWLEDGEMENT: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "result": {}}
"""The answer to a notification."""


class Head(msgspec.Struct):
    """A message as far as it has to be read to pass it on; without an id it is a notification."""

    id: int | float | str | None = None
    method: str | None = None
    params: Raw = Raw()

    @classmethod
    def of(cls, message: bytes | Raw) -> Head:
        """Return the head of a message; an empty one if it cannot be read."""
        try:
            return _head(message)
        except ValueError:
            return cls()

    @property
    def cancelled_id(self) -> Any:
        """The id of the call that a `notifications/cancelled` names; None if it names none."""
        try:
            return _cancelled(self.params).request_id
        except ValueError:
            return None


class _Cancelled(msgspec.Struct):
    request_id: int | float | str | None = msgspec.field(default=None, name="requestId")


_head = msgspec.json.Decoder(Head).decode
_cancelled = msgspec.json.Decoder(_Cancelled).decode


class _CallMeta(msgspec.Struct):
    tool_use_id: str | None = msgspec.field(default=None, name="claudecode/toolUseId")


class _Call(msgspec.Struct):
    name: str
    arguments: Any = None
    meta: _CallMeta = msgspec.field(default_factory=_CallMeta, name="_meta")


_call = msgspec.json.Decoder(_Call).decode


def describe_call(about: CallbackCall, server: str, head: Head) -> CallbackCall:
    """Return a call with the tool that its message calls, if it calls one."""
    if head.method != "tools/call":
        return about
    try:
        call = _call(head.params)
    except ValueError:
        return about  # the server reports it
    tool = f"mcp__{server}__{call.name}"
    return about._replace(tool=tool, tool_use_id=call.meta.tool_use_id, request=call.arguments)


def answered(answer: Any) -> Answer:
    """Return the answer of a server as the CLI expects it."""
    result = answer.get("result")
    failed = "error" in answer or (isinstance(result, dict) and result.get("isError"))
    return Answer({"mcp_response": answer}, "failed" if failed else "answered")


def failed(message_id: Any, reason: str) -> Answer:
    """Return the answer to a message that no server answered; a notification is acknowledged."""
    if message_id is None:
        return answered(ACKNOWLEDGEMENT)
    return answered(rpc_error(message_id, INTERNAL_ERROR, escape_terminal(reason, 1_000)))


def tool_job(
    request_id: str, owner: object, server: str, plan: ToolCallPlan, state: JobState, *, timeout: float | None = None
) -> Job:
    """Return the job of a call that a tool server has planned; `owner` is the connection that the call came by."""
    tool = plan.tool
    name, as_model = f"tool `{server}.{tool.name}`", f"mcp__{server}__{tool.name}"
    return Job(
        CallbackCall(request_id, "mcp", name, "", as_model, plan.context.tool_use_id, plan.arguments),
        Callee(name, lambda reason: answered(plan.fail(reason)), tool.function, plan.is_async, timeout),
        state,
        plan.call,
        lambda outcome: answered(plan.finish(outcome)),
        rpc=RpcCall(owner, plan.request_id, plan),
    )


def cancel_call(jobs: Jobs, owner: object, message_id: Any) -> None:
    """End the call that a `notifications/cancelled` names, if it is open."""
    job = jobs.of_call(owner, message_id)
    if job is not None:
        plan = job.rpc.plan if job.rpc is not None else None
        answer = failed(message_id, "The call was cancelled.") if plan is None else answered(plan.cancel())
        jobs.cancel(job, answer)


def send_message(connection: Connection, server: str, message: dict[str, Any]) -> bool:
    """Send a message that a server starts; False if it could not be sent."""
    if connection.state.over:
        return False
    try:
        # Internal: it is not an operation of the user, and a CLI may never answer it.
        connection.exchanges.send_request("mcp_message", {"server_name": server, "message": message}, internal=True)
    except Exception as error:
        connection.log.debug("a message of server %r was not sent: %s", server, error)
        return False
    return True


_CAPABILITIES = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""Requests of a server, and the capability that the client must have declared for each."""


class ObjectRun:
    """One connection to a server object, which the CLI knows as `name`.

    `put`, `cancel` and `close` are called where the core may be touched, the other methods in the event loop of the run. `answered` takes
    the id and the message of each answer, `sent` each notification of the server, and each request that the CLI can answer.
    """

    def __init__(
        self,
        server: Any,
        name: str,
        *,
        answered: Callable[[Any, dict[str, Any]], None],
        sent: Callable[[dict[str, Any]], None],
    ) -> None:
        self.server: Any = mcp_instance(server)
        self.name = name
        self.inbox: deque[bytes] = deque()  # messages that the server has not got yet
        # makes the event loop look at `inbox` and `closing`; set by the loop
        self.wake: Callable[[], None] | None = None
        self.initialized = False  # True once an `initialize` was put in: the next one belongs to another connection
        self.closing: bool = False
        self._answered = answered
        self._sent = sent
        self._capabilities: frozenset[str] = frozenset()

    def put(self, message: bytes) -> None:
        """Hand a message to the server; in order, and without waiting."""
        if not self.closing:
            self.inbox.append(message)
            self._look()

    def cancel(self, message_id: Any) -> None:
        """Tell the server that an answer is not needed: it cancels the work on it."""
        params = {"requestId": message_id, "reason": "the caller no longer waits"}
        self.put(msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def close(self) -> None:
        """End the input of the server; one that does not end by itself is cancelled."""
        self.closing = True
        self._look()

    def _look(self) -> None:
        if self.wake is not None:
            try:
                self.wake()
            except RuntimeError:
                return  # the event loop has ended, and the run with it

    def unreadable(self, message: bytes, error: ValueError) -> None:
        """Answer a message that the package cannot read."""
        message_id = Head.of(message).id
        if message_id is not None:
            text = f"Not a JSON-RPC message that the `mcp` package can read: {escape_terminal(str(error), 300)}"
            self._answered(message_id, rpc_error(message_id, INVALID_REQUEST, text))

    def note_initialize(self, message: bytes) -> None:
        """Remember what the client declares in its `initialize`."""
        try:
            declared = msgspec.json.decode(Head.of(message).params, type=_Declared).capabilities
        except msgspec.DecodeError:
            declared = {}
        self._capabilities = frozenset(declared)

    def received(self, message: dict[str, Any]) -> None:
        message.setdefault("jsonrpc", "2.0")
        if message.get("params", ...) is None:
            del message["params"]  # JSON-RPC has an object or a list here, or nothing
        method = message.get("method")
        if method is None:
            self._answered(message.get("id"), message)
        elif "id" not in message or _CAPABILITIES.get(method) in self._capabilities:
            self._sent(message)
        elif method == "ping":
            self.put(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
        else:
            text = f"`{escape_terminal(method, 100)}` is not supported here: Claude Code does not offer it to servers inside a program."
            self.put(msgspec.json.encode(rpc_error(message["id"], METHOD_NOT_FOUND, text)))


class _Declared(msgspec.Struct):
    capabilities: dict[str, Any] = {}


CLOSE_SECONDS = 3.0
"""How long the end of a session waits for the ends of its servers: a second more than they are given."""


class Entry:
    """A server under the name by which the CLI knows it; `crashed` is why its last connection (`run`) ended by itself, if it did."""

    __slots__ = ("crashed", "name", "run", "server")

    def __init__(self, name: str, server: Any) -> None:
        self.name: str = name
        self.server: Any = server
        self.run: ObjectRun | None = None
        self.crashed: str | None = None


class Servers:
    """The servers by name. `drop` takes an entry that the CLI does not know any more."""

    def __init__(self, servers: Mapping[str, Any], drop: Callable[[Entry], None]) -> None:
        self._entries = {name: Entry(name, server) for name, server in servers.items()}
        self._offered: dict[str, Entry] = {}
        self._drop = drop
        # The servers of the last accepted request, which is repeated when a replacement fails half-way.
        self._wire: dict[str, Any] = {name: {"type": "sdk", "name": name} for name in servers}

    def find(self, name: str) -> Entry | None:
        """Return the server that answers for a name: one that the CLI has accepted, or that was just sent to it."""
        return self._entries.get(name) or self._offered.get(name)

    def all(self) -> list[Entry]:
        return [*self._entries.values(), *self._offered.values()]

    def change(
        self, wire: Mapping[str, Any], inside: Mapping[str, Any]
    ) -> Generator[dict[str, Any], McpServersChange, McpServersChange]:
        """Replace the servers, by `wire`, all of them as they are sent, and `inside`, those of this process. One replacement at a time.

        New servers answer while the request is open, because the CLI may call them before it answers. Those that it has answer until
        it has accepted. A name that gets another server is removed first and added again: the CLI connects to a name once, and would
        continue with the tools of the server before.

        Yields the servers to be sent; the answer is sent in, or what was raised instead is thrown in. Returns the changes of both steps.
        """
        replaced = {name for name in inside if name in self._entries and self._entries[name].server is not inside[name]}
        first: McpServersChange | None = None
        before = dict(self._wire)
        previous = {name: entry.server for name, entry in self._entries.items()}
        if replaced:
            # Nothing new yet: what the CLI has begun to connect to, the second request would make it connect to again.
            kept = {name: server for name, server in inside.items() if name in self._entries and name not in replaced}
            told = {name: wire[name] for name in wire if name in before and name not in replaced}
            first = yield from self._step(told, kept)
        try:
            change = yield from self._step(dict(wire), dict(inside))
        except ControlRejectedError:
            if first is not None:
                with contextlib.suppress(HackamoreError):  # the first error explains more
                    yield from self._step(before, previous)
            raise
        if first is None:
            return change
        added = [*first.added, *change.added]
        removed = [*first.removed, *change.removed]
        return msgspec.structs.replace(change, added=added, removed=removed, errors={**first.errors, **change.errors})

    def _step(
        self, wire: dict[str, Any], inside: Mapping[str, Any]
    ) -> Generator[dict[str, Any], McpServersChange, McpServersChange]:
        offered = {name: Entry(name, server) for name, server in inside.items() if name not in self._entries}
        self._offered = offered
        try:
            change = yield wire
        except ControlRejectedError:
            self._offered = {}
            for entry in offered.values():
                self._drop(entry)  # the CLI may have connected to it before it refused
            raise
        except BaseException:
            # It may have been accepted: both can be reached until the next replacement.
            self._entries.update(offered)
            self._offered = {}
            raise
        self._offered = {}
        self._entries.update(offered)
        self._wire = wire
        for name in [name for name in self._entries if name not in inside]:
            self._drop(self._entries.pop(name))
        return change
