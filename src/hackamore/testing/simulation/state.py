"""The state of a simulated CLI: of its session, of the running turn, and the names of agents, tasks and tools in it."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.activity.prices import Tokens
from hackamore.testing.script.run import SessionRecord
from hackamore.testing.simulation.facts import A_REPLY, FACTS, TEXTS, cost_of
from hackamore.testing.simulation.launch import is_uuid, resolve_model

if TYPE_CHECKING:
    from hackamore.testing.script.run import Happened, ScriptRun
    from hackamore.testing.script.steps import Calls
    from hackamore.testing.simulation.launch import Launch

_ALIASES = {"Task": "Agent"}
"""Names that hooks and permission questions use instead of the model's."""


class Agent(NamedTuple):
    """A subagent: its id is also that of its task, and the turn continues while one in the background works."""

    id: str
    run_id: str
    tool_use_id: str
    kind: str
    description: str
    background: bool

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its frames."""
        return {"agent_id": self.id, "subagent_type": self.kind, "task_description": self.description}


class Task(NamedTuple):
    """A background task: a command, or a subagent with the call that describes its work."""

    id: str
    run_id: str
    tool_use_id: str
    description: str
    agent: Agent | None = None
    call: Calls | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """The task in the list of background tasks."""
        kind = {"task_type": "local_bash"}
        if self.agent is not None:
            kind = {"task_type": "local_agent", "subagent_type": self.agent.kind}
        return {"task_id": self.id, "run_id": self.run_id, **kind, "description": self.description}

    @property
    def running(self) -> dict[str, Any]:
        """The task in the input of hooks at the end of a turn."""
        kind = {"type": "shell", "command": self.description}
        if self.agent is not None:
            kind = {"type": "subagent", "agent_type": self.agent.kind}
        return {"id": self.id, "status": "running", "description": self.description, **kind}


def split_server(tool: str) -> tuple[str | None, str]:
    """Return the server and the name of a tool; None if it is not a tool of a server."""
    if not tool.startswith("mcp__"):
        return None, tool
    server, _, name = tool[5:].partition("__")
    return server, name


def seen_name(tool: str) -> str:
    """Return the name that hooks and questions use for a tool."""
    return _ALIASES.get(tool, tool)


class Turn:
    """The state that lives as long as one turn.

    Attributes:
        running: a turn runs, so that it can be interrupted.
        id: its id in hooks.
        uuids: the prompts that it answers.
        joined: prompts that came while its tools ran.
        user_frames: frames with input for the model.
        results: results of the last tools, and whether each is an error.
        happened: hooks and permission questions that no expectation has used.
        stamped: kinds of frames that have named the prompts.
        requested: the request to the model is reported.
        attempts: refused tries of the request.
        after_tools: the last reply called tools.
        streaming: the message that is being streamed.
        cut_off: the text of a reply that an interrupt cuts off.
        open_calls: calls without a result, by id.
        deferred: the call that a hook has deferred.
        stopped: a hook ends the turn.
        stop_hook_active: a `Stop` hook has already made the model continue.
        stop_prevented: a `Stop` hook ends the session's work.
    """

    def __init__(self) -> None:
        self.begin([], "")
        self.running: bool = False

    def begin(self, uuids: list[str], turn_id: str) -> None:
        """Begin a turn."""
        self.running = True
        self.id = turn_id
        self.uuids = uuids
        self.joined: list[str] = []
        self.replies: int = 0
        self.user_frames = 0
        self.results: list[tuple[str, bool]] = []
        self.happened: list[Happened] = []
        self.stamped: set[str] = set()
        self.requested = False
        self.attempts = 0
        self.in_tools = self.after_tools = False
        self.stop_reason: str | None = None
        self.streaming: str | None = None
        self.cut_off: str | None = None
        self.open_calls: dict[str, Calls] = {}
        self.started: set[str] = set()
        self.deferred: dict[str, Any] | None = None
        self.stopped = self.stop_hook_active = self.stop_prevented = False


class SessionState:
    """The state that lives as long as the process."""

    def __init__(self, launch: Launch, run: ScriptRun) -> None:
        self.launch = launch
        self._run = run
        self.session_id: str = self._first_session_id()
        self.model: str = resolve_model(launch.model)
        self.mode: str = launch.permission_mode
        self.allowed: list[str] = list(launch.allowed)  # rules that allow, including those added by the host
        self.denied: list[str] = list(launch.disallowed)
        self.folders: list[str] = [
            launch.cwd,
            *(os.path.normpath(os.path.join(launch.cwd, folder)) for folder in launch.other.get("add-dir", [])),
        ]
        # in-process MCP servers by name: their tools, once they are listed
        self.servers: dict[str, list[dict[str, Any]]] = {}
        self.disabled_servers: set[str] = set()
        self.dynamic_servers: list[str] = []
        self.hooks: dict[str, list[dict[str, Any]]] = {}  # by event: matchers with the ids of their callbacks
        self.agents: dict[str, Any] = {}
        self.background: dict[str, Task] = {}
        self.checkpoints: set[str] = set()  # prompts that files can be restored to
        self.prompt_id: str | None = None  # the id of the newest prompt in hooks; None before the first one
        self.title: str | None = None
        self.used: set[str] = set()  # the names of tools that were called in this conversation
        self.settings: dict[str, Any] = {}
        self.replies: int = 0  # replies of the model in this conversation
        self.by_model: dict[str, Tokens] = {}
        self._by_model_before: dict[str, Tokens] = {}
        self.results: int = 0  # results in this process
        self.denials: list[dict[str, Any]] = []  # tools denied since the last result
        self.agent_stats: dict[str, Any] = deepcopy(FACTS["no_subagents"])
        self.record: SessionRecord = SessionRecord()  # the counts over all processes of the session
        self.resumes: bool = False  # the process continues an earlier session

    # -- conversations ------------------------------------------------------------------------------------------------

    def _first_session_id(self) -> str:
        launch = self.launch
        if launch.resume is not None and not launch.fork:
            return launch.resume
        if (
            launch.continues
            and launch.resume is None
            and not launch.fork
            and (newest := self._run.newest()) is not None
        ):
            return newest
        return launch.session_id or self._new_session_id()

    def _new_session_id(self) -> str:
        return f"51b00000-0000-4000-8000-{len(self._run.sessions) + 1:012x}"

    def open(self) -> str | None:
        """Open the conversation that the command line names; return the reason if that is impossible."""
        launch, run = self.launch, self._run
        if launch.resume is not None and not run.knows(launch.resume):
            if not is_uuid(launch.resume):
                self.session_id = self._new_session_id()
                return TEXTS["no_such_session"].format(resume=launch.resume)
            self.session_id = launch.resume
            return f"No conversation found with session ID: {launch.resume}"
        if launch.resume is None and run.knows(launch.session_id):
            return f"Error: Session ID {launch.session_id} is already in use."
        before = run.record(launch.resume or self.session_id)
        self.resumes = before.begun
        self.replies = before.replies
        self.by_model = {**before.kept}
        self._by_model_before = {**self.by_model}
        self.record = run.serve(self.session_id)
        return None

    def clear(self) -> None:
        """Begin a new conversation."""
        self.session_id = self._new_session_id()
        self.record = self._run.serve(self.session_id)
        self.record.begun = True
        self.replies = 0
        self.by_model = {}
        self._by_model_before = {}
        self.prompt_id = None
        self.used = set()
        self.agent_stats = deepcopy(FACTS["no_subagents"])

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
        names = set(FACTS["tools"] if launch.tools is None else launch.tools)
        if launch.asks_host and launch.tools is None:
            names.update(FACTS["asking_tools"])  # they exist only if the host answers questions
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

    def replied(self) -> None:
        """Count a reply of the model."""
        self.replies += 1
        self.record.replies += 1
        self.count(A_REPLY)

    def count(self, tokens: Tokens) -> None:
        """Count tokens of the model in force."""
        self.by_model[self.model] = self.by_model.get(self.model, Tokens()) + tokens
        self.record.count(self.model, tokens)

    def exited(self) -> None:
        """Keep the tokens for the next process; a process that is killed cannot."""
        self.record.kept = {**self.by_model}

    def since_last_result(self) -> dict[str, Tokens]:
        """Return the tokens since the last result, by model."""
        before = self._by_model_before
        counts = {model: tokens - before.get(model, Tokens()) for model, tokens in self.by_model.items()}
        return {model: tokens for model, tokens in counts.items() if tokens.input}

    def ended(self) -> None:
        """Count a result."""
        self.results += 1
        self._by_model_before = {**self.by_model}
        self.denials = []

    @property
    def cost(self) -> float:
        """The cost so far, in US dollars."""
        return cost_of(self.by_model)

    @property
    def folder(self) -> str:
        """The folder where the real CLI keeps files of the session."""
        return f"/simulated/.claude/projects/{self.launch.cwd.replace('/', '-')}/{self.session_id}"

    @property
    def transcript_path(self) -> str:
        """The path where the real CLI keeps the conversation."""
        return f"{self.folder}.jsonl"
