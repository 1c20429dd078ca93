"""The methods of the protocol, for one client."""

from __future__ import annotations

import os
import uuid
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from acp import RequestError, schema
from anyio import create_task_group

from hackamore._version import __version__
from hackamore.errors import HackamoreError, OptionsError, SessionNotFoundError
from hackamore.messages import AuthenticationError, ResultError
from hackamore.serving.acp.asking import Asker
from hackamore.serving.acp.conversation import Conversation
from hackamore.serving.acp.prompts import folder, invalid, prompt_of, servers_of
from hackamore.transcripts import aio as stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from acp import Client

    from hackamore import transcripts

P = ParamSpec("P")
T = TypeVar("T")

PROTOCOL_VERSION = 1
LOGIN = "claude-login"
_PAGE = 50
"""Conversations in one answer of `session/list`."""


def _answering(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Turn the errors of Hackamore into those of the protocol."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except RequestError:
            raise
        except (HackamoreError, ResultError) as error:
            raise request_error(error) from error

    return call


def request_error(error: Exception) -> RequestError:
    """Return the error of the protocol for one of Hackamore."""
    about = {"details": str(error), "type": type(error).__name__}
    if isinstance(error, AuthenticationError):
        return RequestError.auth_required(about)
    if isinstance(error, SessionNotFoundError):
        return RequestError(-32002, "Resource not found", about)
    if isinstance(error, OptionsError):
        return RequestError.invalid_params(about)
    return RequestError.internal_error(about)


class Connection:
    """One client of an agent, as `agent-client-protocol` calls it.

    Args:
        agent: the `Agent`.
        client: the client.
    """

    def __init__(self, agent: Any, client: Client) -> None:
        self._agent, self._client = agent, client
        self._conversations: dict[str, Conversation] = {}
        self._forms = self._urls = False

    @_answering
    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Announce what works."""
        asks = client_capabilities.elicitation if client_capabilities is not None else None
        self._forms, self._urls = (asks is not None and getattr(asks, name) is not None for name in ("form", "url"))
        keeps, own = self._agent.keeps, self._agent.own
        login = schema.AuthMethodAgent(
            id=LOGIN,
            name="Log in to Claude",
            description="Run `claude` in a terminal and log in, or set ANTHROPIC_API_KEY.",
        )
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="hackamore", title=self._agent.title, version=__version__),
            auth_methods=[login],
            agent_capabilities=schema.AgentCapabilities(
                load_session=keeps,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities() if own and keeps else None,
                    fork=schema.SessionForkCapabilities() if own and keeps else None,
                    resume=schema.SessionResumeCapabilities() if keeps else None,
                    close=schema.SessionCloseCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
        )

    @_answering
    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Accept the login of the CLI: prompts fail without one."""
        if method_id != LOGIN:
            raise invalid(f"There is no login {method_id[:100]!r}: use {LOGIN!r}.")

    # -- conversations -------------------------------------------------------------------------------------------------

    @_answering
    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Start a conversation."""
        one = await self._open(str(uuid.uuid4()), cwd, additional_directories, mcp_servers)
        return schema.NewSessionResponse(session_id=one.key, modes=one.modes, config_options=one.config)

    @_answering
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Show a conversation, and continue it."""
        one = await self._reopen("session/load", session_id, cwd, additional_directories, mcp_servers, shown=True)
        return schema.LoadSessionResponse(modes=one.modes, config_options=one.config)

    @_answering
    async def resume_session(
        self, session_id: str, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Continue a conversation without showing it."""
        one = await self._reopen("session/resume", session_id, cwd, additional_directories, mcp_servers)
        return schema.ResumeSessionResponse(modes=one.modes, config_options=one.config)

    @_answering
    async def fork_session(
        self, session_id: str, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """Continue a copy of a conversation."""
        self._needs("session/fork", self._agent.keeps and self._agent.own)
        folder(cwd, "cwd")
        copy = await stored.fork(_checked_id(session_id), **self._place(), store=self._store)
        one = await self._reopen("session/fork", copy, cwd, additional_directories, mcp_servers)
        return schema.ForkSessionResponse(session_id=copy, modes=one.modes, config_options=one.config)

    @_answering
    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> Any:
        """List the conversations of a folder, or all."""
        self._needs("session/list", self._agent.keeps and self._agent.own)
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise invalid("`cursor` must be the `nextCursor` of an answer.")
        if cwd is not None and not os.path.isabs(cwd):
            raise invalid("`cwd` must be an absolute path.")
        start = int(cursor or 0)
        where: dict[str, Any] = {"project": cwd} if cwd or self._store else {"all_projects": True}
        found = await stored.list(**where, **self._place(), store=self._store, limit=_PAGE + 1, offset=start)
        sessions = [
            schema.SessionInfo(
                session_id=each.session_id,
                cwd=each.cwd or cwd or "/",
                title=each.title or None,
                updated_at=each.modified.astimezone().isoformat(),
            )
            for each in found[:_PAGE]
        ]
        return schema.ListSessionsResponse(
            sessions=sessions, next_cursor=str(start + _PAGE) if len(found) > _PAGE else None
        )

    @_answering
    async def close_session(self, session_id: str, **_: Any) -> None:
        """Stop a conversation; it can be loaded again."""
        one = self._one(session_id)
        del self._conversations[session_id]
        await one.close()

    # -- in a conversation ---------------------------------------------------------------------------------------------

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
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change a setting."""
        one = self._one(session_id)
        await one.set_config(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=one.config)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Stop all prompts: the client is gone."""
        async with create_task_group() as group:
            for one in self._conversations.values():
                group.start_soon(one.cancel)

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def _store(self) -> Any:
        return self._agent.options.session_store

    def _place(self) -> dict[str, Any]:
        """Return the folder of conversations that the options name."""
        given = self._agent.options.env
        if named := given.get("CLAUDE_CONFIG_DIR"):
            return {"config_dir": named}
        home = given.get("HOME")
        return {"config_dir": Path(home, ".claude")} if home and "CLAUDE_CONFIG_DIR" not in os.environ else {}

    def _one(self, session_id: str) -> Conversation:
        one = self._conversations.get(session_id)
        if one is None:
            about = f"There is no open session {session_id[:100]!r}: use `session/new` or `session/load`."
            raise RequestError(-32002, "Resource not found", {"details": about})
        return one

    @staticmethod
    def _needs(method: str, works: bool) -> None:
        if not works:
            raise RequestError.method_not_found(method)

    async def _reopen(
        self, method: str, session_id: str, cwd: str, folders: Any, servers: Any, *, shown: bool = False
    ) -> Conversation:
        self._needs(method, self._agent.keeps)
        _checked_id(session_id)
        folder(cwd, "cwd")
        name = await self._agent.stored_name(session_id)
        old = await stored.read(name, **self._place(), store=self._store)
        if session_id in self._conversations:
            await self._conversations[session_id].cancel()
        if self._agent.own:
            self._agent.registry.stored.add(session_id)
        return await self._open(session_id, cwd, folders, servers, old if shown else None)

    async def _open(
        self, key: str, cwd: str, folders: Any, servers: Any, old: transcripts.Transcript | None = None
    ) -> Conversation:
        options = self._agent.options
        settings: dict[str, Any] = {"cwd": folder(cwd, "cwd"), **self._agent.differences}
        if folders:
            more = [folder(each, "additionalDirectories") for each in folders]
            settings["add_dirs"] = [*options.add_dirs, *more]
        if found := servers_of(servers, options.mcp_servers):
            settings["mcp_servers"] = found
        asker = Asker(self._client, key, forms=self._forms, urls=self._urls)
        one = Conversation(self._client, self._agent.pool, key, settings, asker)
        if old is not None:
            await one.show(stored.stream(old.messages))
        await one.open()
        self._conversations[key] = one
        self._agent.after_answer(one.announce)
        return one


def _checked_id(session_id: str) -> str:
    """Return the id of a stored conversation; raise SessionNotFoundError for what cannot be one."""
    if not session_id or len(session_id) > 200 or not session_id.isprintable() or "/" in session_id:
        raise RequestError(-32002, "Resource not found", {"details": f"There is no session {session_id[:100]!r}."})
    return session_id
