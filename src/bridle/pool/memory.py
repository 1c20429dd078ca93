"""The resident memory of process trees, with `psutil`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_package", "resident"]


def check_package() -> None:
    """Raise `OptionsError` if `psutil` is not installed."""
    try:
        import psutil  # noqa: F401
    except ImportError:
        raise OptionsError(
            "`memory_limit` needs the package psutil, which is not installed. Install `bridle[pool]`, or leave `memory_limit` out.",
            field="memory_limit",
        ) from None


def resident(pids: Mapping[int, int]) -> dict[int, int]:
    """Return the resident memory of process trees in bytes; one that is gone has none.

    Args:
        pids: the root of each tree, by the number of its slot.
    """
    import psutil

    sizes = {}
    for number, pid in pids.items():
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            family = []
        sizes[number] = sum(_size(process, psutil.Error) for process in family)
    return sizes


def _size(process: object, gone: type[Exception]) -> int:
    try:
        return int(process.memory_info().rss)  # type: ignore[attr-defined]
    except gone:
        return 0
