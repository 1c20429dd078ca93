"""Check the words of pages, docstrings and messages: `scripts/words.py [FILES]` prints each hit with a better word.

The rules are those of CONTRIBUTING.md, section "Words". Checked are the prose of Markdown pages (not their code, except for comments
in it), the docstrings, comments and string messages of Python files. Without FILES everything is checked except for the places in
`PENDING`; `--all` checks those as well. A hit makes the exit code 1. Warnings (long sentences, long table cells) do not; `--hits` leaves
them out.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parent.parent
PLACES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "src/**/*.py")
"""The files that are checked, as patterns."""
PENDING: tuple[str, ...] = ()
"""Beginnings of paths that are not clean yet. This list only shrinks."""
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("src/hackamore/testing/simulation/turns.py", "do not recap what was happening", "a text of the CLI"),
    *(
        (
            f"src/hackamore/approvals/{name}.py",
            "deadline",
            "a moment, the column and `ApprovalRequest.deadline`, and no length of time",
        )
        for name in ("approvals", "requests")
    ),
)
"""Hits that are right: the path, a part of the sentence, the reason."""

WORDS_IN_A_SENTENCE = 30
WORDS_IN_A_CELL = 12
COLUMNS = 4


@dataclass(frozen=True)
class Rule:
    """A word or phrase to avoid."""

    number: int
    pattern: re.Pattern[str]
    better: str


def _rule(number: int, pattern: str, better: str, flags: re.RegexFlag = re.IGNORECASE) -> Rule:
    return Rule(number, re.compile(pattern, flags), better)


_PERSON = r"(?<!\buser )(?<!\busers )(?<!\byou )(?<!\bperson )(?<!\bpeople )"
RULES = (
    _rule(
        3,
        r"\A[*_\"'(]*(?:what|who|whatever|whoever)\b(?![^?]*\?[*_\"')]*\Z)",
        "begin with a noun: messages, the reason, the caller",
    ),
    _rule(4, r"\bnobody\b", "name the actor: no caller, no reader, no user"),
    _rule(4, r"\b(?:everybody|anybody|somebody)\b", "name the actor: each caller, all readers, a user"),
    _rule(4, r"\bwho(?:m)?ever\b", "name the actor: the caller, the reader"),
    _rule(4, r"\bof (?:ours|yours|theirs)\b", "your ..., Hackamore's ..., their ..."),
    _rule(4, r"\bthe one who\b", "name the actor"),
    _rule(
        5,
        _PERSON
        + r"\b(?:is|are|was|were|be|been|being|gets|get) (?:(?:also|then|only|not|never|still|first) )*(?:told|asked|served)\b",
        "sends, requests, reports, calls, receives, handles",
    ),
    _rule(
        6,
        r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)(?=\w)",
        '"is not a ...", "does not have ..."',
    ),
    _rule(6, r"\bthat (?:is|are|was|were) none\b", '"unsupported type", "is not a ..."'),
    _rule(7, r"\bat once\b", '"immediately"; for several things "at the same time"'),
    _rule(7, r", too\b(?! \w)", '"also" before the verb'),
    _rule(7, r"\banew\b", '"again"'),
    _rule(7, r"\binside of\b", '"inside"'),
    _rule(7, r"\bwhatever\b", '"regardless of", "any"'),
    _rule(7, r"\b(?:go|goes|going|went|gone) on\b", '"continue"'),
    _rule(7, r"\bsay(?:s|ing)? so\b", "name the message: raises, warns, reports that"),
    _rule(8, r"\bdeadlines?\b", '"timeout"'),
    _rule(8, r"\b(?:an?|the|every|each|no|any|this|that) (?:\w+ )?bounds?\b(?! (?:to|by|method))", '"limit"'),
    _rule(8, r"\bg(?:ive|ives|iving|ave|iven) up\b", '"stop"'),
    _rule(
        8, r"\bt(?:ake|akes|aking|ook|aken) back\b|\bwithdr(?:aw|aws|awn|ew|awing)\b", '"cancel"; for files "restore"'
    ),
    _rule(
        9,
        r"\A(?:(?:Take|Say|Hear|Note|Tell) (?:note )?(?:that|of|how|what|whether|which|where|who)|(?:Have|Let) it)\b",
        "an imperative with its object: return, apply, finish",
    ),
    _rule(9, r"\bhappenings?\b", "trigger, event"),
    _rule(
        15,
        r"\b(?:[Ww]e|(?<!\d )us|(?<!\bof )[Oo]urs?|[Ll]et's)\b",
        '"you" is the reader, "Hackamore" the library',
        re.NOFLAG,
    ),
)


@dataclass(frozen=True)
class Block:
    """A run of prose: a paragraph, an item, a heading, a cell, a message. `starts` are the offsets at which its lines begin."""

    text: str
    starts: tuple[tuple[int, int], ...]
    kind: str = "prose"

    def line_at(self, offset: int) -> int:
        """Return the line of the file at an offset of the text."""
        return max(((start, line) for start, line in self.starts if start <= offset), default=self.starts[0])[1]


@dataclass(frozen=True)
class Hit:
    """A place that breaks a rule. One without a fatal rule is a warning."""

    path: str
    line: int
    rule: int
    found: str
    better: str
    sentence: str
    fatal: bool = True

    def __str__(self) -> str:
        kind = "" if self.fatal else "warning: "
        return f'{self.path}:{self.line}: {kind}rule {self.rule}: "{self.found}" -> {self.better}'


_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TEST = re.compile(r"\[[^\]]*\]\([^)]*\.py\)")  # the name of a function or file
_URL = re.compile(r"<?https?://[^\s>)]+>?")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_COMMENT_IN_CODE = re.compile(r"(?:^|\s{2})\s*# (?P<text>[A-Za-z0-9].*)$")
_SENTENCE = re.compile(r"(?<=[.!?:;])[*_\"')]*\s+(?=[*_\"'(]*[A-Z`])|(?<=[.!?])[*_\"')]*\s+(?=\d+\. )")
_SECTION = re.compile(r"\s*(?:Args|Returns|Raises|Yields|Attributes|Note|Notes|Warns|Examples?):\s*\Z")
_ARGUMENT = re.compile(r"\s*\*{0,2}[\w.]+(?: \([^)]*\))?:\s+")


def _plain(text: str) -> str:
    """Return a line of Markdown without code, addresses and the targets of links."""
    text = _TEST.sub("`x`", _CODE.sub("`x`", text))
    return _URL.sub("`x`", _LINK.sub(r"\1", text))


class _Gatherer:
    """Joins lines to blocks."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._text = ""
        self._starts: list[tuple[int, int]] = []

    def add(self, line: int, text: str) -> None:
        """Continue the block with a line."""
        if self._text:
            self._text += " "
        self._starts.append((len(self._text), line))
        self._text += text.strip()

    def end(self, kind: str = "prose") -> None:
        """End the block."""
        if self._text.strip():
            self.blocks.append(Block(_plain(self._text), self._moved(), kind))
        self._text = ""
        self._starts = []

    def _moved(self) -> tuple[tuple[int, int], ...]:
        # Without its code the text is shorter, so the offsets of its lines are counted again.
        return tuple((len(_plain(self._text[:start])), line) for start, line in self._starts)

    def single(self, line: int, text: str, kind: str) -> None:
        """Add a block of one line."""
        self.end()
        self.add(line, text)
        self.end(kind)


