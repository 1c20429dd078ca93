"""Cassettes: recorded conversations that are replayed."""
