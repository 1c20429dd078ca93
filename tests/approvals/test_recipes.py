"""The recipes of the guide, on servers of this machine."""

from __future__ import annotations

import email
import email.policy
import hashlib
import hmac
import json
import re
import socketserver
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from hackamore import Approvals, Deny
from hackamore.approvals.links import Links, verify
from tests.approvals.announced import ask
from tests.conftest import PROJECT
from tests.contract import shows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = PROJECT / "docs" / "guides" / "production" / "approvals-notify.md"
SECRET = "a secret of thirty-two characters"
MESSAGE = {
    "event": "asked",
    "id": "5f1c8e02b7a94d36",
    "tool": "Bash",
    "conversation": "<!channel> a & b\r\nBcc: eve@example.com",
    "reason": "Because.",
    "approvers": ["ada", "bob", "eve"],
    "deadline": time.time() + 86_400,
}


@pytest.fixture(scope="module")
def recipes() -> dict[str, Any]:
    """Return the names of the Python blocks of the guide from `## Slack` on."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Slack\n")[2]
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    return names


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        address: Any = server.server_address
        yield address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@shows("approvals.notify.recipes")
def test_slack_gets_blocks_in_which_a_text_of_the_model_mentions_nobody(
    recipes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    got: list[dict[str, Any]] = []
    statuses = [200, 200, 403]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(statuses.pop(0))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        slack = recipes["Slack"](f"http://127.0.0.1:{port}/services/T1", "https://agents.example/approvals")
        slack.send(MESSAGE)
        slack.send({**MESSAGE, "event": "answered", "answer": "allow", "answered_by": "ada"})
        with pytest.raises(OSError):
            slack.send(MESSAGE)
    section, actions = got[0]["blocks"]
    assert "&lt;!channel&gt; a &amp; b" in section["text"]["text"]
    assert "<!channel>" not in json.dumps(got)
    assert [each.get("url", each.get("value")) for each in actions["elements"]] == [
        "https://agents.example/approvals/#5f1c8e02b7a94d36",
        "5f1c8e02b7a94d36",
    ]
    assert len(got[1]["blocks"]) == 1


@shows("approvals.notify.recipes")
def test_a_click_in_slack_counts_with_its_signature_only(recipes: dict[str, Any], tmp_path: Path) -> None:
    signed = recipes["is_from_slack"]
    # The example of Slack's documentation is of 2018; the way of signing is the same.
    secret, now = "8f742231b10e8888abcd99yyyzzz85a5", str(int(time.time()))
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as approvals:
        first = ask(approvals)
        actions = [{"action_id": "deny", "value": first.id}]
        body = urlencode({"payload": json.dumps({"user": {"id": "U1"}, "actions": actions})}).encode()
        mac = hmac.digest(secret.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hex()
        headers = {"x-slack-request-timestamp": now, "x-slack-signature": f"v0={mac}"}
        assert signed(secret, headers, body)
        wrong = [
            ({**headers, "x-slack-request-timestamp": str(int(now) - 400)}, body),
            ({**headers, "x-slack-request-timestamp": "²"}, body),
            ({**headers, "x-slack-signature": "é"}, body),
            (headers, body + b"x"),
            ({}, body),
        ]
        assert not any(signed(secret, each, content) for each, content in wrong)
        assert not signed("another", headers, body)
        with pytest.raises(KeyError):
            recipes["clicked"](approvals, {}, body)
        recipes["clicked"](approvals, {"U1": "ada"}, body)
        answered = approvals.get(first.id)
        assert (answered.answer, answered.answered_by) == (Deny("Denied in Slack."), "ada")


class Mails(socketserver.StreamRequestHandler):
    """As much of SMTP as `smtplib` needs."""

    got: list[tuple[str, bytes]]

    def handle(self) -> None:
        self.reply("220 ready")
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "RCPT":
                self.to = line.partition("<")[2].partition(">")[0]
            if verb == "DATA":
                self.reply("354 go on")
                data = b""
                while not data.endswith(b"\r\n.\r\n"):
                    data += self.rfile.readline()
                self.got.append((self.to, data[:-5]))
            self.reply("221 bye" if verb == "QUIT" else "250 ok")
            if verb == "QUIT":
                return

    def reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@shows("approvals.notify.recipes")
def test_each_approver_with_an_address_gets_a_mail_with_a_link(recipes: dict[str, Any]) -> None:
    Mails.got = []
    people = {"ada": "ada@example.com", "bob": "bob@example.com"}
    links = Links(SECRET, "https://agents.example/approvals")
    with serving(socketserver.TCPServer(("127.0.0.1", 0), Mails)) as port:
        mail = recipes["Mail"]("127.0.0.1", port, "agents@example.com", people, links, tls=False)
        mail.send(MESSAGE)
        mail.send({**MESSAGE, "event": "answered"})
    assert [address for address, _ in Mails.got] == ["ada@example.com", "bob@example.com"]
    found = email.message_from_bytes(Mails.got[1][1], policy=email.policy.default)
    assert found["bcc"] is None  # a text of the model makes no header
    assert found["subject"] == "Allow Bash in <!channel> a & b Bcc: eve@example.com?"
    body: Any = found.get_body()
    token = re.search(r"https://agents.example/approvals/link/(\S+)", body.get_content())
    assert token is not None
    assert verify(SECRET, token[1]).person == "bob"
