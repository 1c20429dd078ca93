"""`Webhook`: a notifier that posts messages, signed by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from hackamore._version import __version__
from hackamore.approvals.delivering import ReceiverGoneError
from hackamore.errors import ApprovalError
from hackamore.options.bounds import checked_timeout

if TYPE_CHECKING:
    import http.client
    from collections.abc import Mapping, Sequence

    from hackamore.approvals.links import Links

_GONE = 410


class Webhook:
    """A notifier that posts each message to a URL, signed by the rules of [Standard Webhooks](https://www.standardwebhooks.com).

    The body is `{"type": "approval.asked", "timestamp": ..., "data": message}`. A message that is sent again has the same `webhook-id`. A
    status of 200 to 299 accepts it, and 410 refuses it for good. Redirects are not followed. The usual proxy variables count.

    Args:
        url: the URL of the receiver; `https`, except in a network that you trust.
        secret: `whsec_` and 24 to 64 random bytes in base64. Several sign each message several times, while a receiver changes its own.
        links: the URL of the page of approvals, for `link` of the message; or `Links`, for a signed one of each approver in `links`.
        content: True adds the input of the call, its tags and the whole reason to the message.
        timeout: seconds for one attempt.
        name: the name in the database; a process delivers what others wrote down for this name. None makes one of the URL.

    Raises:
        ValueError: the URL or the secret cannot be used.

    Example:
        ::

            notify = [Webhook("https://hooks.example/approvals", os.environ["APPROVALS_SECRET"])]
            approvals = Approvals("approvals.db", notify=notify, remind=3_600)
    """

    def __init__(
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        links: Links | str | None = None,
        content: bool = False,
        timeout: float = 10.0,
        name: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not url.isprintable():
            raise ValueError(
                "`url` of a webhook must begin with https:// or http:// and have a host, without a user or password"
            )
        seconds = checked_timeout(timeout)
        if seconds is None or not 0 < seconds <= 60:
            raise ValueError(f"`timeout` must be more than 0 and at most 60 seconds, got {timeout!r}")
        self.name: str = name or f"{parts.hostname}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        self.content: bool = content
        self._url = url
        self._parts = parts
        self._keys = [_key(each) for each in ([secret] if isinstance(secret, str) else secret)]
        if not self._keys:
            raise ValueError("`secret` of a webhook must not be empty")
        self._links = links
        self._timeout = seconds

    def __repr__(self) -> str:
        return f"Webhook({self.name!r})"

    def send(self, message: Mapping[str, Any]) -> None:
        """Post a message; return when the receiver has accepted it.

        Args:
            message: the message, with `event` and `id`.

        Raises:
            ApprovalError: the receiver cannot be reached, or did not accept it.
        """
        data = dict(message)
        if isinstance(self._links, str):
            data["link"] = f"{self._links.rstrip('/')}/#{message['id']}"
        elif self._links is not None:
            data["links"] = self._links.of(message)
        now = time.time()
        about = {"type": f"approval.{message['event']}", "timestamp": datetime.fromtimestamp(now, UTC).isoformat()}
        body = msgspec.json.encode({**about, "data": data})
        name, seconds = f"msg_{message['id']}_{message['event']}", f"{now:.0f}"
        signed = f"{name}.{seconds}.".encode() + body
        signatures = [f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in self._keys]
        headers = {"content-type": "application/json", "user-agent": f"hackamore/{__version__}", "webhook-id": name}
        headers |= {"webhook-timestamp": seconds, "webhook-signature": " ".join(signatures)}
        status = self._post(body, headers)
        if status == _GONE:
            raise ReceiverGoneError(
                f"The receiver {self.name} answered 410: it wants no more messages. Remove it from `notify`."
            )
        if not 200 <= status < 300:
            hint = ". Redirects are not followed: use the new URL" if 300 <= status < 400 else ""
            raise ApprovalError(f"The receiver {self.name} answered {status}{hint}.")

    def _post(self, body: bytes, headers: Mapping[str, str]) -> int:
        import http.client

        connection, place = self._connection()
        # The timeout of a socket begins again with each byte.
        late = threading.Event()
        timer = threading.Timer(self._timeout, _cut, (connection, late))
        timer.daemon = True
        try:
            timer.start()
            connection.request("POST", place, body, dict(headers))
            with connection.getresponse() as response:
                if late.is_set():  # the head of the answer was cut off
                    raise TimeoutError
                return response.status
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The text of the error may have the URL, which may be a secret.
            why = getattr(error, "strerror", None) or type(error).__name__
            raise ApprovalError(f"The receiver {self.name} cannot be reached: {why}.") from None
        finally:
            timer.cancel()
            connection.close()
            if timer.ident is not None:
                timer.join()

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        """Return a connection to the receiver or to a proxy, and what to ask it for."""
        import http.client
        from urllib.request import getproxies, proxy_bypass

        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        host, place = parts.hostname or "", f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        proxy = getproxies().get(parts.scheme)
        if proxy is None or proxy_bypass(host):
            return kind(host, parts.port, timeout=self._timeout), place
        via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        connection = kind(via.hostname or "", via.port, timeout=self._timeout)
        if kind is http.client.HTTPConnection:
            return connection, self._url
        who = base64.b64encode(f"{unquote(via.username or '')}:{unquote(via.password or '')}".encode()).decode()
        connection.set_tunnel(host, parts.port, {"Proxy-Authorization": f"Basic {who}"} if via.username else {})
        return connection, place


def _key(secret: str) -> bytes:
    """Return the bytes of a secret. The error does not show it."""
    with suppress(binascii.Error, ValueError):
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        if secret.startswith("whsec_") and 24 <= len(key) <= 64:
            return key
    raise ValueError(
        "`secret` of a webhook must be `whsec_` and 24 to 64 random bytes in base64. Make one: "
        "python -c 'import base64, os; print(\"whsec_\" + base64.b64encode(os.urandom(32)).decode())'"
    )


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    import socket

    late.set()
    if (found := connection.sock) is not None:
        with suppress(OSError):
            socket.socket.shutdown(found, socket.SHUT_RDWR)
