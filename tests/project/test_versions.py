"""Pages name the pinned versions: that of the CLI in pinned_cli.toml, of the official package in pyproject.toml."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))["version"]
GROUPS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
OFFICIAL = GROUPS["bench"][0].partition("==")[2]


def test_pages_name_the_pinned_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "scripts"))
    new_cli = importlib.import_module("new_cli")
    differing = [
        f"{page}:{number}: {version}"
        for page in new_cli.pages()
        for number, line in enumerate((PROJECT / page).read_text(encoding="utf-8").splitlines(), 1)
        for version in re.findall(r"\b(?:2\.1\.\d{3}|0\.2\.1\d\d)\b", line)
        if version not in {PIN, OFFICIAL} and not new_cli.SINCE.search(line)
    ]
    assert differing == []
