"""Options whose CLI sees a folder, a scripted model, and nothing else of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridle.options.options import Options
from bridle.testing.model.environment import isolated_environment

if TYPE_CHECKING:
    from pathlib import Path

    from bridle.testing.model.scripted_model import ScriptedModel

__all__ = ["isolated_options"]

# Nothing listens there. Without the second a request that was not meant to be made would fail after some minutes of tries.
_NOBODY = "http://127.0.0.1:9"
_FAIL_AT_ONCE = {"CLAUDE_CODE_MAX_RETRIES": "0"}


def isolated_options(folder: Path, cli: str | None, model: ScriptedModel | None, fields: dict[str, Any]) -> Options:
    """Return options for a CLI whose home, configuration, temporary files and working directory are below `folder`.

    Args:
        folder: made if it is missing.
        cli: the CLI to name; None to have it looked for.
        model: who answers; None for nobody.
        fields: more options; `env` is laid over what isolates.
    """
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    isolated = isolated_environment(model.url if model is not None else _NOBODY, folder)
    environment: dict[str, str | None] = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        **{name: value for name, value in isolated.items() if value is not None},
        **(_FAIL_AT_ONCE if model is None else {}),
        **(fields.get("env") or {}),
    }
    found = {"cli_path": cli} if cli is not None else {}
    return Options(**{"cwd": str(project), **found, "inherit_env": False, **fields, "env": environment})
