"""Transports that are written down: traces and cassettes."""
