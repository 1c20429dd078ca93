"""The exceptions of the official package, with its attributes and texts. Each one is also a `HackamoreError`."""

from __future__ import annotations

from typing import Any

from hackamore.errors import HackamoreError


class ClaudeSDKError(HackamoreError):
    """The base of all errors of the package."""


class CLIConnectionError(ClaudeSDKError):
    """The CLI cannot be reached."""


class CLINotFoundError(CLIConnectionError):
    """The CLI was not found."""

    def __init__(self, message: str = "Claude Code not found", cli_path: str | None = None) -> None:
        super().__init__(f"{message}: {cli_path}" if cli_path else message)


class ProcessError(ClaudeSDKError):
    """The CLI exited with an error."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str | None = None) -> None:
        self.exit_code = exit_code
        self.stderr = stderr
        code = "" if exit_code is None else f" (exit code: {exit_code})"
        super().__init__(f"{message}{code}" + (f"\nError output: {stderr}" if stderr else ""))


def result_errors(errors: Any) -> list[str]:
    """Return the texts in the field `errors` of a result, which may be of any type."""
    texts = [errors] if isinstance(errors, str) else errors if isinstance(errors, list) else []
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


_normalize_result_errors = result_errors  # the name that the official tests import


class ResultError(ProcessError):
    """The CLI reported an error result and exited with an error."""

    def __init__(self, message: str, data: dict[str, Any] | None = None, exit_code: int | None = None) -> None:
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        self.errors: list[str] = result_errors(self.data.get("errors"))
        self.subtype: str | None = self._typed("subtype", str)
        self.result: str | None = self._typed("result", str)
        self.api_error_status: int | None = self._typed("api_error_status", int)
        self.terminal_reason: str | None = self._typed("terminal_reason", str)
        self.session_id: str | None = self._typed("session_id", str)
        super().__init__(message, exit_code=exit_code)

    def _typed(self, name: str, kind: type) -> Any:
        value = self.data.get(name)
        return value if isinstance(value, kind) else None


class CLIJSONDecodeError(ClaudeSDKError):
    """A line of the CLI is not valid JSON."""

    def __init__(self, line: str, original_error: Exception) -> None:
        self.line = line
        self.original_error = original_error
        super().__init__(f"Failed to decode JSON: {line[:100]}...")


class MessageParseError(ClaudeSDKError):
    """A message lacks a field that its class needs."""

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        self.data = data
        super().__init__(message)


class ControlRequestError(ClaudeSDKError):
    """The CLI refused a control request, or did not answer it in time. The official package raises a bare `Exception`."""


for _error in list(globals().values()):  # `HackamoreError` gives its subclasses its own module, where pickles look
    if isinstance(_error, type) and issubclass(_error, ClaudeSDKError):
        _error.__module__ = __name__
