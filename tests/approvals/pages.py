"""Requests without a CLI, and the page served to a person."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import msgspec

from hackamore import ApprovalError, Approvals, Deny, ElicitationRequest, ElicitationResult, PermissionRequest
from hackamore.approvals.local import ApprovalsServer
from hackamore.approvals.page import Person
from hackamore.dialogs import decode_elicitation
from hackamore.permissions import decode_permission_request
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.approvals import ApprovalRequest


SUGGESTED = [
    {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "make:*"}],
        "behavior": "allow",
        "destination": "localSettings",
    }
]


class Origin(NamedTuple):
    """As much of a session as a request shows of it."""

    conversation: str = "c1"
    session_id: str = "s1"


def permission(tool: str, given: dict[str, Any], conversation: str = "c1", **more: Any) -> PermissionRequest:
    wire = {"tool_name": tool, "input": given, "tool_use_id": f"call-{time.monotonic_ns()}", **more}
    return decode_permission_request(msgspec.json.encode(wire), session=Origin(conversation))


def elicitation(message: str, schema: dict[str, Any] | None = None, **more: Any) -> ElicitationRequest:
    wire = {"mcp_server_name": "shop", "message": message, "requested_schema": schema or {}, **more}
    return decode_elicitation(msgspec.json.encode(wire), session=Origin())


class Asking:
    """Callbacks that wait for people, in a thread with an event loop, as a session has one."""

    def __init__(self, approvals: Approvals) -> None:
        self.approvals = approvals
        self.threads: list[threading.Thread] = []
        self.answers: list[Any] = []

    def ask(self, request: PermissionRequest | ElicitationRequest) -> ApprovalRequest:
        """Ask; return the request once it is on record."""
        before = {each.id for each in self.approvals.pending()}

        def call() -> None:
            asks: Any = self.approvals.elicit if isinstance(request, ElicitationRequest) else self.approvals.permit
            self.answers.append(anyio.run(asks, request))

        self.threads.append(threading.Thread(target=call, daemon=True))
        self.threads[-1].start()
        until = time.monotonic() + patience(20)
        while True:
            new = [each for each in self.approvals.pending() if each.id not in before]
            if new:
                return new[0]
            assert time.monotonic() < until, "nobody asked"
            time.sleep(0.01)  # another thread asks

    def permit(self, tool: str, given: dict[str, Any], conversation: str = "c1", **more: Any) -> ApprovalRequest:
        return self.ask(permission(tool, given, conversation, **more))

    def close(self) -> None:
        """Deny what is left, until no callback waits."""
        for thread in self.threads:
            while thread.is_alive():
                for request in self.approvals.pending():
                    no: Any = (
                        ElicitationResult.decline() if request.kind == "elicitation" else Deny("The test is over.")
                    )
                    with suppress(ApprovalError):
                        self.approvals.answer(request.id, no, by="the test", groups=request.approvers or ())
                thread.join(0.05)


class Served:
    """A server of the page in a thread, and requests to it with the cookie of its browser."""

    def __init__(self, server: ApprovalsServer) -> None:
        self.server = server
        self.origin = f"http://127.0.0.1:{server.port}"
        self.headers = {"Cookie": f"{server.cookie_name}={server.cookie}"}

    def request(
        self, method: str, path: str, body: Any = None, *, known: bool = True, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=patience(20))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            named = {
                "Content-Type": "application/json",
                "Origin": self.origin,
                "Content-Length": str(len(data)),
                **named,
            }
        else:
            data = b""
        connection.putrequest(method, f"/{path}", skip_host="Host" in named)
        for name, value in {**(self.headers if known else {}), **named}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    def get(self, path: str) -> dict[str, Any]:
        status, body, _ = self.request("GET", path)
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def ids(self, name: str = "requests") -> list[str]:
        return [row["id"] for row in self.get(name)["rows"]]


@contextmanager
def serving(approvals: Approvals, name: str = "ada", *groups: str) -> Iterator[Served]:
    with ApprovalsServer(approvals, Person(name, groups)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Served(server)
        server.shutdown()
        thread.join(patience(20))
        assert not thread.is_alive()
