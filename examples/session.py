"""A conversation in one process: prompts that build on each other, a prompt that is stopped, a task in the background."""

# scripted: Reply("Four."), Reply("Eight."), Reply("word " * 500, chunk=10, delay=0.05), Reply(ToolCall("Bash",
#   {"command": "sleep 1; echo built", "description": "build", "run_in_background": True})), Reply("It builds."),
#   Repeat("It is built.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import AssistantMessage, Options, ResultMessage, StreamEvent

OPTIONS = Options(allowed_tools=["Bash(sleep *)", "Bash(echo *)"], include_partial_messages=True)


async def main() -> None:
    async with hackamore.Session(OPTIONS) as session:
        # A prompt, and its messages up to its result.
        turn = await session.send("What is 2 + 2?")
        async for message in turn:
            if isinstance(message, AssistantMessage):
                print(message.content)

        # Only the result. The conversation goes on: "that" is the answer above.
        turn = await session.send("And twice that?")
        result = await turn.result()
        print(result.text)

        # Stop the model in the middle of its answer. The session stays usable.
        turn = await session.send("Tell a very long story.")
        async for message in turn:
            if isinstance(message, StreamEvent) and message.text_delta:
                await session.interrupt()
                break
        await turn.result()
        print(turn.state)

        # A turn may end while its tasks run on. When they are done, the model takes a turn of its own.
        everything = session.messages()
        turn = await session.send("Build it in the background.")
        await turn.result()
        print("still running:", [task.description for task in session.background_tasks])
        await session.wait_idle()
        everything.close()
        print("idle:", session.activity, len(session.background_tasks))

        # What happens from here on is also in a cursor; `finish` lets the CLI come to its end.
        rest = session.messages()
        await session.send("Say goodbye.")
        await session.finish()
        async for message in rest:
            if isinstance(message, ResultMessage):
                print(message.text)
    print("go on with it later: Options(resume=...)", session.session_id, session.exit_code)


if __name__ == "__main__":
    asyncio.run(main())
