"""Other machines: over SSH, in a container, behind any command. Each is a value for `transport=`."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from copy import copy
from typing import TYPE_CHECKING, TypeVar

import anyio

from hackamore.options.options import Options
from hackamore.transports.remote.route import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from hackamore.transports.remote.checking import CheckReport
    from hackamore.transports.remote.transports import AsyncRemote, SyncRemote

R = TypeVar("R", "AsyncRemote", "SyncRemote")
HEARTBEAT_SECONDS = 15.0
CONNECT_SECONDS = 30.0
AVOIDED_SECONDS = 30.0
"""A machine that fails immediately has the fewest sessions, and would get them all."""


class Place(Route):
    """A machine on which CLIs are started, as a source of transports: give it as `transport=` to queries, sessions, pools and fleets.

    Hooks, permissions and tools stay in this process. Over there a supervisor in shell script owns the CLI; nothing else is needed there.
    """

    def for_async(self) -> AsyncRemote:
        """Return a new transport for one query or session of `hackamore`."""
        from hackamore.transports.remote.transports import AsyncRemote

        return AsyncRemote(self, **self.settings)

    def for_sync(self) -> SyncRemote:
        """Return a new transport for one query or session of `hackamore.sync`."""
        from hackamore.transports.remote.transports import SyncRemote

        return SyncRemote(self, **self.settings)

    async def check(
        self, options: Options | None = None, on_step: Callable[[str], object] | None = None
    ) -> CheckReport:
        """Look whether sessions with these options can run over there. A hook is called, and no model.

        Args:
            options: those of the sessions; None for the defaults.
            on_step: called with the name of each step before it.

        Returns:
            The problems, each with its fix, and facts: `print(report)`, `report.ok`, `report.raise_for_findings()`.

        Raises:
            OptionsError: the options cannot be used on another machine.
        """
        from hackamore.transports.remote.checking import check_place

        return await check_place(self, options or Options(), on_step)

    def check_sync(self, options: Options | None = None, on_step: Callable[[str], object] | None = None) -> CheckReport:
        """Do the same as `check`, without an event loop; in one it raises RuntimeError."""
        return anyio.run(self.check, options, on_step)


class Machines:
    """Several places as one: each session goes to the one with the fewest. For fleets, and pools of queries that stand alone.

    One where a start failed gets none for half a minute, unless all failed. A conversation stays on the machine where it began: resume it
    there, or from a session store.

    Args:
        places: the places.
    """

    def __init__(self, *places: Place) -> None:
        if not places:
            raise ValueError("Give at least one place.")
        self._places = places
        self._open: tuple[weakref.WeakSet[AsyncRemote | SyncRemote], ...] = tuple(weakref.WeakSet() for _ in places)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Machines {' '.join(place.name for place in self._places)}>"

    def configured(self, options: Options) -> Self:
        """Return the places with what the options say of them; they count their sessions together."""
        machines = copy(self)
        machines._places = tuple(place.configured(options) for place in self._places)  # noqa: SLF001 - a copy
        return machines

    def for_async(self) -> AsyncRemote:
        """Return a new transport to the place with the fewest sessions."""
        return self._add(lambda place: place.for_async())

    def for_sync(self) -> SyncRemote:
        """Return a new blocking transport to the place with the fewest sessions."""
        return self._add(lambda place: place.for_sync())

    def _add(self, make: Callable[[Place], R]) -> R:
        with self._lock:
            since = time.monotonic() - AVOIDED_SECONDS
            counts = [sum(not each.over for each in opened) for opened in self._open]
            failed = [any(each > since for each in place.failed) for place in self._places]
            at = min(range(len(counts)), key=lambda at: (failed[at], counts[at]))
            made = make(self._places[at])
            self._open[at].add(made)
            return made

    def shares(self, path: str) -> bool:
        """Return whether a folder of this machine has a path on each of the places."""
        return all(place.shares(path) for place in self._places)

    def conversation_folder(self, cwd: object) -> str:
        """Return the folder over there that names the project of a conversation in a session store."""
        return self._places[0].conversation_folder(cwd)


class SSH(Place):
    """A machine over the `ssh` of this one: its agent, known hosts, configuration and shared connections count.

    It never asks: what needs a password, or a yes for a new host key, is an error.

    Args:
        host: as for `ssh`: a name, an alias of the configuration, `user@name`.
        cwd: the folder over there, `~/...` included; None for the home folder.
        arguments: options of `ssh`, before those of Hackamore: `["-F", "ssh_config", "-p", "2222"]`.
        env: names of variables of this process that the CLI gets. They are sent with the first bytes, not by `SendEnv`.
        paths: folders of this machine, each with its path over there, for `Options.cwd`, `add_dirs` and `PathMap`.
        heartbeat: seconds without a sign of life after which either side takes the link for lost; at least 1.
        connect_seconds: how long the first answer may take.
        program: the `ssh` of this machine.
    """

    reports_loss = True

    def __init__(
        self,
        host: str,
        *,
        cwd: str | None = None,
        arguments: Sequence[str] = (),
        env: Sequence[str] = (),
        paths: Mapping[str, str] | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        program: str = "ssh",
    ) -> None:
        super().__init__(cwd=cwd, env=env, paths=paths, heartbeat=heartbeat, connect_seconds=connect_seconds)
        if not host or host.startswith("-"):
            raise ValueError("`host` must be the name of a machine.")
        self.host: str = host
        self.name: str = f"ssh://{host}"
        self._command = (program, *arguments)

    def link_argv(self, bootstrap: str) -> Sequence[str]:
        seconds = max(1, round(self.connect_seconds))
        # The first value that ssh gets counts: those of the user stand before these.
        options = ("BatchMode=yes", f"ConnectTimeout={seconds}", "RemoteCommand=none", "RequestTTY=no", "LogLevel=INFO")
        own = [part for option in options for part in ("-o", option)]
        return [*self._command, *own, "--", self.host, f"exec sh -c '{bootstrap}'"]


class Command(Place):
    """A machine behind any command that passes its input and output to `sh`: `["kubectl", "exec", "-i", "pod", "--"]`.

    Args:
        command: the command, to which `sh -c PROGRAM` is added. It must pass stdin, stdout and stderr unchanged, without a terminal.
        name: the place, for people; None for the program alone, as arguments may be secret.
        cwd, env, paths, heartbeat, connect_seconds: as for `SSH`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        cwd: str | None = None,
        env: Sequence[str] = (),
        paths: Mapping[str, str] | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        super().__init__(cwd=cwd, env=env, paths=paths, heartbeat=heartbeat, connect_seconds=connect_seconds)
        if isinstance(command, str) or not all(isinstance(part, str) for part in command):
            raise TypeError("`command` must be a list of arguments, not a text: no shell reads it.")
        self._command = tuple(command)
        self.name: str = name or os.path.basename(self._command[0] if command else "sh")

    def link_argv(self, bootstrap: str) -> Sequence[str]:
        return [*self._command, "sh", "-c", bootstrap]


