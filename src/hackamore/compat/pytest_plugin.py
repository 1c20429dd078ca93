"""The option `--hackamore-compat` of pytest: tests that import `claude_agent_sdk` get the compatible layer."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hackamore", "Hackamore: agents under test")
    text = "Have `import claude_agent_sdk` import the compatible layer of Hackamore (hackamore.compat)."
    group.addoption("--hackamore-compat", action="store_true", help=text)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put the layer in the place of the official package before any test file can import that."""
    if early_config.known_args_namespace.hackamore_compat:
        from hackamore.compat import install

        install()
