"""Shell commands, taken apart by the grammar tree-sitter-bash.

The grammar never fails: it drops or bends text that it cannot read. So a command is understood only if each node has a kind of
`data/nodes.toml` in a place where it is known, no node is an error, and each byte except for blanks belongs to a leaf of the tree.
"""

from __future__ import annotations

import os
import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.errors import PolicyError
from hackamore.policy.paths import target_of
from hackamore.policy.programs import Programs, Word
from hackamore.policy.uses import PathUse, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.policy.uses import ProgramUse

_LONGEST = 16_384
_MOST_USES = 200
_DEEPEST = 40
# A backslash at the end of a line joins what stands on both sides, so that it separates nothing.
_BLANK = re.compile(rb"(?:(?:\\\n)*[ \t\n](?:[ \t\n]|\\\n)*)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_LINE_END = re.compile(rb"(?:[^\\\n]|\\.)*\n", re.DOTALL)
_HARMLESS_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


class _UnclearError(Exception):
    """A place that is not understood."""


class _Grammar(NamedTuple):
    parse: Callable[[bytes], Any]
    statements: dict[str, str]
    words: dict[str, str]
    tokens: frozenset[str]
    redirects: frozenset[str]
    tests: frozenset[str]
    reserved: frozenset[str]


@cache
def _grammar() -> _Grammar:
    import tomllib

    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        text = f"Shell commands need the package {error.name!r}, which is not installed. Run `pip install 'hackamore[policy]'`."
        raise PolicyError(text) from None
    with open(os.path.join(os.path.dirname(__file__), "data", "nodes.toml"), "rb") as file:
        table = tomllib.load(file)
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    tokens = {name: frozenset(found) for name, found in table["tokens"].items()}
    return _Grammar(
        parser.parse,
        table["statements"],
        table["words"],
        tokens["statements"],
        tokens["redirects"],
        tokens["tests"],
        tokens["reserved"],
    )


def read_command(command: Any, cwd: str, resolve: Callable[[str], str], expand: Callable[[str], str]) -> Reading:
    """Return the parts of a command that starts in `cwd`. Without `hackamore[policy]` a `PolicyError` is raised."""
    grammar = _grammar()
    reader = _Reader(grammar, resolve, expand)
    try:
        reader.script(command, cwd, 0)
    except RecursionError:
        reader.unclear.append("the command is nested too deeply")
    return Reading(tuple(reader.uses), tuple(dict.fromkeys(reader.unclear)))


def _leaves(node: Any) -> Iterator[Any]:
    cursor = node.walk()
    while True:
        if cursor.goto_first_child():
            continue
        yield cursor.node
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


class _Reader:
    def __init__(self, grammar: _Grammar, resolve: Callable[[str], str], expand: Callable[[str], str]) -> None:
        self._grammar = grammar
        self._expand = expand
        self.resolve = resolve
        self.uses: list[ProgramUse | PathUse | str] = []
        self.unclear: list[str] = []
        self._programs = Programs(self)
        self._depth = 0

    def script(self, text: Any, cwd: str | None, depth: int) -> None:
        """Read a whole script: the command, or the text that a shell gets with `-c`."""
        if not isinstance(text, str):
            self.unclear.append("the command is missing or not a text")
            return
        if len(text) > _LONGEST or depth > _DEEPEST:
            self.unclear.append(f"the command is longer than {_LONGEST:,} characters or nested too deeply")
            return
        if _CONTROL.search(text):
            self.unclear.append("the command has control characters")
            return
        try:
            data = text.encode()
        except UnicodeEncodeError:
            self.unclear.append("the command is not valid Unicode")
            return
        root = self._grammar.parse(data).root_node
        at = 0
        ended = False
        for leaf in _leaves(root):
            if leaf.is_error or leaf.is_missing or not _BLANK.fullmatch(data, at, leaf.start_byte):
                break
            # The grammar ends a document at the first word that is its mark, a shell at the line that is; it finds `-v<<-` a sign.
            if (ended and data[at : at + 1] != b"\n") or not (leaf.is_named or leaf.text == leaf.type.encode()):
                break
            if leaf.type == "file_descriptor" and not leaf.text.isdigit():  # it takes the program `-rm2` for one
                break
            at, ended = leaf.end_byte, leaf.type == "heredoc_end"
        else:
            if (
                not root.has_error
                and _BLANK.fullmatch(data, at)
                and not (ended and data[at : at + 1] not in (b"", b"\n"))
            ):
                at = -1
        if at >= 0:
            self.unclear.append(f"the text behind {data[:at].decode(errors='replace')[-40:]!r} cannot be read as shell")
        before, self._depth = self._depth, depth
        self.statement(root, cwd)
        self._depth = before

    # -- statements: each returns the folder behind it; None if it is not known -------------------------------------------

    def statement(self, node: Any, cwd: str | None) -> str | None:
        """Read a statement."""
        method = self._grammar.statements.get(node.type)
        if len(self.uses) > _MOST_USES or (method is None and node.is_named):
            text = f"more than {_MOST_USES} parts" if method else f"`{_short(node)}` ({node.type.replace('_', ' ')})"
            self.unclear.append(text)
            return None
        if method is None:
            if node.type not in self._grammar.tokens:
                self.unclear.append(f"`{_short(node)}`")
            return cwd
        try:
            found: str | None = getattr(self, f"_{method}")(node, cwd)
        except _UnclearError as error:
            self.unclear.append(str(error))
            return None
        return found

    def _sequence(self, node: Any, cwd: str | None) -> str | None:
        if node.type == "compound_statement" and node.text[1:2] not in b" \t\n":
            raise _UnclearError(f"`{_short(node)}`")
        for child in node.children:
            before = cwd
            cwd = self.statement(child, cwd)
            # A `cd` that fails leaves the folder as it is, and the next statement runs.
            cwd = cwd if cwd == before or child is node.children[-1] else None
        return cwd

    def _branch(self, node: Any, cwd: str | None) -> str | None:
        if node.type == "negated_command":
            _check_line(node)
            if node.parent.type == "pipeline" and node.prev_sibling is not None:  # no shell takes `a | ! b`
                raise _UnclearError(f"`{_short(node)}`")
        inner = cwd
        for child in node.children:
            inner = cwd if self.statement(child, inner) == cwd == inner else None
        if inner != cwd and node.type == "while_statement":  # the second round begins elsewhere
            raise _UnclearError("a loop that changes its folder")
        return inner

    def _list(self, node: Any, cwd: str | None) -> str | None:
        if len(node.children) != 3:
            raise _UnclearError(f"`{_short(node)}`")
        left, sign, right = node.children
        between = self.statement(left, cwd)
        if sign.type not in ("&&", "||"):
            raise _UnclearError(f"`{_short(node)}`")
        if sign.type == "||" and between != cwd:
            between = None
        after = self.statement(right, between)
        return after if sign.type == "&&" or after == cwd else None

    def _apart(self, node: Any, cwd: str | None) -> str | None:
        if node.type == "subshell":
            self._sequence(node, cwd)
        else:
            # zsh runs the last part of a pipeline in the shell itself.
            folders = {self.statement(child, cwd) for child in node.children}
            return cwd if folders == {cwd} else None
        return cwd

    def _nothing(self, _: Any, cwd: str | None) -> str | None:
        return cwd

    def _loop(self, node: Any, cwd: str | None) -> str | None:
        if node.children[0].type != "for":
            raise _UnclearError(f"`{_short(node)}`")
        after = cwd
        for child in node.children:
            if child.type == "do_group":
                after = self.statement(child, cwd)
                if after != cwd:  # the second round begins elsewhere
                    self.unclear.append("a loop that changes its folder")
            elif child.type == "variable_name":
                self._variable(child.text.decode())
            elif child.type in self._grammar.words:
                self.word(child, cwd)
            elif child.type not in ("for", "in", ";", "\n"):
                raise _UnclearError(f"`{_short(node)}`")
        return cwd if after == cwd else None

    def _choice(self, node: Any, cwd: str | None) -> str | None:
        clear = True
        for child in node.children:
            if child.type in self._grammar.words:
                self.word(child, cwd)
            elif child.type not in (";;", "|", "(", ")"):
                clear &= self.statement(child, cwd) == cwd
        return cwd if clear else None

    def _test(self, node: Any, cwd: str | None) -> str | None:
        if not re.match(rb"\[\[?[ \t]", node.text) or _LINE_END.match(node.text):
            raise _UnclearError(f"the test `{_short(node)}`")
        for leaf in _leaves(node):
            text = leaf.text.decode()
            if leaf.parent.type == "simple_expansion" and (
                leaf.parent.parent.type == "string" or node.children[0].type == "[["
            ):
                continue
            if leaf.type in ("[", "]", "[[", "]]", "(", ")", "!", "&&", "||", '"'):
                continue
            if leaf.type in ("test_operator", "==", "=", "!=") and text in self._grammar.tests:
                continue
            if leaf.type not in ("word", "number", "string_content", "raw_string", "extglob_pattern") or set(
                text
            ) & set("[`$<>"):
                raise _UnclearError(f"the test `{_short(node)}`")
        return cwd

    def _assignment(self, node: Any, cwd: str | None) -> str | None:
        name, *rest = node.children
        if name.type != "variable_name" or len(rest) not in (1, 2) or rest[0].type != "=":
            raise _UnclearError(f"`{_short(node)}`")
        if len(rest) == 2:
            self.word(rest[1], cwd)
        self._variable(name.text.decode())
        return cwd

    def _declaration(self, node: Any, cwd: str | None) -> str | None:
        _check_line(node)
        first, *rest = node.children
        if first.type != "export":
            raise _UnclearError(f"`{_short(node)}`")
        for child in rest:
            if child.type == "variable_assignment":
                self._assignment(child, cwd)
            elif child.type != "variable_name":
                raise _UnclearError(f"`{_short(node)}`")
        return cwd

    def _variable(self, name: str) -> None:
        if not self._programs.harmless_variable(name):
            self.unclear.append(f"the variable `{name}` may change what programs do")

    def _redirected(self, node: Any, cwd: str | None) -> str | None:
        _check_line(node)
        [body, *redirects] = node.children
        after = cwd
        if body.type in self._grammar.statements:
            after = self.statement(body, cwd)
        else:
            redirects = node.children
        # The redirect behind a list is one of its last command, behind a `cd` of the list.
        place = cwd if after == cwd else None
        for redirect in redirects:
            self._redirect(redirect, place)
        return after

    def _redirect(self, node: Any, cwd: str | None) -> None:
        if node.type != "heredoc_redirect":
            _check_line(node)
        children = [child for child in node.children if child.type != "file_descriptor"]
        if node.type == "herestring_redirect" and len(children) == 2:
            self.word(children[1], cwd)
            return
        if node.type == "heredoc_redirect":
            self._heredoc(node, children)
            return
        if node.type != "file_redirect" or len(children) != 2 or children[0].type not in self._grammar.redirects:
            raise _UnclearError(f"the redirect `{_short(node)}`")
        word, sign = self.word(children[1], cwd), children[0].type
        if sign in (">&", "<&") and word.literal and word.text.isdigit():
            return
        if word.literal and word.text.startswith(("/dev/tcp/", "/dev/udp/")):
            raise _UnclearError(f"the connection `{_short(node)}`")
        self.path(word, cwd, writes=sign != "<", redirect=True)

    def _heredoc(self, node: Any, children: list[Any]) -> None:
        start = next((child for child in children if child.type == "heredoc_start"), None)
        body = b"".join(child.text for child in children if child.type == "heredoc_body")
        if start is None or {child.type for child in children} - {
            "<<",
            "<<-",
            "heredoc_start",
            "heredoc_body",
            "heredoc_end",
        }:
            raise _UnclearError(f"the redirect `{_short(node)}`")
        signs, mark = b"\t" * (children[0].type == "<<-"), start.text.strip(b"'\"")
        head, *lines = node.text[start.end_byte - node.start_byte :].split(b"\n")
        if head.strip(b" \t") or [line.lstrip(signs or b"\n") == mark for line in lines] != [False] * (
            len(lines) - 1
        ) + [True]:
            raise _UnclearError(f"the document behind `<<{start.text.decode()}`")
        if not re.fullmatch(rb"'\w+'|\"\w+\"|\w+", start.text) or (
            start.text[:1] not in b"'\"" and re.search(rb"[$`\\]", body)
        ):
            raise _UnclearError(f"the expansions of the document behind `<<{start.text.decode()}`")

    # -- commands --------------------------------------------------------------------------------------------------------

    def _command(self, node: Any, cwd: str | None) -> str | None:
        words: list[Word] = []
        _check_line(node)
        end, first = -1, node.children[0].type
        for child in node.children:
            if child.start_byte == end and child.type != "file_redirect":  # to the shell it is one word
                raise _UnclearError(f"`{_short(node)}`")
            end = child.end_byte
            if child.type == "command_name":
                if len(child.children) != 1:
                    raise _UnclearError(f"`{_short(node)}`")
                words.append(self.word(child.children[0], cwd))
            elif child.type == "variable_assignment" and not words:
                self._assignment(child, cwd)
            elif child.type in ("file_redirect", "herestring_redirect"):
                self._redirect(child, cwd)
            elif child.type in self._grammar.words and words:
                words.append(self.word(child, cwd))
            elif not (child.type in ("==", "=~") and words):
                raise _UnclearError(f"`{_short(node)}` ({child.type.replace('_', ' ')})")
            else:
                words.append(Word(child.text.decode()))
        if words and (
            words[0].text in self._grammar.reserved or (words[0].text == "time" and first.endswith("redirect"))
        ):
            raise _UnclearError(f"`{_short(node)}`")
        return self._programs.read(words, cwd)

    # -- words -----------------------------------------------------------------------------------------------------------

    def word(self, node: Any, cwd: str | None) -> Word:
        """Return a word: its text as far as it is known."""
        method = self._grammar.words.get(node.type)
        if method is None:
            raise _UnclearError(f"`{_short(node)}` ({node.type.replace('_', ' ')})")
        found: Word = getattr(self, f"_{method}_word")(node, cwd)
        return found

    def _plain_word(self, node: Any, _: str | None) -> Word:
        raw = node.text.decode()
        if node.children or raw.startswith("="):  # zsh reads `=name` as the path of a program
            raise _UnclearError(f"`{_short(node)}`")
        bare = re.sub(r"\\.", "", raw, flags=re.DOTALL)
        if "\n" in bare:  # the grammar takes the end of a line for a part of the word `\\rm`
            raise _UnclearError(f"`{_short(node)}`")
        text = re.sub(r"\\(.)", lambda found: "" if found[1] == "\n" else found[1], raw, flags=re.DOTALL)
        if raw.startswith("~"):
            text = self._expand(text)
            if text.startswith("~"):
                return Word("", literal=False)
        return Word(text, wild=bool(set(bare) & set("*?[")), splits=bool(re.search(r"\{.*(,|\.\.)", bare)))

    def _raw_word(self, node: Any, _: str | None) -> Word:
        return Word(node.text.decode()[1:-1])

    def _ansi_word(self, node: Any, _: str | None) -> Word:
        text = node.text.decode()[2:-1]
        if re.search(r"\\[^nt\\'\"]", text):
            return Word("", literal=False)
        return Word(re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], text))

    def _quoted_word(self, node: Any, cwd: str | None) -> Word:
        inner = [child for child in node.children if child.type != '"']
        if any(child.type != "string_content" and child.type not in self._grammar.words for child in inner):
            raise _UnclearError(f"`{_short(node)}`")
        expansions = [self.word(child, cwd) for child in inner if child.type != "string_content"]
        if re.search(rb"\$\w+\[", node.text):  # zsh computes what is between the brackets
            raise _UnclearError(f"`{_short(node)}`")
        raw = node.text.decode()[1:-1]
        if not expansions:
            return Word(re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), raw))
        head = inner[0].text.decode() if inner[0].type == "string_content" else ""
        if len(inner) == 2 and expansions[0].literal and inner[0].end_byte == inner[1].start_byte and "\\" not in raw:
            return Word("".join(expansions[0].text if part is not inner[1] else part.text.decode() for part in inner))
        if len(inner) == 1:
            return expansions[0]._replace(splits=False)
        return Word(re.split(r"[\\$`]", head)[0], literal=False)

    def _joined_word(self, node: Any, cwd: str | None) -> Word:
        parts = [self.word(child, cwd) for child in node.children]
        # `~` behind the first part stands for itself; zsh computes what is between brackets behind a variable.
        if any(child.text.startswith(b"~") for child in node.children[1:]) or re.search(rb"\$\w+\[", node.text):
            raise _UnclearError(f"`{_short(node)}`")
        raw = "".join(child.text.decode() for child in node.children if child.type == "word")
        text, literal = "", True
        for part in parts:
            text += part.text if literal else ""
            literal = literal and part.literal
        splits = any(part.splits for part in parts) or bool(re.search(r"\{.*(,|\.\.)", raw))
        return Word(text, literal=literal, wild=any(part.wild for part in parts), splits=splits)

    def _expansion_word(self, node: Any, _: str | None) -> Word:
        names = [
            child.text.decode() for child in node.children if child.type in ("variable_name", "special_variable_name")
        ]
        if (
            len(names) != 1
            or names[0] in ("@", "*")
            or any(
                child.type not in ("$", "${", "}", "variable_name", "special_variable_name") for child in node.children
            )
        ):
            raise _UnclearError(f"`{_short(node)}`")
        home = self._expand("~")
        if names[0] == "HOME" and re.fullmatch(r"/[\w/.-]*", home):
            return Word(home)
        return Word("", literal=False, splits=True)

    def _substitution_word(self, node: Any, cwd: str | None) -> Word:
        self._inner(node, cwd, ("$(", ")", "`", "$(<"))
        return Word("", literal=False, splits=True)

    def _process_word(self, node: Any, cwd: str | None) -> Word:
        self._inner(node, cwd, ("<(", ">(", ")"))
        return Word("/dev/fd/63")

    def _inner(self, node: Any, cwd: str | None, tokens: tuple[str, ...]) -> None:
        if b"\\" in node.text and node.text[:1] == b"`":
            raise _UnclearError(f"`{_short(node)}`")
        for child in node.children:
            if child.type == "file_redirect":
                self._redirect(child, cwd)
            elif child.type not in tokens:
                before = cwd
                cwd = self.statement(child, cwd)
                cwd = cwd if cwd == before else None

    # -- what programs use -----------------------------------------------------------------------------------------------

    def inner_script(self, text: str, cwd: str | None) -> None:
        """Read a script that a program runs."""
        self.script(text, cwd, self._depth + 1)

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
        """Add a path that is read or written, and return it; None for files that are not files."""
        if (
            word.literal
            and not word.wild
            and (word.text in _HARMLESS_FILES or (word.text.startswith("/dev/fd/") and not writes))
        ):
            return None
        target, problem = None, "its text is not known"
        if word.literal and not word.splits:
            target, problem = target_of(word.text, cwd, self.resolve, wild=word.wild, tree=tree or walks or word.below)
            if writes and (word.wild or word.below):
                target, problem = None, "each of the paths may be a link"
        use = PathUse(word.shown(), target, writes, redirect, walks, problem)
        self.uses.append(use)
        return use


def _check_line(node: Any) -> None:
    """Refuse parts on several lines, which the grammar puts together where a shell ends the command."""
    for before, after in pairwise(node.children):
        gap = node.text[before.end_byte - node.start_byte : after.start_byte - node.start_byte]
        if b"\n" in gap.replace(b"\\\n", b""):
            raise _UnclearError(f"`{_short(node)}`")


def _short(node: Any) -> str:
    return str(node.text.decode(errors="replace"))[:60]
