"""Texts of a model or a repository, made safe for a terminal."""

from __future__ import annotations

import pytest

from hackamore.activity.words import clean, one_line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("half \ud83d", "half \\ud83d"),
        ("both \ud83d\ude00", "both \U0001f600"),
        ("safe", "safe"),
    ],
)
def test_texts_are_safe_for_a_terminal(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert one_line(text) == cleaned.replace("\n", " ")
