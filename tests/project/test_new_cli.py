"""The script that moves the pinned CLI, without the network and without a CLI: the report and the files."""

from __future__ import annotations

import importlib
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts import drift_baseline

if TYPE_CHECKING:
    from types import ModuleType

PROJECT = Path(__file__).resolve().parents[2]
SUMS = {name: f"sha512-{name}" for name in ("linux-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl")}
SUMS |= {name: f"sha512-{name}" for name in ("darwin-x64", "darwin-arm64")}


@pytest.fixture
def new_cli(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROJECT / "scripts"))
    return importlib.import_module("new_cli")


@pytest.fixture
def copy(new_cli: Any, tmp_path: Path) -> Path:
    """A project with nothing but the files that may change with the pin."""
    for path in {new_cli.PIN, *new_cli.pages(), *(bound.path for bound in new_cli.BOUND)}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / path, tmp_path / path)
    return tmp_path


def seen(new_cli: Any, **names: set[str]) -> Any:
    empty: dict[str, set[str]] = {kind: set() for kind in ("FIELDS", "FLAGS", "INITIALIZE", "TYPES")}
    return new_cli.Seen(unmodelled={**empty, **names})


def test_every_place_names_the_pinned_version(new_cli: Any) -> None:
    pin = new_cli.read_pin()
    for bound in new_cli.BOUND:
        text = (PROJECT / bound.path).read_text(encoding="utf-8")
        assert new_cli.rebound(text, bound, pin, pin) == text
    with pytest.raises(LookupError, match="correct BOUND"):
        new_cli.rebound("nothing", new_cli.BOUND[0], pin, pin)


def test_the_move_changes_the_pin_and_every_place(new_cli: Any, copy: Path) -> None:
    before = tomllib.loads((copy / new_cli.PIN).read_text())
    old = seen(new_cli, FIELDS={"ResultMessage.gone", "Usage.fallback_credit"}, TYPES=set(drift_baseline.TYPES))
    new = seen(new_cli, FIELDS={"ResultMessage.fresh"}, FLAGS={"--fresh"}, TYPES={"system/fresh"})
    changed = new_cli.write("9.8.7", SUMS, old, new, copy)
    naming = {
        page
        for page in new_cli.pages()
        if any(
            before["version"] in line and not new_cli.SINCE.search(line)
            for line in (PROJECT / page).read_text().splitlines()
        )
    }
    assert set(changed) == {new_cli.PIN, *naming, *(bound.path for bound in new_cli.BOUND)}
    assert len(naming) > 5
    assert f"install-cli {before['version']}" not in (copy / "docs/start/install.md").read_text()

    pin = tomllib.loads((copy / new_cli.PIN).read_text())
    assert pin["version"] == "9.8.7"
    assert {name: platform["integrity"] for name, platform in pin["platforms"].items()} == SUMS
    assert pin["older"][before["version"]] == {"platforms": before["platforms"]}
    assert set(pin["older"]) == {before["version"], "2.0.0", "1.0.33"}
    assert {name: pin["older"][name] for name in ("2.0.0", "1.0.33")} == {
        name: before["older"][name] for name in ("2.0.0", "1.0.33")
    }
    assert pin["node"] == before["node"]

    found: dict[str, Any] = {}
    exec((copy / new_cli.BASELINE).read_text(), found)
    assert found["VERSION"] == "9.8.7"
    assert found["FIELDS"] == (drift_baseline.FIELDS - {"Usage.fallback_credit"}) | {"ResultMessage.fresh"}
    assert found["FLAGS"] == drift_baseline.FLAGS | {"--fresh"}
    assert found["INITIALIZE"] == drift_baseline.INITIALIZE
    assert found["TYPES"] == {"system/fresh"}
    page = (copy / "docs/concepts/compatibility.md").read_text()
    assert f"| 2.0.0, {before['version']}, 9.8.7 |" in page


def test_a_move_and_back_restores_the_pin(new_cli: Any, copy: Path) -> None:
    text = (copy / new_cli.PIN).read_text()
    before = tomllib.loads(text)
    [earlier] = [name for name, entry in before["older"].items() if "platforms" in entry]
    nothing = seen(new_cli)
    new_cli.write(earlier, _sums(before["older"][earlier]), nothing, nothing, copy)
    new_cli.write(before["version"], _sums(before), nothing, nothing, copy)
    assert (copy / new_cli.PIN).read_text() == text


def _sums(entry: Any) -> dict[str, str]:
    return {name: platform["integrity"] for name, platform in entry["platforms"].items()}


def test_the_report_names_additions_and_removals(new_cli: Any) -> None:
    old = new_cli.Seen({"Hook events": {"Stop", "Gone"}}, {"FIELDS": set()})
    new = new_cli.Seen({"Hook events": {"Stop", "Fresh"}}, {"FIELDS": {"InitMessage.fresh", "Usage.fallback_credit"}})
    report = new_cli.described("1.2.3", "1.2.4", old, new)
    assert report.splitlines() == [
        "Claude Code 1.2.3 -> 1.2.4",
        "",
        "Hook events: 2 -> 2",
        "  + Fresh",
        "  - Gone",
        "Without a place in Hackamore (FIELDS of the drift baseline): InitMessage.fresh",
    ]


def test_names_are_read_from_schemas(new_cli: Any, tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_bytes(
        b'\0{type:S("system"),subtype:S("hello_there"),cost_usd:n().optional().describe("x"),'
        b'newSetting:()=>n().optional().catch("all").describe("y")}\0'
    )
    found = new_cli.schemas(program)
    assert list(found.values()) == [{"newSetting"}, {"cost_usd"}, {"system", "hello_there"}]


def test_checksums_come_from_the_registry(new_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = new_cli.npm.Package
    monkeypatch.setattr(new_cli.npm, "find_package", lambda name, wanted: package("9.8.7", "", f"sha512-{name}"))
    pin = new_cli.read_pin()
    version, found = new_cli.checksums(pin, "latest")
    assert version == "9.8.7"
    assert found == {name: f"sha512-{platform['package']}" for name, platform in pin["platforms"].items()}
