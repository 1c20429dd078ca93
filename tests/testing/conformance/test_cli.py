"""`check_cli` and `hackamore conformance`: the pinned CLI conforms; of a stand-in that does not, it is said precisely what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hackamore.errors import CLINotFoundError
from hackamore.hooks import HOOK_EVENTS
from hackamore.messages.results import ServerInfo
from hackamore.testing import check_cli
from hackamore.testing.conformance.behaviours import flags_of_help, our_flags
from hackamore.testing.conformance.bench import CLI_CHECKS, Bench
from hackamore.testing.conformance.cli import run_checks
from scripts import drift_baseline
from scripts.drift import Drift, without_row
from tests.support.patience import patience

pytestmark = pytest.mark.timeout(300)

BROKEN = """
import json, sys
arguments = sys.argv[1:]
if "--version" in arguments:
    print({version!r})
elif "--help" in arguments:
    print("Usage: claude")
elif "--print" in arguments and "--hackamore-conformance" not in arguments:
    sys.stdin.read()
    block = {{"type": "text", "text": "Hello.", "new": 1}}
    for frame in (
        {{"type": "system", "subtype": "init", "session_id": "s", "brand_new": True}},
        {{"type": "assistant", "message": {{"role": "assistant", "content": [block, {{"type": "hologram"}}]}}}},
        {{"type": "telepathy"}},
        {{"type": "system", "subtype": "status", "status": 5}},
    ):
        print(json.dumps(frame))
    print("\\x1b[31mand this is a log line")
