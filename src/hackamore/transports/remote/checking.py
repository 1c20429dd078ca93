"""`check` of a place: a probe in shell script looks around over there, then the CLI is started as a session would, and calls a hook."""

from __future__ import annotations

import time
from collections import deque
from contextlib import asynccontextmanager
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from hackamore._engine.launch.discovery import MINIMUM_SESSION, check
from hackamore._engine.launch.versions import CLIVersion
from hackamore.errors import (
    HackamoreError,
    LinkLostError,
    OptionsError,
    RemoteStartError,
    SpawnError,
    StartError,
    UnsupportedCLIVersionError,
    escape_terminal,
    without_keys,
)
from hackamore.transports.process.prepare import launch_plan
from hackamore.transports.recording.masking import Mask
from hackamore.transports.remote.findings import PROBLEMS, Finding
from hackamore.transports.remote.transports import AsyncRemote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import Self

    from hackamore.options.options import Options
    from hackamore.transports.remote.route import Route

_PROBE_SECONDS = 60.0
_HOOK_SECONDS = 30.0
_MOST_BYTES = 4 * 1024 * 1024
_LEAST_FREE_KB = 20 * 1024
_CLOCK_SECONDS = 60
_POSIX_SHELLS = ("", "sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh")
_OF_PROBE = ("system", "user", "shell", "home", "folder", "temp", "locale", "cli")


