"""Commands with the verdicts of others, which are not part of the project: `HACKAMORE_CORPORA`, or the folder beside the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "corpora"
_PLACE = Path(os.environ.get("HACKAMORE_CORPORA") or _BESIDE)
FOLDER = _PLACE if _PLACE.is_dir() else None
needs_corpora = pytest.mark.skipif(
    FOLDER is None, reason="the corpora are not here: set HACKAMORE_CORPORA to their folder"
)


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a corpus; none if it is not here."""
    if FOLDER is None:
        return []
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
