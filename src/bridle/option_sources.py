"""Where `Options.load` takes values from, and how they are laid over each other."""

from __future__ import annotations
