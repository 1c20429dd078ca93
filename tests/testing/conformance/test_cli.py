"""`check_cli` and `bridle conformance`: the pinned CLI conforms; of a stand-in that does not, it is said precisely what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridle.errors import CLINotFoundError
from bridle.testing import check_cli
from bridle.testing.conformance import drift_baseline
from bridle.testing.conformance.bench import CLI_CHECKS
from bridle.testing.conformance.drift import Drift, flags_of_help, our_flags, without_row
from tests.support.patience import patience

pytestmark = pytest.mark.timeout(300)

BROKEN = """
import json, sys
arguments = sys.argv[1:]
if "--version" in arguments:
    print({version!r})
elif "--help" in arguments:
    print("Usage: claude")
elif "--print" in arguments and "--bridle-conformance" not in arguments:
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


def test_the_pinned_cli_conforms_and_has_not_drifted(claude_path: str) -> None:
    seen: list[Any] = []
    report = check_cli(claude_path, on_finding=seen.append)
    report.raise_for_failures()
    assert [str(finding) for finding in report.findings if finding.status != "holds"] == []
    assert len(report.findings) == len(CLI_CHECKS) == len(seen) > 25
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
    assert found["frame_types"] == ("drift", "telepathy")
    assert found["blocks_modelled"] == ("drift", "hologram")
    assert found["fields_modelled"] == ("drift", "InitMessage.brand_new, TextBlock.new")
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
        [sys.executable, "-m", "bridle.cli", "conformance", *arguments],
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
        "Start\n   1/28 FAILED `--version` says a version, 2.0.0 or newer\n               it is 1.0.119\n"
    )
    assert "0 of 28 checks passed · 1 failed (1 required)" in done.stdout
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
    assert "bridle doctor" in done.stderr


def test_drift_in_lines() -> None:
    drift = Drift()
    for line in (
        b'{"type":"control_request","request_id":"1","request":{"subtype":"read_minds"}}',
        b'{"type":"result","usage":{"input_tokens":1,"qualia":2},"modelUsage":{"m":{"inputTokens":1,"dreams":3}}}',
        b'{"type":"user","message":{"role":"user","content":"x","odd":1}}',
        b"\n",
        b'{"type":"system","subtype":"init","tools":"Bash"}',
    ):
        drift.see(line)
    assert set(drift.unknown_fields) == {"Usage.qualia", "ModelUsage.dreams", "UserMessageBody.odd"}
    assert set(drift.unknown_requests) == {"read_minds"}
    assert len(drift.dropped) == 1
    assert sum(drift.frames.values()) == 4


def test_flags_are_read_from_help() -> None:
    text = "Usage: x\n\nOptions:\n  -p, --print   Print\n  --model <m>  A model\n                --not-one\n\nCommands:\n  --nor-this\n"
    assert flags_of_help(text) == {"--print", "--model"}
    assert without_row({"--print", "--model", "--help", "--novel"}) == ["--novel"]
    assert {"--allowedTools", "--print", "--system-prompt-file"} <= our_flags()
    assert not {flag for flag in our_flags() if flag != flag.strip("-") and not flag.startswith("--")}
