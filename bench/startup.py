"""What it costs to import each package, to be ready to ask, and to run a whole script: always in fresh interpreters."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# The peak of this process alone: `ru_maxrss` starts with the size of the process that started it.
PEAK = """
import sys
def peak():
    try:
        with open('/proc/self/status') as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith('VmHWM:'))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)
print(peak(), len(sys.modules))
"""

BARE = "pass"
HACKAMORE = "import hackamore"
HACKAMORE_READY = "import hackamore; stream = hackamore.query('hello', hackamore.Options(cli_path={path!r}))"
HACKAMORE_READY_BLOCKING = (
    "import hackamore; stream = hackamore.sync.query('hello', hackamore.Options(cli_path={path!r}))"
)
OFFICIAL = "import claude_agent_sdk"
OFFICIAL_READY = "import claude_agent_sdk as sdk; stream = sdk.query(prompt='hello', options=sdk.ClaudeAgentOptions(cli_path={path!r}))"
HACKAMORE_SCRIPT = """
import asyncio, hackamore
async def main():
    async for message in hackamore.query('hello', hackamore.Options(cli_path={path!r}, version_check='skip')):
        pass
asyncio.run(main())
"""
HACKAMORE_SCRIPT_BLOCKING = """
import hackamore
for message in hackamore.sync.query('hello', hackamore.Options(cli_path={path!r}, version_check='skip')):
    pass
"""
OFFICIAL_SCRIPT = """
import asyncio, os, claude_agent_sdk as sdk
os.environ['CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK'] = '1'
async def main():
    async for message in sdk.query(prompt='hello', options=sdk.ClaudeAgentOptions(cli_path={path!r})):
        pass
asyncio.run(main())
"""

PROGRAMS: dict[str, str] = {
    "bare": BARE,
    "hackamore": HACKAMORE,
    "official": OFFICIAL,
    "hackamore ready": HACKAMORE_READY,
    "hackamore ready, blocking": HACKAMORE_READY_BLOCKING,
    "official ready": OFFICIAL_READY,
    "hackamore script": HACKAMORE_SCRIPT,
    "hackamore script, blocking": HACKAMORE_SCRIPT_BLOCKING,
    "official script": OFFICIAL_SCRIPT,
}


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def import_time(module: str) -> float:
    """Return what `python -X importtime -c 'import MODULE'` says, in seconds."""
    lines = _python("-X", "importtime", "-c", f"import {module}").stderr.splitlines()
    # `import time: SELF | CUMULATIVE | NAME`; names of what a module imports are indented.
    found = [line.split("|") for line in lines]
    return next(int(parts[1]) / 1e6 for parts in reversed(found) if parts[-1] == f" {module}")


def wall_time(program: str) -> float:
    begin = time.perf_counter()
    _python("-c", program)
    return time.perf_counter() - begin


def peak_and_modules(program: str) -> tuple[int, int]:
    peak, modules = _python("-c", program + "\n" + PEAK).stdout.split()
    return int(peak), int(modules)


def measure(path: str, repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return seconds (best), peaks (median) and numbers of modules for all `PROGRAMS`.

    Args:
        path: an instant stand-in.
        repeats: how often; every program runs once before, so that byte code and page cache are there.
        say: told what is going on.
    """
    programs = {name: text.format(path=path) for name, text in PROGRAMS.items()}
    for name, program in programs.items():
        say(f"start-up: {name}")
        wall_time(program)
    walls: dict[str, list[float]] = {name: [] for name in programs}
    imports: dict[str, list[float]] = {"hackamore": [], "claude_agent_sdk": []}
    peaks: dict[str, list[int]] = {name: [] for name in programs}
    modules: dict[str, int] = {}
    for number in range(repeats):
        say(f"start-up: round {number + 1} of {repeats}")
        for name, program in programs.items():
            walls[name].append(wall_time(program))
            if number < 3:
                peak, modules[name] = peak_and_modules(program)
                peaks[name].append(peak)
        for module, seconds in imports.items():
            seconds.append(import_time(module))
    return {
        "importtime": {module: min(seconds) for module, seconds in imports.items()},
        "wall": {name: min(seconds) for name, seconds in walls.items()},
        "peak": {name: int(statistics.median(sizes)) for name, sizes in peaks.items()},
        "modules": modules,
        "cpus": os.cpu_count(),
    }
