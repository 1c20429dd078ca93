"""The agent: its options, its pool, and the methods of the protocol for each of its clients."""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from acp import RequestError, schema
from acp.agent.connection import AgentSideConnection

from hackamore._version import __version__
from hackamore.aio.pool import SessionPool
from hackamore.errors import HackamoreError, OptionsError, SessionNotFoundError
from hackamore.messages import AuthenticationError, ResultError
from hackamore.options.options import Options
from hackamore.policy import Policy
from hackamore.pool.registry import Held, MemoryRegistry, Record
from hackamore.runtime.log import logger
from hackamore.runtime.stdio import standard_streams
from hackamore.serving.acp.asking import Asker, elicit, permit
from hackamore.serving.acp.conversation import Conversation
from hackamore.serving.acp.prompts import folder, invalid, prompt_of, servers_of
from hackamore.serving.acp.wire import SocketWire, StdioWire, Wire
from hackamore.transcripts import aio as stored

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

_GRACE_SECONDS = 1.5
"""How long requests have to be answered after the client has closed its end."""
_VERSION = 1
_LOGIN = "claude-login"
_HOW = "Run `claude` in a terminal and log in, or set ANTHROPIC_API_KEY."
_NOT_FOUND, _FAILED = -32002, -32603
_CODES = {AuthenticationError: -32000, SessionNotFoundError: _NOT_FOUND, OptionsError: -32602}
ROOTS = ("root", "repo")
_PAGE = 50  # conversations in one answer of `session/list`


