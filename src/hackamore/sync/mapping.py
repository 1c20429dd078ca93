# Generated from src/hackamore/aio/mapping.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""`map` for threads: many prompts, a few agents at a time, answers in order.

`MapRunner` has the agents, in threads; it does not refer to the user's `MapStream`: a forgotten one is collected, and
its agents end. Prompts are read by the caller, when it asks for an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

from hackamore._engine.queries.retrying import Attempts
from hackamore.checked.fields import integer
from hackamore.errors import ConcurrentUseError, HackamoreError, OptionsError, StreamError, short_traceback
from hackamore.options.options import Options
from hackamore.options.retry import Retry
from hackamore.runtime.flags import Flag
from hackamore.runtime.threads import Mark
from hackamore.sync.attempts import answered
from hackamore.sync.pool_seam import PoolSeam
from hackamore.sync.query import query
from hackamore.sync.waits import OtherShell, is_cancellation, iterator_of, next_of
from hackamore.transports.base import TransportSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from hackamore._engine.queries.outcomes import CollectResult, RunResult
    from hackamore._engine.queries.prompts import Prompt
    from hackamore.sync.query import QueryStream

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 8
"""How many times as many prompts as agents may be read before the answer to the oldest one is given."""
_RETRY = Retry()
_END = object()


class MapRunner:
    """The agents of one `map`."""

    def __init__(
        self,
        options: Options,
        workers: int,
        output_type: Any,
        retry: Retry | None,
        *,
        check: bool,
        transport: TransportSource | None,
    ) -> None:
        self.seam: PoolSeam = PoolSeam("map")  # waits and starts
        self.changed: Flag = Flag()  # woken when an answer is there, or nothing runs any more
        self.answers: dict[int, object] = {}  # those that were not given yet, by the numbers of their prompts
        self.running: int = 0  # how many agents run
        self.error: BaseException | None = None  # the error that ends all
        self.over: bool = False  # True once nothing is started any more
        self.workers: int = workers
        self._options = options
        self._output_type = output_type
        self._retry = retry
        self._check = check
        self._transport = transport
        self._streams: dict[int, QueryStream] = {}
        self._stopping = Flag()
        self._ended = Flag()
        self.seam.spawn(self._keep)

    def start(self, number: int, prompt: Prompt) -> None:
        """Start the agent for a prompt."""
        with self.seam.lock:
            self.running += 1
        try:
            self.seam.spawn(partial(self._run, number, prompt))
        except BaseException:
            with self.seam.lock:
                self.running -= 1
            raise

    def _run(self, number: int, prompt: Prompt) -> None:
        outcome: object
        try:
            attempts = Attempts(prompt, self._options, self._retry, check=True, reopened=True)
            outcome = answered(attempts, self._output_type, partial(self._collect, number), self._pause)
        except BaseException as error:
            outcome = error
            with self.seam.lock:
                if self.error is None and not self.over and self.is_fatal(error):
                    self.error = error
            if is_cancellation(error):  # nothing can wait for it any more
                raise
        finally:
            with self.seam.lock:
                self.running -= 1
                self._streams.pop(number, None)
                self.answers[number] = outcome
                self.changed.wake()

    def is_fatal(self, answer: object) -> bool:
        """Return whether this ends all, and does not count as an answer."""
        return isinstance(answer, BaseException) and (self._check or not isinstance(answer, HackamoreError))

    def _collect(self, number: int, prompt: Any, options: Options) -> CollectResult:
        with self.seam.lock:
            self._refuse_after_end()
            stream = self._streams[number] = query(prompt, options, transport=self._transport)
        return stream.collect()

    def _pause(self, seconds: float) -> None:
        self.seam.wait(self._stopping, seconds)
        with self.seam.lock:
            self._refuse_after_end()

    def _refuse_after_end(self) -> None:
        if self.over:
            raise StreamError("The answers of `map` are not wanted any more.")

    # -- the end -------------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """End all agents without waiting; from anywhere."""
        self.over = True
        self.seam.nudge()

    def end(self) -> None:
        """End all agents, and wait until none is left."""
        self.abandon()
        self.seam.finish(self._ended)

    def _keep(self) -> None:
        """Wait for the end, and make it: in a thread of its own, because a finalizer may begin it."""
        try:
            self.seam.sleep(None)
            with self.seam.lock:
                self._stopping.set()  # for those that wait before another attempt
                streams = list(self._streams.values())
            for stream in streams:
                try:
                    self.seam.spawn(stream.close)
                except RuntimeError:  # no thread is available
                    stream.close()
            with self.seam.lock:
                wakes = self.changed.wakes
            while self.running:
                self.seam.wait(self.changed, since=wakes)
                with self.seam.lock:
                    wakes = self.changed.wakes
        finally:
            with self.seam.lock:
                self._ended.set()
                self.changed.wake()
            self.seam.end()


