"""A call of the real CLI that is announced by a webhook and answered by the link in its message."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hackamore import Approvals
from hackamore.approvals import Links, Webhook
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.approvals.receiving import SECRET, Receiver
from tests.approvals.test_links import SECRET as LINK_SECRET
from tests.approvals.test_links import Page
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Receiver().start()
    yield found
    found.stop()


@shows("approvals.link.once")
@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_a_call_is_announced_and_runs_after_the_yes_of_its_link_only(
    shell: Shell, driving: Driving, real_cli: RealCLI, receiver: Receiver, tmp_path: Path, answer: str
) -> None:
    target, place = real_cli.cwd / "made.txt", tmp_path / "approvals.db"
    hook = Webhook(receiver.url, SECRET, links=Links(LINK_SECRET, "https://agents.example"))
    statuses: list[int] = []

    def click() -> None:
        [asked] = receiver.wait()
        token = asked.body["data"]["links"]["ada"].rpartition("/")[2]
        with closing(Approvals(place)) as page:
            assert not target.exists()
            statuses.extend((Page(page)(token)[0], Page(page)(token, "POST", answer=answer)[0]))

    with (
        closing(Approvals(place, notify=[hook], approvers=["ada"])) as approvals,
        ScriptedModel(Reply(ToolCall("Write", {"file_path": str(target), "content": "one"})), Repeat("Done.")) as model,
    ):
        thread = threading.Thread(target=click)
        thread.start()

        async def scenario() -> None:
            assert (await shell.run("Go.", driving(model, approvals=approvals))).text == "Done."

        shell.play(scenario)
        thread.join(patience(30))
    assert statuses == [200, 200]
    assert target.exists() == (answer == "allow")
    receiver.wait()
    assert [each.event[1] for each in receiver.got] == ["asked", "answered"]
    assert receiver.got[1].body["data"]["answer"] == answer
