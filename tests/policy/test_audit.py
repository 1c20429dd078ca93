"""The audit file of a policy: its lines, their chain, and programs that share it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Options, sync
from hackamore.errors import OptionsError
from hackamore.policy import Policy, PolicyError, Rule
from hackamore.policy.audit import verify
from hackamore.storage.chain import ChainFile
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-ant-api03-" + "x" * 40


def written(path: Path, count: int = 5) -> list[bytes]:
    chain = ChainFile(path)
    for number in range(count):
        chain.append({"number": number})
    return path.read_bytes().splitlines(keepends=True)


@shows("policy.audit.line", "policy.audit.private")
def test_a_line_has_the_decision_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    rules = [Rule(name="no", tool="WebSearch", decision="ask"), Rule(name="read", tool="Read", decision="allow")]
    script = (
        Script()
        .user()
        .calls("WebSearch", {"query": KEY})
        .calls("Read", {"file_path": "a", "note": "x" * 5_000})
        .says("Done.")
    )
    options = Options(
        policy=Policy(rules), policy_audit=file, policy_tags={"t": "a"}, can_use_tool=lambda _: hackamore.Deny("No.")
    )
    sync.run("Go.", options, transport=SimulatedCLI(script))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line.get("event"), line["tool"], line["decision"]) for line in lines] == [
        (None, "WebSearch", "ask"),
        ("answer", "WebSearch", "deny"),
        (None, "Read", "allow"),
    ]
    assert lines[0]["rule"] == "no"
    assert lines[0]["call"] == lines[1]["call"]
    assert lines[0]["tags"] == {"t": "a"}
    assert "..." in lines[2]["input"]["note"]
    assert KEY not in file.read_text()
    assert verify(file).problems == ()


@shows("policy.audit.line")
def test_without_a_line_there_is_no_call(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    ran: list[str] = []

    @hackamore.tool
    def work() -> str:
        """Work."""
        ran.append("work")
        return "done"

    class Removing:
        def decide(self, *call: object, **around: object) -> Any:
            file.unlink()
            file.mkdir()  # nothing can be written there
            return Policy([Rule(tool="mcp__*", decision="allow")]).decide("mcp__own__work", {})

    script = Script().user().calls("mcp__own__work", {}).expect_result("Is a directory", error=True).says("Done.")
    options = Options(policy=Removing(), policy_audit=file, mcp_servers={"own": [work]})
    with SimulatedCLI(script) as cli:
        sync.run("Go.", options, transport=cli)
    assert ran == []


@shows("policy.audit.chain")
def test_changed_removed_and_moved_lines_are_found(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    lines = written(file)
    intact = verify(file)
    assert (intact.decisions, intact.problems, intact.incomplete) == (5, (), ())
    first, second, third, fourth, fifth = lines
    changed = third.replace(b'"number":2', b'"number":7')
    for number, other in (
        (3, [first, second, changed, fourth, fifth]),
        (3, [first, second, fourth, fifth]),
        (1, [second, third, fourth, fifth]),
        (2, [first, third, second, fourth, fifth]),
        (4, [first, second, third, third, fourth, fifth]),
        (4, [first, second, third[:40] + b"\n", fourth, fifth]),
        (3, [first, second, third[:-3] + b"\n", fourth, fifth]),
    ):
        file.write_bytes(b"".join(other))
        problems = verify(file).problems
        assert problems, other
        assert problems[0][0] == number or verify(file).incomplete == (3,)
    file.write_bytes(b"".join(lines[:3]))
    assert verify(file).problems == ()
    assert "missing" in verify(file, contains=intact.last).problems[0][1]
    with pytest.raises(PolicyError, match="cannot be read"):
        verify(tmp_path / "none")


@shows("policy.audit.shared")
def test_half_a_line_of_a_killed_program_disturbs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    written(file, 2)
    with file.open("ab") as half:
        half.write(b'{"prev":"12')
    written(file, 2)
    report = verify(file)
    assert (report.decisions, report.problems, report.incomplete) == (4, (), (3,))
    long = ChainFile(file)
    long.append({"text": "x" * 200_000})  # longer than the part of the file that is read first
    long.append({"text": ""})
    assert verify(file).problems == ()


@shows("policy.audit.shared")
def test_programs_and_threads_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    source = f"""
from hackamore.storage.chain import ChainFile
for number in range(40):
    ChainFile({str(file)!r}, 60).append({{"number": number}})
"""
    programs = [subprocess.Popen([sys.executable, "-c", source]) for _ in range(3)]
    threads = [threading.Thread(target=lambda: written(file, 20)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(30))
    assert [program.wait(patience(30)) for program in programs] == [0, 0, 0]
    report = verify(file)
    assert (report.decisions, report.problems, report.incomplete) == (180, (), ())


@shows("policy.audit.private")
def test_a_link_or_a_folder_that_is_missing_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "goal")
    for path in (tmp_path / "link", tmp_path / "none" / "audit.jsonl", tmp_path):
        options = Options(policy=Policy([]), policy_audit=path)
        with pytest.raises(OptionsError, match="policy_audit"):
            sync.run("Go.", options, transport=SimulatedCLI(Script().user().says("Done.")))
    assert not (tmp_path / "goal").exists()


HOLD = """
import fcntl, os, signal, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stopped_program_that_holds_the_file_is_an_error_in_time(tmp_path: Path) -> None:
    chain = ChainFile(tmp_path / "audit.jsonl", 0.05)
    with subprocess.Popen([sys.executable, "-c", HOLD, chain.path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
        with pytest.raises(TimeoutError, match="locked"):
            chain.append({})
        holder.send_signal(signal.SIGCONT)
    ChainFile(chain.path, patience(10)).append({})
    assert verify(chain.path).decisions == 1
