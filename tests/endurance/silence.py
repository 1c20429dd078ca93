"""Run something that provokes thousands of warnings and log records on purpose, without any of them."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def silence() -> Iterator[None]:
    """Show no warnings and log nothing of Hackamore inside; both are as before afterwards."""
    logger = logging.getLogger("hackamore")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
