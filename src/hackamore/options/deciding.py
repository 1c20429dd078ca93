"""Deciders on tool calls: the shapes of a policy and of a broker of approvals, as options take them and the engine calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Broker", "Decider", "Ruling"]


class Ruling(Protocol):
    """The decision on a tool call, as `hackamore.policy.Verdict`."""

    @property
    def decision(self) -> Literal["allow", "ask", "deny"]:
        """The decision."""

    @property
    def rule(self) -> str | None:
        """The name of the rule that decided; None without one."""

    @property
    def reason(self) -> str:
        """The reason, for people and for the model."""

    @property
    def parts(self) -> Sequence[Any]:
        """The parts of the call, each with `kind`, `text`, `decision` and `rule`."""

    @property
    def cannot_tell(self) -> Sequence[str]:
        """The places that were not understood."""


class Decider(Protocol):
    """The method that the option `policy` needs. `hackamore.Policy` has it."""

    @property
    def decide(self) -> Callable[..., Ruling]:
        """The method `decide`, with the arguments of `hackamore.Policy.decide`. Hackamore calls it in worker threads, also for several
        calls at the same time. An exception denies the call.
        """


class Broker(Protocol):
    """The methods that the option `approvals` needs. `hackamore.Approvals` has them."""

    @property
    def permit(self) -> Callable[..., Any]:
        """The async function that answers permission requests, as `can_use_tool` does. It also gets `cwd`, that of the options."""

    @property
    def elicit(self) -> Callable[..., Any]:
        """The async function that answers requests of MCP servers, as `on_elicitation` does. It also gets `cwd`."""
