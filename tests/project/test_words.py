"""The word checker: the rules it knows, the text it reads, and the text it leaves alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "words.py"


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def hits(words: ModuleType, text: str, path: str = "page.md") -> list[tuple[int, int, str]]:
    return [(hit.line, hit.rule, hit.found) for hit in words.check(path, text) if hit.fatal]


@pytest.mark.parametrize(
    ("text", "rule", "found"),
    [
        ("What disturbs the stream is raised.", 3, "What"),
        ("A turn fails. Who reads it gets an error.", 3, "Who"),
        ("## What is promised", 3, "What"),
        ("| call | what it does |\n|---|---|\n| a | b |", 3, "what"),
        ("The reader waits for nobody.", 4, "nobody"),
        ("All go to everybody who waits.", 4, "everybody"),
        ("It stops, whoever reads.", 4, "whoever"),
        ("Functions of yours are called.", 4, "of yours"),
        ("The one who decides is the CLI.", 4, "The one who"),
        ("The CLI is told to stop.", 5, "is told"),
        ("The CLI was never asked.", 5, "was never asked"),
        ("It is no JSON.", 6, "is no"),
        ("`TypeError` for a prompt that is none.", 6, "that is none"),
        ("It returns at once.", 7, "at once"),
        ("This holds for queries, too.", 7, ", too"),
        ("It starts anew.", 7, "anew"),
        ("It runs inside of the loop.", 7, "inside of"),
        ("It stops whatever happens.", 7, "whatever"),
        ("The CLI goes on.", 7, "goes on"),
        ("A deadline passes.", 8, "deadline"),
        ("There is a bound for each.", 8, "a bound"),
        ("The CLI gives up.", 8, "gives up"),
        ("A prompt is taken back.", 8, "taken back"),
        ("Take that a turn has ended.", 9, "Take that"),
        ("A turn. Say of it that it failed.", 9, "Say of"),
        ("Take note of a child.", 9, "Take note of"),
        ("Note whether it runs.", 9, "Note whether"),
        ("Have it recorded.", 9, "Have it"),
        ("Let it end.", 9, "Let it"),
        ("A happening of the session.", 9, "happening"),
        ("We stop it.", 15, "We"),
        ("It is our session.", 15, "our"),
    ],
)
def test_each_rule_finds_its_words(words: ModuleType, text: str, rule: int, found: str) -> None:
    assert (rule, found) in [(number, hit) for _, number, hit in hits(words, text)]


@pytest.mark.parametrize(
    "text",
    [
        "What happened?",
        "There is no CLI.",
        "The session is no longer open.",
        "The user is asked in the browser.",
        "A line is too long.",
        "Let other tasks run. Take the lease. Take a note.",
        "Reports are taken; it is said that it ended.",
        "It costs 5 US dollars.",
        "Time is bounded by `Timeouts.turn`.",
        "`nobody at once` is code, and so is the target of [a link](nobody.md).",
        "```text\nwhat is told at once\n```",
        "<!-- scripted: Reply('We go on at once') -->",
        '```python\nsend("go on at once")\n```',
    ],
)
def test_right_words_are_left_alone(words: ModuleType, text: str) -> None:
    assert hits(words, text) == []


def test_the_line_of_a_hit_is_that_of_its_first_word(words: ModuleType) -> None:
    page = "# Page\n\nA first line with `code`,\na second one that is read at\nonce. It is no end.\n\n- an item\n  of ours\n"
    assert hits(words, page) == [(4, 7, "at once"), (5, 6, "is no"), (8, 4, "of ours")]


def test_comments_in_snippets_count(words: ModuleType) -> None:
    assert hits(words, "```python\nx = 1  # nobody reads it\n```") == [(2, 4, "nobody")]


def test_docstrings_and_messages_of_a_module_are_read(words: ModuleType) -> None:
    module = '''"""A module.

It is told.
"""
LIMIT = 5
"""A deadline."""


def stop(name: str) -> None:
    """Stop it.

    Args:
        name: what is stopped.

    Raises:
        ValueError: it is no name.

    Example:
        stop("what is told")
    """
    # Nobody minds comments.
    # It is no code, and it is read at
    # once.
    raise ValueError(f"{name} was asked to stop at once" f" by nobody")
'''
    assert hits(words, module, "module.py") == [
        (3, 5, "is told"),
        (6, 8, "deadline"),
        (13, 3, "what"),
        (16, 6, "is no"),
        (21, 4, "Nobody"),
        (22, 6, "is no"),
        (22, 7, "at once"),
        (24, 4, "nobody"),
        (24, 5, "was asked"),
        (24, 7, "at once"),
    ]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("x = 1  # nobody reads it\n", 1),
        ("# A comment.\n\n# nobody reads it\n", 3),
        ("#: nobody reads it\nx = 1\n", 1),
        ("def f():\n    # The first line is the\n    # place of nobody\n    return 1\n", 3),
    ],
)
def test_comments_of_a_module_are_read(words: ModuleType, module: str, line: int) -> None:
    assert hits(words, module, "module.py") == [(line, 4, "nobody")]


def test_comments_for_tools_are_not_prose(words: ModuleType) -> None:
    assert hits(words, "#!/usr/bin/nobody\n# ruff: nobody\nx = 1  # noqa: E501 - nobody\n", "module.py") == []


def test_internal_docstrings_have_an_imperative(words: ModuleType) -> None:
    module = 'def _over():\n    """Take that it is over."""\n\n\ndef _end():\n    """Record that it is over."""\n'
    assert hits(words, module, "module.py") == [(2, 9, "Take that")]


def test_patterns_and_short_strings_of_a_module_are_not_messages(words: ModuleType) -> None:
    assert hits(words, 'import re\nre.compile("nobody is told at once")\nname = "nobody"\n', "module.py") == []


def test_tables_have_at_most_four_columns(words: ModuleType) -> None:
    assert hits(words, "| a | b | c | d |\n|---|---|---|---|") == []
    assert hits(words, "| a | b | c | d | e |\n|---|---|---|---|---|") == [(1, 14, "5 columns")]
    assert hits(words, "| `a | b` | b | c | d |") == []


def test_long_sentences_and_cells_are_warnings(words: ModuleType) -> None:
    found = words.check("page.md", f"It {'very ' * 30}long.\n\n| {'word ' * 13}|\n")
    assert [(hit.line, hit.rule, hit.fatal) for hit in found] == [(1, 2, False), (3, 14, False)]


def test_the_exit_code_and_the_exceptions(
    words: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Nobody reads it.\n")
    assert words.main([str(page)]) == 1
    assert f"{page.as_posix()}:1: rule 4" in capsys.readouterr().out
    monkeypatch.setattr(words, "EXCEPTIONS", ((page.as_posix(), "Nobody reads", "a name"),))
    assert words.main([str(page)]) == 0
    page.write_text("Readers read it.\n")
    assert words.main([str(page)]) == 0


def test_pending_places_exist(words: ModuleType) -> None:
    project = SCRIPT.parents[1]
    assert [place for place in words.PENDING if not (project / place).exists()] == []