def blocks_of_page(text: str) -> Iterator[Block]:
    """Return the prose of a Markdown page."""
    text = re.sub(r"<!--.*?-->", lambda match: re.sub(r"[^\n]", "", match[0]), text, flags=re.DOTALL)
    gathered = _Gatherer()
    in_code = ""
    in_front = text.startswith("---\n")
    for number, line in enumerate(text.split("\n"), 1):
        if in_front:
            in_front = number == 1 or line != "---"
            continue
        if _FENCE.match(line):
            in_code = "" if in_code else (line.strip().strip("`~") or "text")
            gathered.end()
            continue
        if in_code:
            comment = _COMMENT_IN_CODE.search(line) if in_code.startswith(("py", "sh", "console")) else None
            if comment:
                gathered.single(number, comment["text"], "comment")
            continue
        stripped = line.strip()
        if not stripped:
            gathered.end()
        elif stripped.startswith("#"):
            gathered.single(number, stripped.lstrip("#"), "heading")
        elif stripped.startswith("|"):
            gathered.end()
            # A bar inside code does not end a cell.
            row = _CODE.sub(lambda match: match[0].replace("|", " "), stripped.replace("\\|", " "))
            cells = row.strip("|").split("|")
            if not set(row) <= set("|-: "):
                yield Block("", ((0, number),), f"row {len(cells)}")
                for cell in cells:
                    gathered.single(number, cell, "cell")
        else:
            if item := _ITEM.match(line):
                gathered.end()
            gathered.add(number, re.sub(r"^>\s?", "", line[item.end() if item else 0 :].strip()))
    gathered.end()
    yield from gathered.blocks


