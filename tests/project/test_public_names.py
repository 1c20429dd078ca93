"""What the public packages offer: classes, types, constants, and the one function that a test of a callback needs."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("package", "function"),
    [("hackamore.hooks", "decode_hook_input"), ("hackamore.permissions", "decode_permission_request")],
)
def test_nothing_internal_is_offered(package: str, function: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if inspect.isfunction(getattr(module, name))] == [function]
    assert len(module.__all__) == len(set(module.__all__))


def test_type_checkers_see_the_names_that_there_are() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "names_stub.py"
    subprocess.run([sys.executable, str(script)], check=True, timeout=30)
