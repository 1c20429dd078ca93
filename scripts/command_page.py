"""Bring the help texts in `docs/reference/command.md` up to date with the command (`--write`), or fail if they are not."""

from __future__ import annotations

import os
import subprocess
import sys

import generated_parts
import typer

from hackamore.cli.app import app

WIDTH = "100"


def help_text(*command: str) -> list[str]:
    """Return the help of a command as it looks on a terminal without colours, in a fence."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HACKAMORE_", "FORCE_", "PY_COLORS"))
    }
    environment |= {
        "COLUMNS": WIDTH,
        "TERMINAL_WIDTH": WIDTH,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        [sys.executable, "-m", "hackamore", *command, "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return ["", "```text", *(line.rstrip() for line in done.stdout.strip("\n").splitlines()), "```"]


def parts() -> list[str]:
    """Return the help of `hackamore` and of each of its commands."""
    lines = ["", "## hackamore", *help_text()]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        lines += ["", f"## hackamore {name}", *help_text(name)]
        for inner in getattr(command, "commands", ()):
            lines += ["", f"### hackamore {name} {inner}", *help_text(name, inner)]
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(generated_parts.main("reference/command.md", {"help": parts()}))
