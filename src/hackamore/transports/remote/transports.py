"""The transports of a place: a child process on this machine whose input and output are those of a CLI on another one."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from hackamore.errors import LinkLostError, RemoteStartError
from hackamore.transports.process.child import ChildProcess
from hackamore.transports.process.processes import CHILD_ID_VARIABLE
from hackamore.transports.process.subprocess_async import AsyncChildProcess
from hackamore.transports.process.subprocess_sync import SyncChildProcess
from hackamore.transports.remote.findings import refused
from hackamore.transports.remote.link import LinkChild, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.launch.plan import LaunchPlan
    from hackamore.transports.process.child import Child
    from hackamore.transports.remote.route import Route

_LAST_WORDS_SECONDS = 1.0
"""How long after the end of a link its process may take to exit, and so to say on stderr why."""
_MARGIN_SECONDS = 3.0
"""A margin for the way and a busy machine, on top of the seconds that the supervisor counts."""


class _Remote(ChildProcess):
    """Parts that the transports of both kinds share.

    Args:
        place: where the CLI runs.
        settings: those of `ChildProcess`.
    """

    def __init__(self, place: Route, **settings: Any) -> None:
        super().__init__(**settings)
        self._place = place
        self._far: LaunchPlan | None = None
        self._one_shot = False
        self._early = b""

    def _make_child(self, plan: LaunchPlan, **settings: Any) -> Child:
        place, far = self._place, self.far_plan(plan)
        first = place.first_bytes(far, self._stop_grace, self._kill_grace)
        self._far, self._one_shot = far, far.stdin is not None
        argv = place.link_argv(first.bootstrap)
        link = msgspec.structs.replace(
            plan,
            argv=tuple(argv),
            owners=("",) * len(argv),
            program_length=len(argv),
            # Without the mark: the supervisor cleans up after a kill, and on this machine it would be killed with the link.
            environment={name: value for name, value in os.environ.items() if name != CHILD_ID_VARIABLE},
            cwd=None,
            user=None,
        )
        # Over there the CLI gets these seconds; the link has to live until its end was reported.
        settings["stop_grace"] = self._stop_grace + self._kill_grace + _MARGIN_SECONDS
        child = LinkChild(link, far=far, first=first, heartbeat=place.heartbeat, **settings)
        child.child_id = plan.environment.get(CHILD_ID_VARIABLE, "")
        return child

    def far_plan(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan as it counts over there."""
        place, own = self._place, (CHILD_ID_VARIABLE, "PWD")
        variables = {name: os.environ[name] for name in place.env if name in os.environ}
        names = (*plan.own_variables, *variables)
        variables |= {
            name: value for name, value in plan.environment.items() if name not in plan.inherited and name not in own
        }
        return msgspec.structs.replace(plan, environment=variables, own_variables=names, cwd=place.folder(plan.cwd))

    @property
    def over(self) -> bool:
        """True once the link has ended."""
        return self._child is not None and self._child.done.is_set()

    @property
    def noise(self) -> bytes:
        """The end of what came before the supervisor."""
        return self._link.output.noise

    @property
    def said(self) -> str:
        """The end of stderr, read until now."""
        self._link.drain()
        return self._link.stderr_tail.decode("utf-8", "replace").replace("\r\n", "\n")  # ssh ends its lines so

    @property
    def _link(self) -> LinkChild:
        child = self._started()
        assert isinstance(child, LinkChild)  # noqa: S101 - `_make_child` made it
        return child

    def _hear(self, link: LinkChild) -> bool:
        """Read the output of the start; return whether the supervisor has answered, or never will."""
        data = link.take()
        if data:
            self._early += data
        return link.output.state is not State.CALLING or data == b"" or link.stopping

    def _answered(self, link: LinkChild) -> None:
        """Raise RemoteStartError unless the supervisor has answered with yes. The CLI may have ended since."""
        if link.output.state in (State.READY, State.EXITED):
            self._place.failed.clear()
        elif not link.stopping:
            raise self._failure(link)

    def _failure(self, link: LinkChild, *, timeout: bool = False) -> RemoteStartError | LinkLostError:
        """Return why the link ended, or did not come about."""
        output, said = link.output, self.said
        if output.state is State.LOST and self._ready:
            return LinkLostError(self._place.name, silent=output.silent, stderr=said)
        self._place.failed.append(time.monotonic())
        return refused(self._place, output, said, exit_code=link.exit_code, timeout=timeout)

    _ready = False

    def _ended(self, data: bytes | None) -> bytes | None:
        """Return the end of the output if the supervisor reported it, or this side ends the link itself; else raise."""
        link = self._link
        if data == b"" and link.output.state in (State.LOST, State.REFUSED) and not link.stopping:
            raise self._failure(link)
        return data

    def _end_now(self, *, turn_open: bool) -> None:
        """Ask the supervisor to end the CLI, which a signal does for a local child."""
        if turn_open and isinstance(child := self._child, LinkChild):
            child.queue(f"{child.first.tag} now\n".encode())

    def _exit_code(self, code: int | None) -> int | None:
        child = self._child
        return child.output.code if isinstance(child, LinkChild) and child.output.code is not None else code