class MapStream(OtherShell, Generic[R]):
    """The answers to many prompts, in their order. `map` makes it.

    `for answer in stream` gives them. Leaving the loop early ends the agents in the background; `with`, or `close()`, waits
    until no process is left.

    Attributes:
        workers: how many agents run at the same time, at most.

    Args:
        prompts, options, workers, output_type, retry, check, transport: those of `map`.

    Raises:
        TypeError: an argument has a wrong type.
        OptionsError: an argument has a value that cannot be.
    """

    __module__ = "hackamore.sync"

    def __init__(
        self,
        prompts: Iterable[Prompt],
        options: Options | None,
        *,
        workers: int,
        output_type: Any,
        retry: Retry | None,
        check: bool,
        transport: TransportSource | None,
    ) -> None:
        if isinstance(prompts, (str, bytes, Mapping)) or not isinstance(prompts, Iterable):
            raise TypeError(
                f"`prompts` must be a list or an iterator of prompts, got {prompts!r:.100} ({type(prompts).__name__})"
            )
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a hackamore.Options, not {type(options).__name__}")
        if retry is not None and not isinstance(retry, Retry):
            raise TypeError(f"`retry` must be a hackamore.Retry or None, got {retry!r} ({type(retry).__name__})")
        if transport is not None and not isinstance(transport, TransportSource):
            raise OptionsError(
                "`transport` must be a `TransportSource`, which makes a connection for each prompt.", field="transport"
            )
        self.workers: int = integer(1)(workers, "workers")
        _refuse_one_session(options or Options())
        self._iterator = iterator_of(prompts)
        self._make = partial(
            MapRunner,
            (options or Options()).with_output_type(output_type),
            self.workers,
            output_type,
            retry,
            check=bool(check),
            transport=transport,
        )
        self._works: MapRunner | None = None
        self._mark = Mark()
        self._read = self._given = 0
        self._exhausted = self._over = False

    def __repr__(self) -> str:
        state = "ended" if self._over else "running" if self._works is not None else "not started"
        running = 0 if self._works is None else self._works.running
        return f"MapStream(state={state!r}, given={self._given}, running={running})"

    def __del__(self) -> None:
        works = getattr(self, "_works", None)
        if works is not None and not works.over:
            works.abandon()

    def close(self) -> None:
        """End the agents that run; when this returns, no process is left. Idempotent."""
        self._over = True
        if self._works is not None:
            self._works.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        if not self._mark.take():
            raise ConcurrentUseError.for_call("for")
        with self._mark, short_traceback:
            if self._over:
                raise StopIteration
            if self._works is None:
                self._works = self._make()
            works = self._works
            works.seam.check()
            try:
                answer = self._next(works)
            except BaseException:
                # Also after a cancellation: without a reader, the models must stop.
                self._over = True
                works.abandon()
                raise
            if answer is not _END:
                return cast("R", answer)
            self.close()
            if works.error is not None:
                raise works.error
            raise StopIteration

    def _next(self, works: MapRunner) -> object:
        while True:
            while works.error is None and not self._exhausted and works.running < works.workers:
                if self._read - self._given >= AHEAD * works.workers:
                    break
                prompt = next_of(self._iterator, _END)
                if prompt is _END:
                    self._exhausted = True
                else:
                    works.start(self._read, prompt)
                    self._read += 1
            with works.seam.lock:
                wakes = works.changed.wakes
                here = self._given in works.answers
                answer = works.answers.pop(self._given, None)
                ends = works.over or works.error is not None or (self._exhausted and self._given == self._read)
            if here and not works.is_fatal(answer):
                self._given += 1
                works.seam.give_way()
                return answer
            if ends:
                return _END
            works.seam.wait(works.changed, since=wakes)


