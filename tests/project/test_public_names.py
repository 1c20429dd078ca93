"""What the public packages offer: classes, types and constants; their functions are how the library uses them."""

from __future__ import annotations

import importlib
import inspect

import pytest


@pytest.mark.parametrize("package", ["bridle.hooks", "bridle.permissions"])
def test_nothing_internal_is_offered(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if inspect.isfunction(getattr(module, name))] == []
    assert sorted(module.__all__) == sorted(set(module.__all__))