class Container(Place):
    """A container: a new one for each session, which ends with it, or one that runs.

    Args:
        image: the image of a new container; its entry point is not used.
        attach: the name of a container that runs, instead of an image.
        mounts: folders of this machine, each with its path in the container; they are a map of paths as well.
        runtime: `podman`, `docker`, `nerdctl`, or a path of one.
        arguments: options of `run` or `exec`: `["--network", "none"]`.
        cwd, env, heartbeat, connect_seconds: as for `SSH`; without `cwd` the first mount is the folder.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        attach: str | None = None,
        mounts: Mapping[str, str] | None = None,
        runtime: str = "podman",
        arguments: Sequence[str] = (),
        cwd: str | None = None,
        env: Sequence[str] = (),
        heartbeat: float = HEARTBEAT_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        if (image is None) == (attach is None):
            raise ValueError("Give `image` for new containers, or `attach` for one that runs.")
        for name, value in (("image", image), ("attach", attach)):
            if value is not None and (not value or value.startswith("-")):
                raise ValueError(f"`{name}` must be a name.")
        mounts = {os.path.abspath(os.path.expanduser(near)): far for near, far in (mounts or {}).items()}
        if mounts and attach is not None:
            raise ValueError("`mounts` are for new containers: one that runs has its own.")
        if any("," in part or not far.startswith("/") for near, far in mounts.items() for part in (near, far)):
            raise ValueError("`mounts` must give absolute paths in the container, and have no commas.")
        cwd = cwd or next(iter(mounts.values()), None)
        super().__init__(cwd=cwd, env=env, paths=mounts, heartbeat=heartbeat, connect_seconds=connect_seconds)
        self.name: str = f"{os.path.basename(runtime)}{'+exec' if attach else ''}://{image or attach}"
        self._runtime, self._arguments, self._image, self._attach = runtime, tuple(arguments), image, attach

    def link_argv(self, bootstrap: str) -> Sequence[str]:
        if self._attach is not None:
            return [self._runtime, "exec", "-i", *self._arguments, self._attach, "sh", "-c", bootstrap]
        mounts = [f"--mount=type=bind,source={near},target={far}" for near, far in self.paths.pairs]
        name = f"hackamore-{secrets.token_hex(6)}"
        own = ["run", "--rm", "-i", "--name", name, *mounts, *self._arguments, "--entrypoint", "sh"]
        return [self._runtime, *own, str(self._image), "-c", bootstrap]
