"""Kills of a host or of its CLI at the moments around an append: the next resume has everything that was written, in order and once.

`HACKAMORE_TEST_KILLS=100 HACKAMORE_TEST_SEED=1 python -m pytest -s tests/transcripts/stores/test_killed_hosts.py` runs more.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
import uuid
from collections import Counter
from typing import Any

import anyio
import pytest

from hackamore import sync
from hackamore.testing import Repeat, ScriptedModel
from hackamore.transcripts import project_key
from hackamore.transcripts.stores import SQLiteStore
from tests.conftest import RealCLI
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import size
from tests.transcripts.stores.hosts import host, on_disk, options, words

KILLS = size("kills of hosts")
SEED = seeded(7)
MOMENTS = ("mirrored", "appending", "written", "flushed")
"""The entries are on the disk of the host; the host has them; the store is at it; the store has them."""

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120 + 10 * KILLS)]


class Round:
    """One host with one session, until it or its CLI is killed.

    Attributes:
        flushed: the messages that the store acknowledged, in order.
        delivered: the numbers of the prompts whose result the host had.
        moment: when the kill came.
    """

    def __init__(
        self, process: subprocess.Popen[str], model: ScriptedModel, victim: str, chance: random.Random
    ) -> None:
        self.flushed: list[str] = []
        self.delivered: list[int] = []
        self._process = process
        self._model = model
        self._victim = victim
        self._chance = chance
        self._pid = 0

    def play(self, moment: str, turns: int) -> None:
        """Let some turns pass, and kill at a moment of the next one."""
        sent = 0
        while sent <= turns:
            requests = len(self._model.requests)
            said = self._next()
            assert said != [""], "the host has ended"
            sent += said[0] == "sent"
        if moment == "written":
            until = time.monotonic() + patience(30)
            while len(self._model.requests) == requests:
                assert time.monotonic() < until, "the CLI sent no request"
            time.sleep(self._chance.random() * 0.05)
        else:
            while (said := self._next(answer=False))[0] != "append":
                assert said != [""], "the host has ended"
                if said[0] == "appended":
                    self._answer()
            if moment != "mirrored":
                self._answer()
            if moment == "appending":
                time.sleep(self._chance.random() * 0.01)
            elif moment == "flushed":
                assert self._next(answer=False)[0] == "appended"
        os.kill(self._process.pid if self._victim == "host" else self._pid, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._process:
            while self._next(answer=False) != [""]:
                pass

    def _next(self, *, answer: bool = True) -> list[str]:
        said = words(self._process, answer=answer)
        match said:
            case ["pid", pid]:
                self._pid = int(pid)
            case ["appended", "", *found]:
                self.flushed += found
            case ["result", number]:
                self.delivered.append(int(number))
            case _:
                pass
        return said

    def _answer(self) -> None:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)


@pytest.mark.parametrize("victim", ["host", "cli"])
def test_what_a_kill_leaves_is_resumed_whole_and_once(real_cli: RealCLI, victim: str) -> None:
    """Of two kills of a session the first one is before any resume: what it leaves on the disk is healed."""
    chance = random.Random(f"{victim}-{SEED}")
    path = real_cli.directory / "sessions.db"
    counts: Counter[str] = Counter()
    with ScriptedModel(Repeat("more")) as model:
        given = options(real_cli, model, "a", None)
        project = project_key(real_cli.directory / "a" / "work")
        for number in range(0, KILLS, 2):
            flushed: list[str] = []
            delivered: list[int] = []
            local: list[str] = []
            for step in range(2):
                known = bool(flushed or local)
                if not known:  # the CLI refuses the id of a file without messages
                    session_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
                more = {"resume": session_id} if known else {"session_id": session_id}
                played = Round(host(given, path, number=10 * step, **more), model, victim, chance)
                moment = MOMENTS[(number + step) % 4] if KILLS <= 4 else chance.choice(MOMENTS)
                played.play(moment, turns=chance.randrange(2))
                flushed += played.flushed
                delivered += played.delivered
                counts[moment] += 1
                if not known:
                    local = _uuids(on_disk(real_cli.directory / "a").get((project, session_id, ""), []))
                    counts["healed from the disk"] += len(local) > len(flushed)
            if not (flushed or local):
                counts["nothing was left"] += 1
                continue
            with SQLiteStore(path) as store:
                last = sync.run("LAST", given.replace(session_store=store, resume=session_id))
                assert last.session_id == session_id
                key: Any = {"project_key": project, "session_id": session_id}
                entries: Any = anyio.run(store.load, key)
            prompts = _prompts(model.requests[-1].body)
            _expect_whole(entries, flushed, local)
            assert prompts == sorted(set(prompts)), "a prompt is missing, doubled, or out of order"
            assert set(prompts) >= set(delivered)
            counts["prompts"] += len(prompts)
            counts["prompts whose result was delivered"] += len(delivered)
            counts["messages that were flushed"] += len(flushed)
    print(f"victim {victim}, seed {SEED}: {KILLS} kills; {dict(counts)}")


def _uuids(entries: list[Any]) -> list[str]:
    return [each["uuid"] for each in entries if "uuid" in each]


def _prompts(body: Any) -> list[int]:
    return [int(number) for number in re.findall(r"PROMPT-(\d+)-END", json.dumps(body["messages"]))]


def _expect_whole(entries: list[Any], flushed: list[str], local: list[str]) -> None:
    uuids = _uuids(entries)
    assert len(uuids) == len(set(uuids))
    wanted = set(flushed)
    assert [each for each in uuids if each in wanted] == list(dict.fromkeys(flushed)), (
        "what was flushed is not all there"
    )
    assert uuids[: len(local)] == local, "what the disk had was not healed"
    known = set()
    for each in entries:
        if "uuid" in each:
            assert each.get("parentUuid") is None or each["parentUuid"] in known, "an entry follows one that is missing"
            known.add(each["uuid"])
