"""`hackamore compat ...`: check, run and migrate programs of `claude_agent_sdk`."""

from __future__ import annotations

import difflib
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hackamore.cli.running import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal


def check_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """List the uses that the layer does not have, or that do something else there; return 1 if there are any."""
    from hackamore.cli.fleet_view import count
    from hackamore.compat._check import check
    from hackamore.compat._programs import program_files

    files = program_files(given["paths"])
    found = [finding for path in files for finding in check(path)]
    if given["as_json"]:
        terminal.line(json.dumps({"files": len(files), "findings": [asdict(each) for each in found]}, indent=2))
    else:
        for each in found:
            text = f"{each.file}:{each.line}: {each.kind}: {each.name}: {each.reason}\n    {each.advice}"
            terminal.line(text)
        terminal.note(f"{count(len(files), 'file')}, {count(len(found), 'finding')}")
    return FAILED if found else 0


def run_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Run a program on the layer, in the place of this process."""
    flags = [
        part
        for name in ("trace", "budget", "simulate", "cli")
        if given[name] is not None
        for part in (f"--{name}", str(given[name]))
    ]
    sys.stdout.flush()
    module = ["-m"] if given["as_module"] else []
    os.execv(sys.executable, [sys.executable, "-m", "hackamore.compat", *flags, *module, *given["program"]])  # noqa: S606


def migrate_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show how programs move to Hackamore, or write them; return 1 if a file keeps a use without an equal."""
    from hackamore.compat._migrate import migrate
    from hackamore.compat._programs import program_files
    from hackamore.storage.files import write_file

    moved, unread = migrate(program_files(given["paths"]))
    for path, error in unread:
        terminal.error(f"{path} is not migrated: {error}")
    for each in moved:
        if each.before != each.after and not given["write"]:
            name = str(each.path).lstrip("/")
            old, new = (data.decode(errors="replace").splitlines(keepends=True) for data in (each.before, each.after))
            for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"):
                terminal.line(line.rstrip()) if terminal.interactive else sys.stdout.write(line)
        elif each.before != each.after:
            place = each.path.resolve()
            mode = place.stat().st_mode
            write_file(place, [each.after])
            place.chmod(mode & 0o7777)
    for each in moved:
        terminal.note(f"{each.path}: {'on Hackamore' if each.native else 'on hackamore.compat'}")
        for number, text in each.todos:
            terminal.note(f"    {each.path}:{number}: {text}")
    terminal.note(
        f"{sum(each.native for each in moved)} of {len(moved)} files need no layer{'' if given['write'] else '; `--write` writes them'}"
    )
    return FAILED if unread or any(not each.native for each in moved) else 0
