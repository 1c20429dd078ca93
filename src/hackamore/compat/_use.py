"""Defaults of the layer, which `hackamore.compat.use` sets for programs that are not changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Used:
    """Settings of every client and query of the layer: fields of `hackamore.Options`, and the transport of those that have none."""

    options: dict[str, Any] = field(default_factory=dict)
    transport: Any = None


USED = Used()
