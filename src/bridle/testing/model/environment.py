"""The environment variables that make a CLI talk to a scripted model and to nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

_FAKE_KEY = "sk-ant-scripted-model"
# Other ways to reach a model, which would win over the scripted one; the CLI takes an empty value for "not set".
_OTHER_PROVIDERS = (
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)
# What would change the answers of a CLI that runs in a test, and is therefore unset in an isolated environment.
_NOT_IN_TESTS = (
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXTRA_BODY",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "MAX_THINKING_TOKENS",
    "NODE_OPTIONS",
    "https_proxy",
    "http_proxy",
)


def environment(url: str) -> dict[str, str]:
    """Return what must be laid over any environment for a CLI to talk to the model at `url`, and to nothing else."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": _FAKE_KEY,
        **dict.fromkeys(_OTHER_PROVIDERS, ""),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Makes the CLI say with each request which of its parts asks.
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
