"""What a tool may know about the call that it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.checked.functions import reached

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ToolContext"]


class ToolContext:
    """The call that a tool answers. A parameter annotated with this class gets it and stays out of the schema.

    ::

        @tool
        async def count(path: str, context: ToolContext) -> int: ...

    Attributes:
        tool_use_id: the id of the model's `tool_use` block, if the CLI said it.
        server: the name of the tool server.
        tool: the name of the tool.
        request_id: the JSON-RPC id of the call.
        meta: what else the caller said about the call, as it came (`_meta`).
    """

    __slots__ = ("_cancelled", "_notify", "_session", "_token", "meta", "request_id", "server", "tool", "tool_use_id")

    def __init__(
        self,
        *,
        tool_use_id: str | None = None,
        session: Any = None,
        server: str = "",
        tool: str = "",
        request_id: str | float | None = None,
        meta: Mapping[str, Any] | None = None,
        notify: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.tool_use_id = tool_use_id
        self._session = session
        self.server = server
        self.tool = tool
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta or {}
        token = self.meta.get("progressToken")
        self._token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
        self._notify = notify
        self._cancelled = False

    @property
    def session(self) -> Any:
        """The session that asks; None outside of one, and once nobody else holds it any more.

        In a plain function, which runs in a thread, its methods block; in an async one they are awaited, except with `bridle.sync`.
        """
        return reached(self._session)

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result any more. Plain functions that work long look at it from time to time."""
        return self._cancelled

    def cancel(self) -> None:
        """Set `cancelled`. The session does it; tests of your own tools may."""
        self._cancelled = True

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the work is. Returns at once; does nothing if the caller did not ask for it.

        Args:
            progress: how much is done; it has to grow from call to call.
            total: how much there is to do, if that is known.
            message: what is going on, for people.
        """
        if self._token is None or self._notify is None or self._cancelled:
            return
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def __repr__(self) -> str:
        return f"ToolContext(tool={self.tool!r}, tool_use_id={self.tool_use_id!r}, cancelled={self._cancelled})"
