"""The second argument of a hook callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from bridle.checked.functions import reached

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HookContext"]


class HookContext:
    """Where a hook is called from. Frozen.

    Attributes:
        tool_use_id: the call it is about. The CLI makes one up where no tool is involved.
    """

    __slots__ = ("_cancelled", "_session", "tool_use_id")

    tool_use_id: str | None

    def __init__(
        self, tool_use_id: str | None = None, session: Any = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        object.__setattr__(self, "tool_use_id", tool_use_id)
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_cancelled", cancelled)

    @property
    def session(self) -> Any:
        """The session; None once nobody else holds it any more. Its methods may be called from the hook.

        In a plain function, which runs in a thread, they block: `context.session.interrupt()`. In an async one they are awaited,
        except with `bridle.sync`.
        """
        return reached(object.__getattribute__(self, "_session"))

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the answer any more: stop what you are doing.

        A plain function runs in a thread, which cannot be ended from outside; an async one is also cancelled.
        """
        cancelled: Callable[[], bool] | None = object.__getattribute__(self, "_cancelled")
        return bool(cancelled()) if cancelled is not None else False

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("HookContext is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("HookContext is frozen")

    def __repr__(self) -> str:
        return f"HookContext(tool_use_id={self.tool_use_id!r}, cancelled={self.cancelled})"
