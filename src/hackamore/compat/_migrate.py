"""A codemod: programs of `claude_agent_sdk` with the names of Hackamore where the meaning is equal, and on the layer otherwise.

Files are edited at the positions of their nodes, so that all else stays as it is. A file in which one use has no equal stays on the layer
as a whole, with a comment at each such use, and so do the files that it exchanges objects with.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hackamore
from hackamore.compat._programs import OFFICIAL, Program

_LAYER = f"hackamore.compat.{OFFICIAL}"
_INSTALL = "hackamore.compat.install()"
_TODO = "# TODO(hackamore): "
_OLD = re.compile(rb"^[ \t]*# TODO\(hackamore\): [^\r\n]*(\r\n|\r|\n)", re.MULTILINE)
_END = re.compile(r"\r\n|\r|\n")
_NAME = re.compile(r"\b[A-Z]\w+")
_DEFAULT = 'Options(system_prompt="")'
_UNSEEN = "CommandLifecycleMessage", "UnknownMessage"
"""Messages that the official package drops."""
_FUNCTIONS = (ast.AsyncFunctionDef, ast.FunctionDef)
_LOOPS = (ast.AsyncFor, ast.For, ast.While)


@dataclass
class Migrated:
    """A file with its new bytes; `todos` are the lines and texts of uses without an equal, for which it stays on the layer."""

    path: Path
    before: bytes
    after: bytes
    native: bool
    todos: list[tuple[int, str]]


def migrate(paths: Iterable[Path]) -> tuple[list[Migrated], list[tuple[Path, Exception]]]:
    """Return the files that use the official package, and those that cannot be read as a program."""
    moves: list[tuple[bytes, _Move]] = []
    unread: list[tuple[Path, Exception]] = []
    for path in paths:
        try:
            data = path.read_bytes()
            moves.append((data, _Move(Program(path, _OLD.sub(b"", data)))))
        except (OSError, SyntaxError, ValueError) as error:
            unread.append((path, error))
    moves = [(data, move) for data, move in moves if move.program.names and _INSTALL not in move.program.text]
    _keep_together([move for _, move in moves])
    done = []
    for data, move in moves:
        text = move.result()
        lines = [(number, line.strip()) for number, line in enumerate(_END.split(text), 1)]
        todos = [(number, line.removeprefix(_TODO)) for number, line in lines if line.startswith(_TODO)]
        done.append(Migrated(move.program.path, data, text.encode(move.program.encoding), move.is_native, todos))
    return done, unread


def _keep_together(moves: list[_Move]) -> None:
    """Keep on the layer what imports, or is imported by, a file that stays there; mark official names that come by way of another file."""
    links = []
    for move in moves:
        for node in move.program.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and node not in move.program.imports:
                words = {word for alias in node.names for word in alias.name.split(".")}
                words.update((getattr(node, "module", None) or "").split("."))
                for other in moves:
                    path = other.program.path
                    if other is not move and (path.parent.name if path.stem == "__init__" else path.stem) in words:
                        links.append((move, other))
                        for name in sorted(words & other.program.names.keys()):
                            move.todo(node, "way", name)
    for _ in links:
        for one, other in links:
            one.is_native = other.is_native = one.is_native and other.is_native


class _Move:
    """The edits of one file, and the uses that have no equal."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.is_native = True
        self.edits: list[tuple[int, int, str]] = []
        self.todos: dict[ast.AST, str] = {}
        self.needed: dict[str, set[str]] = {}
        self.messages: set[tuple[ast.AST, str]] = set()
        """Variables that hold messages and blocks: the function, or the module, and the name."""
        self.clients: dict[str, list[ast.AST]] = {}
        """Expressions that hold clients, and the calls of `query` and loops over `receive_response` on each."""
        self.bound: set[tuple[ast.AST, str]] = set()
        self.callbacks: dict[str, int] = {}
        self.loops: list[tuple[ast.AsyncFor, str]] = []
        self.table = tomllib.loads(Path(hackamore.__file__).with_name("official.toml").read_text(encoding="utf-8"))
        self.same = {name: module for module, names in self.table["names"].items() for name in names.split()}
        self.options = {row["field"]: row for row in self.table["options"] if "field" in row}
        self.methods = {row["method"]: row for row in self.table["client"] if "method" in row}
        self.plain_methods = next(row["same"] for row in self.table["client"] if "same" in row).split()
        self.functions = {node.name: node for node in program.nodes if isinstance(node, _FUNCTIONS)}
        own = [getattr(node, "name", None) or getattr(node, "arg", None) for node in program.nodes]
        self.stored = {
            (self._scope(node), node.id)
            for node in program.nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        froms = [node for node in program.nodes if isinstance(node, ast.ImportFrom) and node.module == "hackamore"]
        moved = {alias.name for node in froms for alias in node.names}  # by hand, or by an earlier run
        self.taken = {*map(str, own), *(name for _, name in self.stored)} - program.names.keys() - moved
        self.known_options = {
            target.id
            for node in program.nodes
            if isinstance(node, ast.Assign) and self._called(node.value) == "ClaudeAgentOptions"
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if program.names:
            self._read()

    def todo(self, node: ast.AST, text: str, *words: object) -> None:
        """Mark a node that keeps the file on the layer; `text` names a row of the texts in the table."""
        self.is_native = False
        self.todos.setdefault(node, self.table["todo"][text].format(*words).strip())

    # -- the result ---------------------------------------------------------------------------------------------------

    def result(self) -> str:
        """Return the text of the file, on the names of Hackamore if all uses have an equal."""
        if self.is_native:
            for number, node in enumerate(self.program.imports):
                self.edit(node, self._imports(node, extra=number == 0))
            try:
                ast.parse(text := self._edited())
                return text
            except SyntaxError as error:  # quotes in an f-string before Python 3.12
                self.todo(next(iter(self.program.imports)), "rewrite", error.lineno)
        self.edits = []
        layered = {node: self._on_the_layer(node) for node in self.program.imports}
        for node, text in layered.items():
            if all(layered.values()):
                self.edit(node, text)
        if not all(layered.values()):
            self._above(next(iter(layered)), "import hackamore.compat", _INSTALL)
        for node, text in self.todos.items():
            inside = (node, *self.program.above(node))
            self._above(next(each for each in inside if isinstance(each, ast.stmt | ast.ExceptHandler)), _TODO + text)
        return self._edited()

    def _on_the_layer(self, node: ast.AST) -> str:
        """Return the import of the layer; "" if only `install` can replace it."""
        text = self.program.source(node)
        if "hackamore.compat" in text:
            return text
        if isinstance(node, ast.ImportFrom):
            return re.sub(rf"\b{OFFICIAL}\b", _LAYER, text, count=1)
        return f"from hackamore.compat {text}" if re.match(rf"import {OFFICIAL}( as \w+)?$", text) else ""

    def _imports(self, node: ast.AST, *, extra: bool) -> str:
        """Return the statements that replace an import of the official package."""
        wanted = {module: set(names) for module, names in self.needed.items()} if extra else {}
        for other in [*self.program.imports, node]:
            for alias in other.names if self._scope(other) is self._scope(node) else ():  # type: ignore[attr-defined]
                module = self.same.get(alias.name, "hackamore")
                kept = wanted.get(module, set()) - self._natives(alias)
                wanted[module] = kept | (self._natives(alias) if other is node else set())
        source = self.program.source(node)
        margin = " " * node.col_offset  # type: ignore[attr-defined]
        lines = re.findall(r"#[^\r\n]*", source)
        for module in sorted(wanted):
            ordered = sorted(wanted[module], key=lambda name: (not name.isupper(), not name[0].isupper(), name))
            line = f"from {module} import {', '.join(ordered)}"
            if len(ordered) > 1 and (_END.search(source) or len(line) > 88):
                inside = "".join(f"{margin}    {name},\n" for name in ordered)
                line = f"from {module} import (\n{inside}{margin})"
            lines += [line] if ordered else []
        return f"\n{margin}".join(lines) or "pass"

    def _natives(self, alias: ast.alias) -> set[str]:
        text = self.table["renamed"].get(alias.name, alias.name)
        names = [text] if text.isidentifier() else _NAME.findall(text)
        return {f"{name} as {alias.asname}" if alias.asname else name for name in names}

    def _edited(self) -> str:
        end = _END.search(self.program.text)
        data = self.program.bytes
        for start, stop, text in sorted(set(self.edits), reverse=True):
            data = data[:start] + text.replace("\n", end[0] if end else "\n").encode() + data[stop:]
        return data.decode()

    # -- edits --------------------------------------------------------------------------------------------------------

    def edit(self, node: ast.AST, text: str) -> None:
        start, end = self.program.span(node)
        found = "".join(self.program.source(node).split())
        twice = isinstance(node, ast.Name) and (start, end, text) in self.edits
        if twice or (isinstance(node, ast.Name | ast.Attribute) and found != ast.unparse(node)):
            self.todo(node, "position", ast.unparse(node))
        self.edits.append((start, end, text))

    def _at(self, place: int, text: str) -> None:
        self.edits.append((place, place, text))

    def _margin(self, place: int) -> str:
        """Return the white space at the beginning of the line of a place."""
        line = re.split(rb"[\r\n]", self.program.bytes[:place])[-1] + b"x"
        return line[: len(line) - len(line.lstrip())].decode()

    def _above(self, statement: ast.AST, *lines: str) -> None:
        start = self.program.span(statement)[0]
        begin = start - len(re.split(rb"[\r\n]", self.program.bytes[:start])[-1])
        self._at(begin, "".join(f"{self._margin(start)}{line}\n" for line in lines))

    def _need(self, text: str, module: str = "hackamore") -> str:
        """Have the names of an expression imported; return it."""
        self.needed.setdefault(module, set()).update(_NAME.findall(re.sub(r'"[^"]*"', "", text)))
        return text

    # -- reading ------------------------------------------------------------------------------------------------------

    def _scope(self, node: ast.AST) -> ast.AST:
        """Return the function, or the module, that a node is in."""
        return next(above for above in self.program.above(node) if isinstance(above, (*_FUNCTIONS, ast.Module)))

    def _advice(self, name: str) -> str:
        endings = (text for ending, text in self.table["endings"].items() if name.endswith(ending))
        return str(self.table["advice"].get(name) or next(endings, ""))

    def _called(self, node: ast.AST) -> str:
        """Return the official name that a node calls."""
        return self.program.official(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""

    def _read(self) -> None:
        program = self.program
        for node, names in program.imports.items():
            if isinstance(node, ast.Import) or OFFICIAL in names.values() or any("*" in name for name in names):
                self.todo(node, "import")
        places = [(node, program.official(node)) for node in program.nodes]
        used = {node.id for node, place in places if place and isinstance(node, ast.Name)}
        for node, place in places:
            if place and not program.is_module(place):
                self._reference(node, place.rpartition(".")[2])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                quoted = self._annotates(node) and set(re.findall(r"\w+", node.value)) & program.names.keys()
                if quoted or program.is_module(node.value.rpartition(".")[0]) or program.is_module(node.value):
                    self.todo(node, "text", node.value[:60])
        texts = {node.value for node in program.nodes if isinstance(node, ast.Constant)}
        new = {name for names in self.needed.values() for name in names}
        for node in program.imports:
            for alias in node.names:  # type: ignore[attr-defined]
                new |= self._natives(alias) if alias.name in self.table["renamed"] else set()
                offered = alias.name in texts or program.path.name == "__init__.py"
                if offered and alias.name in self.table["renamed"] and (alias.asname or alias.name) not in used:
                    self.todo(node, "unused", alias.name)
        for node in program.nodes:
            text = program.source(node) if isinstance(node, ast.Name | ast.Attribute) else ""
            if text in self.clients and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                where = (self._scope(node), text)
                if where in self.bound or where not in self.stored:  # else a function has another object of that name
                    self._client_use(node, text)
        for client, uses in self.clients.items():
            self._pairs(client, uses)
        before = -1
        while before != len(self.messages):
            before = len(self.messages)
            for node in program.nodes:
                self._message_use(node)
        for loop, name in self.loops:
            self._complete(loop, name)
        for name, number in self.callbacks.items():
            if number != sum(isinstance(node, ast.Name) and node.id == name for node in program.nodes):
                self.todo(self.functions[name], "callback", name)
        first = next(iter(program.imports))  # those of the module come first
        if any(self.needed.values()) and not isinstance(program.parents[first], ast.Module):
            self.todo(first, "inside")
        if taken := self.taken & new:
            self.todo(first, "taken", ", ".join(sorted(taken)))

    def _annotates(self, node: ast.AST) -> bool:
        for above in self.program.above(node):
            if not isinstance(above, ast.expr):
                returns = isinstance(above, _FUNCTIONS) and above.returns
                return isinstance(above, ast.arg) or returns is node or getattr(above, "annotation", None) is node
            node = above
        return False

    def _reference(self, node: ast.AST, name: str) -> None:
        """Give a name of the official package its native one, where it is used in a way that means the same."""
        text = self.table["renamed"].get(name) or (name if name in self.same else "")
        kinds = {kind: names.split() for kind, names in self.table["kinds"].items()}
        outer, *more = self.program.above(node)
        if isinstance(outer, ast.Tuple):
            outer, *more = more
        caught = isinstance(outer, ast.ExceptHandler)
        compared = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "isinstance"
        clients = "ClaudeSDKClient" in self.program.names
        if not text or (name == "ProcessError" and clients):
            self.todo(node, "absent", name, self._advice(name))
        elif isinstance(outer, ast.Call) and outer.func is node and name in kinds["called"]:
            getattr(self, f"_call_{name}", self._call)(outer)
        elif not (caught and name in kinds["errors"]) and not compared and not self._annotates(node):
            self.todo(node, "value", name, self._advice(name))
        if caught and isinstance(outer, ast.ExceptHandler) and outer.name:
            for inner in ast.walk(outer):
                if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) == outer.name:
                    self.todo(inner, "error", inner.attr)
        for above in (outer, *more):
            if isinstance(above, ast.arg):
                if name == "ClaudeSDKClient":
                    self.clients.setdefault(above.arg, [])
                elif name.endswith(("Message", "Block", "StreamEvent")):
                    self.messages.add((self._scope(above), above.arg))
        if text not in ("", name) and isinstance(node, ast.Name) and node.id == name:
            self.edit(node, text)

    def _call(self, call: ast.Call) -> None:
        """Accept a call whose arguments mean the same in both packages."""

    def _call_AgentDefinition(self, call: ast.Call) -> None:  # noqa: N802 - the name of the official package
        row = next(row["agent"] for row in self.table["options"] if "agent" in row)
        names = dict(pair.split("=") for pair in row.split())
        for keyword in call.keywords:
            if name := names.get(keyword.arg or ""):
                start = self.program.span(keyword)[0]
                self.edits.append((start, start + len(keyword.arg or ""), name))

    def _call_ClaudeAgentOptions(self, call: ast.Call) -> None:  # noqa: N802
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if call.args or None in given:
            self.todo(call, "fields")
            return
        for keyword in call.keywords:
            row, value = self.options.get(keyword.arg or "", {}), keyword.value
            certain = isinstance(value, ast.Dict | ast.List | ast.JoinedStr) or getattr(value, "value", None)
            needless = row.get("unless") in given or (keyword.arg == "system_prompt" and certain)
            if "template" in row and not needless:
                before, after = self._need(row["template"]).split("{}", 1)
                (start, end), inner = self.program.span(keyword), self.program.span(value)
                self.edits += [(start, inner[0], before), (inner[1], end, after)]
                if keyword.arg in ("sandbox", "skills") and not certain:
                    self.todo(value, "differs", row["official"], row["native"])
            elif row and "template" not in row:
                self.todo(value, "differs", row["official"], row["native"])
            if keyword.arg == "can_use_tool":
                self._callback(value, "permission")
        if "system_prompt" not in given:
            end = self.program.span(call)[1] - 1
            first = self.program.span(call.keywords[0])[0] if call.keywords else end
            apart = call.keywords and call.keywords[0].value.lineno != call.func.end_lineno
            space = f"\n{self._margin(first)}" if apart else " "
            self._at(first, 'system_prompt=""' + (f",{space}" if call.keywords else ""))

    def _call_HookMatcher(self, call: ast.Call) -> None:  # noqa: N802
        hooks = [keyword.value for keyword in call.keywords if keyword.arg == "hooks"] or call.args[1:2]
        for hook in hooks[0].elts if hooks and isinstance(hooks[0], ast.List) else hooks:
            self._callback(hook, "hook")

    def _callback(self, value: ast.AST, kind: str) -> None:
        """Give a function the arguments that Hackamore passes: a hook gets two, a permission callback one."""
        function = self.functions.get(value.id) if isinstance(value, ast.Name) else None
        arguments = function.args.args if function else []
        others = function and any(value for name, value in ast.iter_fields(function.args) if name != "args")
        if function is None or others or len(arguments) != 3:
            self.todo(value, "function", kind)
            return
        self.callbacks[function.name] = self.callbacks.get(function.name, 0) + 1
        if self.callbacks[function.name] > 1:
            return
        first, second, third = (argument.arg for argument in arguments)
        texts = {
            "hook": {first: f"{first}.data", second: f"{third}.tool_use_id"},
            "permission": {first: f"{third}.tool_name", second: f"{third}.input"},
        }[kind]
        if kind == "hook":
            event = arguments[0].annotation
            known = isinstance(event, ast.Name) and self.same.get(event.id) == "hackamore.hooks"
            kept = self.program.source(event) if event and known else self._need("HookInput", "hackamore.hooks")
            new = f"{first}: {kept}, {third}: {self._need('HookContext')}"
        else:
            new = f"{third}: {self._need('PermissionRequest')}"
        start, end = self.program.span(arguments[0])[0], self.program.span(arguments[2])[1]
        self.edits = [edit for edit in self.edits if not start <= edit[0] < end]
        self.edits.append((start, end, new))
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in texts and isinstance(node.ctx, ast.Load):
                self.edit(node, texts[node.id])
            elif isinstance(node, ast.Name) and node.id in (first, second, third):
                outer = self.program.parents[node]
                if kind == "hook" or not isinstance(outer, ast.Attribute) or outer.attr not in self.table["permission"]:
                    self.todo(node, "argument", node.id, kind)

    def _call_ClaudeSDKClient(self, call: ast.Call) -> None:  # noqa: N802
        self._options_of(call, call.args[:1], call.args[1:])
        outer = self.program.parents[call]
        targets = [outer.optional_vars] if isinstance(outer, ast.withitem) else getattr(outer, "targets", [])
        if len(targets) == 1 and isinstance(targets[0], ast.Name | ast.Attribute):
            self.clients.setdefault(ast.unparse(targets[0]), [])
            self.bound.add((self._scope(call), ast.unparse(targets[0])))
        else:
            self.todo(call, "named")

    def _options_of(self, call: ast.Call, given: list[ast.expr], other: list[ast.expr]) -> None:
        """Give a client or query options: without any, the official package has an empty system prompt."""
        more = {keyword.arg: keyword.value for keyword in call.keywords}
        if other or None in more or "transport" in more:
            self.todo(call, "transport", self._advice("Transport"))
        options = given[0] if given else more.get("options")
        sure = isinstance(options, ast.Name) and options.id in self.known_options
        if options is None:
            self._at(self.program.span(call)[1] - 1, f"{', ' if call.keywords else ''}options={self._need(_DEFAULT)}")
        elif not sure and self._called(options) != "ClaudeAgentOptions":
            start, end = self.program.span(options)
            self.edits += [(start, start, "("), (end, end, f") or {self._need(_DEFAULT)}")]

    def _call_query(self, call: ast.Call) -> None:
        self._options_of(call, [], call.args)
        outer = self.program.parents[call]
        if isinstance(outer, ast.AsyncFor) and outer.iter is call:
            self._loop(outer, "query")
        else:
            self.todo(call, "loop")

    def _loop(self, loop: ast.AsyncFor, name: str) -> None:
        if not isinstance(loop.target, ast.Name) or loop.body[0].lineno == loop.lineno:
            self.todo(loop, "body")
            return
        self.messages.add((self._scope(loop), loop.target.id))
        self.loops.append((loop, name))

    def _complete(self, loop: ast.AsyncFor, name: str) -> None:
        """Have a loop skip messages that the official package drops, and raise the error of a query's result."""
        target, margin = loop.target.id, self._margin(self.program.span(loop.body[0])[0])  # type: ignore[attr-defined]
        if not self._typed(loop.body, target):
            self._need(" ".join(_UNSEEN), "hackamore.messages")
            skip = f"if isinstance({target}, ({', '.join(_UNSEEN)})):\n{margin}    continue\n{margin}"
            self._at(self.program.span(loop.body[0])[0], skip)
        if name == "query":
            if any(isinstance(node, ast.Continue) for node in _in_loop(loop)):
                self.todo(loop, "continue")
            end = self.program.span(loop.body[-1])[1]
            end += len(re.match(rb"[^\r\n]*", self.program.bytes[end:])[0])  # type: ignore[index]
            test = f"if isinstance({target}, {self._need('ResultMessage')}):"
            self._at(end, f"\n{margin}{test}\n{margin}    {target}.raise_for_error()")

    def _typed(self, body: list[ast.stmt], name: str) -> bool:
        """Return whether a body does nothing for messages of other types than it names."""
        for statement in body:
            match statement:
                case ast.If(test=test):
                    text = ast.unparse(test)
                    passes = all(isinstance(each, ast.Pass) for each in statement.body)
                    named = re.search(rf"isinstance\({name}, ", text) and not re.search(r"\b(or|not)\b", text)
                    system = re.search(r"\b(SystemMessage|Message)\b", text) and "subtype" not in text and not passes
                    if not named or system or not self._typed(statement.orelse, name):
                        return False
                case ast.Expr(value=ast.Call(func=ast.Name(id=called), args=[ast.Name(id=given)])) if (
                    given == name and called in self.functions
                ):
                    function = self.functions[called]
                    if not function.args.args or not self._typed(function.body, function.args.args[0].arg):
                        return False
                case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    return False
        return True

    # -- clients ------------------------------------------------------------------------------------------------------

    def _client_use(self, node: ast.AST, client: str) -> None:
        attribute, call, outer = [*self.program.above(node), None, None][:3]
        name = attribute.attr if isinstance(attribute, ast.Attribute) else ""
        if not name or not isinstance(call, ast.Call) or call.func is not attribute:
            self.todo(node, "passed", client)
            return
        row, awaited, given = self.methods.get(name, {}), isinstance(outer, ast.Await), [*call.args, *call.keywords]
        if name == "query" and awaited:
            first = given[0] if len(given) == 1 else None
            value = first.value if isinstance(first, ast.keyword) else first
            makes = self.functions.get(ast.unparse(value.func)) if isinstance(value, ast.Call) else None
            if value is None or (makes and any(isinstance(inner, ast.Yield) for inner in ast.walk(makes))):
                self.todo(call, "frames")
            self.clients[client].append(call)
        elif name == "receive_response" and isinstance(outer, ast.AsyncFor) and not given:
            self.clients[client].append(outer)
            self._loop(outer, name)
        elif "template" in row and isinstance(outer, ast.Await) and not given:
            self.edit(outer, row["template"].replace("{0}", client).replace("{}", client))
        elif name not in self.plain_methods or not awaited:
            self.todo(node, "method", name, row.get("native", "no method of `ClaudeSDKClient`"))

    def _pairs(self, client: str, uses: list[ast.AST]) -> None:
        """Make a turn of each `query` whose response is read by the next statement of the same block that uses the client."""
        turn = next(name for name in ("turn", "reply", "its_turn", "turn_") if name not in self.taken)
        loops = [use for use in uses if isinstance(use, ast.AsyncFor)]
        paired: set[ast.AST] = set()
        for loop in loops:
            outer = self.program.parents[loop]
            block = next(block for _, block in ast.iter_fields(outer) if isinstance(block, list) and loop in block)
            for before in reversed(block[: block.index(loop)]):
                inside = [use for use in uses if use in ast.walk(before)]
                if inside and isinstance(before, ast.Expr) and getattr(before.value, "value", None) is inside[0]:
                    start, end = self.program.span(before)[0], self.program.span(inside[0].func)[1]
                    self.edits += [(start, start, f"{turn} = "), (end - len("query"), end, "send")]
                    self.edit(loop.iter, turn)
                    paired |= {loop, inside[0]}
                if inside:
                    break
            leaves = [node for node in _in_loop(loop) if isinstance(node, ast.Break | ast.Return)]
            above = [each for node in leaves for each in self.program.above(node) if isinstance(each, ast.If)]
            others = [
                each for each in (*self.program.above(loop), *loops) if isinstance(each, _LOOPS) and each is not loop
            ]
            again = any(self._scope(each) is self._scope(loop) for each in others)
            if again and leaves and not any("ResultMessage" in ast.unparse(each.test) for each in above):
                self.todo(loop, "leaves")
        for use in uses:
            if use not in paired:
                self.todo(use, "pair")

    # -- messages -----------------------------------------------------------------------------------------------------

    def _message_use(self, node: ast.AST) -> None:
        """Follow messages and blocks into other variables; mark fields that are other objects, and messages that are shown whole."""
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return
        if not any((above, node.id) in self.messages for above in self.program.above(node)):
            return
        outer = self.program.parents[node]
        match outer:
            case ast.Attribute(attr="content") if getattr(self.program.parents[outer], "iter", None) is outer:
                self._follow(self.program.parents[outer])
            case ast.For():
                self._follow(outer)
            case ast.Attribute(attr=attribute) if attribute != "append":
                fields = {name: text for name, text in self.table["fields"].items() if name.endswith(f".{attribute}")}
                kinds = set(self._kinds(node)) & {name.partition(".")[0] for name in fields}
                text = fields[f"{kinds.pop()}.{attribute}"] if len(kinds) == 1 else ""
                if text and outer not in self.todos:
                    quoted = any(isinstance(above, ast.JoinedStr) for above in self.program.above(node))
                    self.edit(outer, text.replace("{}", node.id).replace('"', "'" if quoted else '"'))
                elif fields:
                    self.todo(outer, "object", attribute, node.id)
            case ast.Call(func=ast.Name(id="isinstance" | "hasattr" | "getattr" | "len")):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                self.messages.add((self._scope(node), name))
            case ast.Call(func=ast.Name(id=called), args=arguments) if node in arguments and called in self.functions:
                parameters = self.functions[called].args.args[arguments.index(node) :]
                self.messages.update((self.functions[called], each.arg) for each in parameters[:1])
            case ast.Assign(targets=[ast.Name(id=name)]):
                self.messages.add((self._scope(node), name))
            case ast.Compare() | ast.Match() | ast.BoolOp() | ast.Attribute(attr="append"):
                pass
            case _:
                self.todo(node, "whole", node.id)

    def _follow(self, loop: ast.AST) -> None:
        if isinstance(target := getattr(loop, "target", None), ast.Name):
            self.messages.add((self._scope(target), target.id))

    def _kinds(self, node: ast.Name) -> Iterator[str]:
        """Yield the classes that a variable is known to have at a place."""
        child: ast.AST = node
        for above in self.program.above(node):
            tests: list[Any] = [above.test] if isinstance(above, ast.If | ast.IfExp) and child is not above.test else []
            tests += above.values if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And) else []
            if isinstance(above, ast.If) and child in above.orelse:
                tests = []
            for call in [inner for test in tests for inner in ast.walk(test) if isinstance(inner, ast.Call)]:
                if len(call.args) == 2 and ast.unparse(call.args[0]) == node.id:
                    yield self.program.official(call.args[1]).rpartition(".")[2]
            for argument in above.args.args if isinstance(above, _FUNCTIONS) else []:
                if argument.arg == node.id and argument.annotation:
                    yield self.program.official(argument.annotation).rpartition(".")[2]
            child = above


def _in_loop(loop: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a loop, and not in a loop or function inside it."""
    for child in ast.iter_child_nodes(loop):
        yield child
        if not isinstance(child, (*_LOOPS, *_FUNCTIONS)):
            yield from _in_loop(child)
