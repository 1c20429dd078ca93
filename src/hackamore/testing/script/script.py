"""`Script`: a conversation written down once, for the simulated CLI in memory, as a process, and for the real one.

::

    script = Script()
    script.user("Delete the cache")
    script.calls("Bash", {"command": "rm -r cache"})
    script.expect_permission("Bash", decision="allow")
    script.says("Done.")

It says what the *user* sends, what the *model* does, and what happens outside. The CLI still does its own part: it asks
for permission where its mode and its rules require it, calls the hooks that are registered, and the tools of this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import msgspec

from hackamore.testing.script import steps
from hackamore.testing.script.files import decode, encode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from datetime import datetime

    from hackamore.testing.model.scripted_model import ScriptedModel
    from hackamore.testing.script.steps import ScriptStep


class Script:
    """The steps of a conversation, in order. Each method appends one and returns the script.

    Args:
        steps: the first steps; default none.
        forever: True answers every prompt after the last one like the last one.

    Example:
        ::

            script = Script().user(contains="tests").calls("Bash", {"command": "pytest"}, result="1 failed").says("One test fails.")
    """

    def __init__(self, steps: Iterable[ScriptStep] = (), *, forever: bool = False) -> None:
        self.steps: list[ScriptStep] = []
        self.forever = forever
        for step in steps:
            self.add(step)

    def add(self, step: ScriptStep) -> Self:
        """Append any step.

        Args:
            step: a step of `hackamore.testing`.

        Returns:
            The script, for the next step.

        Raises:
            TypeError: the step, or a part of it, has an unsupported type.
            ValueError: values of the step contradict each other.
        """
        try:
            msgspec.convert(msgspec.to_builtins(step, builtin_types=(bytes,)), steps.ScriptStep)
        except (msgspec.ValidationError, TypeError) as error:
            raise TypeError(f"this is not a step of a script: {step!r}: {error}") from None
        if problem := steps.contradiction(step, self.steps[-1] if self.steps else None):
            raise ValueError(problem)
        self.steps.append(step)
        return self

    # -- the conversation ---------------------------------------------------------------------------------------------

    def user(self, text: str | None = None, *, contains: str | None = None) -> Self:
        """The host sends a prompt: begins a turn; right after a call, it comes while the tool runs, and belongs to the turn.

        Args:
            text: the whole prompt; None for any.
            contains: a part of the prompt; None for any.

        Returns:
            The script, for the next step.

        Raises:
            ValueError: both are given.
        """
        return self.add(steps.UserSays(text=text, contains=contains))

    def says(self, text: str, *, chunk: int | None = None, delay: float = 0.0) -> Self:
        """The model says something; without a call behind it, that ends the turn.

        Args:
            text: the text.
            chunk: characters in each delta, with partial messages; None sends all in one.
            delay: seconds between two deltas.

        Returns:
            The script, for the next step.

        Raises:
            ValueError: `chunk` is below 1, or `delay` is negative.

        Example:
            ::

                script = Script().user().says("4")
        """
        if chunk is not None and chunk < 1:
            raise ValueError(f"`chunk` must be at least 1, not {chunk}")
        return self.add(steps.Says(text=text, chunk=chunk, delay=delay))

    def thinks(self, text: str) -> Self:
        """Make the model think, before it says or calls something.

        Args:
            text: the text of the thinking block.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Thinks(text=text))

    def calls(
        self,
        tool: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name that it has everywhere
        *,
        result: str | list[Any] = "",
        error: str | None = None,
        structured: Any = None,
        together: bool = False,
        endless: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """The model calls a tool. Its next text is its answer to the result.

        Args:
            tool: its name; `mcp__SERVER__NAME` for a tool of a server.
            input: its arguments.
            result: the result of the simulated tool: text, or content blocks. A tool of this process is really called, and so are the
                tools of the real CLI.
            error: the simulated tool fails with this text.
            structured: the tool's own form of its result (`tool_use_result`), where the default will not do.
            together: in the same message as the call before it, so that both run side by side.
            endless: the tool runs until the host interrupts it, which must happen; see `interrupted`. The real CLI runs its tool.
            id: the call's id; one that is unique in the script by default.

        Returns:
            The script, for the next step.

        Raises:
            ValueError: values contradict each other.
            TypeError: a value has an unsupported type.

        Example:
            ::

                script = Script().user().calls("Bash", {"command": "ls"}, result="README.md").says("One file.")
        """
        if input is not None and not isinstance(input, Mapping):
            raise TypeError(f"`input` must be a dict, as {{'command': 'ls'}}, not {type(input).__name__}")
        return self.add(
            steps.Calls(
                tool=tool,
                input=dict(input or {}),
                result=result,
                error=error,
                structured=structured,
                together=together,
                endless=endless,
                id=id,
            )
        )

    def subagent(
        self,
        prompt: str,
        agent: Script | str,
        *,
        description: str = "a task",
        kind: str = "general-purpose",
        background: bool = False,
    ) -> Self:
        """The model starts a subagent and waits for it, or lets it run in the background.

        Args:
            prompt: the prompt of the subagent.
            agent: the work of the subagent: a script without users, or the text of its answer.
            description: the name of the task.
            kind: the type of the agent.
            background: True if the turn continues meanwhile; `task_ends()` ends the task.

        Returns:
            The script, for the next step.

        Raises:
            ValueError: the script of the subagent contains a step that a subagent cannot do.
            TypeError: `agent` has an unsupported type.
        """
        if not isinstance(agent, str | Script):
            raise TypeError(f"`agent` must be a Script, or the text of its answer, not {type(agent).__name__}")
        inner = Script().says(agent) if isinstance(agent, str) else agent
        return self.add(
            steps.subagent_call(prompt, inner.steps, description=description, kind=kind, background=background)
        )

    def compacts(self, summary: str, *, trigger: Literal["manual", "auto"] = "manual") -> Self:
        """The conversation is compacted: after the prompt `/compact`, or before the model's next answer.

        Args:
            summary: the summary that remains.
            trigger: `manual` after a request of the user, `auto` otherwise.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Compacts(summary=summary, trigger=trigger))

    def task_ends(
        self,
        summary: str | None = None,
        *,
        status: Literal["completed", "failed", "stopped"] = "completed",
        exit_code: int = 0,
    ) -> Self:
        """The oldest background task ends; what the model does next is a turn that the CLI starts by itself.

        Args:
            summary: the summary of the task; by default that of the CLI.
            status: how it ended.
            exit_code: of a shell command.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.TaskEnds(status=status, summary=summary, exit_code=exit_code))

    def interrupted(self, *, after: str = "") -> Self:
        """The model is silent until the host interrupts: that ends the turn. A host that does not fails the test, after 30 s.

        Closing a session interrupts its turn, and a one-shot query is interrupted by leaving it. On the real CLI an end of the process
        looks the same as an interrupt. Behind a call, the interrupt may also come during the permission request or while the tool runs.

        Args:
            after: text that it has begun with before.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Interrupted(after=after))

    # -- what is looked at --------------------------------------------------------------------------------------------

    def expect_permission(
        self,
        tool: str,
        *,
        decision: Literal["allow", "deny"] | None = None,
        input: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> Self:
        """The host received a permission request for a tool in this turn. On the real CLI only a refusal can be seen.

        Args:
            tool: the name of the tool.
            decision: the answer of the host; None for any.
            input: the input that the host allowed; None for any.

        Returns:
            The script, for the next step.
        """
        return self.add(
            steps.ExpectPermission(tool=tool, decision=decision, input=None if input is None else dict(input))
        )

    def expect_hook(self, event: str, *, output: Mapping[str, Any] | None = None) -> Self:
        """A hook was called in this turn. On the real CLI it cannot be seen, and is not looked at.

        Args:
            event: the event, for example `PreToolUse`.
            output: fields that its answer must have, at every depth; `{}` for an empty answer, None for any.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.ExpectHook(event=event, output=None if output is None else dict(output)))

    def expect_result(self, text: str = "", *, error: bool | None = None) -> Self:
        """The last tools gave this to the model.

        Args:
            text: a part of it.
            error: whether it is an error; None for either.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.ExpectResult(text=text, error=error))

    def expect_denied(self, *, rule: str | None = None) -> Self:
        """The policy of the options denied one of the last calls, and the model read the reason.

        Args:
            rule: the name of the rule that denied it; None for any, and for calls without a rule.

        Returns:
            The script, for the next step.
        """
        return self.expect_result("Policy" if rule is None else f"Policy, rule {rule!r}:", error=True)

    # -- what happens outside -----------------------------------------------------------------------------------------

    def slow(self, seconds: float) -> Self:
        """Delay the next step of the model.

        Args:
            seconds: the delay.

        Returns:
            The script, for the next step.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"`seconds` must not be negative, not {seconds}")
        return self.add(steps.Slow(seconds=seconds))

    def rate_limited(self, attempts: int = 1, *, delay: float = 0.5) -> Self:
        """Make the API answer 429 some times; the CLI tries again by itself.

        Args:
            attempts: how many times; default 1.
            delay: seconds after which the CLI tries again.

        Returns:
            The script, for the next step.
        """
        return self.retries(429, attempts, delay=delay)

    def overloaded(self, attempts: int = 1, *, delay: float = 0.5) -> Self:
        """Make the API answer 529 some times; the CLI tries again by itself.

        Args:
            attempts: how many times; default 1.
            delay: seconds after which the CLI tries again.

        Returns:
            The script, for the next step.
        """
        return self.retries(529, attempts, delay=delay)

    def retries(self, status: int, attempts: int = 1, *, delay: float = 0.5) -> Self:
        """Make the API refuse some times with any status; the CLI tries again by itself.

        Args:
            status: the HTTP status.
            attempts: how many times; default 1.
            delay: seconds after which the CLI tries again.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Retry(status=status, attempts=attempts, delay=delay))

    def api_error(self, status: int = 500, message: str = "Scripted failure") -> Self:
        """Make the API refuse for good: the turn ends in an error.

        Args:
            status: the HTTP status; default 500.
            message: the text of the error.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.ApiFailure(status=status, message=message))

    def usage_limited(self, until: datetime, *, kind: str = "five_hour") -> Self:
        """Make a limit of the plan end the turn with a `RateLimitEvent` and status 429, until a moment by the clock of the machine.

        Before that moment each further prompt fails in the same way, also in another process of the session. After it the next prompt is
        answered by the rest of the turn, or takes the `user` step that follows. On the real CLI the model refuses one request; it reports
        such limits with a login and not with an API key.

        Args:
            until: when the limit resets, with a time zone.
            kind: the limit: `five_hour`, `seven_day`, `seven_day_opus`, ...

        Returns:
            The script, for the next step.

        Raises:
            ValueError: `until` has no time zone.

        Example:
            ::

                reset = datetime.now(UTC) + timedelta(seconds=3)
                script = Script().user().usage_limited(reset).says("Done.")
        """
        if until.tzinfo is None:
            raise ValueError(f"`until` must have a time zone, as in `datetime.now(UTC)`, not {until!r}")
        return self.add(steps.UsageLimit(until=until.timestamp(), kind=kind))

    # -- what breaks (only on the simulator) --------------------------------------------------------------------------

    def crash(self, exit_code: int = 1, *, stderr: str = "") -> Self:
        """End the process immediately. `crash(0)` is a clean exit.

        Args:
            exit_code: the exit status; negative for a signal.
            stderr: a text that the process writes to stderr before.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Crash(exit_code=exit_code, stderr=stderr))

    def hang(self) -> Self:
        """Send and answer nothing any more, until the process is ended.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Hang())

    def ignore_sigterm(self) -> Self:
        """Ignore SIGTERM from here on: only SIGKILL ends the process.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.IgnoreTermination())

    def garbage(self, data: bytes | str = b"this is not JSON\n") -> Self:
        """Write bytes that are not a frame.

        Args:
            data: the bytes; a line end is not added.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Garbage(data=data.encode() if isinstance(data, str) else data))

    def cut(self, bytes_kept: int | None = None, *, exit_code: int = 1) -> Self:
        """End the process in the middle of the next line that it sends.

        Args:
            bytes_kept: bytes of that line that are sent; None for half of it.
            exit_code: the process's status.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Cut(bytes_kept=bytes_kept, exit_code=exit_code))

    def frame(self, frame: Mapping[str, Any]) -> Self:
        """Send a frame as it is, of a known type or an unknown one.

        Args:
            frame: the frame, with the names of the wire.

        Returns:
            The script, for the next step.
        """
        return self.add(steps.Emit(frame=dict(frame)))

    # -- as a whole ---------------------------------------------------------------------------------------------------

    def model(self, **more: Any) -> ScriptedModel:
        """Return the model of this script for the real CLI; a context manager, which checks the script when it is left.

        Args:
            more: further arguments of `ScriptedModel`.

        Returns:
            The model; leaving its `with` block checks the script.

        Raises:
            ValueError: a step that no model can do: a crash, garbage, a raw frame.
        """
        from hackamore.testing.script.model import scripted_model

        return scripted_model(self.steps, more, forever=self.forever)

    def to_json(self) -> str:
        """Return the script as JSON text.

        Returns:
            The text, for `from_json`.
        """
        return encode(self.steps, forever=self.forever)

    @classmethod
    def from_json(cls, text: str | bytes) -> Script:
        """Return the script that `to_json` wrote, or that you wrote in the format of script files.

        Args:
            text: the JSON text.

        Returns:
            The script.

        Raises:
            ValueError: the text is not a script.
        """
        try:
            items, forever = decode(text)
        except ValueError as error:
            raise ValueError(f"this is not a script of Hackamore: {error}") from None
        return cls(items, forever=forever)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the script to a file, as readable JSON.

        Args:
            path: the file; it is replaced.

        Returns:
            The path.

        Raises:
            OSError: the file cannot be written.
        """
        target = Path(path)
        target.write_text(json.dumps(json.loads(self.to_json()), indent=1) + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Script:
        """Read a script from a file in JSON, or in TOML if its name ends in `.toml`.

        Args:
            path: the file.

        Returns:
            The script.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not contain a script; the text names the place.
        """
        file = Path(path)
        try:
            items, forever = decode(file.read_bytes(), "toml" if file.suffix == ".toml" else "json")
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
        return cls(items, forever=forever)

    def describe(self) -> str:
        """Return the steps, one on a line.

        Returns:
            The text.
        """
        return "\n".join(step.describe() for step in self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and (self.steps, self.forever) == (other.steps, other.forever)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Script of {len(self.steps)} steps>"
