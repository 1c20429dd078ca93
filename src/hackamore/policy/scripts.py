"""Texts in small languages that programs take: sed, awk, SQL, URLs. A check returns the problem, or "" for a text that only reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SED_PLACE = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED_ONE = (
    rf"(?:{_SED_PLACE}(?:,[+~]?{_SED_PLACE})?)?\s*!?\s*"
    r"(?:[pdqQ=lnNhHgGxD]\d*|s([/|#,:@])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*|y/(?:[^/\\]|\\.)*/(?:[^/\\]|\\.)*/)"
)
_SED = re.compile(rf"\s*{_SED_ONE}\s*")
_AWK_RISKS = re.compile(r"system|getline|ARG[VC]|\||>|close|fflush|@|ENVIRON|SYMTAB|FUNCTAB|printf?\s*\(.*>|\\\n")
_SQL = re.compile(
    r"\s*(?:select|show|describe|desc|explain|values|pragma table_info|\\d[a-z+]*|\\l\+?|\\conninfo|\.tables|\.schema)\b",
    re.IGNORECASE,
)
_SQL_WORDS = re.compile(
    r"\b(?:into|insert|update|delete|drop|alter|create|replace|merge|copy|call|do|exec|execute|grant|revoke|truncate|attach|detach|install|load|"
    r"shutdown|kill|backup|restore|dbcc|deny|bulk|use|waitfor|reconfigure|disable|enable|export|import|set|lock|vacuum|analyze|reindex|refresh|listen|notify|prepare|begin|commit|outfile|dumpfile|pragma_\w+)\b",
    re.IGNORECASE,
)
_SQL_CALLS = re.compile(r"\b(\w+)\s*\(", re.IGNORECASE)
_SQL_FUNCTIONS = re.compile(
    "count|sum|min|max|avg|abs|round|lower|upper|length|coalesce|cast|now|date|time|datetime|strftime|substr|substring|trim|in|and|or|as|on|"
    "using|where|over|values|exists|not|distinct|from|select|group_concat|string_agg|date_trunc|extract|ifnull|nullif|version",
    re.IGNORECASE,
)


def _sed(text: str) -> str:
    # Whether a delimiter between `[` and `]` ends the pattern depends on the sed.
    if re.search(r"\[[^]]*[/|#,:@]", text) and re.search(r"[;\n]", text):
        return f"the script of sed {text[:60]!r} may write or run"
    pieces = [text] if _SED.fullmatch(text) else re.split(r"[;\n]", text.strip(" ;{}"))
    return "" if all(_SED.fullmatch(piece) for piece in pieces) else f"the script of sed {text[:60]!r} may write or run"


def _awk(text: str) -> str:
    text = text.replace("||", "")
    if ">" in text and not set(text) & set('"/\\'):  # without texts, a redirect stands behind `print` in its statement
        text = "".join(
            part if ">" in part.partition("print")[2] else part.replace(">", "") for part in re.split("[;{}]", text)
        )
    return f"the program of awk {text[:60]!r} may write or run" if _AWK_RISKS.search(text) else ""


def _sql(text: str) -> str:
    plain = re.sub(r"'(?:[^'\\]|'')*'|\"[^\"\\]*\"", "''", text)
    statements = [part for part in plain.split(";") if part.strip()]
    if len(statements) > 1 or re.search(r"['\"\]]\s*\(", plain) or re.search(r"--|/\*|[#`$\[]", text):
        return "it has several statements, or comments or quotes that databases read differently"
    for part in statements:
        unknown = not all(map(_SQL_FUNCTIONS.fullmatch, _SQL_CALLS.findall(part)))
        if (
            not _SQL.match(part)
            or re.search(r"^\s*[.\\].*[^\w\s.*+\\]|\n\s*[.:!]|\S\s*\\", part)
            or _SQL_WORDS.search(part)
            or re.search(r"\b(?:from|join|,)\s*''|\bfrom\b[^()]*,\s*''", part, re.IGNORECASE)
            or unknown
            or "|" in part.replace("||", "")
        ):
            return f"the statement {part.strip()[:60]!r} may do more than reading"
    return ""


def domain_of(url: Any) -> tuple[str, str | None]:
    """Return a URL as text, and its domain; None if readers of URLs may disagree on it."""
    from urllib.parse import urlsplit

    if not isinstance(url, str):
        return "WebFetch", None
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        domain = parts.hostname
    except ValueError:
        return url, None
    odd = set(parts.netloc) & set("\\@%{}") or any(ord(letter) <= 32 or ord(letter) > 126 for letter in url)
    return url, None if odd or not domain else domain


def _url(text: str) -> str:
    scheme = text.partition("://")[0].lower() if "://" in text else "https"
    if scheme not in ("http", "https") or set(text) & set("{}[]") or domain_of(text)[1] is None:
        return f"the address {text[:60]!r} cannot be read"
    return ""


def _query(text: str) -> str:
    return "it reads other files" if re.search(r"load|import|include|system", text) else ""


def _setting(text: str) -> str:
    return "" if re.fullmatch(r"[\w./*-]+", text) else f"the word {text[:60]!r} may change a setting"


def _binding(text: str) -> str:
    harmless = re.fullmatch(r"[^:,]+:[a-z+-]+(?:,[^:,]+:[a-z+-]+)*", text)
    return "" if harmless else f"the binding {text[:60]!r} may run a program"


def _plain(text: str) -> str:
    return f"{text[:60]!r} may name a file" if re.search(r"^[^=]*@|^fileb?://|%output", text) else ""


def _format(text: str) -> str:  # zsh computes the words of a number, which runs what is in `a[$(...)]`
    return "" if re.fullmatch(r"(?:[^%]|%%|%-?[0-9.]*[sbqc])*", text) else f"the format {text[:60]!r} may compute"


_ALL = (_sed, _awk, _sql, _url, _setting, _query, _binding, _plain, _format)
CHECKS: dict[str, Callable[[str], str]] = {check.__name__[1:]: check for check in _ALL}
"""The checks, by the name that roles in the table of programs have."""
