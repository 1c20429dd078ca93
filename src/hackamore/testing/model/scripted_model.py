"""A model that says what a script tells it to, for the real CLI to talk to.

::

    with ScriptedModel(
        Reply("I will look.", ToolCall("Bash", {"command": "ls"})),
        Reply("Two files.", expect_text="README.md"),
    ) as model:
        result = hackamore.sync.run("What is here?", Options(env=model.env, permission_mode="bypassPermissions"))

The script fails the test when the CLI asks for something that no step is meant for, and when steps are left over. It
needs no account and reaches no network: the server listens on 127.0.0.1. Behaviour of the CLI named in this package was
seen with 2.1.328.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from hackamore.errors import escape_terminal
from hackamore.testing.errors import UnconsumedStepsError, UnexpectedModelRequestError
from hackamore.testing.model.environment import environment, isolated_environment
from hackamore.testing.model.requests import SECRET_HEADERS, ModelRequest, classify, side_answer
from hackamore.testing.model.server import Delivery, ModelServer, Static
from hackamore.testing.model.steps import (
    HTTPFailure,
    OneByOne,
    Repeat,
    Reply,
    Stall,
    Step,
    UntilInterrupted,
    check_script,
    plain,
)
from hackamore.testing.script.report import PlayedScript, PlayReport, play_report, played_step
from hackamore.testing.shortening import shorten
from hackamore.transports.recording.reading import object_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from hackamore.testing.model.requests import RequestKind
    from hackamore.testing.model.server import RawRequest
    from hackamore.testing.model.steps import PlainStep
    from hackamore.testing.script.report import PlayedStep, StepState


class _Script:
    """Steps in order, and how many of them were used."""

    def __init__(self, name: str, steps: tuple[Any, ...]) -> None:
        self.name = name
        self.steps = steps
        self.used = 0

    def next(self) -> Any:
        """Return the next step, or None if there is none."""
        if self.used >= len(self.steps):
            return None
        step = self.steps[self.used]
        if isinstance(step, Repeat):
            return step.step
        self.used += 1
        return step

    def left(self) -> list[Any]:
        """Return the steps that had to be used and were not."""
        return [step for step in self.steps[self.used :] if not isinstance(step, Repeat)]

    def played(self) -> Iterator[PlayedStep]:
        for position, step in enumerate(self.steps):
            state: StepState = "done" if position < self.used else "open"
            if isinstance(step, Repeat) or (state == "open" and _was_interrupted(step)):
                state = "optional"
            elif state == "done" and isinstance(step, UntilInterrupted) and not step.given_up.is_set():
                state = "waits"
            yield played_step(escape_terminal(_describe_step(step)), state)

    def describe(self) -> str:
        """Return every step on a line of its own, with its state."""
        if not self.steps:
            return f"{self.name}: no steps"
        lines = [f"{self.name}:"]
        for position, step in enumerate(self.steps):
            state = "always" if isinstance(step, Repeat) else "used" if position < self.used else "open"
            lines.append(f"  [{state:>6}] {_describe_step(step)}")
        return "\n".join(lines)


def _as_steps(value: Step | Sequence[Step]) -> tuple[Step, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _summaries(steps: Iterable[Step]) -> list[Step]:
    """Wrap bare summaries as the CLI wants them; it asks a second time if the tags are missing."""
    return [
        f"<summary>{step}</summary>" if isinstance(step, str) and "<summary>" not in step else step for step in steps
    ]


def _describe_step(step: object) -> str:
    if callable(step) and not isinstance(step, Stall):
        return f"function {getattr(step, '__qualname__', repr(step))}"
    return shorten(repr(plain(step) if isinstance(step, str) else step), 200)


_NOT_FOUND = {"type": "error", "error": {"type": "not_found_error", "message": "Not part of the scripted model"}}
# The CLI fails immediately on this status and shows the message. On 400 it tries six times with fewer features, on 404
# it blames the model's name, on 5xx it tries for minutes.
_REFUSED = 418
_INTERRUPT_SEEN_SECONDS = 1.0
"""How long a hang-up of the CLI may take to be seen: sockets are looked at some twenty times a second."""


class ScriptedModel:
    """A Messages API server on 127.0.0.1 that answers the CLI by a script; a context manager.

    Args:
        steps: the answers to the main loop, in order.
        subagents: scripts for subagents: a text that occurs in the subagent's task (or `"*"` for any) -> its step or
            steps. Each subagent gets the script from its beginning. The first match in order counts.
        compaction: the answers when a conversation is compacted. A string is the summary.
        side: a function that may answer requests of the CLI's helpers (titles, side questions, hooks that ask a model,
            fetched pages); None from it, or no function, gives an automatic answer that satisfies the CLI.
        port: the port of 127.0.0.1 to listen on; 0 for a free one.

    Attributes:
        requests: every request so far, in order of arrival.

    Raises on leaving the `with` block (unless it is left by an exception, which then gets a note instead):
        UnexpectedModelRequestError: a request came that no step was meant for, or a step's expectation failed.
        UnconsumedStepsError: steps are left over.

    Example:
        ::

            with ScriptedModel("4") as model:
                answer = await hackamore.run("What is 2 + 2?", Options(env=model.env))
    """

    def __init__(
        self,
        *steps: Step,
        subagents: Mapping[str, Step | Sequence[Step]] | None = None,
        compaction: Step | Sequence[Step] = (),
        side: Callable[[ModelRequest], Step | None] | None = None,
        port: int = 0,
    ) -> None:
        self._main = _Script("main loop", check_script("main loop", steps))
        self._compaction = _Script("compaction", check_script("compaction", _summaries(_as_steps(compaction))))
        self._subagents = {
            key: [
                check_script(f"subagent {key!r}", _as_steps(one))
                for one in (value if isinstance(value, OneByOne) else [value])
            ]
            for key, value in (subagents or {}).items()
        }
        self._side = side
        self._agents: dict[str, _Script] = {}
        self._claimed: Counter[str] = Counter()
        self._requests: list[ModelRequest] = []
        self._problems: list[tuple[ModelRequest, str, BaseException | None]] = []
        self._changed = threading.Condition()
        # Conversations outlive a script (they are resumed with another one), so ids must not repeat.
        self._token = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._tool_numbers = itertools.count(1)
        self._server = ModelServer(self._respond, port)
        self._closed = False

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server. `with` does it.

        Returns:
            The model itself.

        Raises:
            RuntimeError: the model was closed; make a new one.
            OSError: the port is taken.
        """
        if self._closed:
            raise RuntimeError("This scripted model was closed and does not start again; make a new one")
        if not self._server.port:
            self._server.start()
        return self

    def close(self) -> None:
        """Stop the server immediately, answers in progress included. `with` does it. Checks nothing."""
        self._closed = True
        self._server.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._see_interrupts()
        self.close()
        if error is None:
            self.check()
        elif self._problems:
            error.add_note(self._unexpected().args[0])
        elif self._left():
            error.add_note(self._both_sides())

    def check(self) -> None:
        """Do nothing if the script and the requests agree.

        Raises:
            UnexpectedModelRequestError: a request came that no step was meant for, or a step's expectation failed.
            UnconsumedStepsError: steps are left over.
        """
        self._see_interrupts()
        with self._changed:
            if self._problems:
                causes = [cause for _, _, cause in self._problems if cause is not None]
                raise self._unexpected() from (causes[0] if causes else None)
            left = self._left()
            if left:
                lines = "\n".join(f"  {line}" for line in left)
                raise UnconsumedStepsError(
                    f"The script has steps that the CLI did not use: {len(left)}\n{lines}\n"
                    "Remove them, or write `Repeat(...)` for a reply that may not be needed. A call of `StructuredOutput` ends the turn.\n"
                    f"{self._both_sides()}",
                    left,
                )

    @property
    def finished(self) -> bool:
        """Whether every step was used, and every answer was sent."""
        with self._changed:
            return not self._left() and self._server.idle

    def report(self) -> PlayReport:
        """Return the outcome of each step and the requests, for programs and for CI.

        Returns:
            The report: `ok`, `to_text()`, `to_json()` and `to_junit(name)`.
        """
        self._see_interrupts()
        with self._changed:
            unexpected = [f"{request.describe()}: {reason}" for request, reason, _ in self._problems]
            happened = [request.describe() for request in self._requests]
            scripts = [script for script in self._scripts() if script.steps or script is self._main]
            played = [
                PlayedScript(
                    name=script.name,
                    steps=tuple(script.played()),
                    unexpected=tuple(escape_terminal(line, 1_000) for line in unexpected if script is self._main),
                    happened=tuple(escape_terminal(line, 300) for line in happened if script is self._main),
                )
                for script in scripts
            ]
            return play_report(played, len(happened))

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address for `ANTHROPIC_BASE_URL`."""
        if not self._server.port:
            raise RuntimeError("The scripted model is not started yet; use it in a `with` block")
        return self._server.url

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that make a CLI talk to this model and to nothing else.

        They are meant to be laid over the usual environment: `Options(env=model.env)`. Settings, plugins and sessions
        of the user's home folder still count; `isolated_env` leaves them out too.
        """
        return environment(self.url)

    def isolated_env(self, directory: str | os.PathLike[str]) -> dict[str, str | None]:
        """Return `env` with home and configuration folders below a directory, so that a test does not use those of the user.

        Folders that are missing are made.

        Args:
            directory: the directory; it may be new.

        Returns:
            The variables, for `Options(env=...)`; a value of None unsets the variable.
        """
        return isolated_environment(self.url, directory)

    # -- what happened ------------------------------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """Every request so far, in order of arrival."""
        with self._changed:
            return tuple(self._requests)

    def requests_of(self, *kinds: RequestKind) -> tuple[ModelRequest, ...]:
        """Return the requests of these kinds, for example `requests_of("main")`.

        Args:
            kinds: the kinds.

        Returns:
            The requests so far, in order of arrival.
        """
        return tuple(request for request in self.requests if request.kind in kinds)

    def wait_for_requests(
        self, count: int = 1, *, kind: RequestKind = "main", timeout: float = 30.0
    ) -> tuple[ModelRequest, ...]:
        """Wait for requests of a kind and return them.

        Args:
            count: how many to wait for; default 1.
            kind: the kind of request; default `main`.
            timeout: seconds to wait; default 30.

        Returns:
            The requests of this kind, at least `count`.

        Raises:
            TimeoutError: fewer requests arrived in time.
        """
        deadline = monotonic() + timeout
        with self._changed:
            while True:
                found = tuple(request for request in self._requests if request.kind == kind)
                if len(found) >= count:
                    return found
                if not self._changed.wait(max(0.0, deadline - monotonic())) and monotonic() >= deadline:
                    raise TimeoutError(f"{len(found)} of {count} {kind} requests came within {timeout:g} s")

    def add(self, *steps: Step) -> None:
        """Append steps to the main loop's script, for tests that decide on the way.

        Args:
            steps: the steps.

        Raises:
            ValueError: the script ends in a `Repeat`, so nothing can follow.
        """
        with self._changed:
            if self._main.steps and isinstance(self._main.steps[-1], Repeat):
                raise ValueError("main loop: the script ends in a Repeat, nothing can follow it")
            self._main.steps += check_script("main loop", steps)

    # -- answering ----------------------------------------------------------------------------------------------------

    def _respond(self, raw: RawRequest) -> Delivery:
        body = object_of(raw.body)
        kind = classify(raw.method, raw.path, raw.headers, body)
        headers = {name: value for name, value in raw.headers.items() if name not in SECRET_HEADERS}
        with self._changed:
            number = next(self._numbers)
            request = ModelRequest(number, kind, raw.method, raw.path, headers, body)
            self._requests.append(request)
            self._changed.notify_all()
        return Delivery(
            step=self._answer(request),
            message_id=f"msg_{self._token}_{number}",
            asked_model=request.model,
            stream=request.stream,
            new_tool_id=self._new_tool_id,
        )

    def _new_tool_id(self) -> str:
        return f"toolu_{self._token}_{next(self._tool_numbers)}"

    def _answer(self, request: ModelRequest) -> PlainStep | Static:
        match request.kind:
            case "probe":
                known = request.path.partition("?")[0] in ("/", "/api/hello")
                return Static(200, {}) if known else Static(404, _NOT_FOUND)
            case "count_tokens":
                return Static(200, {"input_tokens": max(1, len(request.text) // 4)})
            case "side":
                try:
                    chosen = self._side(request) if self._side is not None else None
                    return Reply(side_answer(request)) if chosen is None else self._resolve(request, chosen)
                except BaseException as error:  # any error of a test's function must reach the test
                    return self._refuse(request, f"the function `side` raised {error!r}", error)
        with self._changed:
            script = self._script_for(request)
            step = script.next() if script is not None else None
            if (
                script is not None
                and isinstance(step, UntilInterrupted)
                and step.after_tool
                and _TOOL_ABORTED in request.newest_text
            ):
                step.given_up.set()
                step = script.next()
        if script is None:
            tasks = ", ".join(repr(key) for key in self._subagents) or "none"
            return self._refuse(request, f"no script for this subagent; there are scripts for: {tasks}")
        if step is None:
            return self._refuse(request, f"the script of the {script.name} has no step left for it")
        return self._resolve(request, step)

    def _script_for(self, request: ModelRequest) -> _Script | None:
        if request.kind == "main":
            return self._main
        if request.kind == "compaction":
            return self._compaction
        task = request.first_prompt
        agent = request.agent_id or f"prompt {task}"
        script = self._agents.get(agent)
        if script is None:
            fitting = [key for key in self._subagents if key == "*" or key in task]
            if fitting:
                key = task if task in fitting else fitting[0]
                scripts = self._subagents[key]
                script = _Script(f"subagent {key!r}", scripts[min(self._claimed[key], len(scripts) - 1)])
                self._agents[agent] = script
                self._claimed[key] += 1
        return script

    def _resolve(self, request: ModelRequest, step: Any) -> PlainStep:
        if callable(step):
            try:
                step = step(request)
            except BaseException as error:  # any error of a test's function must reach the test
                return self._refuse(request, f"the step's function raised {type(error).__name__}: {error}", error)
        try:
            ready = plain(step)
        except TypeError as error:
            return self._refuse(request, str(error), error)
        try:
            reason = _disappointed(request, ready)
        except BaseException as error:  # an assertion of the test, or a mistake in it
            return self._refuse(request, f"`expect` raised {type(error).__name__}: {error}", error)
        return ready if reason is None else self._refuse(request, f"{reason}; the step was {_describe_step(ready)}")

    def _refuse(self, request: ModelRequest, reason: str, cause: BaseException | None = None) -> HTTPFailure:
        with self._changed:
            self._problems.append((request, reason, cause))
            self._changed.notify_all()
        return HTTPFailure(_REFUSED, retry=False, message=f"Unexpected request to the scripted model: {reason}")

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _unexpected(self) -> UnexpectedModelRequestError:
        lines = [f"{len(self._problems)} request(s) did not fit the script:"]
        lines += [f"  {request.describe()}\n    {reason}" for request, reason, _ in self._problems]
        lines.append(self._both_sides())
        return UnexpectedModelRequestError(
            escape_terminal("\n".join(lines), 20_000),
            [request for request, _, _ in self._problems],
            [reason for _, reason, _ in self._problems],
        )

    def _left(self) -> list[str]:
        left = [
            f"{script.name}: {_describe_step(step)}"
            for script in self._scripts()
            for step in script.left()
            if not _was_interrupted(step)
        ]
        return left + [
            f"main loop: {_describe_step(step)}: the host did not interrupt it"
            for step in self._main.steps[: self._main.used]
            if isinstance(step, UntilInterrupted) and not step.given_up.is_set()
        ]

    def _never_started(self) -> list[_Script]:
        return [
            _Script(f"subagent {key!r} (never started)", steps)
            for key, scripts in self._subagents.items()
            for steps in scripts[self._claimed[key] :]
        ]

    def _see_interrupts(self) -> None:
        """Wait until the server has seen that the CLI dropped the requests that were to be interrupted."""
        if not self._closed:
            for step in self._main.steps[: self._main.used]:
                if isinstance(step, UntilInterrupted):
                    step.given_up.wait(_INTERRUPT_SEEN_SECONDS)

    def _scripts(self) -> list[_Script]:
        return [self._main, self._compaction, *self._agents.values(), *self._never_started()]

    def _both_sides(self) -> str:
        shown = "\n".join(script.describe() for script in self._scripts() if script.steps or script is self._main)
        asked = "\n".join(f"  {request.describe()}" for request in self._requests) or "  none"
        return f"The script\n{_indent(shown)}\nThe requests\n{asked}"


def _was_interrupted(step: Any) -> bool:
    """Return whether a step without a request needs none: the CLI sends none after an interrupt of the tool before it."""
    return isinstance(step, UntilInterrupted) and step.after_tool


_TOOL_ABORTED = "[Request interrupted by user for tool use]"


def _disappointed(request: ModelRequest, step: PlainStep) -> str | None:
    """Return why the request is not what the step expects, None if it is; raise what the test's function raises."""
    if step.expect_text is not None and step.expect_text not in request.newest_text:
        return f"expected the text {step.expect_text!r}, got {shorten(request.newest_text, 400)!r}"
    # An expectation written with `assert` returns nothing.
    if step.expect is not None and (answer := step.expect(request)) is not None and not answer:
        return "`expect` returned false"
    return None


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
