"""Texts of bounded length for reports: steps, prompts and requests."""

from __future__ import annotations


def shorten(text: str, limit: int = 120) -> str:
    """Return `text` in at most `limit` characters, the middle left out."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
