"""A script, and the host that talks with the CLI which plays it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore import sync
from hackamore.errors import HackamoreError
from hackamore.testing import Script

if TYPE_CHECKING:
    from tests.fidelity.driving import Host


@dataclass(frozen=True)
class Case:
    """One script, the host's options, and what the host does.

    Attributes:
        name: unique.
        write: writes the script, given the working directory.
        set: options.
        does: what the host does in its session; by default it sends every prompt.
        one_shot: `sync.run` instead of a session.
        but: paths whose values differ in this case alone, with their reasons.
        lacks: paths and kinds of frames that only the real CLI has in this case, with their reasons.
        answers: a kind of request of the CLI (a subtype, or the event of a hook), and the answer that it gets in place of Hackamore's,
            which refuses wrong ones before they are sent. The CLI may end the session.
    """

    name: str
    write: Callable[[Script, Path], object]
    set: dict[str, Any] = field(default_factory=dict)
    does: Callable[[Host], object] | None = None
    one_shot: bool = False
    but: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, str] = field(default_factory=dict)
    answers: tuple[str, Any] | None = None

    def script(self, folder: Path) -> Script:
        script = Script()
        self.write(script, folder)
        return script

    def options(self, host: Host) -> dict[str, Any]:
        options = {name: value for name, value in self.set.items() if name != "per_run"}
        if "per_run" in self.set:
            options |= self.set["per_run"](host)
        return options

    def run(self, host: Host, transport: Any) -> None:
        if self.one_shot:
            with suppress(HackamoreError):
                sync.run(host.prompts()[0], host.options, transport=transport, check=False)
            return
        host.transport = transport
        with host.sessions, suppress(*((HackamoreError,) if self.answers else ())):
            host.again()
            (self.does or type(host).talk)(host)
            host.session.wait_idle()
            host.session.finish()
