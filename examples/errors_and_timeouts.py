"""Handle every failure of a query in one function. docs/guides/troubleshooting.md lists the errors."""

# scripted: Repeat(lambda request: Stall() if "story" in request.prompt_text
#   else HTTPFailure(401, retry=False) if "key" in request.prompt_text else "4")

from __future__ import annotations

import asyncio
import sys
from uuid import uuid4

import hackamore
from hackamore import Options, Timeouts


async def ask(prompt: str, options: Options) -> str | None:
    """Return the answer, or None after having said what went wrong."""
    try:
        answer = await hackamore.run(prompt, options)
    except hackamore.OptionsError as error:
        print(f"an option is wrong ({error.field}): {error}")
    except hackamore.StartError as error:
        # No CLI, one that is too old, one that the operating system does not start. Nothing ran.
        print(f"not started ({type(error).__name__}): {error}")
    except hackamore.TurnTimeoutError as error:
        # The CLI and everything that it had started are gone by now.
        print(f"too slow ({error.kind}, {error.seconds:g} s)")
    except hackamore.AuthenticationError as error:
        print(f"no usable login (status {error.status}): {error}")
    except hackamore.ResultError as error:
        # The CLI worked and reports a failure: API down, too many turns, unknown session, ...
        print(f"failed ({error.result.subtype}, {error.result.terminal_reason}): {error}")
    except hackamore.ProcessError as error:
        print(f"the CLI died with {error.exit_code}: {error.diagnostic.exit_code_hint}")
    except hackamore.StreamError as error:
        print(f"its output was no use: {error}")
    else:
        for warning in answer.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return answer.text
    return None


async def main() -> None:
    # A turn may take five minutes, and the CLI may be silent for two.
    careful = Options(timeouts=Timeouts(turn=300, idle=120))
    print("1.", await ask("What is 2 + 2?", careful))
    print("2.", await ask("Tell a long story.", Options(timeouts=Timeouts(turn=2))))
    print("3.", await ask("Is my key any good?", careful))
    print("4.", await ask("Go on.", careful.replace(resume=str(uuid4()))))
    print("5.", await ask("What is 2 + 2?", careful.replace(cli_path="/nowhere/claude")))


if __name__ == "__main__":
    asyncio.run(main())
