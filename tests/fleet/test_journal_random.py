"""Random calls of several drivers and workers on one journal, against a simple model of it."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hackamore.fleet.journal import Journal, open_journal
from tests.fleet.journal_model import Model
from tests.support.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Postgres

Step = tuple[str, int, int, int]
"""A call of the model, and its numbers."""
CALLS = ["add", "lease", "begin", "note", "answer", "finish", "give_back", "leave", "beat", "reclaim", "cancel", "halt"]
CALLS += ["retry", "settle", *["lease", "begin", "begin", "answer", "finish"] * 2]
STEPS = st.lists(
    st.tuples(st.sampled_from(CALLS), st.integers(0, 7), st.integers(0, 31), st.integers(0, 99)),
    min_size=20,
    max_size=60,
)
KILLED = [("add", 0, 1, 9), ("lease", 2, 0, 0), ("begin", 2, 0, 0), ("note", 5, 0, 8)]


@contextmanager
def new_journal(server: Postgres | None) -> Iterator[Journal]:
    with tempfile.TemporaryDirectory() as folder:
        journal = open_journal(
            f"{folder}/journal.db" if server is None else f"{server.url}?schema=random_{secrets.token_hex(6)}"
        )
        try:
            yield journal
        finally:
            journal.close()


def play(journal: Journal, steps: list[Step]) -> None:
    model = Model(journal)
    for call, *numbers in [("add", 0, 7, 9), *steps]:
        getattr(model, call)(*numbers)
        model.check()
    model.check_all()


RANDOM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(RANDOM, max_examples=examples(30))
@given(STEPS)
# Cancelled, and its worker was killed: what it spent is not known yet.
@example([*KILLED, ("cancel", 0, 1, 0), ("reclaim", 0, 0, 0), ("retry", 0, 1, 99), ("settle", 5, 0, 40)])
def test_random_calls(steps: list[Step]) -> None:
    with new_journal(None) as journal:
        play(journal, steps)


def test_random_calls_in_postgres(postgres_server: Postgres) -> None:
    @settings(RANDOM, max_examples=examples(8), database=None)
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        with new_journal(postgres_server) as journal:
            play(journal, steps)

    check()
