"""docs/reference/options.md is made from the table, and is current."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from tests.options.expectations import EXPECTED

PROJECT = Path(__file__).resolve().parents[2]
REFERENCE = PROJECT / "docs" / "reference"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("options_page", PROJECT / "scripts" / "options_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_options_is_current() -> None:
    page = maker().page()
    assert (REFERENCE / "options.md").read_text(encoding="utf-8") == page, "run: python scripts/options_page.py"


def test_the_page_names_every_option() -> None:
    page = (REFERENCE / "options.md").read_text(encoding="utf-8")
    assert [name for name in EXPECTED if f"| `{name}`" not in page] == []


def test_every_option_is_documented_under_its_heading() -> None:
    meanings = maker().meanings()
    assert list(meanings) == [
        "Prompts",
        "Tools and permissions",
        "Servers, agents, skills, plugins",
        "Model and output",
        "Budgets",
        "Conversation",
        "Messages to deliver",
        "Files and settings",
        "The process",
        "Behaviour of Hackamore",
    ]
    assert [name for texts in meanings.values() for name in texts] == list(EXPECTED)
    assert [text for texts in meanings.values() for text in texts.values() if not text.endswith(".")] == []


def test_the_page_about_finding_the_cli_names_every_place_and_variable() -> None:
    from hackamore._engine.launch import discovery
    from hackamore.options import environment

    page = (REFERENCE / "finding-the-cli.md").read_text(encoding="utf-8")
    for place in (*discovery.HOME_PLACES, *discovery.SYSTEM_PLACES):
        assert str(Path(place).parent) in page
    for name in (
        "HACKAMORE_CLI_PATH",
        environment.CHILD_ID,
        environment.ENTRY_POINT,
        "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    ):
        assert name in page
