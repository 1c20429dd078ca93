"""The flags and help texts of `hackamore simulate` and `hackamore model`."""

from __future__ import annotations

from pathlib import Path

from hackamore.cli.flags import OUTPUT_PANEL, Flags, argument, flag

_SCRIPT = "A script in JSON, TOML or Python (a module with `script`)."
_PLAYING = "Playing"
_COMMAND = {"command": argument("-- COMMAND", "Run COMMAND, then report.", many=True)}
_REPORT: Flags = {
    "as_json": flag(bool, "--json", help="Write the report as JSON.", panel=OUTPUT_PANEL),
    "junit": flag(Path, "--junit", help="Also write the report as JUnit XML to PATH.", panel=OUTPUT_PANEL),
    "output": flag(Path, "--output", "-o", help="Write the report to PATH.", panel=OUTPUT_PANEL),
}

SIMULATE: Flags = {
    "script": argument("SCRIPT", _SCRIPT),
    **_COMMAND,
    "install": flag(Path, "--install", metavar="DIR", help="Write the executable `claude` into DIR."),
    "check": flag(Path, "--check", metavar="DIR", help="Report on the executable in DIR."),
    "per_session": flag(bool, "--per-session", help="Play the script from its start in each session.", panel=_PLAYING),
    "real_tools": flag(bool, "--real-tools", help="Run Bash, Write, Read and Edit really.", panel=_PLAYING),
    "time_scale": flag(
        float, "--time-scale", help="Multiply the script's seconds by N (default 0.01).", panel=_PLAYING
    ),
    **_REPORT,
}

MODEL: Flags = {
    "script": argument("SCRIPT", _SCRIPT, required=True),
    **_COMMAND,
    "port": flag(int, "--port", help="Listen on port N of 127.0.0.1 (default: a free one)."),
    "until_played": flag(bool, "--until-played", help="Stop after the last step of the script."),
    **_REPORT,
}
