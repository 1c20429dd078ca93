"""The CLI on another machine, with the hooks and tools of this program. The other machine of this example is this one.

Another machine needs a POSIX shell and the CLI. The last line of the output has the path of a file on both sides.
"""

# scripted: Reply(ToolCall("Read", {"file_path": "colour.txt"}), ToolCall("mcp__stock__count", {"article": "blue paint"})),
#   Reply("The door is blue, and 3 buckets are in stock."), Reply("Blue.", expect_text="Which colour")

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hackamore import HookContext, HookMatcher, LinkLostError, Options, RunResult, hooks, sync, tool
from hackamore.transports.remote import Command, Place

seen: list[str] = []


@tool(read_only=True)
def count(article: str) -> int:
    """Return how many of an article are in stock. It runs here, with the objects of this program."""
    return {"blue paint": 3}[article]


def look(call: hooks.PreToolUseHookInput, context: HookContext) -> None:
    if call.tool_name == "Read":
        seen.append(call.tool_input["file_path"])  # a path of the other machine


def ask(prompt: str, options: Options, machine: Place) -> RunResult[None]:
    """Answer a prompt over there; resume the session if the link is lost."""
    for _ in range(3):
        try:
            return sync.run(prompt, options, transport=machine)
        except LinkLostError as error:
            if error.session_id is not None:
                prompt, options = "The link was lost. Continue.", options.replace(resume=error.session_id)
    raise RuntimeError("The link is lost again and again.")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder, "here"), Path(folder, "there")
        there.mkdir()
        (there / "colour.txt").write_text("The door is blue.\n", encoding="utf-8")

        # In its place: SSH("build1", paths={...}), or Container("img:tag", mounts={...}).
        machine = Command([], name="the other machine", paths={str(here): str(there)})
        options = Options(
            cwd=here,  # of this side: over there it is `there`
            cli_path=os.environ.get("HACKAMORE_CLI_PATH", "claude"),  # over there
            mcp_servers={"stock": [count]},
            allowed_tools=["Read", "mcp__stock__count"],
            hooks={"PreToolUse": HookMatcher(None, look)},
        )
        answer = ask("What colour is the door, and is there paint for it?", options, machine)
        print(answer.text)
        again = ask("Which colour?", options.replace(resume=answer.session_id), machine)
        print(again.text)
        print(os.path.relpath(seen[0], folder), "is", os.path.relpath(machine.paths.near(seen[0]), folder))


if __name__ == "__main__":
    main()
    assert len(seen) == 1, seen
