# Generated from the public annotations of claude-agent-sdk 0.2.187 by scripts/make_compat.py. Do not edit: run `./dev format`.
"""The version whose names these are."""

__version__ = "0.2.187"
