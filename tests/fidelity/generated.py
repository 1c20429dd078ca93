"""Generated scripts: random turns and hosts, as plain values that can be printed, reduced, and run on both CLIs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from hackamore import Allow, Deny, HookMatcher
from hackamore.errors import HackamoreError
from hackamore.hooks import HookOutput
from hackamore.testing import Script
from tests.fidelity.case import Case
from tests.fidelity.cases import MEANWHILE
from tests.fidelity.hosts import ALL_EVENTS, GIFTS, GIVEN, SHOP, until_cancelled
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fidelity.driving import Host

Step = tuple[Any, ...]
"""The name of a method of `_Writer`, and its arguments."""

ANSWERS = {
    "hookdeny": HookOutput.deny("bad"),
    "hookblock": HookOutput.block("bad"),
    "hookallow": HookOutput.allow(),
    "hookask": HookOutput.ask("really"),
    "hookcontext": HookOutput.add_context("more"),
    "hooksays": HookOutput(system_message="watch out"),
}
"""Outputs of the hook before a tool, by a word in the tool's input."""
WORDS = (*ANSWERS, "refuse", "fine", "fine", "fine")
"""Words for inputs of tools: for the hook, for the permission callback, and without a meaning."""
MODES = ("default", "default", "acceptEdits", "dontAsk", "bypassPermissions", "bypassPermissions")
CONTROLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("set_model", {"model": "sonnet"}),
    ("set_permission_mode", {"mode": "acceptEdits"}),
    ("rename_session", {"title": "A test"}),
    ("mcp_status", {}),
    ("interrupt", {}),
    ("interrupt", {"for_user_message_uuids": ["00000000-0000-4000-8000-000000000000"]}),
)

ACCEPTS = 1
"""The control that switches to acceptEdits, after which `touch` raises no question."""


@dataclass(frozen=True)
class Turn:
    """One turn: a prompt, the steps of the model, and what the host does."""

    prompt: str
    steps: tuple[Step, ...]
    control: int | None = None

    @property
    def interrupted(self) -> str | None:
        """How the host interrupts this turn."""
        return (
            self.steps[-1][0].removeprefix("until_") if self.steps and self.steps[-1][0].startswith("until_") else None
        )


@dataclass(frozen=True)
class Plan:
    """A script and its host."""

    turns: tuple[Turn, ...]
    mode: str = "bypassPermissions"
    asks: bool = False
    hooks: bool = False
    partial: bool = False
    forwards: bool = False
    one_shot: bool = False

    def case(self, name: str) -> Case:
        """Return the plan as a case."""
        beside = any(step[0] == "beside" for turn in self.turns for step in turn.steps)
        counted = ("result/*.total_cost_usd", "result/*.modelUsage", "result/*.model_usage_since_last_result")
        return Case(
            name,
            self._write,
            {"per_run": self._options},
            does=self._talk,
            one_shot=self.one_shot,
            but=dict.fromkeys(counted, MEANWHILE) if beside else {},
        )

    def _write(self, script: Script, folder: Path) -> None:
        (folder / "there.txt").write_text("x\ny\n")
        writer = _Writer(script, folder)
        for turn in self.turns:
            script.user(turn.prompt)
            for name, *arguments in turn.steps:
                getattr(writer, name)(*arguments)

    def _options(self, host: Host) -> dict[str, Any]:
        def decide(request: Any) -> Allow | Deny:
            if "waits" in str(request.input):
                host.asked.set()
                until_cancelled(request)
            return Deny("not now") if "refuse" in str(request.input) else Allow()

        def before(hook_input: Any, context: Any) -> HookOutput | None:
            return next((answer for word, answer in ANSWERS.items() if word in str(hook_input.tool_input)), None)

        events: dict[str, Any] = dict.fromkeys(ALL_EVENTS, lambda hook_input, context: None) | {"PreToolUse": before}
        given: dict[str, Any] = {
            "permission_mode": self.mode,
            "mcp_servers": {**SHOP, **GIFTS},
            "include_partial_messages": self.partial,
            "forward_subagent_text": self.forwards,
        }
        if self.asks and self.mode not in ("bypassPermissions", "dontAsk"):
            given["can_use_tool"] = decide
        if self.hooks:
            given["hooks"] = {event: [HookMatcher(hooks=[function])] for event, function in events.items()}
        return given

    def _talk(self, host: Host) -> None:
        for turn in self.turns:
            sent = host.session.send(turn.prompt)
            if turn.interrupted == "text":
                next(m for m in sent if m.type == "stream_event" and "I will" in str(m.event))
            elif turn.interrupted == "tool":
                next(m for m in sent if m.type == "assistant")
                host.wait_for_file("runs")
            elif turn.interrupted == "question":
                assert host.asked.wait(patience(20)), "no permission question came in time"
            if turn.interrupted is not None:
                host.session.interrupt()
            sent.result()
            host.session.wait_idle()
            if turn.control is not None:
                operation, fields = CONTROLS[turn.control]
                with suppress(HackamoreError):
                    host.session.request(operation, **fields)

    def smaller(self) -> Iterator[Plan]:
        """Yield plans with one part less, the largest parts first."""
        for place, turn in enumerate(self.turns):
            fewer = (*self.turns[:place], *self.turns[place + 1 :])
            if fewer and not _compacts_nothing(fewer):
                yield replace(self, turns=fewer)
            for each in range(len(turn.steps) - 1):
                shorter = replace(turn, steps=(*turn.steps[:each], *turn.steps[each + 1 :]))
                yield replace(self, turns=(*self.turns[:place], shorter, *self.turns[place + 1 :]))
        if any(turn.control is not None for turn in self.turns):
            yield replace(self, turns=tuple(replace(turn, control=None) for turn in self.turns))
        if self.hooks:
            yield replace(self, hooks=False)
        if self.forwards:
            yield replace(self, forwards=False)
        if self.partial and not any(turn.interrupted == "text" for turn in self.turns):
            yield replace(self, partial=False)


