"""Fleets on a cluster of Dask."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from hackamore.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

T = TypeVar("T")
P = ParamSpec("P")


def dask_executor(scheduler: str, *, timeout: float = 30.0, **settings: Any) -> Executor:
    """Connect to a scheduler of Dask; needs `hackamore[dask]`.

    `hackamore fleet run --engine dask --scheduler ADDRESS` uses it. A program that has a `distributed.Client` already needs nothing else:
    `Fleet(executor=client.get_executor())`.

    Args:
        scheduler: its address, such as `tcp://10.0.0.5:8786`.
        timeout: seconds for the connection.
        **settings: further arguments of `distributed.Client`, such as `security` for TLS.

    Returns:
        An executor for `Fleet(executor=...)`. Its `shutdown`, and the end of a `with` block, close the connection.

    Raises:
        ImportError: `distributed` is not installed.
        FleetError: the scheduler cannot be reached.

    Example:
        ::

            with dask_executor("tcp://10.0.0.5:8786") as executor:
                fleet = Fleet("postgresql://host/fleet", concurrency=200, executor=executor)
                fleet.run(tasks).wait()
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "`distributed` is not installed; run: pip install 'hackamore[dask]'", name="distributed"
        ) from error
    try:
        client: Any = Client(scheduler, timeout=timeout, set_as_default=False, **settings)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise FleetError(
            f"The Dask scheduler {scheduler!r} cannot be reached: {error}. Check the address, and that `dask scheduler` runs there."
        ) from error
    return _Connected(client)


class _Connected(Executor):
    """The executor of a client of its own."""

    def __init__(self, client: Any) -> None:
        self._client = client
        # Each attempt runs once: never a remembered result, never again after an error.
        self._executor: Executor = client.get_executor(pure=False, retries=0)

    def __repr__(self) -> str:
        return f"dask_executor({self._client.scheduler.addr if self._client.scheduler else None!r})"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()
