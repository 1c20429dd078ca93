"""The way to another machine, without the transports that use it."""

from __future__ import annotations

import os
from collections import deque
from copy import copy
from typing import TYPE_CHECKING

from hackamore.errors import OptionsError
from hackamore.options.options import Options
from hackamore.transports.process.prepare import child_settings
from hackamore.transports.remote.paths import PathMap
from hackamore.transports.remote.script import Graces, first_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from hackamore._engine.launch.plan import LaunchPlan
    from hackamore.transports.remote.script import First


class Route:
    """The way to a machine: the command that carries the link, folders, variables, limits of time.

    Attributes:
        name: the machine, for people.
        env: names of variables of this process that the CLI gets.
        heartbeat: seconds without a sign of life after which either side takes the link for lost.
        connect_seconds: how long the first answer may take.
        paths: folders of this machine and the same folders over there.
    """

    name: str
    script: str = "supervisor.sh"
    """The program that runs over there."""
    reports_loss: bool = False
    """True if a write over there fails once the link is gone."""

    def __init__(
        self,
        *,
        cwd: str | None,
        env: Sequence[str],
        paths: Mapping[str, str] | None,
        heartbeat: float,
        connect_seconds: float,
    ) -> None:
        if isinstance(env, str):
            raise TypeError("`env` must be a list of names of variables, not a str.")
        if not 1 <= heartbeat <= 86_400 or not 0 < connect_seconds <= 86_400:
            raise ValueError("`heartbeat` must be 1 to 86,400 seconds, `connect_seconds` above 0 and at most as many.")
        self.cwd: str | None = cwd
        self.env: tuple[str, ...] = tuple(env)
        self.paths: PathMap = PathMap(paths or {})
        self.heartbeat: float = heartbeat
        self.connect_seconds: float = connect_seconds
        self.failed: deque[float] = deque(maxlen=1)  # when the last start failed; shared by the copies for options
        self.settings: dict[str, Any] = child_settings(Options())

    def configured(self, options: Options) -> Self:
        """Return the place with the graces, the limits and the `stderr` callback of these options.

        Raises:
            OptionsError: a policy would take paths over there for paths of this machine.
        """
        if options.policy is not None and getattr(options.policy, "machine", "") is None:
            raise OptionsError(
                f"The policy takes paths for those of this machine, and the CLI runs on {self.name}. Make it for that one: "
                "`Policy.load(..., machine=Machine('build1', home='/home/me'))`.",
                field="policy",
            )
        place = copy(self)
        place.settings = child_settings(options)
        return place

    def folder(self, cwd: str | None) -> str | None:
        """Return the folder over there for the `cwd` of a plan: mapped if it is below a folder of `paths`, else as it is."""
        return self.cwd if cwd is None else self.paths.far(cwd)

    def shares(self, path: str) -> bool:
        """Return whether a folder of this machine has a path over there."""
        return self.paths.has(path)

    def conversation_folder(self, cwd: object) -> str:
        """Return the folder over there that names the project of a conversation in a session store."""
        return self.folder(None if cwd is None else os.fspath(cwd)) or "/"  # type: ignore[call-overload]

    def first_bytes(self, plan: LaunchPlan, stop_grace: float, kill_grace: float) -> First:
        """Return the first bytes for a plan."""
        # Without a report, no supervisor can tell a lost link from the end of the input: then the CLI gets less time.
        grace = stop_grace if self.reports_loss else min(stop_grace, 2.0)
        graces = Graces(
            max(1, round(self.heartbeat)), round(grace), max(1, round(kill_grace)), 1 + round(2 * self.connect_seconds)
        )
        return first_bytes(plan, graces, self.paths.far, self.script)

    def link_argv(self, bootstrap: str) -> Sequence[str]:
        """Return the command on this machine that carries the link."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"
