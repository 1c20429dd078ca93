"""The resident memory of process trees, with `psutil`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hackamore.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_package() -> None:
    """Raise `OptionsError` if `psutil` is not installed."""
    try:
        import psutil  # noqa: F401
    except ImportError:
        raise OptionsError(
            "`memory_limit` needs the package psutil, which is not installed. Install `hackamore[pool]`, or leave `memory_limit` out.",
            field="memory_limit",
        ) from None


def resident(pids: Mapping[int, int]) -> dict[int, int]:
    """Return the resident memory of process trees in bytes; one that is gone has none.

    Args:
        pids: the root of each tree, by the number of its slot.
    """
    import psutil

    children: dict[int, list[int]] | None = None
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # one look at all processes, for all trees
        children = {}
        for process in psutil.process_iter(["ppid"]):
            children.setdefault(process.info["ppid"], []).append(process.pid)
    sizes = {}
    for number, pid in pids.items():
        sizes[number], family = 0, [pid]
        for member in family:
            try:
                sizes[number] += psutil.Process(member).memory_info().rss
                family += _children(member) if children is None else children.get(member, ())
            except (psutil.Error, OSError):
                continue  # it has ended
    return sizes


def _children(pid: int) -> list[int]:
    """Return the children of a process as Linux lists them, by the thread that started each."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
            found += map(int, file.read().split())
    return found