class CheckReport:
    """The state of another machine, as `check` of a transport found it. `print` shows it.

    Attributes:
        place: the machine, the container or the command, for people.
        findings: the problems.
        facts: the values of `system`, `user`, `shell`, `home`, `folder`, `temp`, `locale`, `cli` (its path), `version`, `login` (its
            kind) and `round_trip` (in seconds).
    """

    def __init__(self, place: str, findings: list[Finding], facts: Mapping[str, Any]) -> None:
        self.place: str = escape_terminal(place, 200)
        self.findings: tuple[Finding, ...] = tuple(findings)
        self.facts: Mapping[str, Any] = MappingProxyType(facts)

    @property
    def ok(self) -> bool:
        """True if sessions can run; there may be warnings."""
        return all(finding.level != "error" for finding in self.findings)

    def raise_for_findings(self) -> None:
        """Raise RemoteStartError for the first error, if there is one."""
        for code, level, text, fix in self.findings:
            if level == "error":
                raise RemoteStartError(self.place, code, text, fix)

    def __str__(self) -> str:
        lines = [f"{self.place}: {'ready' if self.ok else 'not ready'}"]
        lines += [f"  {name:<10} {value}{' s' * (name == 'round_trip')}" for name, value in self.facts.items()]
        for code, level, text, fix in self.findings:
            lines += [f"  {level} {code}: {text}", f"    -> {fix}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CheckReport {self}>"


class _Lines:
    """The lines of the other side, which may send anything."""

    def __init__(self, transport: AsyncRemote) -> None:
        self._transport = transport
        self._lines: deque[bytes] = deque()
        self._rest, self._left = b"", _MOST_BYTES

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            data = await self._transport.receive()
            if not data:
                raise StopAsyncIteration
            self._left -= len(data)
            if self._left < 0:
                raise StartError(f"It wrote more than {_MOST_BYTES:,} bytes.")
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(lines)
        return self._lines.popleft()


class _Check:
    def __init__(self, place: Route, options: Options, on_step: Callable[[str], object] | None) -> None:
        # No conversation continues, and nothing of this one stays.
        alone: dict[str, Any] = dict.fromkeys(("resume", "resume_session_at", "session_id", "session_store"))
        self.options = options.replace(
            **alone, continue_conversation=False, fork_session=False, persist_session=False, max_turns=1
        )
        self.place = place.configured(self.options)
        self.plan = launch_plan(self.options, find=False)
        self.step: Callable[[str], object] = on_step or (lambda _: None)
        self.findings: list[Finding] = []
        self.facts: dict[str, Any] = {}
        self.late = "timeout"

    def add(self, code: str, detail: str = "") -> None:
        if all(each.code != code for each in self.findings):  # the other side may repeat itself
            text, fix, level = PROBLEMS[code]
            self.findings.append(Finding(code, level, text.format(detail=_plain(detail)), fix))

    def report(self) -> CheckReport:
        return CheckReport(self.place.name, self.findings, self.facts)

    @asynccontextmanager
    async def running(self, script: str, seconds: float) -> AsyncIterator[AsyncRemote]:
        """Run a script over there, with all that starts a CLI."""
        place = copy(self.place)
        place.script = script
        transport = AsyncRemote(place, **place.settings)
        try:
            with anyio.fail_after(place.connect_seconds + seconds):
                await transport.start(self.plan)
                yield transport
        finally:
            with anyio.CancelScope(shield=True):
                await transport.stop(turn_open=False)

    async def probe(self) -> None:
        self.step("Connecting")
        async with self.running("probe.sh", _PROBE_SECONDS) as transport:
            if noise := transport.noise.decode("utf-8", "replace").strip():
                self.add("noisy-shell", noise.split("\n")[0])
            self.step("Looking around")
            at, since = time.time(), time.monotonic()
            await transport.send(b"now\n")
            async for line in _Lines(transport):
                key, _, value = line.decode("utf-8", "replace").partition(" ")
                if key == "clock" and value.isdecimal():
                    took = self.facts["round_trip"] = round(time.monotonic() - since, 4)
                    behind = at - int(value[:15])  # it may send any number
                    if behind > _CLOCK_SECONDS or -behind - took > _CLOCK_SECONDS:
                        self.add("clock-off", f"{abs(behind):.0f} s {'behind' if behind > 0 else 'ahead of'}")
                else:
                    self.saw(key, value.strip())
        if "cli" not in self.facts:
            self.add("no-cli", str(self.options.cli_path or "claude"))

    def saw(self, key: str, value: str) -> None:
        """Judge a line of the probe."""
        if value and key in _OF_PROBE:
            self.facts[key] = _plain(value)
        match key:
            case "shell" if value not in _POSIX_SHELLS:
                self.add("other-shell", value)
            case "free" if value.isdecimal() and int(value[:15]) < _LEAST_FREE_KB:
                self.add("no-space", value)
            case "read-only-home" | "no-folder" | "no-locale":
                self.add(key, value)
            case "version":
                if known := CLIVersion.parse(value):
                    self.facts["version"] = str(known)
                try:
                    check(value, self.options.version_check, MINIMUM_SESSION)
                except UnsupportedCLIVersionError as error:
                    self.add("old-version", f"{error.detected}, and sessions need {error.minimum}")
                except StartError:
                    self.add("no-version", Mask(self.plan)(value.encode()).decode() or "nothing")

    async def launch(self) -> None:
        """Start the CLI, and send a prompt that a hook blocks: no model is called."""
        self.step("Starting the CLI")
        self.late = "no-start"
        hooks = {"UserPromptSubmit": [{"matcher": None, "hookCallbackIds": ["check"]}]}
        request = {**self.plan.initialize, "subtype": "initialize", "hooks": hooks}
        seconds = (self.options.timeouts.initialize or 60.0) + _HOOK_SECONDS
        async with self.running("supervisor.sh", seconds) as transport:
            await transport.send(_frame("control_request", request_id="check", request=request))
            hooked = False
            async for line in _Lines(transport):
                try:
                    frame = msgspec.json.decode(line)
                except (ValueError, RecursionError):
                    continue
                kind, response = _inside(frame, "type"), _inside(frame, "response")
                if kind == "control_response" and self.late == "no-start":
                    if not self.started(response):
                        return
                    self.step("A hook")
                    self.late = "no-hook"
                    message = {"role": "user", "content": "A check of this machine."}
                    await transport.send(_frame("user", message=message, parent_tool_use_id=None, session_id=""))
                elif kind == "control_request":
                    answer = {"subtype": "error", "error": "This is a check.", "request_id": frame.get("request_id")}
                    if _inside(frame, "request", "subtype") == "hook_callback":
                        hooked = True
                        answer |= {"subtype": "success", "response": {"decision": "block", "reason": answer["error"]}}
                    await transport.send(_frame("control_response", response=answer))
                elif self.late == "no-hook" and kind in ("assistant", "result", "stream_event"):
                    if not hooked:
                        self.add("no-hook")
                    return
            code = await transport.wait_exit()
            self.add("no-start", f"it ended with code {code}, and said: {transport.said.strip() or 'nothing'}")

    def started(self, answer: object) -> bool:
        """Judge the answer to `initialize`."""
        if _inside(answer, "subtype") != "success":
            self.add("no-start", str(_inside(answer, "error")))
            return False
        account = _inside(answer, "response", "account")
        if isinstance(account, dict):
            given = [account.get("apiKeySource"), account.get("tokenSource"), account.get("apiProvider")]
            kinds = [kind for kind in given if kind not in (None, "", "none", "firstParty")]
            if kinds:
                self.facts["login"] = _plain(str(kinds[0]))
            else:
                self.add("no-login")
        return True


def _inside(value: Any, *names: str) -> Any:
    """Return a member of the objects of the other side, which may send any; None if it is not there."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _plain(text: str) -> str:
    """Return a text of the other side as one short line."""
    return without_keys(escape_terminal(" ".join(text.split()), 300))


def _frame(kind: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": kind, **fields}) + b"\n"


async def check_place(place: Route, options: Options, on_step: Callable[[str], object] | None) -> CheckReport:
    """Check a place; arguments are those of `Place.check`."""
    found = _Check(place, options, on_step)
    try:
        await found.probe()
        if found.report().ok:
            await found.launch()
    except OptionsError:
        raise
    except RemoteStartError as error:
        said = error.stderr.strip().splitlines()
        text = f"{error.problem} It said: {said[-1]}" if said else error.problem
        found.findings.append(Finding(error.code, "error", _plain(text), error.fix))
    except TimeoutError:
        found.add(found.late, "it was silent for too long")
    except LinkLostError as error:
        found.add("closed", error.stderr.strip() or "nothing")
    except SpawnError as error:
        found.add("no-program", str(error))
    except HackamoreError as error:
        found.add("no-start", str(error))
    return found.report()
