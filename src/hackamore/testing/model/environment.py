"""The environment and the options that make a CLI talk to a scripted model and to nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hackamore.options.options import Options

_FAKE_KEY = "sk-ant-scripted-model"
# Other ways to reach a model, which would win over the scripted one; the CLI takes an empty value for "not set".
_OTHER_PROVIDERS = (
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)
# Variables that would change the answers of a CLI in a test, and are therefore unset in an isolated environment.
_NOT_IN_TESTS_TEXT = (
    "ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL "
    "ANTHROPIC_MODEL ANTHROPIC_SMALL_FAST_MODEL CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_EXTRA_BODY CLAUDE_CODE_SESSION_ID "
    "CLAUDE_CODE_SSE_PORT HTTPS_PROXY HTTP_PROXY MAX_THINKING_TOKENS NODE_OPTIONS https_proxy http_proxy"
)
_NOT_IN_TESTS = _NOT_IN_TESTS_TEXT.split()


def environment(url: str) -> dict[str, str]:
    """Return what must be laid over any environment for a CLI to talk to the model at `url`, and to nothing else."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": _FAKE_KEY,
        **dict.fromkeys(_OTHER_PROVIDERS, ""),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Makes the CLI name in each request the part of it that sends the request.
        "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def isolated_environment(url: str, directory: str | os.PathLike[str]) -> dict[str, str | None]:
    """Return `environment(url)` with home, configuration and temporary folders of its own; None stands for "unset"."""
    home = Path(directory, "home")
    configuration = Path(directory, "claude-config")
    temporary = Path(directory, "tmp")
    for folder in (home, configuration, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        **dict.fromkeys(_NOT_IN_TESTS),
        **environment(url),
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(configuration),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "TMPDIR": str(temporary),
    }


# They change tools of a command as well: test runners, package managers.
_FOR_COMMANDS = ("HTTPS_PROXY", "HTTP_PROXY", "NODE_OPTIONS", "https_proxy", "http_proxy")


def command_environment(url: str, configuration: str | os.PathLike[str]) -> dict[str, str | None]:
    """Return `environment(url)` for a command that starts the CLI: with a configuration folder, and the home of the user.

    Args:
        configuration: the folder for settings, logins and conversations of the CLI.
    """
    others = {name: os.environ[name] for name in ("NO_PROXY", "no_proxy") if os.environ.get(name)}
    fixed = environment(url)
    return {
        **{name: None for name in _NOT_IN_TESTS if name not in _FOR_COMMANDS},
        **fixed,
        **{name: f"{fixed[name]},{value}" for name, value in others.items()},
        "CLAUDE_CONFIG_DIR": os.fspath(configuration),
    }


def unreachable_environment(configuration: str | os.PathLike[str]) -> dict[str, str | None]:
    """Return `command_environment` for a CLI that must not reach any model: its requests fail immediately."""
    return {**command_environment(_NOBODY, configuration), **_FAIL_AT_ONCE}


# No server listens there. Without the second one, an unwanted request would fail only after minutes of retries.
_NOBODY = "http://127.0.0.1:9"
_FAIL_AT_ONCE = {"CLAUDE_CODE_MAX_RETRIES": "0"}


def isolated_options(folder: Path, cli: str | None, url: str | None, fields: dict[str, Any]) -> Options:
    """Return options for a CLI whose home, configuration, temporary files and working directory are below `folder`, made if missing.

    Args:
        cli: the CLI to name; None to search for it.
        fields: more options; `env` is laid over what isolates.
    """
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    isolated = isolated_environment(url or _NOBODY, folder)
    environment: dict[str, str | None] = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        **{name: value for name, value in isolated.items() if value is not None},
        **({} if url else _FAIL_AT_ONCE),
        **(fields.get("env") or {}),
    }
    found = {"cli_path": cli} if cli is not None else {}
    return Options(**{"cwd": str(project), **found, "inherit_env": False, **fields, "env": environment})
