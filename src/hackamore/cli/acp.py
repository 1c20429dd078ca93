"""`hackamore acp`: an agent for editors, on the standard streams of this process."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from hackamore.cli.flags import build_options
from hackamore.cli.running import expected_warnings, run_async
from hackamore.errors import OptionsError
from hackamore.options.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal


def acp(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the client on stdin and stdout until it is gone; return the exit code."""
    from hackamore.serving.acp import agent

    file, rules = given["options_file"], given["policy"]
    given = {**given, "policy": None}  # its roots are the folder of each conversation
    if file is not None and file.suffix == ".py":
        options = build_options(given, partial=True, base=_defined(file))
    else:
        options = build_options({**given, "config": file}, partial=True)
    try:
        served = agent(options, policy=rules, max_live=16 if given["max_live"] is None else given["max_live"])
    except ImportError as error:
        raise OptionsError(str(error), field="acp") from None

    async def serve() -> int:
        async with served:
            await served.serve_stdio()
        return 0

    with expected_warnings():
        return run_async(terminal, serve)


def _defined(file: Any) -> Options:
    """Return the options of a Python file."""
    from hackamore.cli.playing import defined

    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the client
            found: Options = defined(file, "options", (Options,))
    except (OSError, ValueError) as error:
        raise OptionsError(f"The options file cannot be used: {error}", field="options") from None
    return found
