"""Attempts as bytes, for workers in other processes: with the versions of the sender, which are compared before anything else is read."""

from __future__ import annotations

import pickle
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore._version import __version__
from hackamore.errors import FleetError, OptionsError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hackamore.fleet.orders import Order
    from hackamore.fleet.task import Task
    from hackamore.options.options import Options

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class _Head(msgspec.Struct, frozen=True):
    """The part that is read before the attempt itself."""

    task: str
    hackamore: str
    python: str


def in_process(executor: Executor) -> bool:
    """Return True if an executor runs its work in threads of this process and interpreter."""
    kinds = {kind.__name__ for kind in type(executor).__mro__}
    return isinstance(executor, ThreadPoolExecutor) and "InterpreterPoolExecutor" not in kinds


def pack(task: Task, options: Options, whole: object, *, shares_main: bool) -> bytes:
    """Return an attempt as bytes.

    Functions and classes of modules are sent by name. Those of the program itself are sent as they are, if `cloudpickle` is installed:
    the program of a worker is another one, unless `shares_main`, as with `ProcessPoolExecutor`. `whole` is what is sent; it has both.

    Raises:
        OptionsError: a part cannot be sent.
    """
    head = msgspec.json.encode(_Head(task.id, __version__, _PYTHON))
    dumps: Any = pickle.dumps
    try:
        data: bytes = dumps(whole)
    except Exception as error:  # objects raise anything here
        dumps = _by_value()
        if dumps is None:
            raise _not_sent(task, options, pickle.dumps, error) from error
    else:
        dumps = _by_value() if b"__main__" in data and not shares_main else None
    if dumps is not None:
        try:
            data = dumps(whole)
        except Exception as error:
            raise _not_sent(task, options, dumps, error) from error
    return head + b"\n" + data


def _by_value() -> Any:
    """Return the function of `cloudpickle`, which also sends functions that no module has; None without it."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        return None
    return cloudpickle.dumps


def unpack(parcel: bytes) -> Order:
    """Return the attempt of bytes that `pack` made.

    Raises:
        FleetError: the sender has another version, or a module of the attempt is missing here.
    """
    head_data, _, data = parcel.partition(b"\n")
    head = msgspec.json.decode(head_data, type=_Head)
    if (head.hackamore, head.python) != (__version__, _PYTHON):
        raise FleetError(
            f"The worker on {platform.node()!r} has Hackamore {__version__} on Python {_PYTHON}, and the program that runs the fleet has "
            f"Hackamore {head.hackamore} on Python {head.python}. Install the same versions on both, and run the fleet again: it continues."
        )
    try:
        order: Order = pickle.loads(data)  # noqa: S301 - it comes from the executor, which runs any code anyway
    except Exception as error:
        raise FleetError(
            f"The worker on {platform.node()!r} cannot read task {head.task!r}: {type(error).__name__}: {error}. Install the modules of "
            "`verify`, `output_type` and of callbacks in the options where workers can import them, and run the fleet again: it continues."
        ) from error
    return order


def _not_sent(task: Task, options: Options, dumps: Any, error: BaseException) -> OptionsError:
    """Return the error for an attempt that cannot be sent; find the part that is the reason."""
    parts: dict[str, object] = {
        "verify": task.verify,
        "output_type": task.output_type,
        "workspace": task.workspace,
        **{f"options.{name}": value for name, value in options.given().items()},
    }
    name = "executor"
    for part, value in parts.items():
        try:
            dumps(value)
        except Exception as found:
            name, error = part, found
            break
    if name == "options.telemetry":
        advice = "Leave the providers out: `Telemetry()` uses those that are set in the process of the worker"
    elif "lambda" in str(error) or "local object" in str(error):
        advice = "Define the function at the top of a module that the workers can import, or install `cloudpickle`"
    else:
        advice = "Workers are other processes: leave out objects with threads, locks, sockets or open files"
    where = f"`{name}` of task {task.id!r}" if name != "executor" else f"Task {task.id!r}"
    return OptionsError(f"{where} cannot be sent to the executor: {error}. {advice}.", field=name)
