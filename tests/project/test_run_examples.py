"""The script that runs the examples: several at once, and one installation of the CLI."""

from __future__ import annotations

import importlib.util
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def test_the_cli_is_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.delenv("HACKAMORE_TEST_CLI", raising=False)
    spec = importlib.util.spec_from_file_location("run_examples_under_test", SCRIPTS / "run_examples.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    target = tmp_path / "claude"
    downloads = []
    together = threading.Event()

    def install() -> Path:
        if not target.exists():
            downloads.append(1)
            together.wait(0.05)  # for another one, which must not come
            target.touch()
        return target

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: script.pinned_cli(install), range(4))) == {target}
    assert len(downloads) == 1
