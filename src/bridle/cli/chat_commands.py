"""The commands of `bridle chat` that it does itself. All others that begin with a slash are the CLI's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bridle.checked.fields import suggestion
from bridle.cli.terminal import clean, one_line
from bridle.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bridle.aio.session import Session
    from bridle.cli.terminal import Terminal
    from bridle.options.kinds import PermissionMode

__all__ = ["COMMANDS", "run_command"]

COMMANDS = {
    "/help": "shows this",
    "/quit": "ends it, as Ctrl-D does",
    "/model": "NAME changes the model; without a name it lists them",
    "/mode": "MODE changes the permission mode",
    "/interrupt": "stops what runs and takes back what waits, as Ctrl-C does",
    "/cost": "shows what was spent",
    "/context": "shows what fills the context window",
}
_MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")


async def run_command(
    word: str, argument: str, session: Session, terminal: Terminal, interrupt: Callable[[], Awaitable[None]]
) -> None:
    """Do what a command says; raises the `BridleError` of a refusal."""
    match word:
        case "/help":
            for name, text in COMMANDS.items():
                terminal.line(f"  {name:<11} {text}")
            terminal.line("  /...        anything else goes to the CLI, such as /compact")
            terminal.line("A line that ends with a backslash goes on in the next one.")
            terminal.line(
                "Ctrl-C stops what runs, a second one quits. While something runs the next prompt may be typed."
            )
        case "/model":
            await _model(argument, session, terminal)
        case "/mode":
            if argument not in _MODES:
                hint = suggestion(argument, _MODES) if argument else ""
                raise OptionsError(f"/mode needs one of {', '.join(_MODES)}.{hint}", field="permission_mode")
            await session.set_permission_mode(cast("PermissionMode", argument))
            terminal.note(f"Permission mode: {argument}.", "dim")
        case "/interrupt":
            await interrupt()
        case "/cost":
            terminal.line((await session.get_session_cost()).text)
        case "/context":
            await _context(session, terminal)


async def _model(name: str, session: Session, terminal: Terminal) -> None:
    if name:
        await session.set_model(name)
        terminal.note(f"Model: {name}.", "dim")
        return
    for model in (await session.list_models()).models:
        about = one_line(model.description)
        terminal.line(f"  {clean(model.value):<24} {terminal.shorten(about, max(20, terminal.width - 28))}")


async def _context(session: Session, terminal: Terminal) -> None:
    usage = await session.get_context_usage()
    for part in usage.categories:
        terminal.line(f"  {part.tokens:>10,.0f}  {clean(part.name)}")
    terminal.line(f"  {usage.total_tokens:>10,.0f}  of {usage.max_tokens:,.0f} tokens ({usage.percentage:.0f} %)")
