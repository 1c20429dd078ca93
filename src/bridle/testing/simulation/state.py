"""The state of a simulated session: settings in force, servers, hooks, background tasks, and the counts of its results."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.facts import A_REPLY, ASKING_TOOLS, NO_SUBAGENTS, TOOLS, Tokens
from bridle.testing.simulation.launch import resolve_model
from bridle.testing.simulation.names import split_server

if TYPE_CHECKING:
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.launch import Launch
    from bridle.testing.simulation.names import Task

__all__ = ["SessionState"]


class SessionState:
    """The state that lives as long as the process.

    Attributes:
        launch: the command line and the variables.
        session_id: the id of the conversation.
        model: the model in force.
        mode: the permission mode in force.
        allowed: rules that allow, including those added by the host.
        denied: rules that deny.
        servers: in-process MCP servers by name: their tools, once they are listed.
        hooks: by event: matchers with the ids of their callbacks.
        background: tasks that run in the background, by id.
        checkpoints: prompts that files can be restored to.
        prompt_id: the id of the newest prompt in hooks; None before the first one.
        title: the title that the host has given the session.
        used: the names of tools that were called in this conversation.
        replies: replies of the model in this conversation.
        results: results in this process.
        denials: tools denied since the last result.
        agent_stats: the statistics of subagents.
    """

    def __init__(self, launch: Launch, run: ScriptRun) -> None:
        self.launch = launch
        self._run = run
        self.session_id = self._first_session_id()
        self.model = resolve_model(launch.model)
        self.mode = launch.permission_mode
        self.allowed = list(launch.allowed)
        self.denied = list(launch.disallowed)
        self.servers: dict[str, list[dict[str, Any]]] = {}
        self.disabled_servers: set[str] = set()
        self.dynamic_servers: list[str] = []
        self.hooks: dict[str, list[dict[str, Any]]] = {}
        self.agents: dict[str, Any] = {}
        self.background: dict[str, Task] = {}
        self.checkpoints: set[str] = set()
        self.prompt_id: str | None = None
        self.title: str | None = None
        self.used: set[str] = set()
        self.settings: dict[str, Any] = {}
        self.replies = 0
        self.by_model: dict[str, Tokens] = {}
        self._by_model_before: dict[str, Tokens] = {}
        self.results = 0
        self.denials: list[dict[str, Any]] = []
        self.agent_stats: dict[str, Any] = deepcopy(NO_SUBAGENTS)

    # -- conversations ------------------------------------------------------------------------------------------------

    def _first_session_id(self) -> str:
        launch, known = self.launch, self._run.sessions
        if launch.resume is not None and not launch.fork:
            return launch.resume
        if launch.continues and launch.resume is None and known and not launch.fork:
            return next(reversed(known))
        return launch.session_id or f"51b00000-0000-4000-8000-{len(known) + 1:012x}"

    def open(self) -> str | None:
        """Open the conversation that the command line names; return the reason if that is impossible."""
        launch, known = self.launch, self._run.sessions
        if launch.resume is not None and launch.resume not in known:
            self.session_id = launch.resume
            return f"No conversation found with session ID: {launch.resume}"
        if launch.session_id in known and launch.resume is None:
            return f"Error: Session ID {launch.session_id} is already in use."
        if replies := known.get(launch.resume or self.session_id, 0):
            self.replied(replies)
            self._by_model_before = {**self.by_model}
        known.setdefault(self.session_id, 0)
        return None

    def clear(self) -> None:
        """Begin a new conversation."""
        self.session_id = f"51b00000-0000-4000-8000-{len(self._run.sessions) + 1:012x}"
        self._run.sessions[self.session_id] = 0
        self.replies = 0
        self.by_model = {}
        self._by_model_before = {}
        self.prompt_id = None
        self.used = set()
        self.agent_stats = deepcopy(NO_SUBAGENTS)

    def new_number(self) -> int:
        """Return a number that is unique in the run of the script; the same run gives the same numbers."""
        return self._run.next_number()

    def new_id(self) -> str:
        """Return the id of a frame, a prompt or a turn."""
        return f"{self.new_number():08x}-51b0-4000-8000-{self.session_id[-12:]}"

    # -- tools --------------------------------------------------------------------------------------------------------

    def lacks(self, tool: str) -> bool:
        """Return whether a rule denies a tool, or the whole server that it belongs to."""
        server, _ = split_server(tool)
        taken_away = {rule for rule in self.denied if "(" not in rule}
        return tool in taken_away or (server is not None and f"mcp__{server}" in taken_away)

    def tools(self) -> list[str]:
        """Return the names of the tools that the model may call."""
        launch = self.launch
        names = set(TOOLS if launch.tools is None else launch.tools)
        if launch.asks_host and launch.tools is None:
            names.update(ASKING_TOOLS)
        if launch.json_schema is not None:
            names.add("StructuredOutput")
        if launch.tools is None and "Bash" in self.denied:
            names.update(("Glob", "Grep"))  # otherwise the shell does their work
            names.discard("Monitor")
        listed = sorted(names, key=lambda name: (name != "Task", name))
        for server, tools in sorted(self.servers.items()):
            if server not in self.disabled_servers:
                listed += sorted(f"mcp__{server}__{tool.get('name', '')}" for tool in tools)
        return [name for name in listed if not self.lacks(name)]

    def has_tool(self, tool: str) -> bool:
        """Return whether the model may call a tool. A script may use tools of external servers and of other versions."""
        names = self.tools()
        if tool in names:
            return True
        if self.lacks(tool) or self.launch.tools is not None:
            return False
        server, _ = split_server(tool)
        external = server is not None and server not in self.servers
        return external or tool in ("Glob", "Grep", "TodoWrite", "LS", "Agent")

    def at_work(self) -> dict[str, Any]:
        """Return the input about background work of hooks at the end of a turn."""
        return {"background_tasks": [task.running for task in self.background.values()], "session_crons": []}

    # -- counts -------------------------------------------------------------------------------------------------------

    def replied(self, times: int = 1) -> None:
        """Count replies of the model."""
        self.replies += times
        self.count(A_REPLY, times)
        self._run.sessions[self.session_id] = self.replies

    def count(self, tokens: Tokens, times: int = 1) -> None:
        """Count tokens of the model in force."""
        self.by_model[self.model] = self.by_model.get(self.model, Tokens()).plus(tokens, times)

    def since_last_result(self) -> dict[str, Tokens]:
        """Return the tokens since the last result, by model."""
        before = self._by_model_before
        counts = {model: tokens.plus(before.get(model, Tokens()), -1) for model, tokens in self.by_model.items()}
        return {model: tokens for model, tokens in counts.items() if tokens.read}

    def ended(self) -> None:
        """Count a result."""
        self.results += 1
        self._by_model_before = {**self.by_model}
        self.denials = []

    @property
    def cost(self) -> float:
        """The cost so far, in US dollars."""
        return sum(tokens.price(model) for model, tokens in self.by_model.items())

    @property
    def folder(self) -> str:
        """The folder where the real CLI keeps files of the session."""
        return f"/simulated/.claude/projects/{self.launch.cwd.replace('/', '-')}/{self.session_id}"

    @property
    def transcript_path(self) -> str:
        """The path where the real CLI keeps the conversation."""
        return f"{self.folder}.jsonl"
