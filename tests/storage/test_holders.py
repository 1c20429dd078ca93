"""Names and start times of processes."""

from __future__ import annotations

import os
from pathlib import Path

from bridle.storage.holders import is_running, process_domain, start_time


def test_the_space_of_process_ids_has_the_name_that_the_cli_writes(tmp_path: Path) -> None:
    namespace = os.readlink("/proc/self/ns/pid")
    (tmp_path / "machine-id").write_text("abc\n")
    assert process_domain(str(tmp_path / "machine-id")) == f"linux:abc:{namespace}"
    # Seen with CLI 2.1.330 in a container without this file.
    assert process_domain(str(tmp_path / "missing")) == f"linux::{namespace}"


def test_a_process_runs_if_its_start_time_fits() -> None:
    own = os.getpid()
    assert is_running(own, start_time(own))
    assert is_running(own, None)
    assert not is_running(own, "1")
    assert not is_running(0, None)
    assert not is_running(2**22 + 7, None)
