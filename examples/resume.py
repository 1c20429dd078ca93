"""Continue a conversation later, or branch off from it.

Sessions are stored by working directory: resume them from the folder that they were made in.
"""

# scripted: "I will remember it.", Reply("It is 7.", expect_text="Which number"),
#   Reply("Now it is 8.", expect_text="Add one")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import Options


async def main() -> None:
    first = await hackamore.run("Remember the number 7.")
    print(first.session_id, first.text)

    # The same conversation goes on, under the same id.
    second = await hackamore.run("Which number was it?", Options(resume=first.session_id))
    print(second.session_id, second.text)

    # A copy goes on under a new id; the original stays as it is.
    branch = await hackamore.run("Add one to it.", Options(resume=first.session_id, fork_session=True))
    print(branch.session_id, branch.text)
    assert branch.session_id != first.session_id


if __name__ == "__main__":
    asyncio.run(main())
