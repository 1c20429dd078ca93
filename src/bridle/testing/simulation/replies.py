"""The replies of a simulated CLI's model: whole blocks, and the events by which they are streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.script import steps
from bridle.testing.simulation.facts import block_events
from bridle.testing.simulation.waits import Pause, never

if TYPE_CHECKING:
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.names import Agent
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.turns import Conversation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Replies", "last_text", "take_reply"]


class Replies:
    """What the model says in one turn.

    Attributes:
        uuids: the prompts that are answered.
        count: how often the model has answered.
        streaming: the message that is being streamed, if one is.
        cut_off: the text of a reply that will not go on.
        stop_reason: why the last reply ended.
    """

    def __init__(self, simulation: Simulation, conversation: Conversation) -> None:
        self.sim = simulation
        self.conversation = conversation
        self.begin([])

    def begin(self, uuids: list[str]) -> None:
        """Begin a turn."""
        self.uuids = uuids
        self.count = 0
        self.streaming: str | None = None
        self.cut_off: str | None = None
        self.stop_reason: str | None = None
        self._stamped: set[str] = set()

    def say(self, reply: list[ScriptStep], agent: Agent | None) -> Steps[list[tuple[str, steps.Calls]]]:
        """Send the frames of one reply; return its calls with their ids."""
        sim, state = self.sim, self.sim.state
        state.replied()
        if agent is None:
            self.count += 1
        sim.run.sessions[state.session_id] = state.replies
        message_id = f"msg_simulated_{state.messages}"
        partial = sim.launch.partial and agent is None
        if partial:
            self.send({"type": "system", "subtype": "status", "status": "requesting"}, many_only=True)
            start = state.stream(message_id, state.message_start(message_id), ttft_ms=1)
            self.send(start)
            self.streaming = message_id
        calls: list[tuple[str, steps.Calls]] = []
        for index, step in enumerate(reply):
            yield from self._block(message_id, index, step, calls, agent)
        stop_reason = "tool_use" if calls else "end_turn"
        self.stop_reason = stop_reason
        if partial:
            sim.emit(state.stream(message_id, state.message_delta(stop_reason)))
            sim.emit(state.stream(message_id, {"type": "message_stop"}))
            self.streaming = None
        return calls

    def _block(
        self,
        message_id: str,
        index: int,
        step: ScriptStep,
        calls: list[tuple[str, steps.Calls]],
        agent: Agent | None,
    ) -> Steps[None]:
        sim, state = self.sim, self.sim.state
        partial = sim.launch.partial and agent is None
        block: dict[str, Any]
        more: dict[str, Any] = {}
        chunk: int | None = None
        delay = 0.0
        match step:
            case steps.Thinks():
                block = {"type": "thinking", "thinking": step.text, "signature": step.signature}
            case steps.Says():
                block = {"type": "text", "text": step.text}
                chunk, delay = step.chunk, step.delay
            case steps.Calls():
                call_id = step.id or self.conversation.tools.new_call_id()
                calls.append((call_id, step))
                block = {"type": "tool_use", "id": call_id, "name": step.tool, "input": step.input}
                more = self.conversation.tools.call_meta(step, call_id)
            case _:
                raise AssertionError(step)
        if partial:
            for event in block_events(index, block, chunk):
                if delay and event["type"] == "content_block_delta":
                    until = sim.seconds(delay)
                    yield Pause(never, until)
                if event.get("delta", {}).get("type") in ("thinking_delta", "signature_delta"):
                    self._thinking_tokens(event["delta"])
                sim.emit(state.stream(message_id, event))
        elif delay and chunk:
            yield Pause(never, sim.seconds(delay * max(1, len(block["text"]) // chunk)))
        if not partial and isinstance(step, steps.Thinks) and agent is None:
            self._thinking_tokens({"type": "thinking_delta", "thinking": step.text})
            self._thinking_tokens({"type": "signature_delta"})
        if isinstance(step, steps.Says) and agent is None:
            yield from self.display(step.text)
        if agent is None:
            self.send({**state.assistant(message_id, block), **more})
        elif isinstance(step, steps.Calls) or agent.background or sim.launch.forwards_text:
            if isinstance(step, steps.Calls):
                self.conversation.tools.tasks.progress(agent, step)
            sim.emit({**state.assistant(message_id, block, agent.tool_use_id), **agent.fields})
        if isinstance(step, steps.Calls):
            self.conversation.tools.ask_before(calls[-1][0], step, agent)
        if partial:
            sim.emit(state.stream(message_id, {"type": "content_block_stop", "index": index}))

    def display(self, text: str) -> Steps[None]:
        """Call the hooks that see each text that is shown."""
        if "MessageDisplay" not in self.sim.state.hooks:
            return
        message_id = self.sim.new_id()
        fields = {
            "turn_id": self.sim.new_id(),
            "message_id": message_id,
            "index": 0,
            "final": True,
            "delta": text,
        }
        yield from self.conversation.hooks.run("MessageDisplay", fields, tool_use_id=f"{message_id}-0", effort=False)

    def _thinking_tokens(self, delta: dict[str, Any]) -> None:
        count = max(1, len(str(delta["thinking"])) // 4) if "thinking" in delta else 2
        total = count if "thinking" in delta else 3
        frame = {
            "type": "system",
            "subtype": "thinking_tokens",
            "estimated_tokens": total,
            "estimated_tokens_delta": count,
        }
        if self.uuids:
            frame["user_message_uuid"] = self.uuids[0]
        self.sim.emit(frame)

    def send(self, frame: dict[str, Any], *, many_only: bool = False) -> None:
        """Send a frame; the first one of each kind in a turn tells which prompts it answers, and every status does."""
        kind = str(frame["type"])
        if self.uuids and (many_only or kind not in self._stamped):
            self._stamped.add(kind)
            frame["user_message_uuids"] = self.uuids
            if not many_only:
                frame["user_message_uuid"] = self.uuids[0]
        self.sim.emit(frame)

    def until_interrupted(self, step: steps.Interrupted) -> Steps[None]:
        """Say the beginning of a reply, and nothing more."""
        sim, state = self.sim, self.sim.state
        self.cut_off = step.after or None
        if sim.launch.partial:
            message_id = f"msg_simulated_{state.messages + 1}"
            self.send({"type": "system", "subtype": "status", "status": "requesting"}, many_only=True)
            self.send(state.stream(message_id, state.message_start(message_id), ttft_ms=1))
            self.streaming = message_id
            if step.after:
                for event in block_events(0, {"type": "text", "text": step.after}, None):
                    sim.emit(state.stream(message_id, event))
        sim.wait_for_interrupt()
        yield Pause(never)


def take_reply(source: Any) -> list[ScriptStep]:
    """Take the steps of one reply of the model: text and thinking, then its calls."""
    reply: list[ScriptStep] = []
    while (step := source.peek()) is not None and isinstance(step, steps.REPLY_STEPS):
        called = bool(reply) and isinstance(reply[-1], steps.Calls)
        if called and not (isinstance(step, steps.Calls) and step.together):
            break
        reply.append(source.take())
    return reply


def last_text(reply: list[ScriptStep]) -> str:
    """Return the last text of a reply."""
    return next((step.text for step in reversed(reply) if isinstance(step, steps.Says)), "")
