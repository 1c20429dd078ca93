"""The session of an editor, recorded as frames in `examples/editors/session.jsonl`, is played again: the agent answers the same frames.

`HACKAMORE_TEST_RECORD=1` writes the answers again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hackamore.serving import acp
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.serving.acp.editor import piped
from tests.support.patience import patience

pytestmark = pytest.mark.anyio

FILE = Path(__file__).resolve().parents[3] / "examples/editors/session.jsonl"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def script() -> Script:
    """Return what the model does in the recorded session."""
    edit = {"file_path": "shop.py", "old_string": "price = 1", "new_string": "price = 2"}
    todo = {"todos": [{"content": "Change the price", "status": "in_progress", "activeForm": "Changing the price"}]}
    found = Script().user("Set the price to 2.").thinks("It is in shop.py.").says("I change the price.", chunk=9)
    found.calls("TodoWrite", todo, result="ok", id="call_1").calls("Edit", edit, result="ok", id="call_2")
    found.expect_permission("Edit", decision="allow").says("The price is 2.")
    return found.user("Delete the file.").calls("Bash", {"command": "rm shop.py"}, id="call_3").says("I left the file.")


@shows("acp.client.recorded")
async def test_a_recorded_session_is_played(tmp_path: Path) -> None:
    frames = [json.loads(line) for line in FILE.read_text().splitlines()]
    seen: list[dict[str, Any]] = []
    session = ""
    async with acp.agent(transport=SimulatedCLI(script())) as agent, piped(agent) as (writer, reader):
        for frame in frames:
            if frame["from"] == "editor":
                sent = json.dumps(frame["message"]).replace("CWD", str(tmp_path)).replace("SESSION", session)
                writer.write(f"{sent}\n".encode())
                await writer.drain()
                seen.append(frame)
                continue
            line = (await asyncio.wait_for(reader.readuntil(b"\n"), patience(20))).decode()
            if found := _ID.search(line):
                session = found[0]
            message = json.loads(_ID.sub("SESSION", line.replace(str(tmp_path), "CWD")))
            seen.append({"from": "agent", "message": message})
    if os.environ.get("HACKAMORE_TEST_RECORD") == "1":
        FILE.write_text("".join(f"{json.dumps(each)}\n" for each in seen))
    assert seen == frames
    updates = [
        each["message"]["params"]["update"] for each in seen if each["message"].get("method") == "session/update"
    ]
    kinds = {each["sessionUpdate"] for each in updates}
    assert {
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
    } <= kinds
