"""Helpers for tests of session stores."""

from hackamore.compat.claude_agent_sdk.testing.session_store_conformance import run_session_store_conformance

__all__ = ["run_session_store_conformance"]
