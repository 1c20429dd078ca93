"""A call of the real CLI that waits, and the page that answers it."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hackamore import Approvals
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.approvals.pages import Served, serving
from tests.approvals.test_real_cli import wait_for_request
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


@shows("approvals.page.answers")
@pytest.mark.parametrize("edited", [True, False], ids=["allow with another input", "deny with a message"])
def test_the_page_answers_the_cli(
    shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path: Path, edited: bool
) -> None:
    target = real_cli.cwd / "made.txt"
    call = ToolCall("Write", {"file_path": str(target), "content": "as the model wrote it"})
    changed = {"file_path": str(target), "content": "as ada wrote it"}
    sent = {"action": "allow", "input": changed} if edited else {"action": "deny", "message": "Write less."}
    found: list[int] = []

    def answer(served: Served) -> None:
        request = wait_for_request(served.server.page._approvals)  # noqa: SLF001 - the same database
        found.append(served.request("POST", f"request/{request.id}", sent)[0])

    with (
        closing(Approvals(tmp_path / "approvals.db")) as approvals,
        closing(Approvals(tmp_path / "approvals.db")) as other,
        serving(other) as served,
        ScriptedModel(Reply(call), Repeat("Done.")) as model,
    ):
        thread = threading.Thread(target=answer, args=(served,))
        thread.start()

        async def scenario() -> None:
            result = await shell.run("Go.", driving(model, approvals=approvals))
            assert result.text == "Done."

        shell.play(scenario)
        thread.join(patience(20))
        assert found == [200]
        assert ("Write less." in str([request.body for request in model.requests])) != edited
    assert (target.read_text() if target.exists() else None) == ("as ada wrote it" if edited else None)
