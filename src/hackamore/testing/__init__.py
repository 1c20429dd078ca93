"""Test doubles for people who build on Hackamore, and for Hackamore itself.

`Script` is a conversation; `SimulatedCLI` plays it without any CLI; `ScriptedModel` plays the model for the real CLI. Names are loaded
when they are first used: the pytest plugin lives in this package and is imported in every test run wherever Hackamore is installed.

Each public name stands once, in the table below. Type checkers read `__init__.pyi`, which `./dev docs` makes of it.
"""

from __future__ import annotations

PLACES: dict[str, str] = {
    name: f"hackamore.testing.{module}"
    for module, names in {
        "cassettes.cassette": "Cassette cassette",
        "conformance": "check_cli check_session_store check_transport",
        "errors": "CassetteError CassetteMismatchError ScriptError UnconsumedStepsError UnexpectedModelRequestError",
        "faults": "FaultySource with_faults",
        "leaks": "LeakError no_leaks",
        "model.requests": "ModelRequest RequestKind ToolResult",
        "model.scripted_model": "ScriptedModel",
        "model.steps": "Block Dropped HTTPFailure Repeat Reply Stall Step Text Thinking ToolCall Usage",
        "policies": "shell_commands",
        "script.report": "PlayReport PlayedScript PlayedStep",
        "script.script": "Script",
        "simulation.sessions": "SimulatedSession",
        "simulation.simulated_cli": "SimulatedCLI",
    }.items()
    for name in names.split()
}

__all__ = [*PLACES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> object:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