"""


def stand_in(folder: Path, version: str) -> str:
    path = folder / "claude"
    code = folder / "broken.py"
    code.write_text(BROKEN.format(version=version))
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {code} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_the_pinned_cli_conforms_and_has_not_drifted(claude_path: str, tmp_path: Path) -> None:
    drift = Drift()
    bench = Bench(claude_path, tmp_path, see=drift.see)
    findings = list(run_checks(bench, CLI_CHECKS))
    assert [str(finding) for finding in findings if finding.status != "holds"] == []
    assert len(findings) == len(CLI_CHECKS) > 20
    assert bench.facts["version"] == drift_baseline.VERSION
    assert set(drift.unknown_types) <= drift_baseline.TYPES
    assert set(drift.unknown_fields) <= drift_baseline.FIELDS
    assert set(drift.unknown_blocks) == set()
    assert set(bench.facts["initialize"]) - set(ServerInfo.__struct_encode_fields__) <= drift_baseline.INITIALIZE
    assert set(bench.facts["hook_fields"]) == set()
    assert bench.hooks <= set(HOOK_EVENTS)
    assert without_row(bench.facts["listed"], drift_baseline.FLAGS) == []


def test_a_part_of_the_checks_on_the_pinned_cli(claude_path: str) -> None:
    seen: list[Any] = []
    report = check_cli(claude_path, only=["start", "one-shot"], on_finding=seen.append)
    report.raise_for_failures()
    assert {finding.group for finding in seen} == {"start", "one-shot"}
    assert [finding.status for finding in report.findings] == ["holds"] * len(seen)
    assert report.subject.endswith(f", version {drift_baseline.VERSION}")
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("conformance")] == []


def test_what_is_wrong_with_a_cli_is_said(tmp_path: Path) -> None:
    report = check_cli(stand_in(tmp_path, "2.9.0 (Claude Code)"), seconds=4.0)
    found = {finding.check: (finding.status, finding.detail) for finding in report.findings}
    assert found["version"] == ("holds", "")
    assert found["plain_answer"] == (
        "fails",
        "there was no `result`; there were: 1 system/init, 1 assistant, 1 telepathy, 1 system/status",
    )
    assert found["tool_call"] == ("skipped", "the check plain_answer failed")
    status, detail = found["conversation"]
    assert status == "fails"
    assert detail.startswith("CLIExitedDuringInitError: ")
    assert found["interrupt"] == found["controls"] == ("skipped", "the check conversation failed")
    assert found["only_frames"][0] == "fails"
    assert found["shapes"][0] == "fails"
    assert "status" in found["shapes"][1]
    assert found["hooks_fire"][0] == "skipped"
    assert found["flags_known"] == ("fails", "`--help` lists 0 flags; its layout must have changed")
    assert not report.ok
    with pytest.raises(AssertionError, match="there was no `result`"):
        report.raise_for_failures()


def test_a_cli_that_is_too_old_is_looked_at_no_further(tmp_path: Path) -> None:
    report = check_cli(stand_in(tmp_path, "1.0.119 (Claude Code)"))
    assert report.findings[0].detail == "it is 1.0.119"
    assert {finding.status for finding in report.findings[1:]} == {"skipped"}
    assert not report.ok


def test_no_cli_at_all(tmp_path: Path) -> None:
    with pytest.raises(CLINotFoundError):
        check_cli(tmp_path / "claude")


def conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hackamore.cli", "conformance", *arguments],
        capture_output=True,
        text=True,
        timeout=patience(200),
        check=False,
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "COLUMNS": "100"},
    )


def test_the_command_shows_a_table_and_fails(tmp_path: Path) -> None:
    done = conformance("--cli", stand_in(tmp_path, "1.0.119"))
    assert done.returncode == 1
    assert done.stdout.startswith(
        "Start\n   1/27 FAILED `--version` says a version, 2.0.0 or newer\n               it is 1.0.119\n"
    )
    assert "0 of 27 checks passed · 1 failed (1 required)" in done.stdout
    assert done.stderr == ""


def test_the_command_writes_json(tmp_path: Path) -> None:
    done = conformance("--json", "--cli", stand_in(tmp_path, "no version here \x1b[31m"))
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert report["findings"][0]["status"] == "fails"
    assert "\x1b" not in done.stdout


def test_the_command_without_a_cli(tmp_path: Path) -> None:
    done = conformance("--cli", str(tmp_path / "claude"))
    assert done.returncode == 3
    assert "hackamore doctor" in done.stderr


def test_drift_in_lines() -> None:
    drift = Drift()
    for line in (
        b'{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}',
        b'{"type":"result","usage":{"input_tokens":1,"qualia":2},"modelUsage":{"m":{"inputTokens":1,"dreams":3}}}',
        b'{"type":"user","message":{"role":"user","content":"x","odd":1}}',
        b'{"type":"telepathy"}',
        b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"hologram"},{"type":"text","text":"","new":1}]}}',
        b"\n",
        b"not json",
        b'{"type":"system","subtype":"init","tools":"Bash","brand_new":true}',
    ):
        drift.see(line)
    assert set(drift.unknown_fields) == {
        "Usage.qualia",
        "ModelUsage.dreams",
        "UserMessageBody.odd",
        "TextBlock.new",
        "InitMessage.brand_new",
    }
    assert set(drift.unknown_types) == {"telepathy"}
    assert set(drift.unknown_blocks) == {"hologram"}
    assert sum(drift.frames.values()) == 6


def test_requests_and_shapes_that_a_bench_notes(tmp_path: Path) -> None:
    seen: list[bytes] = []
    bench = Bench("claude", tmp_path, see=seen.append)
    lines = (
        b'{"type":"control_request","request_id":"1","request":{"subtype":"read_minds"}}',
        b'{"type":"system","subtype":"init","tools":"Bash"}',
        b"\n",
        b"not json",
    )
    for line in lines:
        bench.take(line)
    assert (set(bench.unknown_requests), len(bench.dropped), len(bench.bad_lines)) == ({"read_minds"}, 1, 1)
    assert tuple(seen) == lines


def test_flags_are_read_from_help() -> None:
    text = "Usage: x\n\nOptions:\n  -p, --print   Print\n  --model <m>  A model\n                --not-one\n\nCommands:\n  --nor-this\n"
    assert flags_of_help(text) == {"--print", "--model"}
    assert without_row({"--print", "--model", "--help", "--novel"}, drift_baseline.FLAGS) == ["--novel"]
    assert {"--allowedTools", "--print", "--system-prompt-file"} <= our_flags()
    assert not {flag for flag in our_flags() if flag != flag.strip("-") and not flag.startswith("--")}