class _Writer:
    """Writes steps; results are those of the real tools."""

    def __init__(self, script: Script, folder: Path) -> None:
        self._script = script
        self._folder = folder

    def says(self, text: str) -> None:
        self._script.says(text)

    def thinks(self, text: str) -> None:
        self._script.thinks(text)

    def echo(self, word: str) -> None:
        self._script.calls("Bash", {"command": f"echo {word}"}, result=word)

    def touch(self, word: str) -> None:
        self._script.calls("Bash", {"command": f"touch {word}"})

    def fails(self, word: str) -> None:
        self._script.calls("Bash", {"command": f"echo {word}; exit 3"}, error=f"Exit code 3\n{word}")

    def writes(self, word: str) -> None:
        self._script.calls("Write", {"file_path": str(self._folder / f"{word}.txt"), "content": f"{word}\nand\n"})

    def reads(self) -> None:
        self._script.calls("Read", {"file_path": str(self._folder / "there.txt")}, result="x\ny\n")

    def nothing(self, word: str) -> None:
        self._script.calls("Nope", {"word": word})

    def buys(self, tool: str, arguments: dict[str, Any]) -> None:
        self._script.calls(f"mcp__shop__{tool}", arguments)

    def gives(self, what: str) -> None:
        self._script.calls("mcp__gifts__give", {"what": what})

    def both(self, one: str, other: str) -> None:
        self._script.calls("Bash", {"command": f"echo {one}"}, result=one)
        self._script.calls("Bash", {"command": f"echo {other}"}, result=other, together=True)

    def subagent(self, steps: tuple[Step, ...], kind: str) -> None:
        self._script.subagent(f"work {len(self._script)}", self._agent(steps), kind=kind)

    def beside(self, steps: tuple[Step, ...]) -> None:
        agent = self._agent((("pauses",), *steps))
        self._script.subagent(f"work {len(self._script)}", agent, background=True).says("Started.").task_ends()

    def pauses(self) -> None:
        self._script.calls("Bash", {"command": "sleep 1.5"})

    def background(self) -> None:
        self._script.calls("Bash", {"command": "sleep 1.5", "run_in_background": True}).says("Started.").task_ends()

    def _agent(self, steps: tuple[Step, ...]) -> Script:
        agent = Script()
        for name, *arguments in steps:
            getattr(_Writer(agent, self._folder), name)(*arguments)
        return agent

    def retried(self, status: int) -> None:
        self._script.retries(status, delay=0.1)

    def refused(self, status: int) -> None:
        self._script.api_error(status)

    def compacts(self) -> None:
        self._script.compacts("short")

    def until_text(self) -> None:
        self._script.interrupted(after="I will")

    def until_tool(self) -> None:
        self._script.calls("Bash", {"command": "touch runs; sleep 30"}, endless=True)

    def until_question(self) -> None:
        self._script.calls("Bash", {"command": "touch waits"})


