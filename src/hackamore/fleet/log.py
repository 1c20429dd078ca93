"""Records of fleets on the logger `hackamore`: each has `task` and `attempt` beside `session_id`, `turn_id` and `pid`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.runtime.log import Log

if TYPE_CHECKING:
    from hackamore.fleet.journal import Lease


class AttemptLog(Log):
    """The log of one attempt; without a lease, of records that belong to none."""

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__()
        self.session_id: str | None = None if lease is None else lease.session_id
        self.pid: int | None = None
        self._task = None if lease is None else lease.task
        self._attempt = None if lease is None else lease.attempt

    def ids(self) -> dict[str, Any]:
        ids = {"session_id": self.session_id, "turn_id": None, "pid": self.pid}
        return {**ids, "task": self._task, "attempt": self._attempt}


logger: AttemptLog = AttemptLog()
"""For records that belong to no attempt."""
