"""What the CLI asks and somebody at a terminal answers: may a tool run, the model's own questions, those of MCP servers."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from bridle.cli.terminal import clean, one_line
from bridle.dialogs import ElicitationResult
from bridle.errors import DecodeError
from bridle.permissions import AddDirectories, AddRules, Allow, Deny, PermissionRule, SetMode
from bridle.permissions.updates import RemoveRules, ReplaceRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bridle.cli.lines import Lines
    from bridle.cli.terminal import Terminal
    from bridle.dialogs import ElicitationRequest
    from bridle.permissions import PermissionRequest, PermissionUpdate

__all__ = ["Questions"]

_SHOWN_LINES = 30
_SHOWN_CHARACTERS = 3_000
_ANSWER = re.compile(r"\s*((?:yes|no|always|y|n|a)\b|\?)[\s,:;.]*(.*)", re.IGNORECASE | re.DOTALL)
_MODEL_ASKS = "AskUserQuestion"
_KEPT = {
    "session": "in this session",
    "localSettings": "saved for you in this project",
    "projectSettings": "saved for everybody in this project",
    "userSettings": "saved for you in all projects",
    "cliArg": "in this session",
}


class Questions:
    """Asks one question at a time; `asked` is the open one, or empty.

    Args:
        terminal: the terminal.
        lines: the source of answers; if it is not interactive, nothing is asked.
        say_yes: True allows tools without asking.
        called: waits until the call that a question is about was shown.
    """

    def __init__(
        self, terminal: Terminal, lines: Lines, *, say_yes: bool, called: Callable[[str], Awaitable[None]]
    ) -> None:
        self._terminal = terminal
        self._lines = lines
        self._say_yes = say_yes
        self._called = called
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.asked = ""

    def give(self, line: str) -> bool:
        """Take a line as the answer; False if nothing is asked."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(line)
        return True

    # -- may a tool run ------------------------------------------------------------------------------------------------

    async def may_run(self, request: PermissionRequest) -> Allow | Deny:
        """Ask whether a tool may run."""
        await self._called(request.tool_use_id)
        async with self._turn:
            name = one_line(request.tool_name)  # labels are what others call it
            by_person = bool(request.requires_user_interaction) or request.classifier_approvable is False
            if not self._lines.interactive and (not self._say_yes or by_person):
                way = "only a person may allow it" if by_person else "--allow allows a tool, --yes whatever is asked"
                self._terminal.note(f"{name} was denied: nobody can be asked here ({way}).", "yellow")
                return Deny("Nobody can be asked for permission here.", decision_classification="user_reject")
            if request.tool_name == _MODEL_ASKS and self._lines.interactive:
                return await self._model_asks(request)
            if self._say_yes and not by_person:
                self._terminal.note(f"{name} was allowed: --yes.", "dim")
                return Allow()
            return await self._ask_whether(request, name, by_person)

    async def _ask_whether(self, request: PermissionRequest, name: str, in_full: bool) -> Allow | Deny:
        terminal = self._terminal
        whole_tool = AddRules(rules=[PermissionRule(request.tool_name)], behavior="allow")
        always = () if request.suppress_always_allow_rule else request.suggestions or (whole_tool,)
        terminal.line()
        terminal.line(f"{name} wants to run:", "bold yellow")
        self._explain(request)
        self._show_input(request, _SHOWN_LINES, _SHOWN_CHARACTERS)
        if always:
            terminal.line(f"  always: {'; '.join(map(_described, always))}", "dim")
        choices = f"{'yes' if in_full else '[y]es'}, [n]o{', [a]lways' if always else ''}"
        while True:
            answer = await self._ask(f"Allow {name}? {choices} ")
            found = _ANSWER.fullmatch(answer)
            word, reason = (found[1].lower(), found[2].strip()) if found else ("", "")
            if word == "?":
                self._show_input(request, None, None)
            elif word in ("n", "no"):
                text = reason or "The user does not want this. Ask what to do instead, or do something else."
                return Deny(text, decision_classification="user_reject")
            elif reason:
                terminal.note("Only a no may have a reason: n, and the reason.", "yellow")
            elif word == "yes" or (word == "y" and not in_full):
                return Allow(decision_classification="user_temporary")
            elif word in ("a", "always") and always:
                return Allow(updated_permissions=tuple(always), decision_classification="user_permanent")
            else:
                terminal.note(f"Answer {choices}; n may have a reason, which the model reads; ? shows all.", "yellow")

    def _explain(self, request: PermissionRequest) -> None:
        server = request.mcp_server
        said = (
            ("it says", request.title),
            ("from a server of", server.source if server is not None else None),
            ("for the subagent", request.agent_id),
            ("because", request.decision_reason),
            ("path", request.blocked_path),
        )
        for label, text in said:
            if text:
                self._terminal.line(f"  {label}: {one_line(text)}", "dim")

    def _show_input(self, request: PermissionRequest, most_lines: int | None, most_characters: int | None) -> None:
        try:
            text = clean(_readable(request.input))
        except DecodeError:
            text = clean(bytes(request.input_raw).decode("utf-8", "replace"))
        # What is left out is said: nobody may agree to what was not to be seen.
        shown = text[:most_characters].split("\n")[:most_lines]
        for line in shown:
            self._terminal.line(f"  {line}")
        left = len(text) - len("\n".join(shown))
        if left > 0:
            self._terminal.line(f"  {self._terminal.ellipsis} {left:,} more characters: ? shows all", "yellow")

    # -- questions with answers ------------------------------------------------------------------------------------------

    async def _model_asks(self, request: PermissionRequest) -> Allow | Deny:
        try:
            questions = [_Question(part) for part in request.input["questions"]]
            given = dict(request.input)
        except (DecodeError, KeyError, TypeError, ValueError):
            return Deny("The questions cannot be shown here.")
        answers: dict[str, str] = {}
        for question in questions:
            self._terminal.line()
            self._terminal.line(clean(question.text), "bold yellow")
            for number, (label, explanation) in enumerate(question.choices, 1):
                more = f"  {self._terminal.dot.strip()} {one_line(explanation)}" if explanation else ""
                self._terminal.line(f"  {number}  {one_line(label)}{more}")
            many = "numbers with commas" if question.several else "a number"
            answer = (await self._ask(f"Your answer ({many}, or words; nothing skips it): ")).strip()
            if answer:
                answers[question.text] = question.chosen(answer)
        if not answers:
            return Deny("The user did not want to answer.", decision_classification="user_reject")
        return Allow(updated_input={**given, "answers": answers}, decision_classification="user_temporary")

    async def server_asks(self, request: ElicitationRequest) -> ElicitationResult:
        """Ask what an MCP server wants to know."""
        server = one_line(request.mcp_server_name)
        if not self._lines.interactive:
            self._terminal.note(f"The MCP server {server} asked something: nobody can be asked here.", "yellow")
            return ElicitationResult.decline()
        async with self._turn:
            self._terminal.line()
            self._terminal.line(f"The MCP server {server} asks:", "bold yellow")
            self._terminal.line(f"  {clean(request.message)}")
            if request.mode not in ("form", "url"):
                self._terminal.note("This kind of question cannot be asked here; it was declined.", "yellow")
                return ElicitationResult.decline()
            if request.mode == "url":
                self._terminal.line(f"  {one_line(request.url or '')}")
                agreed = await self._agreed("Have you opened it? [y]es, [n]o ")
                return ElicitationResult.accept() if agreed else ElicitationResult.decline()
            try:
                return await self._form(request.requested_schema)
            except DecodeError:
                return ElicitationResult.decline()

    async def _form(self, schema: Mapping[str, Any]) -> ElicitationResult:
        fields, needed = schema.get("properties"), schema.get("required")
        needed = needed if isinstance(needed, list) else ()
        content: dict[str, Any] = {}
        for name, field in (fields if isinstance(fields, dict) else {}).items():
            about = field if isinstance(field, dict) else {}
            must = name in needed
            hint = ", ".join(map(str, about["enum"])) if isinstance(about.get("enum"), list) else about.get("type", "")
            label = f"{one_line(about.get('title') or name)} ({one_line(hint)}{'' if must else ', may be empty'}): "
            while True:
                answer = (await self._ask(label)).strip()
                if not answer and not must:
                    break
                try:
                    content[name] = _typed(answer, about)
                    break
                except ValueError as error:
                    self._terminal.note(str(error), "yellow")
        agreed = await self._agreed("Send this? [y]es, [n]o ")
        return ElicitationResult.accept(content) if agreed else ElicitationResult.decline()

    async def _agreed(self, text: str) -> bool:
        while (answer := (await self._ask(text)).strip().lower()) not in ("y", "yes", "n", "no"):
            self._terminal.note("Answer y or n.", "yellow")
        return answer in ("y", "yes")

    async def _ask(self, text: str) -> str:
        # What was typed before is no answer to what is asked only now.
        self._lines.forget()
        self._answer = asyncio.get_running_loop().create_future()
        self.asked = text
        self._terminal.ask(text)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._terminal.fresh_line()
            raise
        finally:
            self._answer = None
            self.asked = ""


