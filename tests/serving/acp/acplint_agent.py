"""`hackamore acp` for `acplint` 0.1.0, which differs from version 1 of the protocol in three names. This program translates these alone.

It sends and expects `protocolVersion` as a string, names the blocks of a prompt `content`, and expects settings to have a `label`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any


def to_agent(message: dict[str, Any]) -> dict[str, Any]:
    """Translate a message of acplint."""
    params = message.get("params")
    if isinstance(params, dict):
        if message.get("method") == "initialize":
            params["protocolVersion"] = 1
        if message.get("method") == "session/prompt" and "content" in params:
            params["prompt"] = params.pop("content")
    return message


def to_client(message: dict[str, Any]) -> dict[str, Any]:
    """Translate a message of the agent."""
    found = message.get("result")
    if isinstance(found, dict):
        if "protocolVersion" in found:
            found["protocolVersion"] = str(found["protocolVersion"])
        for each in found.get("configOptions") or ():
            each["label"] = each["name"]
    return message


def main() -> int:
    agent = subprocess.Popen(
        [sys.executable, "-m", "hackamore", "acp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    answers = agent.stdout

    def back() -> None:
        for line in answers:
            print(json.dumps(to_client(json.loads(line))), flush=True)

    thread = threading.Thread(target=back)
    thread.start()
    for line in sys.stdin:
        agent.stdin.write(json.dumps(to_agent(json.loads(line))) + "\n")
        agent.stdin.flush()
    agent.stdin.close()
    thread.join()
    return agent.wait()


if __name__ == "__main__":
    sys.exit(main())
