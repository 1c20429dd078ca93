"""The guides and the reference of hooks and permissions have what the classes have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hackamore.hooks import HookContext, HookInput, HookMatcher, HookOutput
from hackamore.permissions import Allow, Deny, PermissionRequest
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]


def test_the_table_of_events_is_current() -> None:
    subprocess.run([sys.executable, str(PROJECT / "scripts" / "hooks_page.py")], check=True, timeout=patience(30))


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("hooks.md", {field.name for field in msgspec.structs.fields(HookInput)}),
        (
            "hooks.md",
            set(HookOutput.__struct_fields__) - {"asynchronous", "async_timeout", "permission"},
        ),
        ("hooks.md", set(HookMatcher.__fields__)),
        ("hooks.md", {name for name in dir(HookContext) if not name.startswith("_")}),
        (
            "permissions.md",
            {name.replace("suggestions_raw", "suggestions") for name in PermissionRequest.__struct_fields__},
        ),
        ("permissions.md", {*Allow.__struct_fields__, *Deny.__struct_fields__}),
    ],
    ids=["inputs", "outputs", "matchers", "context", "requests", "results"],
)
def test_every_field_is_on_the_page(page: str, names: set[str]) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "docs").rglob(page))
    missing = {
        name
        for name in names - {"request_id"}
        if f"`{name}`" not in text and f"{name}=" not in text and f"({name}" not in text
    }
    assert not missing
