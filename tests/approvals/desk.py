"""An MCP server on standard input and output that asks the user which drink it is to be."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"drink": {"type": "string"}}, "required": ["drink"]}
TOOL = {"name": "order", "description": "Order a drink.", "inputSchema": {"type": "object", "properties": {}}}
calls: list[Any] = []


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = "2025-06-18"
        about = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
        send({"id": number, "result": about})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": [TOOL]}})
    elif method == "tools/call":
        calls.append(number)
        asked = {"message": "Which drink?", "requestedSchema": SCHEMA}
        send({"id": f"ask-{number}", "method": "elicitation/create", "params": asked})
    elif method is None and "result" in message:
        answer = message["result"]
        text = f"{answer['action']}: {(answer.get('content') or {}).get('drink', 'nothing')}"
        send({"id": calls.pop(), "result": {"content": [{"type": "text", "text": text}]}})
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
