"""Folders of this machine and the same folders over there."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class PathMap:
    """Maps paths of this machine to another one and back. A path outside of its folders stays as it is.

    Paths are compared as text, part by part: the links of another machine cannot be followed from here.

    Args:
        pairs: folders of this machine, each with its path over there.
    """

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(
            (os.path.abspath(os.path.expanduser(near)), _plain(far)) for near, far in pairs.items()
        )

    def far(self, path: str) -> str:
        """Return the path over there for one of this machine."""
        if not self.pairs or path.startswith("~"):
            return path
        return _moved(os.path.abspath(path), self.pairs, path)

    def has(self, path: str) -> bool:
        """Return whether a path of this machine lies in one of the folders."""
        here = os.path.abspath(path)
        return any(here == near or here.startswith(near.rstrip("/") + "/") for near, _ in self.pairs)

    def near(self, path: str) -> str:
        """Return the path on this machine for one over there, such as `file_path` of a hook."""
        return _moved(_plain(path), tuple((far, near) for near, far in self.pairs), path)


def _plain(path: str) -> str:
    return posixpath.normpath(path) if path else path


def _moved(path: str, pairs: tuple[tuple[str, str], ...], otherwise: str) -> str:
    # The longest folder wins: one may lie in another.
    for old, new in sorted(pairs, key=lambda pair: len(pair[0]), reverse=True):
        if path == old:
            return new
        if path.startswith(old.rstrip("/") + "/"):
            return posixpath.join(new, path[len(old.rstrip("/")) + 1 :])
    return otherwise