def _fresh(turns: Sequence[Turn]) -> bool:
    """Return True if the conversation after these turns is empty, with nothing to compact."""
    return not turns or turns[-1].prompt == "/clear"


def _compacts_nothing(turns: Sequence[Turn]) -> bool:
    return any(turn.prompt == "/compact" and _fresh(turns[:place]) for place, turn in enumerate(turns))


def generate(seed: str) -> Plan:
    """Return the plan of a seed."""
    random = Random(seed)
    mode = random.choice(MODES)
    plan = Plan(
        (),
        mode=mode,
        asks=mode != "bypassPermissions" and random.random() < 0.7,
        hooks=random.random() < 0.4,
        partial=random.random() < 0.4,
        forwards=random.random() < 0.3,
        one_shot=random.random() < 0.1,
    )
    count = 1 if plan.one_shot else random.randint(1, 3)
    turns: list[Turn] = []
    for number in range(count):
        turns.append(_turn(random, replace(plan, turns=tuple(turns)), number))
    return replace(plan, turns=tuple(turns))


def _turn(random: Random, plan: Plan, number: int) -> Turn:
    """Return a random turn after those of the plan."""
    control = random.choice((None, None, *range(len(CONTROLS)))) if not plan.one_shot else None
    steps = [step for _ in range(random.randint(0, 3)) for step in _step(random, plan)]
    if plan.one_shot or random.random() < 0.6:
        return Turn(f"prompt {number}", (*steps, ("says", random.choice(TEXTS))), control)
    kind = random.choice(("clear", "compact", "refused", "beside", "background", "text", "tool", "question"))
    match kind:
        case "clear":
            return Turn("/clear", (), control)
        case "compact" if not _fresh(plan.turns):
            return Turn("/compact", (("compacts",),), control)
        case "refused":
            return Turn(f"prompt {number}", (*steps, ("refused", random.choice((401, 402, 403, 500, 529)))), control)
        case "beside" if plan.mode == "bypassPermissions":
            inner = tuple(step for _ in range(random.randint(0, 2)) for step in _tool(random))
            return Turn(
                f"prompt {number}", (*steps, ("beside", (*inner, ("says", "Seen."))), ("says", "It is done.")), control
            )
        case "background" if plan.mode == "bypassPermissions":
            return Turn(f"prompt {number}", (*steps, ("background",), ("says", "It is done.")), control)
        case "text" if plan.partial:
            return Turn(f"prompt {number}", (*steps, ("until_text",)), control)
        case "tool" if plan.mode == "bypassPermissions":
            return Turn(f"prompt {number}", (("until_tool",),), control)
        case "question" if (
            plan.asks and plan.mode == "default" and not any(turn.control == ACCEPTS for turn in plan.turns)
        ):
            return Turn(f"prompt {number}", (("until_question",),), control)
        case _:
            return Turn(f"prompt {number}", (*steps, ("says", random.choice(TEXTS))), control)


TEXTS = ("Done.", "Two\nlines, and ü €.", "A longer text, which is cut into several pieces of a stream.", "`code`")


def _step(random: Random, plan: Plan) -> Iterator[Step]:
    chance = random.random()
    if chance < 0.12:
        yield ("thinks", "hm")
        yield from _tool(random)
    elif chance < 0.2 and not plan.hooks:
        yield ("both", "left", "right")
    elif chance < 0.35:
        inner = tuple(step for _ in range(random.randint(0, 2)) for step in _tool(random))
        yield ("subagent", (*inner, ("says", random.choice(("Seen.", "One.\n\n  two\nthree\n")))), "general-purpose")
    elif chance < 0.42:
        yield ("retried", random.choice((429, 500, 529)))
    else:
        if random.random() < 0.2:
            yield ("says", "Let me.")
        yield from _tool(random)


def _tool(random: Random) -> Iterator[Step]:
    word = f"{random.choice(WORDS)}{random.randint(1, 99)}"
    tools: list[Callable[[], Step]] = [
        lambda: ("echo", word),
        lambda: ("touch", word),
        lambda: ("touch", word),
        lambda: ("fails", word),
        lambda: ("writes", word),
        lambda: ("reads",),
        lambda: ("nothing", word),
        lambda: ("buys", "price", {"article": word}),
        lambda: ("buys", "broken", {}),
        lambda: ("buys", "order", {"article": word, "pieces": 2}),
        lambda: ("gives", random.choice([*GIVEN])),
    ]
    yield random.choice(tools)()
