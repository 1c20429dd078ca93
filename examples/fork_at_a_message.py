"""Go back to a message of an old conversation, and try another way from there. The original stays as it is."""

# scripted: "Call it Otter.", "Call it Otter, in blue.", Reply("Call it Heron.", expect_text="Another animal")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import AssistantMessage, Options
from hackamore.transcripts import aio as transcripts


async def main() -> None:
    first = await hackamore.run("Name my boat.")
    assert first.session_id is not None
    await hackamore.run("Which colour?", Options(resume=first.session_id))

    transcript = await transcripts.read(first.session_id)
    answers = [
        message async for message in transcripts.stream(transcript.messages) if isinstance(message, AssistantMessage)
    ]
    print([answer.text for answer in answers])

    # The copy ends with the first answer: the model never saw the question for the colour.
    copy = await transcripts.fork(first.session_id, at=answers[0], title="Another boat")
    other = await hackamore.run("Another animal, please.", Options(resume=copy))
    print(other.text)

    assert len(transcript.messages) == 4
    assert len((await transcripts.read(copy)).messages) == 4
    assert (await transcripts.info(copy)).title == "Another boat"


if __name__ == "__main__":
    asyncio.run(main())
