"""The table of programs: what a program does with its flags and words. The rows are in `data/*.toml`.

A program without a row, a flag that is not in its row, or a word whose text is not known where it could be a flag: the effect is unknown.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hackamore.policy.paths import is_name, target_of
from hackamore.policy.scripts import CHECKS, domain_of
from hackamore.policy.uses import CHANGE, READ, RUN, UNKNOWN, WRITE, PathUse, ProgramUse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EFFECTS = {"read": READ, "write": WRITE, "run": RUN, "change": CHANGE}
_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
_CHANGES = r"(?:delete|create|update|set|add|remove|start|stop|restart|move|purge|import|invoke|run|deploy|login|logout|configure|rm)\b"
_NUMBER = re.compile(r"-\d+")


class Word(NamedTuple):
    """A word of a command."""

    text: str
    """The text, or its known beginning."""
    literal: bool = True
    """Whether the text is the whole word."""
    wild: bool = False
    """Whether `*`, `?` and `[` stand for names."""
    splits: bool = False
    """Whether the shell may make several words of it."""
    below: bool = False
    """Whether it stands for a path below its text."""

    def is_exact(self) -> bool:
        """Return whether the text is all that the word can be."""
        return self.literal and not (self.wild or self.splits or self.below)

    def shown(self) -> str:
        """Return the word for people."""
        return self.text if self.literal else f"{self.text}..."


class Shell(Protocol):
    """The reader of a command, for programs that use paths and run other programs."""

    resolve: Callable[[str], str]
    uses: list[ProgramUse | PathUse | str]
    unclear: list[str]

    def path(
        self,
        word: Word,
        cwd: str | None,
        *,
        writes: bool,
        redirect: bool = False,
        tree: bool = False,
        walks: bool = False,
    ) -> PathUse | None:
        """Add a path."""

    def inner_script(self, text: str, cwd: str | None) -> None:
        """Read a script."""


class Row(NamedTuple):
    """The reading of a program, or of one of its verbs."""

    effect: int
    flags: dict[str, str]
    """Flags with the role of their value: "" for none, "?" for an attached one that may be missing, or the name of a role behind `=`."""
    patterns: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    """The roles of the words beside flags; the last one is for all that follow."""
    options: dict[str, Any]
    verbs: tuple[tuple[re.Pattern[str], Row], ...] = ()


def _flags(text: str) -> dict[str, str]:
    found = {}
    for part in text.split():
        name, sign, role = part.partition("=")
        found[name.rstrip("?")] = f"={role or 'text'}" if sign else "?" if name.endswith("?") else ""
    return found


def _row(table: dict[str, Any], above: Row | None = None) -> Row:
    flags = {**(above.flags if above and not above.options.get("apart") else {}), **_flags(table.get("flags", ""))}
    operands = tuple(table.get("operands", "text" if above or "verb" in table else "read").split())
    patterns = tuple((name, role) for name, role in flags.items() if "*" in name)
    options = {**(above.options if above else {}), **table}
    row = Row(_EFFECTS[table.get("effect", "read")], flags, patterns, operands, options)
    verbs, groups = [], "|".join(table.get("groups", "").split())
    for verb in table.get("verb", ()):
        names = verb["name"]
        for name in [names] if isinstance(names, str) else names:
            text = " ".join(_verb_word(word) for word in name.split())
            text = text.replace("(?:GROUPS) ", rf"(?:(?:{groups}) )+")
            verbs.append((re.compile(text), _row(verb, row)))
    return row._replace(verbs=tuple(verbs))


def _verb_word(text: str) -> str:
    if text == "**":
        # No group is called like a change: a verb behind one is a word of that change.
        return rf"(?!{_CHANGES})[a-z0-9-]+(?: (?!{_CHANGES})[a-z0-9-]+)*"
    return "(?:" + "|".join(re.escape(part).replace(r"\*", "[^ ]*") for part in text.split("|")) + ")"


class _Table(NamedTuple):
    rows: dict[str, Row]
    variables: re.Pattern[str]


@cache
def _table() -> _Table:
    import tomllib

    folder = os.path.join(os.path.dirname(__file__), "data")
    rows: dict[str, Row] = {}
    variables: list[str] = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            table = tomllib.load(file)
        variables += table.get("harmless_variables", "").split()
        for program in table.get("program", ()):
            row = _row(program)
            rows.update((each, row) for each in program["name"].split())
    return _Table(rows, re.compile("|".join(re.escape(name).replace(r"\*", "[A-Z0-9_]*") for name in variables)))


class _UnknownError(Exception):
    """The effect of a program is not known."""


class _Use:
    """One program with its words, while they are read."""

    def __init__(self, cwd: str | None) -> None:
        self.cwd = cwd
        self.flags: set[str] = set()
        self.front: frozenset[str] = frozenset()
        self.replaced = ""
        self.moved = False
        self.operands: list[Word] = []
        self.paths: list[PathUse] = []
        self.domains: list[str] = []


class Programs:
    """Reads programs with their words."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._table = _table()

    def harmless_variable(self, name: str) -> bool:
        """Return whether a variable of the environment changes nothing that a program does to others."""
        return self._table.variables.fullmatch(name) is not None

    def read(self, words: Sequence[Word], cwd: str | None) -> str | None:
        """Add a program and all that it uses; return the folder behind it."""
        if not words:
            return cwd
        text = " ".join(word.shown() for word in words)
        first = words[0]
        if not first.is_exact() or not first.text:
            self._shell.unclear.append(f"the name of the program in `{text[:60]}` is not known")
            return None
        folder, _, base = first.text.rpartition("/")
        name = base if folder in _SYSTEM else first.text
        use, at = _Use(cwd), len(self._shell.uses)
        row, effect, problem = self._table.rows.get(name), UNKNOWN, ""
        verb = self._first_words(words[1:])
        if row is None:
            use.flags = {word.text.partition("=")[0] for word in words[1:] if word.text.startswith("-")}
            problem = f"`{name}` has no row in the table of programs, so that its arguments are not known"
            if len(words) == 1:
                effect, problem = CHANGE, ""
        elif name == "cd":
            return self._change_folder(words, cwd, text)
        else:
            try:
                effect, verb = self._read_row(use, row, words[1:])
            except _UnknownError as error:
                problem = str(error)
                use.flags |= {word.text.partition("=")[0] for word in words[1:] if word.text.startswith("-")}
        if effect == RUN:  # where it runs is what it runs
            use.paths.append(PathUse(cwd or "", target_of(".", use.cwd, self._shell.resolve)[0], writes=False))
        place = first.text if folder else ""
        found = ProgramUse(
            name,
            place,
            verb,
            frozenset(use.flags),
            effect,
            text,
            problem,
            tuple(use.paths),
            tuple(use.domains),
            targets=row is not None and not row.verbs,
        )
        self._shell.uses.insert(at, found)
        return None if use.moved or name in ("pushd", "popd", "chdir") else cwd

    def _change_folder(self, words: Sequence[Word], cwd: str | None, text: str) -> str | None:
        self._shell.uses.append(ProgramUse("cd", "", (), frozenset(), READ, text))
        rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
        if len(rest) != 1 or not rest[0].is_exact() or rest[0].text[:1] in ("-", "+", ""):
            return None
        place = rest[0].text
        if cwd is None and not place.startswith("/"):
            return None
        whole = os.path.join(cwd or "/", place)
        # The shell removes `..` from the text, and the system follows links before it.
        plain = os.path.normpath(whole)
        return plain if self._shell.resolve(plain) == self._shell.resolve(whole) else None

    @staticmethod
    def _first_words(words: Sequence[Word]) -> tuple[str, ...]:
        found = []
        for word in words:
            if not word.literal or word.text.startswith("-"):
                break
            found.append(word.text)
        return tuple(found[:6])

    def _read_row(self, use: _Use, row: Row, words: Sequence[Word]) -> tuple[int, tuple[str, ...]]:
        if len(words) == 1 and words[0].text in row.options.get("shows", "--help --version").split():
            return READ, ()
        if not row.verbs:
            self._arguments(use, row, words)
            return row.effect, tuple(word.text if word.literal else "" for word in use.operands)
        names: list[str] = []
        found, behind, number = None, 0, 0
        while number < len(words) and len(names) < 8:
            word = words[number]
            if word.text.startswith("-") and len(word.text) > 1:
                if found is not None:
                    break
                number += self._flag(use, row, words, number)
                continue
            if not word.is_exact():
                break
            names.append(word.text)
            number += 1
            match = next((verb for pattern, verb in row.verbs if pattern.fullmatch(" ".join(names))), None)
            if match is not None:
                found, behind, verb = match, number, tuple(names)
        if found is None:
            raise _UnknownError(
                f"the verb {' '.join(names[:3])!r} is not in the table" if names else "its verb is not known"
            )
        if len(words) == behind + 1 and words[behind].text == "--help":
            return READ, verb
        self._arguments(use, found, words[behind:])
        return found.effect, verb

    @staticmethod
    def _takes(row: Row, text: str) -> bool:
        return (Programs._role(row, text) or "").startswith("=")

    def _arguments(self, use: _Use, row: Row, words: Sequence[Word]) -> None:
        number, options, whole = 0, row.options, False
        stops = options.get("stops") or "command" in row.operands
        while number < len(words):
            word = words[number]
            if not whole and word.literal and word.text == "--" and options.get("style") != "single":
                whole = True
                number += 1
            elif not whole and word.text[:1] == "-" and word != Word("-") and not options.get("any_flags"):
                number += self._flag(use, row, words, number)
            elif options.get("bare") and number == 0 and word.literal and word.text.isalpha():
                # Each letter with a value takes a word of its own behind the letters.
                for letter in word.text:
                    self._flag(use, row, [Word(f"-{letter}"), *(words[1:] or [Word("")])], 0)
                number += 1 + sum(self._takes(row, f"-{letter}") for letter in word.text)
            elif stops and word.literal and options.get("assigns") and re.match(r"\w+=", word.text):
                name = word.text.partition("=")[0]
                if not self.harmless_variable(name):
                    raise _UnknownError(f"the variable `{name}` may change what programs do")
                number += 1
            elif stops and len(use.operands) >= len(row.operands) - 1:
                self._operand(use, row, word, whole)
                self._operands(use, row)
                if row.operands[-1] == "command":
                    self._run(use, row, words[number:])
                    return
                use.operands.extend(words[number + 1 :])
                return
            else:
                self._operand(use, row, word, whole)
                whole = whole or bool(stops)
                number += 1
        if row.operands[-1] == "command" and not options.get("may_lack"):
            raise _UnknownError("the program that it runs is missing")
        self._operands(use, row)

    def _run(self, use: _Use, row: Row, words: Sequence[Word]) -> None:
        inner = list(words)
        if use.replaced:
            inner = [self._with_items(word, use.replaced) for word in inner]
        elif row.options.get("appends"):
            inner.append(Word("", literal=False, splits=True))
        # `command cd` and `time cd` move the shell itself.
        use.moved = self.read(inner, use.cwd) != use.cwd

    @staticmethod
    def _with_items(word: Word, mark: str) -> Word:
        return Word(word.text.partition(mark)[0], literal=False) if mark in word.text else word

    def _operand(self, use: _Use, row: Row, word: Word, whole: bool) -> None:
        known = row.options.get("pure") or row.operands == ("texts",)
        if not known and (word.splits or (not whole and (not word.text and not word.literal))):
            raise _UnknownError(f"the word `{word.shown()}` may be any number of words or a flag")
        if not known and not whole and word.wild and word.text[:1] in "*?[":
            raise _UnknownError(f"a name that `{word.text}` stands for may be a flag")
        refused = row.options.get("refuse", "").split()
        if refused and (not word.literal or any(is_name(pattern, word.text, exact=False) for pattern in refused)):
            raise _UnknownError(f"the word `{word.shown()}` is not in the table")
        if not use.operands:
            use.front = frozenset(use.flags)
        use.operands.append(word)

    # -- flags -----------------------------------------------------------------------------------------------------------

    def _flag(self, use: _Use, row: Row, words: Sequence[Word], number: int) -> int:
        """Read a flag, and return how many words it has taken."""
        word = words[number]
        name, sign, value = word.text.partition("=")
        if word.splits or word.wild or (not word.literal and not sign):
            raise _UnknownError(f"the flag `{word.shown()}` is not known")
        role = self._role(row, name)
        if role is not None and (role or not sign):
            use.flags.add(name)
            if role == "=;" and not sign:
                return self._exec(use, row, words, number)
            if sign:
                self._value(use, role, name, Word(value, literal=word.literal))
                return 1
            return 1 + self._next_value(use, row, name, words, number)
        if name.startswith("--") or row.options.get("style") == "single":
            raise _UnknownError(f"the flag `{name}` is not in the table")
        if _NUMBER.fullmatch(word.text) and "-#" in row.flags:
            return 1
        for at, letter in enumerate(word.text[1:], 1):
            role = self._role(row, f"-{letter}")
            if role is None:
                raise _UnknownError(f"the flag `-{letter}` is not in the table")
            use.flags.add(f"-{letter}")
            rest = word.text[at + 1 :]
            if role == "?" or (role and rest):
                if rest or role != "?":
                    self._value(use, role, f"-{letter}", Word(rest, literal=word.literal))
                return 1
            if role:
                return 1 + self._next_value(use, row, f"-{letter}", words, number)
        if not word.literal:
            raise _UnknownError(f"the flag `{word.shown()}` is not known")
        return 1

    @staticmethod
    def _role(row: Row, name: str) -> str | None:
        return row.flags.get(name, next((role for pattern, role in row.patterns if is_name(pattern, name)), None))

    def _next_value(self, use: _Use, row: Row, name: str, words: Sequence[Word], number: int) -> int:
        role = self._role(row, name) or ""
        if not role.startswith("="):
            return 0
        value = words[number + 1] if number + 1 < len(words) else Word("", splits=True)
        # Versions differ in which flags have a value: one that looks like a flag may be one.
        alike = re.match(r"--?([A-Za-z]|$)", value.text) and value != Word("-") and not row.options.get("pure")
        if value.splits or alike:
            raise _UnknownError(f"the value of `{name}` is missing, or may be a flag or any number of words")
        self._value(use, role, name, value)
        return 1

    def _value(self, use: _Use, role: str, name: str, word: Word) -> None:
        kind = role[1:]
        if kind in ("", "text"):
            return
        if kind == "mark":
            if not word.literal or not word.text:
                raise _UnknownError(f"the text that `{name}` replaces is not known")
            use.replaced = word.text
        elif kind in _ROLES or kind in CHECKS:
            self._role_of_word(use, kind, word)
        elif not word.literal or not any(is_name(value, word.text) for value in kind.split("|")):
            raise _UnknownError(f"the value {word.shown()!r} of `{name}` is not in the table")

    def _exec(self, use: _Use, row: Row, words: Sequence[Word], number: int) -> int:
        """Read the program of `find -exec`, up to `;` or `+`."""
        inner: list[Word] = []
        for word in words[number + 1 :]:
            if word.literal and (
                word.text == ";" or (word.text == "+" and inner and (inner[-1].below or not inner[-1].literal))
            ):
                if not inner:
                    break
                self.read(inner, None if words[number].text == "-execdir" else use.cwd)
                return len(inner) + 2
            # A found path begins with the place of the search.
            if word.literal and word.text == "{}" and len(use.operands) <= 1:
                inner.append((use.operands or [Word(".")])[0]._replace(below=True))
            else:
                found = word.literal and "{}" in word.text
                inner.append(Word(word.text.partition("{}")[0] or "./", literal=False) if found else word)
        raise _UnknownError("the program of `-exec` has no end")

    # -- words that are no flags -----------------------------------------------------------------------------------------

    def _operands(self, use: _Use, row: Row) -> None:
        options, given = row.options, use.operands
        alone = "alone" in options and not use.flags and not given
        needs = set(options.get("needs", "").split())
        # Some programs take flags behind the first word for words.
        lacks = not (use.front if options.get("front") and given else use.flags) & needs
        if needs and not alone and lacks and "least" not in options:
            raise _UnknownError(f"without one of `{options['needs']}` it does more than reading")
        if len(given) > options.get("most", len(given)):
            raise _UnknownError("it has more words than reading needs")
        if len(given) < options.get("least", 0) and lacks:
            raise _UnknownError("it has fewer words than reading needs")
        if "script" in options and not given:
            raise _UnknownError("the script is missing")
        roles = list(row.operands)
        if (unless := options.get("unless")) and use.flags & set(unless.split()):
            roles = roles[1:]
        if roles[-1] == "command":
            roles = roles[:-1]
            given = given[: len(roles)]
        if options.get("last") and given:
            *given, last = given
            self._role_of_word(use, options["last"], last)
            for word in given:  # the last word may be a folder
                if word.literal and not word.wild and (name := word.text.rstrip("/").rpartition("/")[2]):
                    self._role_of_word(use, options["last"], last._replace(text=f"{last.text}/{name}"))
        if roles and roles[-1] in ("walk", "walks") and len(given) < len(roles):
            given = [*given, Word(".")]  # without a place, they walk through the folder that they are in
        for number, word in enumerate(given if roles else ()):
            self._role_of_word(use, roles[min(number, len(roles) - 1)], word)

    def _role_of_word(self, use: _Use, role: str, word: Word) -> None:
        if role in ("text", "texts") or (word.literal and word.text == "-" and role == "read"):
            return
        if role == "none":
            raise _UnknownError(f"the word `{word.shown()}` is not expected")
        if role == "rev" and word.literal:  # a revision, a path, or `revision:path`
            word = word._replace(text=word.text.rpartition(":")[2])
        deep = bool(use.flags & {"-r", "-R", "--recursive", "--dereference-recursive"})
        walks, role = role == "walks" or (role == "walk" and deep), "read" if role in ("walk", "walks") else role
        role = "write" if role == "tree" and not deep else role
        if role in ("list", "rev") and (not word.literal or word.splits):
            return
        if role == "cd":
            self._shell.path(word, use.cwd, writes=False)
            known = (
                word.literal and not (word.wild or word.splits) and (use.cwd is not None or word.text.startswith("/"))
            )
            use.cwd = os.path.join(use.cwd or "/", word.text) if known else None
            use.paths += [PathUse(word.text, target_of(".", use.cwd, self._shell.resolve)[0], writes=False)]
            return
        if role == "<" and ":" in word.text.partition("/")[0]:  # GNU tar connects to `host:file`
            raise _UnknownError(f"the file `{word.shown()}` may be on another host")
        if role in ("read", "<", "list", "rev", "write", ">", "tree"):
            found = self._shell.path(
                word, use.cwd, writes=role in ("write", ">", "tree"), tree=role == "tree", walks=walks
            )
            if found is not None:
                use.paths.append(found)
            return
        if not word.is_exact():
            raise _UnknownError(f"the text of `{word.shown()}` is not known")
        if role == "shell":
            self._shell.inner_script(word.text, use.cwd)
        elif role in CHECKS:
            if problem := CHECKS[role](word.text):
                raise _UnknownError(problem)
            if role == "url":
                use.domains.append(domain_of(word.text)[1] or "")
                self._shell.uses.append(use.domains[-1])
        elif not any(is_name(value, word.text) for value in role.split("|")):
            raise _UnknownError(f"the word {word.text!r} is not in the table")


_ROLES = frozenset({"cd", "walk", "walks", "read", "<", "list", "rev", "write", ">", "tree", "shell"})
