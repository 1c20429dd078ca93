"""The site: pages lead to pages, nothing is loaded from another host, and every page is in the navigation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import hackamore
import hackamore.testing

PROJECT = Path(__file__).resolve().parents[2]
SCRIPTS = PROJECT / "scripts"
LOADED = [
    '<script src="https://unpkg.com/a.js"></script>',
    '<link rel="stylesheet" href="//fonts.googleapis.com/css">',
    '<img src="http://example.com/a.png">',
]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("docs_site_under_test", SCRIPTS / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("docs/guides/a.md", "[b](../reference/b.md#c)", "[b](../reference/b.md#c)"),
        ("docs/guides/a.md", "[ask.py](../../examples/ask.py)", "[ask.py](../cookbook/ask.md)"),
        ("docs/index.md", "[how](../CONTRIBUTING.md)", "[how](contributing/index.md)"),
        ("CONTRIBUTING.md", "[it](docs/contributing/a.md)", "[it](a.md)"),
        (
            "docs/a.md",
            "[test](../tests/test_a.py) [x](#here) [y](https://example.com)",
            "test [x](#here) [y](https://example.com)",
        ),
        ("docs/a.md", "```text\n[test](../tests/test_a.py)\n```\n", "```text\n[test](../tests/test_a.py)\n```\n"),
        ("docs/a.md", "[two\nlines](../examples/ask.py)", "[two\nlines](cookbook/ask.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site(site: ModuleType, path: str, text: str, shown: str) -> None:
    assert site.relinked(text, path) == shown


def test_a_diagram_becomes_a_table(site: ModuleType) -> None:
    text = "```mermaid\nstateDiagram-v2\n    A : A<br/>first\n    B : B<br/>last\n    [*] --> A\n    A --> B : x<br/>y\n```\n"
    assert site.diagrams_as_tables(text).splitlines()[2:] == ["| `A` | first | `B` | x; y |", "| `B` | last | - | - |"]


def test_code_in_tables_has_no_escapes(site: ModuleType) -> None:
    assert site.without_escapes("a \\| b\n| `a \\| b` | c \\| d |\n") == "a \\| b\n| `a | b` | c \\| d |\n"


def test_an_example_is_shown_with_its_output(site: ModuleType, tmp_path: Path) -> None:
    example = tmp_path / "first_steps.py"
    example.write_text('"""Take steps."""\n\n# scripted: Reply(\n#   "a")\n\nimport hackamore\n')
    text = site.example_page(example, "1\n")
    assert text.startswith(
        '# First steps\n\nTake steps.\n\n```python title="examples/first_steps.py"\nimport hackamore\n```\n'
    )
    assert text.endswith("```text\n1\n```\n")


def test_every_page_is_in_the_navigation_and_has_no_comments(site: ModuleType) -> None:
    pages = site.staged(run=False)
    assert '"reference/api/sessions.md"' in site.configuration(pages)
    assert [name for name, text in pages.items() if "<!-- scripted" in text or "<!-- generated" in text] == []
    with pytest.raises(SystemExit, match=r"new\.md"):
        site.configuration({**pages, "new.md": ""})


def test_every_public_name_has_a_place_in_the_api(site: ModuleType) -> None:
    names = {name for page in site.public_names().values() for name in page}
    others = {
        "__version__",
        "approvals",
        "budgets",
        "policy",
        "fleet",
        "hooks",
        "messages",
        "pool",
        "sync",
        "telemetry",
        "traces",
        "testing",
        "transcripts",
    }
    assert {f"hackamore.{name}" for name in hackamore.__all__ if name not in others} <= names
    assert {f"hackamore.testing.{name}" for name in hackamore.testing.__all__} <= names


@pytest.mark.parametrize("html", LOADED)
def test_what_is_loaded_from_another_host_is_found(site: ModuleType, html: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f'<a href="https://example.com">x</a><script src="a.js"></script>{html}')
    assert len(site.loads_from_elsewhere(tmp_path)) == 1


def test_style_sheets_load_nothing_from_another_host(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('@import "https://example.com/a.css"; a { background: url(b.png) }')
    assert site.loads_from_elsewhere(tmp_path) == ["a.css: https://example.com/a.css"]
