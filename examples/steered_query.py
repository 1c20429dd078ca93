"""`run` and `query` with functions of this program: a guard, a permission callback, a tool. No session to open or close.

Options that need the bidirectional protocol switch it on by themselves; everything else stays as it is.
"""

# scripted: Reply(ToolCall("Bash", {"command": "rm -r build", "description": "delete"})), Reply(ToolCall("mcp__shop__price",
#   {"article": "tea"})), Reply(ToolCall("Write", {"file_path": "offer.txt", "content": "tea: 4.50"})), Reply("The offer is written."),
#   Reply(ToolCall("mcp__shop__price", {"article": "tea"})), Reply("Tea costs 4.50 euros.")

from __future__ import annotations

import asyncio
from pathlib import Path

import hackamore
from hackamore import (
    Allow,
    AssistantMessage,
    Deny,
    HookContext,
    HookMatcher,
    HookOutput,
    Options,
    PermissionRequest,
    hooks,
    tool,
)


async def no_deletions(call: hooks.PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    if "rm " in call.tool_input["command"]:
        return HookOutput.deny("Nothing is deleted here.")
    return None


async def only_offers(request: PermissionRequest) -> Allow | Deny:
    if request.tool_name == "mcp__shop__price":
        return Allow()
    if request.tool_name == "Write" and Path(request.input["file_path"]).name == "offer.txt":
        return Allow()
    return Deny("Only the offer may be written.")


@tool(read_only=True)
def price(article: str) -> float:
    """Return the price of an article in euros."""
    return {"tea": 4.5, "coffee": 7.0}[article]


OPTIONS = Options(
    hooks={"PreToolUse": HookMatcher("Bash", no_deletions, on_failure="block")},
    can_use_tool=only_offers,
    mcp_servers={"shop": [price]},
)


async def main() -> None:
    # The answer alone.
    answer = await hackamore.run("Clean up, and write an offer for tea.", OPTIONS)
    print(answer.text)
    print("denied:", [denial.tool_name for denial in answer.result.permission_denials])

    # The messages as they come. A prompt may also be a list of content blocks: text, images, documents.
    async with hackamore.query([{"type": "text", "text": "What does tea cost?"}], OPTIONS) as stream:
        async for message in stream:
            if isinstance(message, AssistantMessage):
                print(message.content)


if __name__ == "__main__":
    asyncio.run(main())
    assert Path("offer.txt").read_text(encoding="utf-8") == "tea: 4.50"
