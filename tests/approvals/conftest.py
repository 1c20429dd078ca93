"""Fixtures of tests of approvals: the shells, and the real CLI."""

from tests.real_cli.conftest import driving, leaves_nothing, shell

__all__ = ["driving", "leaves_nothing", "shell"]
