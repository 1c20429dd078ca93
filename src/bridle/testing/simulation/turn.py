"""The running turn of a simulated CLI: one record that its parts share, filled anew by each `begin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from bridle.testing.script.steps import Calls

__all__ = ["Happened", "Turn"]


class Happened(NamedTuple):
    """A hook or a permission question of a turn, for the expectations of the script.

    Attributes:
        kind: `hook` or `permission`.
        name: the event, or the tool.
        outcome: the output of the hook, or the decision.
        value: the input that was allowed.
    """

    kind: Literal["hook", "permission"]
    name: str
    outcome: Any
    value: Any = None


class Turn:
    """The state that lives as long as one turn.

    Attributes:
        running: a turn runs, so that it can be interrupted.
        id: its id in hooks.
        uuids: the prompts that it answers.
        joined: prompts that came while its tools ran.
        replies: replies of the model.
        user_frames: frames with input for the model.
        results: results of the last tools, and whether each is an error.
        happened: hooks and permission questions that no expectation has used.
        stamped: kinds of frames that have named the prompts.
        requested: the request to the model is reported.
        attempts: refused tries of the request.
        in_tools: tools run.
        after_tools: the last reply called tools.
        stop_reason: the reason why the last reply ended.
        streaming: the message that is being streamed.
        cut_off: the text of a reply that an interrupt cuts off.
        open_calls: calls without a result, by id.
        started: ids of calls that have started to run.
        deferred: the call that a hook has deferred.
        stopped: a hook ends the turn.
        stop_hook_active: a `Stop` hook has already made the model continue.
        stop_prevented: a `Stop` hook ends the session's work.
    """

    def __init__(self) -> None:
        self.begin([], "")
        self.running = False

    def begin(self, uuids: list[str], turn_id: str) -> None:
        """Begin a turn."""
        self.running = True
        self.id = turn_id
        self.uuids = uuids
        self.joined: list[str] = []
        self.replies = 0
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
