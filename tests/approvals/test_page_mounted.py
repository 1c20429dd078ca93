"""The page of approvals in a browser, behind the login of a service."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Mount

from hackamore import Allow, Approvals
from hackamore.approvals import approvals_app
from tests.approvals.pages import Asking
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from starlette.requests import HTTPConnection

    from tests.traces.conftest import OpenPage


class Login(AuthenticationBackend):
    """The login of the service: here the cookie itself names the user."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name = conn.cookies.get("user")
        return None if name is None else (AuthCredentials(), SimpleUser(name))


GROUPS = {"ada": ["operators"]}


def person(scope: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    user = scope["user"]
    return (user.display_name, GROUPS.get(user.display_name, [])) if user.is_authenticated else None


@contextmanager
def listening(app: Any) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield int(listener.getsockname()[1])
        server.should_exit = True
        thread.join(patience(20))
        assert not thread.is_alive()


@shows("approvals.page.mounted")
@pytest.mark.timeout(120)
def test_the_page_behind_the_login_of_a_service(open_page: OpenPage, tmp_path: Path) -> None:
    approvals = Approvals(tmp_path / "approvals.db", approvers=["operators"])
    asking = Asking(approvals)
    request = asking.permit("Bash", {"command": "make deploy"})
    mount = Mount("/ops/approvals", approvals_app(approvals, person))
    service = Starlette(routes=[mount], middleware=[Middleware(AuthenticationMiddleware, backend=Login())])
    with listening(service) as port:
        site = f"http://127.0.0.1:{port}/"
        state = {
            "cookies": [{"name": "user", "value": "ada", "domain": "127.0.0.1", "path": "/"} | COOKIE],
            "origins": [],
        }
        opened = open_page(f"{site}ops/approvals", allowed=site, storage_state=state)
        assert opened.page.url == f"{site}ops/approvals/"
        opened.press("j")
        opened.page.locator("form").wait_for()
        opened.press("a")
        opened.page.locator("#panel .banner", has_text="Allowed by ada").wait_for()
        assert (opened.requests, opened.errors) == ([], [])
        page = opened.page.context.browser.new_page()  # type: ignore[union-attr]
        answer = page.goto(f"{site}ops/approvals/")
        assert answer is not None
        assert (answer.status, "Sign in first" in page.content()) == (403, True)
        page.close()
    asking.close()
    assert asking.answers == [Allow()]
    assert approvals.get(request.id).answered_by == "ada"
    approvals.close()


COOKIE = {"expires": -1, "httpOnly": True, "secure": False, "sameSite": "Lax"}
