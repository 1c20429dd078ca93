"""Threads of a process that take tasks from a journal: `racing.py ADDRESS THREADS TASKS`. It starts when its input ends.

It prints what it has leased, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from hackamore.fleet.journal import open_journal
from hackamore.fleet.states import Trigger
from hackamore.storage.holders import holder_name


def main() -> None:
    address, threads, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    journal = open_journal(address, create=False)
    known = {f"task-{number}" for number in range(count)}
    taken: list[tuple[str, int]] = []

    def take(number: int) -> None:
        holder = holder_name()
        while leases := journal.lease(holder, 1 + number * 2, known, time.time()):
            for lease in leases:
                assert journal.begin(lease, holder, trace=None)
                taken.append((lease.task, lease.attempt))
            journal.finish(leases[0], holder, Trigger.GAVE_UP, usd=3, tokens=1)

    print("ready", flush=True)
    sys.stdin.read()
    crowd = [threading.Thread(target=take, args=(number,)) for number in range(threads)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    journal.close()
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