class _Question:
    """One question of the model's."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        self.text = str(part["question"])
        self.several = part.get("multiSelect") is True
        self.choices = [(str(choice["label"]), str(choice.get("description") or "")) for choice in part["options"]]

    def chosen(self, answer: str) -> str:
        """Return the labels that numbers stand for; anything else is an answer in words."""
        try:
            numbers = [int(number) for number in answer.replace(",", " ").split()]
            if any(number < 1 for number in numbers) or (len(numbers) > 1 and not self.several):
                return answer
            return ", ".join(self.choices[number - 1][0] for number in numbers)
        except (ValueError, IndexError):
            return answer


def _readable(given: Mapping[str, Any]) -> str:
    """Return every argument, nothing left out."""
    parts = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name}: {text}" if "\n" not in text else f"{name}:\n{text}")
    return "\n".join(parts)


def _described(update: PermissionUpdate) -> str:
    kept = _KEPT.get(str(getattr(update, "destination", "")), "")
    match update:
        case AddRules() | ReplaceRules() | RemoveRules():
            rules = ", ".join(
                rule.tool_name if rule.rule_content is None else f"{rule.tool_name}({rule.rule_content})"
                for rule in update.rules
            )
            what = {"addRules": "", "removeRules": "no more ", "replaceRules": "only "}[update.type]
            text = f"{what}{update.behavior} {rules}"
        case SetMode():
            text = f"permission mode {update.mode}"
        case AddDirectories():
            text = f"work in {', '.join(update.directories)}"
        case _:
            text = update.type or "something that this version does not know"
    return one_line(f"{text} ({kept})" if kept else text)


def _typed(answer: str, about: Mapping[str, Any]) -> Any:
    """Return an answer as the type that a form wants; a ValueError says what it must be."""
    choices: Sequence[Any] | Any = about.get("enum")
    if isinstance(choices, list) and choices:
        for choice in choices:
            if str(choice) == answer:
                return choice
        raise ValueError(f"Answer one of: {one_line(', '.join(map(str, choices)))}")
    match about.get("type"):
        case "boolean":
            if answer.lower() not in ("y", "yes", "true", "n", "no", "false"):
                raise ValueError("Answer y or n.")
            return answer.lower() in ("y", "yes", "true")
        case "integer" | "number" as kind:
            try:
                return int(answer) if kind == "integer" else float(answer)
            except ValueError:
                raise ValueError("Answer a number.") from None
        case _:
            if not answer:
                raise ValueError("This must be answered.")
            return answer