class Conversations(MemoryRegistry):
    """A registry whose keys are the ids of sessions; `stored` are those that the CLI has on the disk."""

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

    Attributes:
        pool: the pool that runs the conversations; `own` is True if it belongs to the agent.
        options: the settings of all conversations; `keeps` is True if these can be loaded.
        title: the name that editors show.
        registry: the conversations of a pool of its own.
        differences: the options that conversations need beside those of a pool of the program.
        policy: the file of a policy, for each conversation with its folder as root.
    """

    __module__ = "hackamore.serving.acp"
    policy: str | os.PathLike[str] | None = None

    def __init__(
        self, options: Options | None, pool: SessionPool | None, live: int, title: str, transport: Any
    ) -> None:
        base = pool.options if pool is not None else options if options is not None else Options()
        asked = _callbacks(base)
        self.own: bool = pool is None
        self.title: str = title
        self.registry: Conversations = Conversations()
        self.differences: dict[str, Any] = {} if pool is None else asked
        if pool is None:
            asking = base.replace(**asked)
            pool = SessionPool(asking, warm=0, max_live=live, registry=self.registry, transport=transport)
        self.pool: SessionPool = pool
        self.options: Options = pool.options
        self.keeps: bool = self.options.persist_session

    async def __aenter__(self) -> Self:
        if self.own:
            await self.pool.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.own:
            await self.pool.stop()

    async def serve_stdio(self) -> None:
        """Serve the client that started this program on stdin and stdout, until it closes stdin.

        Meanwhile `print` writes to stderr, and stdin is empty for your code. All prompts are stopped at the end.

        Raises:
            RuntimeError: the streams serve another client or tool server.
        """
        with standard_streams() as (source, target):
            await self.serve(StdioWire(source, target))

    async def serve(self, wire: Wire) -> None:
        """Serve a client until it is gone; `wire` has its messages."""
        methods: Any = Connection(self)
        connection = AgentSideConnection(methods, wire, use_unstable_protocol=True)
        try:
            await wire.ended.wait()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await methods.end()
                    await wire.answered()
            await asyncio.shield(connection.close())

    def app(self, *, origins: Sequence[str] = ()) -> Callable[[Any, Any, Any], Coroutine[Any, Any, None]]:
        """Return an ASGI application that serves each WebSocket as a client. Log users in before it: a client may run tools.

        Args:
            origins: web pages that may connect, such as `https://agents.example`. Clients that are not browsers name none.

        Returns:
            The application, for `app.mount("/acp", agent.app())` or an ASGI server. The lifespan of the host must enter the agent.
        """

        async def app(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "websocket":
                raise RuntimeError(f"the application of an agent takes WebSockets, not {scope['type']}")
            await receive()  # the request to connect
            origin = dict(scope["headers"]).get(b"origin")
            if origin is not None and origin.decode("latin-1") not in origins:
                logger.warning("a WebSocket of the page %r was refused: add it to `origins`", origin[:200])
                await send({"type": "websocket.close", "code": 1008})
                return
            await send({"type": "websocket.accept"})
            await self.serve(SocketWire(receive, send))

        return app


def _callbacks(options: Options) -> dict[str, Any]:
    """Return the options that connect conversations with their editor. Callbacks and approvals of the program stay."""
    found: dict[str, Any] = {"include_partial_messages": True}
    if options.approvals is None:
        if options.can_use_tool is None and options.permission_prompt_tool_name is None:
            found["can_use_tool"] = permit
        if options.on_elicitation is None:
            found["on_elicitation"] = elicit
    return found


def _answering(method: Any) -> Any:
    """Turn the errors of Hackamore into those of the protocol."""

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except (HackamoreError, ResultError) as error:
            code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), _FAILED)
            raise RequestError(code, str(error), {"type": type(error).__name__}) from error

    return call


class Connection:
    """One client of an `Agent`, as `agent-client-protocol` calls it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._conversations: dict[str, Conversation] = {}
        self._forms = self._urls = False

    def on_connect(self, client: Any) -> None:
        """Take the connection, through which the client is reached."""
        self._client = client

    async def initialize(self, client_capabilities: Any = None, **_: Any) -> schema.InitializeResponse:
        """Announce what works."""
        asks = getattr(client_capabilities, "elicitation", None)
        self._forms, self._urls = (getattr(asks, name, None) is not None for name in ("form", "url"))
        keeps = self._agent.keeps
        works = {"close": True, "additionalDirectories": True, "resume": keeps}
        works |= dict.fromkeys(("list", "fork"), keeps and self._agent.own)
        return schema.InitializeResponse.model_validate(
            {
                "protocolVersion": _VERSION,
                "agentInfo": {"name": "hackamore", "title": self._agent.title, "version": __version__},
                "authMethods": [{"id": _LOGIN, "name": "Log in to Claude", "description": _HOW}],
                "agentCapabilities": {
                    "loadSession": keeps,
                    "promptCapabilities": {"image": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": True, "sse": True},
                    "sessionCapabilities": {name: {} for name, does in works.items() if does},
                },
            }
        )

    @_answering
    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Accept the login of the CLI: prompts fail without one."""
        if method_id != _LOGIN:
            raise invalid(f"There is no login {method_id[:100]!r}: use {_LOGIN!r}.")

    @_answering
    async def new_session(self, **given: Any) -> schema.NewSessionResponse:
        """Start a conversation."""
        one = await self._open(str(uuid.uuid4()), given)
        return schema.NewSessionResponse(session_id=one.key, **one.offers)

    @_answering
    async def load_session(self, session_id: str, **given: Any) -> schema.LoadSessionResponse:
        """Show a conversation, and continue it."""
        one = await self._reopen("session/load", session_id, given, shown=True)
        return schema.LoadSessionResponse(**one.offers)

    @_answering
    async def resume_session(self, session_id: str, **given: Any) -> schema.ResumeSessionResponse:
        """Continue a conversation without showing it."""
        one = await self._reopen("session/resume", session_id, given)
        return schema.ResumeSessionResponse(**one.offers)

    @_answering
    async def fork_session(self, session_id: str, **given: Any) -> schema.ForkSessionResponse:
        """Continue a copy of a conversation."""
        _needs("session/fork", self._agent.keeps and self._agent.own)
        if await self._stored(session_id, given) is None:
            copy = await self._open(str(uuid.uuid4()), given)
        else:
            found = await stored.fork(session_id, project=given["cwd"], **self._place)
            copy = await self._reopen("session/fork", found, given)
        return schema.ForkSessionResponse(session_id=copy.key, **copy.offers)

    @_answering
    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> Any:
        """List the conversations of a folder, or all."""
        _needs("session/list", self._agent.keeps and self._agent.own)
        if not (cursor or "0").isdecimal() or len(cursor or "") > 9 or not os.path.isabs(cwd or "/"):
            raise invalid("`cursor` must be the `nextCursor` of an answer, and `cwd` an absolute path.")
        start = int(cursor or 0)
        where: dict[str, Any] = {"project": cwd} if cwd or self._place["store"] else {"all_projects": True}
        found = await stored.list(**where, **self._place, limit=_PAGE + 1, offset=start)
        sessions = [
            {
                "sessionId": each.session_id,
                "cwd": each.cwd or cwd or "/",
                "title": each.title or None,
                "updatedAt": when,
            }
            for each, when in ((one, one.modified.astimezone().isoformat()) for one in found[:_PAGE])
        ]
        more = str(start + _PAGE) if len(found) > _PAGE else None
        return schema.ListSessionsResponse.model_validate({"sessions": sessions, "nextCursor": more})

    @_answering
    async def close_session(self, session_id: str, **_: Any) -> None:
        """Stop a conversation; it can be loaded again."""
        one = self._one(session_id)
        del self._conversations[session_id]
        await one.close()

    @_answering
    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> schema.PromptResponse:
        """Send a prompt; return when its turn is over."""
        return await self._one(session_id).prompt(prompt_of(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the prompts of a conversation."""
        if (one := self._conversations.get(session_id)) is not None:
            await one.cancel()

    @_answering
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        """Change the permission mode."""
        await self._one(session_id).set_mode(mode_id)

    @_answering
    async def set_config_option(self, config_id: str, session_id: str, value: str | bool, **_: Any) -> Any:
        """Change a setting."""
        one = self._one(session_id)
        await one.set_config(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=one.config)

    async def end(self) -> None:
        """Stop all prompts: the client is gone."""
        await asyncio.gather(*(one.cancel() for one in self._conversations.values()))

    @property
    def _place(self) -> dict[str, Any]:
        given, store = self._agent.options.env, self._agent.options.session_store
        named, home = given.get("CLAUDE_CONFIG_DIR"), given.get("HOME")
        if not named and home and "CLAUDE_CONFIG_DIR" not in os.environ:
            named = os.path.join(home, ".claude")
        return {"config_dir": named, "store": store}

    def _one(self, session_id: str) -> Conversation:
        one = self._conversations.get(session_id)
        if one is None:
            about = f"There is no open session {session_id[:100]!r}: use `session/new` or `session/load`."
            raise RequestError(_NOT_FOUND, about)
        return one

    async def _stored(self, session_id: str, given: Any) -> Any:
        """Return an old conversation of a folder; None for one that is open, and had no prompt."""
        where, name = folder(given["cwd"], "cwd"), session_id  # the CLI does not find it from another folder
        if not self._agent.own:  # of a pool of the program only its own conversations, and not all that the CLI has
            name = next((one.session_id for one in await self._agent.pool.conversations() if one.key == name), "")
        try:
            return await stored.read(name, project=where, **self._place)
        except SessionNotFoundError:
            if session_id not in self._conversations:
                raise
        return None

    async def _reopen(self, method: str, session_id: str, given: Any, *, shown: bool = False) -> Conversation:
        _needs(method, self._agent.keeps)
        old = await self._stored(session_id, given)
        if session_id in self._conversations:
            await self._conversations[session_id].cancel()
        if old is not None:
            self._agent.registry.stored.add(session_id)
        return await self._open(session_id, given, old if shown else None)

    async def _open(self, key: str, given: dict[str, Any], old: Any = None) -> Conversation:
        options = self._agent.options
        settings: dict[str, Any] = {"cwd": folder(given["cwd"], "cwd"), **self._agent.differences}
        if self._agent.policy is not None:
            settings["policy"] = Policy.load(self._agent.policy, roots=dict.fromkeys(ROOTS, settings["cwd"]))
        if folders := given.get("additional_directories"):
            settings["add_dirs"] = [*options.add_dirs, *(folder(each, "additionalDirectories") for each in folders)]
        if servers := servers_of(given.get("mcp_servers"), options.mcp_servers):
            settings["mcp_servers"] = servers
        asker = Asker(self._client, key, forms=self._forms, urls=self._urls)
        one = Conversation(self._client, self._agent.pool, key, settings, asker)
        await one.open(None if old is None else stored.stream(old.messages))
        self._conversations[key] = one
        return one


def _needs(method: str, works: bool) -> None:
    if not works:
        raise RequestError.method_not_found(method)
