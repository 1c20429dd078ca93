"""A stand-in for the CLI that connects to the servers it is told of before it answers, as the real one does.

`mcp_set_servers` with a server whose name begins with `refused` is refused after the new ones have been asked; with `never`, it is not
answered. `get_settings` gives what was asked and answered, in order.
"""

from __future__ import annotations

import os
import sys

from tests.support.stand_in_session import StandIn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ServersStandIn(StandIn):
    def __init__(self) -> None:
        super().__init__()
        self.known: list[str] = []
        self.log: list[Any] = []
        self.open: dict[str, tuple[str, set[str], dict[str, Any]]] = {}

    def on_request(self, request_id: str, request: dict[str, Any]) -> None:
        match request["subtype"]:
            case "initialize":
                self.known = list(request.get("sdkMcpServers", []))
                super().on_request(request_id, request)
            case "mcp_set_servers":
                servers = request["servers"]
                self.log.append(["set", sorted(servers)])
                added = [name for name in servers if name not in self.known]
                ids = {self.connect(name) for name in added if servers[name].get("type") == "sdk"}
                removed = [name for name in self.known if name not in servers]
                answer = {"added": added, "removed": removed, "errors": {}}
                self.open[request_id] = (request_id, ids, answer)
                self.look()
            case "mcp_message":
                self.log.append(["said", request["server_name"], request["message"].get("method")])
                self.connection.send_response(request_id, {})
            case "get_settings":
                self.connection.send_response(request_id, {"effective": {"log": self.log}})
            case _:
                super().on_request(request_id, request)

    def common(self, step: list[Any]) -> None:
        if step[0] == "ask_and_go":
            self.connection.send_request(step[1], step[2])
        else:
            super().common(step)

    def connect(self, name: str) -> str:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        return self.connection.send_request("mcp_message", {"server_name": name, "message": message})

    def on_event(self, frame: dict[str, Any]) -> None:
        super().on_event(frame)
        self.look()

    def look(self) -> None:
        for request_id, ids, answer in list(self.open.values()):
            if not ids <= self.answers.keys():
                continue
            del self.open[request_id]
            for answered in sorted(ids):
                self.log.append(["connected", self.answers[answered]["mcp_response"]])
            names = [*answer["added"], *self.known]
            if any(name.startswith("never") for name in answer["added"]):
                continue
            if any(name.startswith("refused") for name in answer["added"]):
                self.connection.send_error(request_id, "no such servers")
                continue
            self.known = [name for name in names if name not in answer["removed"]]
            self.connection.send_response(request_id, answer)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("2.1.328 (Claude Code)")
    else:
        os.environ.setdefault("STAND_IN_START", "[]")
        ServersStandIn().run()
