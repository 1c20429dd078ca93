"""Test doubles for people who build on Bridle, and for Bridle itself.

`Script` is a conversation; `SimulatedCLI` plays it without any CLI; `ScriptedModel` plays the model for the real CLI. Names are loaded
when they are first used: the pytest plugin lives in this package and is imported in every test run of everybody who installed Bridle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle.testing.cassettes.cassette import Cassette, cassette
    from bridle.testing.conformance import check_cli, check_transport
    from bridle.testing.errors import (
        CassetteError,
        CassetteMismatchError,
        ScriptError,
        UnconsumedStepsError,
        UnexpectedModelRequestError,
    )
    from bridle.testing.faults import FaultySource, with_faults
    from bridle.testing.leaks import LeakError, no_leaks
    from bridle.testing.model.requests import ModelRequest, RequestKind, ToolResult
    from bridle.testing.model.scripted_model import ScriptedModel
    from bridle.testing.model.steps import (
        Block,
        Dropped,
        HTTPFailure,
        Repeat,
        Reply,
        Stall,
        Step,
        Text,
        Thinking,
        ToolCall,
        Usage,
    )
    from bridle.testing.script.script import Script
    from bridle.testing.simulation.simulated_cli import SimulatedCLI

__all__ = [
    "Block",
    "Cassette",
    "CassetteError",
    "CassetteMismatchError",
    "Dropped",
    "FaultySource",
    "HTTPFailure",
    "LeakError",
    "ModelRequest",
    "Repeat",
    "Reply",
    "RequestKind",
    "Script",
    "ScriptError",
    "ScriptedModel",
    "SimulatedCLI",
    "Stall",
    "Step",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "UnconsumedStepsError",
    "UnexpectedModelRequestError",
    "Usage",
    "cassette",
    "check_cli",
    "check_transport",
    "no_leaks",
    "with_faults",
]

_HOMES = {
    "Cassette": "cassettes.cassette",
    "CassetteError": "errors",
    "CassetteMismatchError": "errors",
    "FaultySource": "faults",
    "LeakError": "leaks",
    "ModelRequest": "model.requests",
    "RequestKind": "model.requests",
    "Script": "script.script",
    "ScriptError": "errors",
    "ScriptedModel": "model.scripted_model",
    "SimulatedCLI": "simulation.simulated_cli",
    "ToolResult": "model.requests",
    "UnconsumedStepsError": "errors",
    "UnexpectedModelRequestError": "errors",
    "cassette": "cassettes.cassette",
    "check_cli": "conformance",
    "check_transport": "conformance",
    "no_leaks": "leaks",
    "with_faults": "faults",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'model.steps')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