def _blocks_of_docstring(text: str, first: int) -> Iterator[Block]:
    gathered = _Gatherer()
    in_code = False
    example_indent: int | None = None
    for number, line in enumerate(text.split("\n"), first):
        indent = len(line) - len(line.lstrip())
        if example_indent is not None and line.strip() and indent <= example_indent:
            example_indent = None
        if _FENCE.match(line):
            in_code = not in_code
            gathered.end()
        elif in_code or line.lstrip().startswith(">>>"):
            continue
        elif _SECTION.match(line):
            gathered.end()
            if line.strip().startswith("Example"):
                example_indent = indent
        elif example_indent is not None:
            continue
        elif not line.strip():
            gathered.end()
        else:
            begins = _ITEM.match(line) or _ARGUMENT.match(line)
            if begins:
                gathered.end()
            gathered.add(number, line[begins.end() if begins else 0 :])
    gathered.end()
    yield from gathered.blocks


_NO_PROSE = re.compile(r"# (?:noqa|type:|pragma|ruff:|fmt:|shellcheck|-- )|#!|# Generated |#:?$")


def _comments(text: str) -> Iterator[Block]:
    """Return the comments; lines of comments below each other are one."""
    gathered = _Gatherer()
    last = (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _NO_PROSE.match(token.string):
            continue
        line, column = token.start
        if last != (line - 1, column) or token.line[:column].strip():
            gathered.end("comment")
        gathered.add(line, token.string.lstrip("#:").partition("  # noqa")[0])
        last = (line, column)
    gathered.end("comment")
    yield from gathered.blocks


def _message(node: ast.expr) -> str:
    """Return the text of a string or f-string; a value in it is a placeholder."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values)  # type: ignore[misc]
    return ""


def blocks_of_module(text: str) -> Iterator[Block]:
    """Return the comments, docstrings and messages of a Python file."""
    yield from _comments(text)
    tree = ast.parse(text)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        # A string that stands alone is a docstring: of a module, a class, a function, or the attribute before it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped.add(id(node.value))
            yield from _blocks_of_docstring(node.value.value, node.lineno)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node and isinstance(part, ast.Constant))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            skipped.update(id(part) for part in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            message = _message(node)
            if len(re.findall(r"[A-Za-z]{2,}", message)) >= 3 and " " in message.strip():
                for paragraph in message.split("\n"):
                    plain = _plain(paragraph).strip()
                    if plain:
                        yield Block(plain, ((0, node.lineno),), "message")


def sentences(block: Block) -> Iterator[tuple[int, str]]:
    """Return the sentences of a block with their offsets."""
    at = 0
    for match in _SENTENCE.finditer(block.text):
        yield at, block.text[at : match.start()]
        at = match.end()
    yield at, block.text[at:]


def check(path: str, text: str) -> list[Hit]:
    """Return the hits and warnings in a file."""
    blocks = list(blocks_of_module(text) if path.endswith(".py") else blocks_of_page(text))
    found = []
    for block in blocks:
        if block.kind.startswith("row "):
            columns = int(block.kind[4:])
            if columns > COLUMNS:
                line = block.starts[0][1]
                found.append(Hit(path, line, 14, f"{columns} columns", f"at most {COLUMNS}, or a list", ""))
            continue
        if block.kind == "cell" and len(block.text.split()) > WORDS_IN_A_CELL:
            words = f"{len(block.text.split())} words in a cell"
            found.append(
                Hit(
                    path, block.starts[0][1], 14, words, f"at most {WORDS_IN_A_CELL}, or prose", block.text, fatal=False
                )
            )
        for offset, sentence in sentences(block):
            for rule in RULES:
                for match in rule.pattern.finditer(sentence):
                    line = block.line_at(offset + match.start())
                    found.append(Hit(path, line, rule.number, match[0].strip(), rule.better, sentence))
            if len(sentence.split()) > WORDS_IN_A_SENTENCE:
                words = f"{len(sentence.split())} words: {' '.join(sentence.split()[:5])} ..."
                found.append(
                    Hit(path, block.line_at(offset), 2, words, f"at most {WORDS_IN_A_SENTENCE}", sentence, fatal=False)
                )
    return sorted(found, key=lambda hit: (hit.line, hit.rule))


def _excepted(hit: Hit, used: set[int]) -> bool:
    for number, (path, part, _reason) in enumerate(EXCEPTIONS):
        if hit.path == path and part in hit.sentence:
            used.add(number)
            return True
    return False


def files_of_project(pending: bool) -> list[Path]:
    """Return the files that are checked without arguments, with those that are not clean yet or without."""
    found = sorted({path for place in PLACES for path in PROJECT.glob(place)})
    return [path for path in found if pending or not path.relative_to(PROJECT).as_posix().startswith(PENDING)]


def _files_in(given: list[Path]) -> list[Path]:
    return [
        file
        for path in given
        for file in (
            sorted(file for file in path.rglob("*") if file.suffix in {".md", ".py"}) if path.is_dir() else [path]
        )
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the hits; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES")
    parser.add_argument("--all", action="store_true", help="check the places that are not clean yet as well")
    parser.add_argument("--hits", action="store_true", help="print no warnings")
    parser.add_argument("--count", action="store_true", help="print the number of hits of each file only")
    given = parser.parse_args(arguments)
    files = _files_in(given.files) or files_of_project(given.all)
    used: set[int] = set()
    hits: list[Hit] = []
    warnings: list[Hit] = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        if text.startswith("# Generated "):
            continue  # the words are those of its source
        resolved = file.resolve()
        name = resolved.relative_to(PROJECT).as_posix() if resolved.is_relative_to(PROJECT) else file.as_posix()
        for hit in check(name, text):
            if not _excepted(hit, used):
                (hits if hit.fatal else warnings).append(hit)
    if given.count:
        for path, number in Counter(hit.path for hit in hits).most_common():
            print(f"{number:5} {path}")
    else:
        for hit in hits + ([] if given.hits else warnings):
            print(hit)
    if given.all:
        for number, (path, part, _reason) in enumerate(EXCEPTIONS):
            if number not in used:
                print(f"scripts/words.py: the exception for {path}, {part!r}, is not needed any more")
    print(f"words: {len(hits)} hits, {len(warnings)} warnings in {len(files)} files")
    return int(bool(hits))


if __name__ == "__main__":
    sys.exit(main())
