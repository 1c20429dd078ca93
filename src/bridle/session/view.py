"""What a session of either shell can say without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridle.errors import StreamWarning
    from bridle.messages.system import BackgroundTask
    from bridle.options.options import Options
    from bridle.protocol.results import ServerInfo
    from bridle.protocol.states.session import Activity, Lifecycle
    from bridle.session.core import SessionCore

__all__ = ["SessionBase"]


class SessionBase:
    """A session, as it is now."""

    _core: SessionCore[Any]

    @property
    def options(self) -> Options:
        """The options it was made with."""
        return self._core.options

    @property
    def state(self) -> Lifecycle:
        """NEW, STARTING, INITIALIZING, RUNNING, STOPPING, STOPPED or FAILED."""
        return self._core.connection.lifecycle

    @property
    def activity(self) -> Activity:
        """What the CLI says it is doing: running, idle, requires_action, unknown."""
        return self._core.connection.activity

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        """What runs in the background, as last reported."""
        return self._core.connection.background_tasks

    @property
    def server_info(self) -> ServerInfo | None:
        """What the CLI said of itself; None before, and if it said nothing."""
        return self._core.connection.server_info

    @property
    def session_id(self) -> str | None:
        """The session, as soon as a message has named it: for `Options(resume=...)`."""
        return self._core.connection.session_id

    @property
    def exit_code(self) -> int | None:
        """The CLI's exit code, once it is known; negative for a signal."""
        return self._core.connection.exit_code

    @property
    def warnings(self) -> list[StreamWarning]:
        """What was degraded so far: the last thousand."""
        return list(self._core.warnings)
