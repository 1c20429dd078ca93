"""What importing costs: nothing heavy is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_after(code: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"], capture_output=True, check=True, text=True
    ).stdout
    return {name.partition(".")[0] for name in printed.split()} | set(printed.split())


def test_import_hackamore_loads_nothing_that_is_not_used() -> None:
    loaded = loaded_after("import hackamore")
    heavy = {
        "anyio",
        "asyncio",
        "trio",
        "msgspec",
        "subprocess",
        "dataclasses",
        "inspect",
        "logging",
        "typer",
        "rich",
        "mcp",
        "pydantic",
    }
    assert loaded & heavy == set()
    assert {name for name in loaded if name.startswith("hackamore")} == {"hackamore", "hackamore._version"}


def test_the_blocking_shell_needs_no_event_loop() -> None:
    loaded = loaded_after("import hackamore.sync; hackamore.sync.query('x')")
    assert loaded & {"asyncio", "anyio", "trio", "tempfile", "shutil", "random", "sqlite3"} == set()


def test_the_async_shell_loads_no_extra() -> None:
    assert (
        loaded_after("import hackamore; hackamore.query('x')") & {"trio", "typer", "rich", "mcp", "pydantic", "http"}
        == set()
    )


@pytest.mark.parametrize("code", ["hackamore.Session", "hackamore.sync.Session", "hackamore.query('x')"])
def test_nothing_looks_for_similar_names(code: str) -> None:
    """`from hackamore import a_submodule` asks `hackamore` for the name first, and then compares it with all names: 5 ms."""
    assert loaded_after(f"import hackamore.sync; {code}") & {"difflib", "hackamore._official_names"} == set()


def test_the_pytest_plugin_is_light() -> None:
    assert loaded_after("import hackamore.testing.plugin") & {"anyio", "asyncio", "http", "msgspec"} <= {"asyncio"}


@pytest.mark.parametrize("name", sorted(__import__("hackamore").__all__))
def test_every_public_name_can_be_had(name: str) -> None:
    import hackamore

    assert getattr(hackamore, name) is not None
    assert name in dir(hackamore)


def test_other_names_are_attribute_errors() -> None:
    import hackamore

    with pytest.raises(AttributeError, match="no_such_name"):
        hackamore.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_the_lowest_msgspec_is_one_whose_errors_are_value_errors() -> None:
    # Everything that decodes catches ValueError. With msgspec 0.20 the first line that is no JSON ended a stream.
    import tomllib
    from pathlib import Path

    import msgspec

    assert issubclass(msgspec.DecodeError, ValueError)
    assert issubclass(msgspec.ValidationError, ValueError)
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert "msgspec>=0.21" in project["dependencies"]
