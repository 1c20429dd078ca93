"""Who was asked, who answered and how long it took: in spans, in the trace, and in the request of the callback."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from hackamore import Allow, Approvals
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.traces.reading import read_trace
from tests.contract import shows
from tests.support.patience import patience
from tests.telemetry.collecting import Collected, attributes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


@shows("approvals.seen")
def test_spans_and_the_trace_say_who_answered(
    shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path: Path
) -> None:
    collected, trace, target = Collected(), tmp_path / "run.jsonl", real_cli.cwd / "made.txt"
    write = Reply(ToolCall("Write", {"file_path": str(target), "content": "one"}))
    with (
        closing(Approvals(tmp_path / "approvals.db", approvers=["ada", "grace"])) as approvals,
        ScriptedModel(write, Repeat("Done.")) as model,
    ):

        def answer() -> None:
            until = time.monotonic() + patience(30)
            while not (found := approvals.pending(by="ada")):
                assert time.monotonic() < until
                time.sleep(0.02)  # another thread asks
            approvals.answer(found[0].id, Allow(), by="ada")

        async def scenario() -> None:
            await shell.run(
                "Go.", driving(model, approvals=approvals, telemetry=collected.telemetry(content=False), trace=trace)
            )

        thread = threading.Thread(target=answer)
        thread.start()
        shell.play(scenario)
        thread.join()
        [request] = approvals.history()
    assert target.exists()
    told = attributes(collected.one("hackamore.permission"))
    assert told["hackamore.approval.id"] == request.id
    assert told["hackamore.approval.by"] == "ada"
    assert told["hackamore.approval.approvers"] == ("ada", "grace")
    assert 0 <= told["hackamore.approval.seconds"] < patience(60)
    decisions = [item.decision for item in read_trace(str(trace)).builder.items if item.decision]
    assert len(decisions) == 1
    assert decisions[0].startswith("allowed by ada after 0:00:")
    assert decisions[0].endswith(f"request {request.id}, asked: ada, grace")
