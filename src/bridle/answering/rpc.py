"""JSON-RPC between the CLI and the servers of this process: what a message says of itself, and the answers that need no server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.errors import printable
from bridle.tools.server import INTERNAL_ERROR, rpc_error

if TYPE_CHECKING:
    from bridle.answering.jobs import Jobs
    from bridle.protocol.connection import Connection

__all__ = ["ACKNOWLEDGEMENT", "Head", "answered", "cancel_call", "failed", "send_message"]

logger = logging.getLogger("bridle")

ACKNOWLEDGEMENT = {"jsonrpc": "2.0", "id": 0, "result": {}}
"""The answer to a notification."""


class Head(msgspec.Struct):
    """A message as far as it has to be read to pass it on; without an id it is a notification."""

    id: int | float | str | None = None
    method: str | None = None
    params: Raw = Raw()

    @classmethod
    def of(cls, message: bytes | Raw) -> Head:
        """Return the head of a message; an empty one if it cannot be read."""
        try:
            return _head(message)
        except ValueError:
            return cls()

    @property
    def cancelled_id(self) -> Any:
        """The id of the call that a `notifications/cancelled` names; None if it names none."""
        try:
            return _cancelled(self.params).request_id
        except ValueError:
            return None


class _Cancelled(msgspec.Struct):
    request_id: int | float | str | None = msgspec.field(default=None, name="requestId")


_head = msgspec.json.Decoder(Head).decode
_cancelled = msgspec.json.Decoder(_Cancelled).decode


def answered(answer: Any) -> dict[str, Any]:
    """Return the answer of a server as the CLI expects it."""
    return {"mcp_response": answer}


def failed(message_id: Any, reason: str) -> dict[str, Any]:
    """Return the answer to a message that no server answered; a notification is acknowledged."""
    if message_id is None:
        return answered(ACKNOWLEDGEMENT)
    return answered(rpc_error(message_id, INTERNAL_ERROR, printable(reason, 1_000)))


def cancel_call(jobs: Jobs, owner: object, message_id: Any) -> None:
    """End the call that a `notifications/cancelled` names, if it is open."""
    job = jobs.of_call(owner, message_id)
    if job is not None:
        answer = failed(message_id, "The call was cancelled.") if job.plan is None else answered(job.plan.cancel())
        jobs.cancel(job, answer)


def send_message(connection: Connection, server: str, message: dict[str, Any]) -> bool:
    """Send a message that a server starts; False if it could not be sent."""
    if connection.over:
        return False
    try:
        connection.send_request("mcp_message", {"server_name": server, "message": message}, internal=True)
    except Exception as error:
        logger.debug("a message of server %r was not sent: %s", server, error)
        return False
    return True
