"""Say which tools may run. What is not allowed is denied, and the result tells what was.

`allowed_tools` are permission rules for what runs without asking. They take nothing away: `tools` says which tools
exist at all, and `disallowed_tools` what is forbidden whatever else is allowed.
"""

# scripted: Reply("I will look.", ToolCall("Bash", {"command": "ls"}), ToolCall("Write",
#   {"file_path": "/tmp/note.txt", "content": "hello"})), Reply("I saw the files. I was not allowed to write a note.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import AssistantMessage, Options, ResultMessage, ToolResultBlock, ToolUseBlock, UserMessage

OPTIONS = Options(
    tools=["Bash", "Read", "Write"],
    allowed_tools=["Read", "Bash(ls *)", "Bash(ls)"],
    disallowed_tools=["Bash(rm *)"],
    permission_mode="dontAsk",
)


async def main() -> None:
    async with hackamore.query("List the files here, and leave a note in /tmp/note.txt.", OPTIONS) as stream:
        async for message in stream:
            match message:
                case AssistantMessage(content=blocks):
                    for block in blocks:
                        if isinstance(block, ToolUseBlock):
                            print(f"call    {block.name} {block.input}")
                case UserMessage(content=list(blocks)):
                    for block in blocks:
                        if isinstance(block, ToolResultBlock):
                            print("denied " if block.is_error else "result ", block.content)
                case ResultMessage(result=text, permission_denials=denials):
                    print(text)
                    print("denied:", [denial.tool_name for denial in denials])


if __name__ == "__main__":
    asyncio.run(main())
