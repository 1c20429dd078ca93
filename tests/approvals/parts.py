"""The programs that tests of approvals kill: a host, a page, a notifier, and one that holds the database. Arguments: the role, and JSON.

Each reads commands from its standard input, and ends with it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from typing import Any

import anyio
import anyio.to_thread

import hackamore
from hackamore import Allow, ApprovalError, Approvals, Deny, ElicitationResult, HackamoreError, Options

ANSWERS: dict[str, Allow | Deny] = {"yes": Allow(), "no": Deny("No.")}


def say(*words: object) -> None:
    print(*words, flush=True)


async def host(given: dict[str, Any]) -> None:
    """Hold a conversation: `prompt` sends its prompt, `claim` continues it if it was answered."""
    approvals = Approvals(given["address"], hold=given["hold"])
    base = Options(approvals=approvals, **given["options"])
    name = given["session"]

    async def turn(prompt: str) -> object:
        for begun in ({"resume": name}, {"session_id": name}):
            try:
                async with hackamore.Session(base.replace(**begun)) as session:
                    say("cli", session.pid)
                    sent = await session.send(prompt)
                    say("sent")
                    return (await sent.result()).subtype
            except HackamoreError as error:
                failure = f"{type(error).__name__} {error}".replace("\n", " ")
                if "No conversation found" not in failure:
                    return failure
        return failure

    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        if line == "prompt\n":
            say("over", await turn(given["prompt"]))
        elif (found := await anyio.to_thread.run_sync(approvals.claim)) is None:
            say("nothing")
        else:
            say("claimed")
            ended = await turn(found.prompt)
            await anyio.to_thread.run_sync(approvals.done, found)
            say("over", ended)


def page(given: dict[str, Any]) -> None:
    """Answer requests: a line is the name of one, and `yes` or `no`."""
    approvals = Approvals(given["address"])
    say("ready")
    for line in sys.stdin:
        name, answer = line.split()
        try:
            approvals.answer(name, ANSWERS[answer], by=given["person"])
        except ApprovalError as error:
            say("refused", error.request and error.request.answered_by)
        else:
            say("answered")


def person(given: dict[str, Any]) -> None:
    """Answer what the model or a server asks: a line lets it answer the next request, once there is one."""
    approvals = Approvals(given["address"])
    say("ready")
    for _ in sys.stdin:
        while not (found := approvals.pending()):
            time.sleep(0.01)  # another process asks
        request = found[0]
        answer: Allow | ElicitationResult = Allow()
        if request.kind == "elicitation":
            answer = ElicitationResult.accept({"drink": "tea"})
        elif request.kind == "question":
            [question] = request.input["questions"]
            answer = Allow({**request.input, "answers": {question["question"]: question["options"][0]["label"]}})
        approvals.answer(request.id, answer, by="ada")
        say("answered", request.kind)


def notifier(given: dict[str, Any]) -> None:
    """Read requests all the time."""
    approvals = Approvals(given["address"])
    say("ready")
    while True:
        approvals.pending()
        approvals.history(limit=5)
        time.sleep(0.005)  # its work is the subject


def holder(given: dict[str, Any]) -> None:
    """Hold a SQLite file in the middle of a change."""
    connection = sqlite3.connect(given["address"], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE requests SET state = 'answered', answer = '{\"behavior\":\"allow\"}'")
    say("ready")
    sys.stdin.read()


def main() -> None:
    role, given = sys.argv[1], json.loads(sys.argv[2])
    if role == "host":
        anyio.run(host, given, backend=given["backend"])
    else:
        {"page": page, "person": person, "notifier": notifier, "holder": holder}[role](given)


if __name__ == "__main__":
    main()
