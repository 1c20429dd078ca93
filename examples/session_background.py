"""Work that outlives the answer: a shell in the background, what it prints, how it ends, and how it is stopped.

The result of a prompt is not the end of the work. `wait_idle` waits for that: no prompt of the program is open, nothing runs in the
background, and the CLI is idle.
"""

# scripted: Reply(ToolCall("Bash", {"command": "echo compiling; sleep 1; echo built", "description": "build",
#   "run_in_background": True})), Reply("The build runs."), Reply("The build is done."), Reply(ToolCall("Bash", {"command":
#   "echo serving; sleep 600", "description": "serve", "run_in_background": True})), Reply("The server runs."),
#   Repeat("The server was stopped.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import BackgroundTasksChanged, Options, ResultMessage

OPTIONS = Options(allowed_tools=["Bash(echo *)", "Bash(sleep *)"])


async def watch(session: hackamore.Session) -> None:
    """Say what runs; ends with the session."""
    async for event in session.events():
        if isinstance(event, BackgroundTasksChanged):
            print("  in the background:", [task.description for task in event.tasks])


async def main() -> None:
    async with hackamore.Session(OPTIONS) as session, asyncio.TaskGroup() as group:
        group.create_task(watch(session))
        everything = session.messages()  # what the model says by itself belongs to no turn of the program

        turn = await session.send("Build it in the background.")
        first = await turn.result()
        print(first.text)
        await session.wait_idle()  # the build has ended, and the model has said what it makes of it

        # A task that would never end.
        turn = await session.send("Start the server in the background.")
        await turn.result()
        [task] = session.background_tasks
        print("so far:", (await session.get_task_output(task.task_id)).output)
        await session.stop_task(task.task_id)
        await session.wait_idle()

        # Leaving the block would stop what runs. `finish` waits for it instead, and nothing runs any more.
        await session.finish()
        answers = [message.text async for message in everything if isinstance(message, ResultMessage)]
    print(answers)
    assert answers[:3] == ["The build runs.", "The build is done.", "The server runs."]


if __name__ == "__main__":
    asyncio.run(main())
