"""Run programs that are written for `claude-agent-sdk` on Hackamore.

Three ways, none of which changes more than an import:

- `python -m hackamore.compat program.py`
- `hackamore.compat.install()` before the first import of `claude_agent_sdk`
- `from hackamore.compat import claude_agent_sdk`

`pytest --hackamore-compat` does the second for tests. The names, defaults and texts are those of `claude-agent-sdk` 0.2.187.
"""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hackamore.compat._absent import names_of
from hackamore.compat._use import use

if TYPE_CHECKING:
    from hackamore.compat import claude_agent_sdk

__all__ = ["claude_agent_sdk", "install", "use"]

OFFICIAL = "claude_agent_sdk"
_HERE = f"{__name__}.{OFFICIAL}"
_TABLE = tomllib.loads(Path(__file__).with_name("modules.toml").read_text(encoding="utf-8"))
MODULES: str = _TABLE["modules"]
STORES: str = _TABLE["stores"]
ABSENT: str = _TABLE["absent"]


def install() -> None:
    """Have `import claude_agent_sdk` import the compatible layer, in this process. Call it before that import; idempotent.

    Raises:
        ImportError: the real package is loaded already.
    """
    loaded = sys.modules.get(OFFICIAL)
    if loaded is not None and getattr(loaded, "__name__", "") != _HERE:
        raise ImportError(
            f"`{OFFICIAL}` is loaded already, from {getattr(loaded, '__file__', None)}. Call `hackamore.compat.install()` before its "
            "first import, or run the program with `python -m hackamore.compat`.",
            name=OFFICIAL,
        )
    if loaded is not None:
        return
    sys.modules[OFFICIAL] = import_module(_HERE)
    for name in MODULES.split():
        sys.modules[f"{OFFICIAL}.{name}"] = import_module(f"{_HERE}.{name}")
    internal = sys.modules[f"{OFFICIAL}._internal"]
    sessions = sys.modules[f"{OFFICIAL}._internal.sessions"]
    for name in (*STORES.split(), *ABSENT.split()):
        module = sessions
        if name in ABSENT.split():
            module = ModuleType(f"{OFFICIAL}._internal.{name}")
            module.__getattr__ = names_of(name)  # type: ignore[method-assign]
        sys.modules[f"{OFFICIAL}._internal.{name}"] = module
        setattr(internal, name, module)
    conversation = import_module(f"{_HERE}._internal._conversation")
    for name in ("run_end_ceiling_ms", "_error_result_text"):
        setattr(internal.query, name, getattr(conversation, name))


def __getattr__(name: str) -> Any:
    if name == OFFICIAL:
        return import_module(_HERE)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
