"""The same without an event loop: for scripts, notebooks and threads."""

from __future__ import annotations

import hackamore.sync
from hackamore import AssistantMessage


def main() -> None:
    # The short way: wait for the answer.
    answer = hackamore.sync.run("What is 2 + 2? Answer with the number only.")
    print(answer.text, answer.cost, answer.session_id)

    # The long way: every message as it comes. Leaving the block stops the CLI, whatever the reason.
    with hackamore.sync.query("What is 3 + 1?") as stream:
        for message in stream:
            if isinstance(message, AssistantMessage):
                print(message.text)


if __name__ == "__main__":
    main()
