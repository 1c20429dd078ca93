"""The label of an application that starts the CLI, derived from the package that runs."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys

from hackamore.options.observing import logger

EXPLICIT_CLIENT_APP_ENV = "CLAUDE_AGENT_SDK_CLIENT_APP"
DERIVED_CLIENT_APP_ENV = "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP"
_GENERIC = ("index", "main", "cli", "server", "app", "node")
_LONGEST = 128
_LABEL = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.!+-]*)?", re.ASCII)
_REQUIRES_SDK = re.compile(r"claude[-_.]agent[-_.]sdk(?![\w.-])(?!.*;.*\bextra\s*==)", re.IGNORECASE)


def _normalize(value: str) -> str | None:
    return value if len(value) <= _LONGEST and _LABEL.fullmatch(value) else None


def _format_client_app(name: str, version: str | None) -> str | None:
    if name.lower() in _GENERIC:
        return None
    public = (version or "").partition("+")[0]
    return (_normalize(f"{name}/{public}") if public else None) or _normalize(name)


@functools.cache
def derive_client_app() -> str | None:
    try:
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        if spec is None or spec.name == "__main__":
            return None
        packages = importlib.metadata.packages_distributions().get(spec.name.partition(".")[0], [])
        names = set(packages)
        if len(names) == 1:
            name = names.pop()
            if any(map(_REQUIRES_SDK.match, importlib.metadata.requires(name) or [])):
                return _format_client_app(name, importlib.metadata.version(name))
    except Exception:
        logger.debug("Could not derive an app label", exc_info=True)
    return None
