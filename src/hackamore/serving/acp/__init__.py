"""An agent for editors, evaluators and other clients of the Agent Client Protocol (ACP). Needs `hackamore[acp]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.errors import OptionsError

if TYPE_CHECKING:
    import os

    from hackamore.aio.pool import SessionPool
    from hackamore.options.options import Options
    from hackamore.serving.acp.host import Agent
    from hackamore.transports.base import TransportSource

__all__ = ["agent"]


def agent(
    options: Options | None = None,
    *,
    policy: str | os.PathLike[str] | None = None,
    pool: SessionPool | None = None,
    max_live: int = 16,
    title: str = "Hackamore",
    transport: TransportSource | None = None,
) -> Agent:
    """Return an agent that clients of the Agent Client Protocol can use: editors, for example.

    Policy, budgets, approvals, telemetry and tools of the options work as in any session. The client answers permission requests, unless
    the options have `can_use_tool` or `approvals`. Conversations are those of the CLI: they can be loaded after a restart.

    Args:
        options: settings of all conversations; `Options()` if None. The client chooses folder, mode, model and further MCP servers.
        policy: the file of a policy, whose roots `{root}` and `{repo}` are the folder of each conversation; None for that of `options`.
        pool: a pool of your program that runs the conversations, in place of `options`; you start and stop it. With a registry in a file
            conversations can be loaded after a restart. Such an agent neither lists nor forks conversations.
        max_live: limit on CLI processes. Further conversations hibernate, and prompts wait for a place.
        title: the name that editors show.
        transport: makes connections to the CLI; None for local child processes.

    Returns:
        The agent, to be entered with `async with`; then `await agent.serve_stdio()`, or mount `agent.app()`. It needs asyncio.

    Raises:
        ImportError: `agent-client-protocol` is not installed.
        OptionsError: the options do not suit a pool, come with a pool, or have a policy beside `policy`.
        PolicyError: the file of the policy cannot be used.
    """
    if pool is not None and (options is not None or transport is not None):
        raise OptionsError("`options` and `transport` are those of the pool: leave them out.", field="pool")
    try:
        from hackamore.policy import Policy
        from hackamore.serving.acp.host import ROOTS, Agent
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("acp", "pydantic"):
            raise
        raise ImportError(
            "`agent-client-protocol` is not installed; run: pip install 'hackamore[acp]'", name=error.name
        ) from None
    made = Agent(options, pool, max_live, title, transport)
    if policy is not None:
        if made.options.policy is not None:
            raise OptionsError("The options have a policy as well: only one can decide.", field="policy")
        made.policy = policy
        Policy.load(
            policy, roots=dict.fromkeys(ROOTS, ".")
        )  # so that its errors are not those of the first conversation
    return made
