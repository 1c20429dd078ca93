"""Drives the real CLI over plain pipes, as an oracle: what our classes say is what it takes, without our own shells."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.hooks import HookInput
from hackamore.hooks.inputs import decode_hook_input, decode_hook_request
from hackamore.hooks.matchers import registration
from hackamore.hooks.outputs import encode_hook_output
from hackamore.permissions import PermissionRequest, decode_permission_request, encode_permission_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hackamore.errors import StreamWarning
    from hackamore.hooks import HookMatcher
    from hackamore.testing import ScriptedModel
    from tests.conftest import RealCLI


class Conversation:
    """One prompt, everything that the CLI asked meanwhile, and how it was answered.

    Attributes:
        frames: all frames that came.
        hooks: the inputs of all hooks, in order.
        questions: all permission requests, in order.
        warnings: what was warned of.
    """

    def __init__(
        self,
        cli: RealCLI,
        model: ScriptedModel,
        *arguments: str,
        hooks: Mapping[str, Sequence[HookMatcher[Any]]] | None = None,
        can_use_tool: Callable[[PermissionRequest], object] | None = None,
        prompts: Sequence[str] = ("Go",),
        requests: Sequence[Mapping[str, Any]] = (),
        timeout: float | None = 60,
    ) -> None:
        self.frames: list[dict[str, Any]] = []
        self.hooks: list[HookInput] = []
        self.questions: list[PermissionRequest] = []
        self.warnings: list[StreamWarning] = []
        self.can_use_tool = can_use_tool
        self.registered = registration(hooks, timeout)
        self.prompts = list(prompts)
        self.requests = requests
        command = [cli.cli_path, "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
        if can_use_tool is not None:
            command.append("--permission-prompt-tool=stdio")
        environment = {**cli.env(model), "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cli.cwd,
            env=environment,
        )
        killer = threading.Timer(40, self.process.kill)
        killer.start()
        try:
            self._talk()
        finally:
            killer.cancel()
            killer.join()
            self.process.kill()
            self.process.communicate()

    def _send(self, frame: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(frame) + b"\n")
        self.process.stdin.flush()

    def _talk(self) -> None:
        assert self.process.stdout is not None
        self._send(
            {
                "type": "control_request",
                "request_id": "init",
                "request": {"subtype": "initialize", "hooks": self.registered.wire},
            }
        )
        state, asked = "idle", 1
        for line in self.process.stdout:
            frame = json.loads(line)
            self.frames.append(frame)
            match frame:
                case {"type": "control_response", "response": {"request_id": "init"}}:
                    for number, request in enumerate(self.requests):
                        self._send({"type": "control_request", "request_id": f"r{number}", "request": request})
                    self._prompt()
                case {"type": "control_request", "request_id": request_id}:
                    raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])["request"]
                    answer = self._answer(frame["request"]["subtype"], raw)
                    response = {"subtype": "success", "request_id": request_id, "response": answer}
                    self._send({"type": "control_response", "response": response})
                case {"subtype": "session_state_changed", "state": changed}:
                    state = changed
            # A prompt that the CLI answers by itself need not change the state at all.
            if state == "idle" and len(self.results) >= asked:
                if not self.prompts:
                    return
                asked = len(self.results) + 1
                self._prompt()

    def _prompt(self) -> None:
        message = {"role": "user", "content": self.prompts.pop(0)}
        self._send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})

    def _answer(self, subtype: str, raw: msgspec.Raw) -> dict[str, Any]:
        if subtype == "can_use_tool":
            assert self.can_use_tool is not None
            question = decode_permission_request(raw, warn=self.warnings.append)
            self.questions.append(question)
            return encode_permission_result(self.can_use_tool(question), question).wire
        request = decode_hook_request(raw)
        hook = self.registered.callbacks[request.callback_id]
        asked = decode_hook_input(hook.event, request.input_raw, self.warnings.append)
        self.hooks.append(asked)
        encoded = encode_hook_output(hook.callback(asked, None), hook.event)
        self.warnings.extend(encoded.warnings)
        return encoded.wire

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == kind]

    @property
    def results(self) -> list[dict[str, Any]]:
        return self.of("result")

    @property
    def tool_results(self) -> list[str]:
        blocks = [block for frame in self.of("user") for block in frame["message"]["content"]]
        return [str(block["content"]) for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]
