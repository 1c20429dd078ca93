"""Functions that the CLI calls while it works: one refuses, one changes the input, one looks on."""

# scripted: Reply(ToolCall("Bash", {"command": "rm -r build", "description": "delete"})), Reply(ToolCall("Bash",
#   {"command": "echo done", "description": "report"})), Reply("I was not allowed to delete the build.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import HookContext, HookMatcher, HookOutput, Options, hooks

seen: list[str] = []


async def no_deletions(call: hooks.PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    if "rm " in call.tool_input["command"]:
        return HookOutput.deny("Nothing is deleted here.")
    return None


def shout(call: hooks.PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    """A plain function: it runs in a thread, and may block."""
    if call.tool_input["command"] == "echo done":
        return HookOutput.update_input({**call.tool_input, "command": "echo DONE"})
    return None


async def look(call: hooks.PostToolUseHookInput, context: HookContext) -> None:
    seen.append(str(call.tool_response))


OPTIONS = Options(
    permission_mode="bypassPermissions",
    hooks={
        # A guard fails closed: if it raises or is too slow, the tool does not run.
        "PreToolUse": [HookMatcher("Bash", no_deletions, on_failure="block"), HookMatcher("Bash", shout)],
        "PostToolUse": HookMatcher("Bash", look),
    },
)


async def main() -> None:
    async with hackamore.start_session("Tidy up this folder.", OPTIONS) as session:
        result = await session.first_turn.result()
        print(result.text)
    assert len(seen) == 1, seen  # the first command never ran
    assert "DONE" in seen[0]
    print(seen, session.warnings)


if __name__ == "__main__":
    asyncio.run(main())
