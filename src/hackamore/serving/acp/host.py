"""The agent: its options, its pool, and the clients that it serves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from acp.agent.connection import AgentSideConnection

from hackamore.aio.pool import SessionPool
from hackamore.options.options import Options
from hackamore.pool.registry import Held, MemoryRegistry, Record
from hackamore.runtime.log import logger
from hackamore.runtime.stdio import standard_streams
from hackamore.serving.acp.asking import elicit, permit
from hackamore.serving.acp.connection import Connection
from hackamore.serving.acp.wire import SocketWire, StdioWire, Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
    from types import TracebackType

    from hackamore.transports.base import TransportSource

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_GRACE_SECONDS = 1.5
"""How long requests have to be answered after the client has closed its end."""


class Conversations(MemoryRegistry):
    """A registry in which the key of a conversation is the id of its session: what the CLI keeps is enough to continue it.

    Attributes:
        stored: the sessions that the CLI has on the disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stored: set[str] = set()

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation; an unknown one has the session of its key."""
        held = super().acquire(key, holder)
        if held.taken and held.record is None:
            return Held(taken=True, record=Record(key, "", said=key in self.stored))
        return held


class Agent:
    """An agent for editors and other clients of the Agent Client Protocol. Made by `hackamore.serving.acp.agent`.

    Args:
        options: settings of all conversations.
        pool: the pool that runs them; None for one of its own.
        max_live: limit on CLI processes of its own pool.
        title: the name that editors show.
        transport: makes connections to the CLI for its own pool; None for local child processes.

    Attributes:
        pool: the pool that runs the conversations.
        options: the settings of all conversations.
        own: True if the pool belongs to the agent.
        title: the name that editors show.

    Example:
        ::

            async with hackamore.serving.acp.agent(options) as agent:
                await agent.serve_stdio()
    """

    __module__ = "hackamore.serving.acp"

    def __init__(
        self,
        options: Options | None,
        pool: SessionPool | None,
        max_live: int,
        title: str,
        transport: TransportSource | None,
    ) -> None:
        base = pool.options if pool is not None else options if options is not None else Options()
        asked = _callbacks(base)
        self.own: bool = pool is None
        self.title: str = title
        self.registry: Conversations = Conversations()
        self.differences: dict[str, Any] = {} if pool is None else asked
        if pool is None:
            pool = SessionPool(
                base.replace(**asked),
                warm=0,
                max_live=max_live,
                timeout=None,
                registry=self.registry,
                transport=transport,
            )
        self.pool: SessionPool = pool
        self.options: Options = pool.options
        self._later: set[asyncio.Task[None]] = set()

    @property
    def keeps(self) -> bool:
        """True if conversations can be loaded."""
        return self.options.persist_session

    async def stored_name(self, session_id: str) -> str:
        """Return the session of the CLI that a conversation is."""
        if self.own:
            return session_id
        found = {each.key: each.session_id for each in await self.pool.conversations()}
        return found.get(session_id, session_id)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self.own:
            await self.pool.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.own:
            await self.pool.stop()

    # -- clients -------------------------------------------------------------------------------------------------------

    async def serve_stdio(self) -> None:
        """Serve the client that started this program on stdin and stdout, until it closes stdin.

        Meanwhile `print` writes to stderr, and stdin is empty for your code. All prompts are stopped at the end.

        Raises:
            RuntimeError: the streams serve another client or tool server.
        """
        with standard_streams() as (source, target):
            await self.serve(StdioWire(source, target))

    async def serve(self, wire: Wire) -> None:
        """Serve a client until it is gone.

        Args:
            wire: its messages.
        """
        made: list[Connection] = []

        def connect(client: Any) -> Any:
            made.append(Connection(self, client))
            return made[0]

        connection = AgentSideConnection(connect, wire, use_unstable_protocol=True)
        try:
            await wire.ended.wait()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await made[0].end()
                    await wire.answered()
            await asyncio.shield(connection.close())

    def app(self, *, origins: Sequence[str] = ()) -> Callable[[Any, Receive, Send], Coroutine[Any, Any, None]]:
        """Return an ASGI application that serves each WebSocket as a client. Log users in before it: a client may run tools.

        Args:
            origins: web pages that may connect, such as `https://agents.example`. Clients that are not browsers name none.

        Returns:
            The application, for `app.mount("/acp", agent.app())` or an ASGI server. The lifespan of the host must enter the agent.

        Example:
            ::

                agent = hackamore.serving.acp.agent(options)
                app = Starlette(routes=[Mount("/acp", agent.app())], lifespan=lambda app: agent)
        """

        async def app(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
            if scope["type"] != "websocket":
                await _refuse(scope, send)
                return
            await receive()  # the request to connect
            origin = dict(scope["headers"]).get(b"origin")
            if origin is not None and origin.decode("latin-1") not in origins:
                logger.warning("a WebSocket of the page %r was refused: add it to `origins`", origin[:200])
                await send({"type": "websocket.close", "code": 1008})
                return
            await send({"type": "websocket.accept"})
            await self.serve(SocketWire(receive, send))

        return app

    def after_answer(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call a function that tells a client about a conversation, when its id was sent."""

        async def call() -> None:
            with suppress(ConnectionError):
                await function()

        task = asyncio.get_running_loop().create_task(call())
        self._later.add(task)
        task.add_done_callback(self._later.discard)


def _callbacks(options: Options) -> dict[str, Any]:
    """Return the options that connect conversations with their editor. Callbacks and approvals of the program stay."""
    found: dict[str, Any] = {"include_partial_messages": True}
    if options.approvals is None:
        if options.can_use_tool is None and options.permission_prompt_tool_name is None:
            found["can_use_tool"] = permit
        if options.on_elicitation is None:
            found["on_elicitation"] = elicit
    return found


async def _refuse(scope: Mapping[str, Any], send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 426, "headers": [(b"upgrade", b"websocket")]})
        await send({"type": "http.response.body", "body": b"Connect with a WebSocket."})