class AsyncRemote(_Remote, AsyncChildProcess):
    """Reaches a CLI on another machine, on asyncio and trio; an `AsyncPushTransport`."""

    async def start(self, plan: LaunchPlan) -> None:
        """Start the link, and wait until the supervisor over there has answered."""
        await super().start(plan)
        link = self._link
        with anyio.move_on_after(self._place.connect_seconds) as scope:
            while not self._hear(link):
                await self._wait(link)
        await self._last_words()
        try:
            if scope.cancelled_caught:
                raise self._failure(link, timeout=True)
            self._answered(link)
        except BaseException:
            link.stop(turn_open=True)
            raise
        self._ready = True

    async def receive(self) -> bytes:
        """Return the next bytes of the CLI; b"" at their end."""
        if self._early:
            data, self._early = self._early, b""
            return data
        data = await super().receive()
        await self._last_words()
        self._ended(data)
        return data

    async def push_to(self, take: Callable[[bytes], bool]) -> bytes | None:
        if self._early:
            data, self._early = self._early, b""
            if not take(data):
                return None
        ended = await super().push_to(take)
        await self._last_words()
        return self._ended(ended)

    async def _last_words(self) -> None:
        if self._link.output.state is State.LOST and not self._link.stopping:
            with anyio.move_on_after(_LAST_WORDS_SECONDS):
                await super().wait_exit()

    async def end_input(self) -> None:
        self._link.fed = True
        if self._one_shot:
            await anyio.lowlevel.checkpoint()
        else:
            await super().end_input()

    async def wait_exit(self) -> int | None:
        return self._exit_code(await super().wait_exit())

    async def stop(self, *, turn_open: bool) -> None:
        self._end_now(turn_open=turn_open)
        await super().stop(turn_open=False if self._far is not None else turn_open)


class SyncRemote(_Remote, SyncChildProcess):
    """Reaches a CLI on another machine, without an event loop; a `SyncPushTransport`."""

    def start(self, plan: LaunchPlan) -> None:
        """Start the link, and wait until the supervisor over there has answered."""
        super().start(plan)
        link = self._link
        until = time.monotonic() + self._place.connect_seconds
        try:
            while not self._hear(link):
                left = until - time.monotonic()
                if left <= 0:
                    raise self._failure(link, timeout=True)
                link.wait(left)
            if link.output.state is State.LOST:
                super().wait_exit(_LAST_WORDS_SECONDS)
            self._answered(link)
        except BaseException:
            link.stop(turn_open=True)
            raise
        self._ready = True

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of the CLI; b"" at their end; None after `timeout`, or if its input broke."""
        if self._early:
            data, self._early = self._early, b""
            return data
        received = super().receive(timeout)
        if received == b"" and self._link.output.state is State.LOST and not self._link.stopping:
            super().wait_exit(_LAST_WORDS_SECONDS)
        return self._ended(received)

    def end_input(self) -> None:
        self._link.fed = True
        if not self._one_shot:
            super().end_input()

    def wait_exit(self, timeout: float | None = None) -> int | None:
        return self._exit_code(super().wait_exit(timeout))

    def stop(self, *, turn_open: bool) -> None:
        self._end_now(turn_open=turn_open)
        super().stop(turn_open=False if self._far is not None else turn_open)