def _refuse_one_session(options: Options) -> None:
    """Raise OptionsError if the prompts would use the same session at the same time."""
    for name in ("session_id", "resume", "continue_conversation"):
        if getattr(options, name) and (name == "session_id" or not options.fork_session):
            fix = "Leave it out." if name == "session_id" else "Add `fork_session=True`."
            raise OptionsError(f"`{name}` gives all prompts of `map` the same session. {fix}", field=name)


@overload
def map(  # noqa: A001
    prompts: Iterable[Prompt],
    options: Options | None = None,
    *,
    workers: int = 8,
    output_type: type[T],
    retry: Retry | None = _RETRY,
    check: Literal[True] = True,
    transport: TransportSource | None = None,
) -> MapStream[RunResult[T]]: ...
@overload
def map(  # noqa: A001
    prompts: Iterable[Prompt],
    options: Options | None = None,
    *,
    workers: int = 8,
    output_type: type[T],
    retry: Retry | None = _RETRY,
    check: bool,
    transport: TransportSource | None = None,
) -> MapStream[RunResult[T] | HackamoreError]: ...
@overload
def map(  # noqa: A001
    prompts: Iterable[Prompt],
    options: Options | None = None,
    *,
    workers: int = 8,
    output_type: Any = None,
    retry: Retry | None = _RETRY,
    check: Literal[True] = True,
    transport: TransportSource | None = None,
) -> MapStream[RunResult[Any]]: ...
@overload
def map(  # noqa: A001
    prompts: Iterable[Prompt],
    options: Options | None = None,
    *,
    workers: int = 8,
    output_type: Any = None,
    retry: Retry | None = _RETRY,
    check: bool,
    transport: TransportSource | None = None,
) -> MapStream[RunResult[Any] | HackamoreError]: ...
def map(  # noqa: A001
    prompts: Iterable[Prompt],
    options: Options | None = None,
    *,
    workers: int = 8,
    output_type: Any = None,
    retry: Retry | None = _RETRY,
    check: bool = True,
    transport: TransportSource | None = None,
) -> MapStream[Any]:
    """Send many prompts, each to an agent of its own, and iterate over the answers in the order of the prompts.

    Nothing is kept: a program that is killed begins again. `hackamore.fleet` has a journal.

    Args:
        prompts: an iterable of prompts. It is read while answers are awaited, and never more than `8 * workers` prompts ahead of
            the answer that is given next.
        options: settings of each query; `Options()` if None.
        workers: agents that run at the same time, at most.
        output_type: a type for the answers, as for `run`.
        retry: attempts and waits after errors that are `retryable`, as for `run`; None makes one attempt for each prompt.
        check: True ends all agents at the first error, and raises it. False gives the `HackamoreError` in the place of the answer.
        transport: makes the connections to the CLI; local child processes if None.

    Returns:
        A stream for an `for` loop. The first step of the loop starts the agents.

    Raises:
        TypeError: `prompts`, `options` or `retry` has an unsupported type.
        OptionsError: an argument is out of range, or an option chooses one session for all prompts.

    Example:
        ::

            with hackamore.map(["What is 2 + 2?", "What is 3 + 3?"], workers=2) as answers:
                for answer in answers:
                    print(answer.text)
    """
    with short_traceback:
        return MapStream(
            prompts, options, workers=workers, output_type=output_type, retry=retry, check=check, transport=transport
        )
