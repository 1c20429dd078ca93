"""The documentation is complete: generated parts are current, every public name and every example is in it."""

from __future__ import annotations

import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import hackamore
import hackamore.sync
import hackamore.testing
from hackamore._engine.protocol.states.query import ONE_SHOT, State, Yield
from hackamore.errors import WarningCode
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
GENERATED = {
    "errors_page.py": "reference/errors.md",
    "fleet_page.py": "guides/production/fleet.md",
    "names_page.py": "reference/names.md",
    "states_page.py": "reference/states.md",
}
PAGES = [PROJECT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("script", GENERATED)
def test_generated_parts_are_current(script: str) -> None:
    subprocess.run([sys.executable, str(PROJECT / "scripts" / script)], check=True, timeout=patience(30))


@pytest.mark.parametrize("script", GENERATED)
def test_an_old_page_is_noticed_and_brought_up_to_date(script: str, tmp_path: Path) -> None:
    page = DOCS / GENERATED[script]
    current = page.read_text(encoding="utf-8")
    (tmp_path / "docs" / GENERATED[script]).parent.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    for name in (script, "generated_parts.py", "session_states_page.py"):
        (tmp_path / "scripts" / name).write_text((PROJECT / "scripts" / name).read_text(encoding="utf-8"))
    copy = tmp_path / "docs" / GENERATED[script]
    copy.write_text(
        re.sub(r"(<!-- generated: \w+ -->\n).*?(?=<!-- end of )", r"\1old\n", current, flags=re.DOTALL),
        encoding="utf-8",
    )
    command = [sys.executable, str(tmp_path / "scripts" / script)]
    old = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(30))
    assert (old.returncode, old.stderr) == (1, f"docs/{GENERATED[script]} is not current: run `./dev docs`\n")
    subprocess.run([*command, "--write"], check=True, timeout=patience(30))
    assert copy.read_text(encoding="utf-8") == current


def test_the_picture_shows_every_state_and_every_way() -> None:
    picture = (
        (DOCS / "reference" / "states.md").read_text(encoding="utf-8").partition("```mermaid")[2].partition("```")[0]
    )
    drawn = {tuple(way) for way in re.findall(r"^ +([A-Z_]+) --> ([A-Z_]+) :", picture, re.MULTILINE)}
    table = {(state.name, cell.then.name) for (state, _), cell in ONE_SHOT.items() if cell != (Yield.NOTHING, state)}
    assert drawn == table
    assert {name for way in drawn for name in way} == {state.name for state in State}


@pytest.mark.parametrize("name", sorted({*hackamore.__all__, *hackamore.sync.__all__, *hackamore.testing.__all__}))
def test_every_public_name_is_documented(name: str) -> None:
    mention = re.compile(rf"`[^`\n]*\b{name}\b[^`\n]*`|^ *(?:from|import) .*\b{name}\b", re.MULTILINE)
    assert any(mention.search(page.read_text(encoding="utf-8")) for page in PAGES)


def test_every_warning_has_a_meaning() -> None:
    documented = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    of_sessions = {"INIT_UNCONFIRMED", "CALLBACK_FAILED", "CALLBACK_TIMED_OUT", "CALLBACK_QUEUE_FULL", "SLOW_CONSUMER"}
    of_sessions |= {"STORE_FAILED", "STORE_SLOW"}
    missing = {code for code in get_args(WarningCode) if f"| `{code}` |" not in documented}
    assert missing == of_sessions


def test_every_page_and_every_example_is_in_the_index() -> None:
    index = (DOCS / "contents.md").read_text(encoding="utf-8")
    wanted = [
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.name not in {"index.md", "contents.md"}
    ]
    assert [name for name in wanted if f"({name})" not in index] == []
    cookbook = (DOCS / "cookbook" / "index.md").read_text(encoding="utf-8")
    examples = [example.name for example in (PROJECT / "examples").glob("[!_]*.py")]
    assert [name for name in examples if f"(../../examples/{name})" not in cookbook] == []


@pytest.mark.parametrize(
    "name", ["", ".errors", ".hooks", ".messages", ".permissions", ".sync", ".testing", ".tools", ".transports.base"]
)
def test_help_shows_every_public_name(name: str) -> None:
    module = importlib.import_module(f"hackamore{name}")
    pydoc.render_doc(module)
    for value in (getattr(module, public) for public in module.__all__):
        if isinstance(value, type) or callable(value):
            assert pydoc.render_doc(value)
