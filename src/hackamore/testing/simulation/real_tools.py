"""The tools of the simulated CLI that really run: Bash, Write, Read and Edit, in the working directory."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from hackamore.testing.simulation.results import NO_OUTPUT, edit_form, read_form, shell_form, write_form
from hackamore.transports.process.short_runs import run_with_descendants

BASH_SECONDS = 120.0


def run_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any, bool]:
    """Run a tool; return what the model gets, the tool's own form of it, and whether it failed."""
    tool = REAL_TOOLS.get(name)
    if tool is None:
        return "", "", False
    try:
        return tool(arguments)
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename or ''}"
    except (KeyError, TypeError, ValueError, subprocess.SubprocessError) as error:
        text = f"{type(error).__name__}: {error}"
    return text, f"Error: {text}", True


def _bash(arguments: dict[str, Any]) -> tuple[str, Any, bool]:
    seconds = float(arguments.get("timeout") or BASH_SECONDS * 1000) / 1000
    done = run_with_descendants(
        ["/bin/sh", "-c", str(arguments["command"])], seconds, stderr=subprocess.PIPE, start_new_session=False
    )
    output = done.stdout.decode("utf-8", "replace").rstrip("\n")
    errors = done.stderr.decode("utf-8", "replace").rstrip("\n")
    text = "\n".join(part for part in (output, errors) if part)
    if done.returncode:
        text = "\n".join(part for part in (f"Exit code {done.returncode}", text) if part)
        return text, f"Error: {text}", True
    return text or NO_OUTPUT, shell_form(str(arguments["command"]), output, errors), False


def _write(arguments: dict[str, Any]) -> tuple[str, Any, bool]:
    path, content = str(arguments["file_path"]), str(arguments["content"])
    existed = os.path.exists(path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return *write_form(path, content, existed=existed), False


def _read(arguments: dict[str, Any]) -> tuple[str, Any, bool]:
    path = str(arguments["file_path"])
    with open(path, encoding="utf-8", errors="replace") as file:
        content = file.read()
    lines = content.split("\n")
    start = int(arguments.get("offset") or 1)
    count = int(arguments.get("limit") or len(lines))
    shown = lines[start - 1 : start - 1 + count]
    return *read_form(path, shown, start, len(lines)), False


def _edit(arguments: dict[str, Any]) -> tuple[str, Any, bool]:
    path = str(arguments["file_path"])
    old, new = str(arguments["old_string"]), str(arguments["new_string"])
    everywhere = arguments.get("replace_all") is True
    with open(path, encoding="utf-8") as file:
        content = file.read()
    found = content.count(old) if old else 0
    if not found:
        raise ValueError(f"String to replace not found in file.\nString: {old}")
    if found > 1 and not everywhere:
        raise ValueError(f"Found {found} matches of the string to replace, but replace_all is false.")
    with open(path, "w", encoding="utf-8") as file:
        file.write(content.replace(old, new, -1 if everywhere else 1))
    return *edit_form(path, old, new, everywhere=everywhere, before=content), False


REAL_TOOLS = {"Bash": _bash, "Edit": _edit, "Read": _read, "Write": _write}
