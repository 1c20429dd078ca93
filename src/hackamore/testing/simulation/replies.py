"""The replies of a simulated CLI's model: whole blocks, the events by which they are streamed, and the calls in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.testing.script import steps
from hackamore.testing.simulation import frames
from hackamore.testing.simulation.core import NotInterrupted, Part, Pause, never
from hackamore.testing.simulation.facts import CUT_OFF
from hackamore.testing.simulation.state import seen_name, split_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hackamore.testing.script.steps import ScriptStep
    from hackamore.testing.simulation.core import Core, Steps
    from hackamore.testing.simulation.hooks import Hooks
    from hackamore.testing.simulation.state import Agent
    from hackamore.testing.simulation.tasks import Tasks

INTERRUPT_SECONDS = 30.0
"""How long a turn waits, by the real clock, for the interrupt that the script demands."""


class Replies(Part):
    """Sends the replies of the model."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks) -> None:
        super().__init__(core)
        self.hooks = hooks
        self.tasks = tasks
        self._asked: dict[str, list[tuple[str, float | None]]] = {}

    def say(self, reply: list[ScriptStep], agent: Agent | None) -> Steps[list[tuple[str, steps.Calls]]]:
        """Send the frames of one reply; return its calls with their ids."""
        self.state.replied()
        message_id = self._new_message_id()
        partial = self.state.launch.partial and agent is None
        if agent is None:
            self.turn.replies += 1
            self.turn.attempts = 0
        if partial:
            self._begin_stream(message_id)
        calls: list[tuple[str, steps.Calls]] = []
        for index, step in enumerate(reply):
            if isinstance(step, steps.Calls):
                call = _completed(step)
                calls.append((call.id or f"toolu_simulated_{self.state.new_number()}", call))
                yield from self._send_block(message_id, index, call, agent, partial=partial, call_id=calls[-1][0])
            else:
                yield from self._send_block(message_id, index, step, agent, partial=partial)
        stop_reason = "tool_use" if calls else "end_turn"
        if agent is None:
            self.turn.stop_reason = stop_reason
        if partial:
            self._stream(message_id, frames.message_delta(stop_reason))
            self._stream(message_id, {"type": "message_stop"})
            self.turn.streaming = None
        return calls

    def _new_message_id(self) -> str:
        return f"msg_simulated_{self.state.new_number()}"

    def _send_block(
        self, message_id: str, index: int, step: ScriptStep, agent: Agent | None, *, partial: bool, call_id: str = ""
    ) -> Steps[None]:
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
                block = {"type": "tool_use", "id": call_id, "name": step.tool, "input": step.input}
                more = self._meta(step, call_id)
            case _:
                raise AssertionError(step)
        if partial:
            *events, _ = _block_events(index, block, chunk)  # the last one follows the whole block
            for event in events:
                if delay and event["type"] == "content_block_delta":
                    yield self.scheduler.sleep(delay)
                self._thinking_tokens(event.get("delta", {}))
                self._stream(message_id, event)
        else:
            if delay and chunk:
                yield self.scheduler.sleep(delay * max(1, len(block["text"]) // chunk))
            if isinstance(step, steps.Thinks) and agent is None:
                self._thinking_tokens({"type": "thinking_delta", "thinking": step.text})
                self._thinking_tokens({"type": "signature_delta"})
        if isinstance(step, steps.Says) and agent is None:
            yield from self.display(step.text)
        self._send_whole(message_id, block, step, agent, more)
        if isinstance(step, steps.Calls):
            self._open(call_id, step, agent)
        if partial:
            self._stream(message_id, {"type": "content_block_stop", "index": index})

    def _send_whole(
        self, message_id: str, block: dict[str, Any], step: ScriptStep, agent: Agent | None, more: dict[str, Any]
    ) -> None:
        model = self.state.model
        if agent is None:
            self.send({**frames.assistant(model, message_id, block), **more})
            return
        called = isinstance(step, steps.Calls)
        if isinstance(step, steps.Calls) and not agent.background:
            self.tasks.progress(agent, step)
        if called or agent.background or self.state.launch.forwards_text:
            self.host.emit({**frames.assistant(model, message_id, block, agent.tool_use_id), **agent.fields, **more})
        if isinstance(step, steps.Calls) and agent.background:
            self.tasks.progress(agent, step)

    def _meta(self, call: steps.Calls, call_id: str) -> dict[str, Any]:
        server, name = split_server(call.tool)
        if server not in self.state.servers:
            return {}
        meta = {"id": call_id, "display_name": name.replace("_", " ").title()}
        if self.state.has_tool(call.tool):
            meta |= {"server_display_name": server, "tool_name": name}
        return {"tool_use_meta": [meta]}

    def _open(self, call_id: str, call: steps.Calls, agent: Agent | None) -> None:
        self.turn.open_calls[call_id] = call
        if self.hooks.has("PreToolUse") and self.state.has_tool(call.tool):
            fields = {"tool_name": seen_name(call.tool), "tool_input": call.input, "tool_use_id": call_id}
            self._asked[call_id] = self.hooks.send("PreToolUse", fields, tool_use_id=call_id, agent=agent)

    def take_hooks(self, call_id: str) -> list[tuple[str, float | None]]:
        """Return the hook requests of a call."""
        return self._asked.pop(call_id, [])

    def display(self, text: str) -> Steps[None]:
        """Call the hooks that see each text that is shown."""
        if not self.hooks.has("MessageDisplay"):
            return
        message_id = self.state.new_id()
        fields = {"turn_id": self.turn.id, "message_id": message_id, "index": 0, "final": True, "delta": text}
        yield from self.hooks.run("MessageDisplay", fields, tool_use_id=f"{message_id}-0", effort=False)

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame; the first one of each kind in a turn, and each status, names the prompts that it answers."""
        uuids, stamped, kind = self.turn.uuids, self.turn.stamped, str(frame["type"])
        if uuids and (kind == "system" or kind not in stamped):
            stamped.add(kind)
            frame["user_message_uuids"] = uuids
            if kind != "system":
                frame["user_message_uuid"] = uuids[-1]
        self.host.emit(frame)

    def until_interrupted(self, step: steps.Interrupted) -> Steps[None]:
        """Send the beginning of a reply, and nothing more."""
        self.turn.cut_off = step.after or None
        if step.after:
            self.state.count(CUT_OFF)
        if self.state.launch.partial:
            message_id = self._new_message_id()
            self._begin_stream(message_id)
            if step.after:
                *events, _ = _block_events(0, {"type": "text", "text": step.after}, None)
                for event in events:
                    self._stream(message_id, event)
        yield from self.wait_for_interrupt(step)

    def wait_for_interrupt(self, step: ScriptStep) -> Steps[None]:
        """Wait for the interrupt that the script demands. A one-shot takes none: it is interrupted by its end."""
        if not self.state.launch.one_shot:
            self.script.wait_for_interrupt()
        yield Pause(never, self.scheduler.now() + INTERRUPT_SECONDS)
        raise NotInterrupted(
            f"the script has {step.describe()}, and the host did not interrupt for {INTERRUPT_SECONDS:g} s"
        )

    # -- partial messages ---------------------------------------------------------------------------------------------

    def request(self) -> None:
        """Report a request to the model, once for all its tries."""
        if self.state.launch.partial and not self.turn.requested:
            self.turn.requested = True
            self.send({"type": "system", "subtype": "status", "status": "requesting"})

    def _begin_stream(self, message_id: str) -> None:
        self.request()
        self.turn.requested = False
        self.send(frames.stream(message_id, frames.message_start(self.state.model, message_id), ttft_ms=1))
        self.turn.streaming = message_id

    def _stream(self, message_id: str, event: Mapping[str, Any]) -> None:
        self.host.emit(frames.stream(message_id, event))

    def show_cut_off(self) -> None:
        """Send the text of a reply that an interrupt cuts off."""
        turn = self.turn
        if turn.cut_off is not None:
            block = {"type": "text", "text": turn.cut_off}
            whole = frames.assistant(self.state.model, turn.streaming or self._new_message_id(), block)
            self.send({**whole, "aborted": True})

    def break_stream(self, message_id: str, *, began: bool) -> None:
        """Send the end of a streamed reply that an interrupt cuts off; `began` tells whether a block had begun."""
        if began:
            self._stream(message_id, {"type": "content_block_stop", "index": 0})
        self._stream(message_id, frames.message_delta(None))
        abandoned = {"api_message_id": message_id, "from_block_index": int(began)}
        self.host.emit(frames.stream(message_id, {"type": "message_stop"}, abandoned_blocks=abandoned))
        self.turn.streaming = None

    def _thinking_tokens(self, delta: dict[str, Any]) -> None:
        match delta:
            case {"type": "thinking_delta", "thinking": str(text)}:
                count = total = max(1, len(text) // 4)
            case {"type": "signature_delta"}:
                count, total = 2, 3
            case _:
                return
        fields: dict[str, Any] = {"estimated_tokens": total, "estimated_tokens_delta": count}
        if self.turn.uuids:
            fields["user_message_uuid"] = self.turn.uuids[-1]
        self.host.system("thinking_tokens", **fields)


def _block_events(index: int, block: dict[str, Any], chunk: int | None) -> Iterator[dict[str, Any]]:
    from hackamore.testing.model.events import block_events  # loaded late: only partial messages use it

    return block_events(index, block, chunk)


def _completed(call: steps.Calls) -> steps.Calls:
    if call.tool == "Edit":
        return msgspec.structs.replace(call, input={"replace_all": False, **call.input})
    return call


def take_reply(source: Any) -> list[ScriptStep]:
    """Take the steps of one reply of the model: text and thinking, then its calls."""
    reply: list[ScriptStep] = []
    while (step := source.peek()) is not None and isinstance(step, steps.REPLY_STEPS):
        called = bool(reply) and isinstance(reply[-1], steps.Calls)
        if called and not (isinstance(step, steps.Calls) and step.together):
            break
        reply.append(source.take())
    return reply
