"""Removes secrets from a recording before it is written: keys, addresses, places of this machine, long texts of the CLI.

Rules. A frame is searched string by string, after its escapes are resolved: it stays JSON, and a backslash hides nothing. Numbers,
order and spacing stay unchanged, and a line without a finding stays byte for byte. The same value gets the same placeholder,
`<hackamore-KIND-N>`. Places have a placeholder without a number (`<hackamore-home>`), because a replay inserts its own places. Values
under `env` and `headers` are masked for their place. Known secrets are also found in base64 and percent encoding; other encodings are
not. Pieces of a text are put together by `recorder.Pieces`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hackamore._engine.launch.plan import LaunchPlan

PLACEHOLDER = re.compile(r"<hackamore-[a-z-]+(?:[~-]\d+)?>")

_TEMPORARY = r"(?:/(?:pytest-of-[^/\s\"']+/pytest-\d+|tmp[A-Za-z0-9_]{6,}|tmp\.[A-Za-z0-9]{6,})(?![A-Za-z0-9_]))"
_NOT_PERSONAL = frozenset(
    {"root", "user", "users", "admin", "home", "runner", "ubuntu", "debian", "nobody", "claude", "app", "node", "test"}
)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode() if text.isascii() else json.dumps(text)  # the first is faster


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _word(literal: str, letter: str = "[A-Za-z0-9]") -> str:
    """Return what stands behind a literal that begins a word, or follows the letter of an escape: JSON is often quoted in JSON."""
    return rf"(?:(?<!{letter}{literal})|(?<=\\[nrtbf]{literal})|(?<=\\u[0-9a-fA-F]{{4}}{literal}))"


# How the patterns below stay linear. Each begins with a literal, which `re` finds by a scan. A part without a limit is possessive
# (`*+`), and holds no further beginning of its pattern, or is consumed by the match. Texts are searched as UTF-8: `lower` moves nothing.
Span = tuple[int, int, str | bytes]
"""Where a finding begins and ends, and its kind, or what is written there."""


class _Rule(NamedTuple):
    """A pattern, and the beginning of it, which is searched in windows: `re` lets no other thread run, and no finding is cut."""

    sign: bytes  # the literal that both begin with
    head: re.Pattern[bytes]  # matches where `pattern` may, and looks at `_AHEAD` bytes at most
    pattern: re.Pattern[bytes]
    what: Any  # the group that is secret, or what else is to be known
    low: bool  # True for a rule about a text in lower case
    also: bytes  # a literal that is in each text with a finding, in lower case
    rare: bytes  # a part of the sign, in lower case, by which it is found in long texts, in one search with others


_WINDOW = 1 << 16
_AHEAD = 64


_RARE = (b"headers", b"curl", b"cret", b"-amz", b"xport", b"=", b"j", b"q", b"k", b"v", b"u", b"p")


def _rule(sign: str, head: str, rest: str, what: Any = 1, *, also: str = "", low: bool = False) -> _Rule:
    short, whole = (re.compile(_encoded(re.escape(sign) + f"(?:{behind})"), re.DOTALL) for behind in (head, rest))
    rare = next((rare for rare in _RARE if rare in _encoded(sign).lower()), b"")
    return _Rule(_encoded(sign), short, whole, what, low, _encoded(also), rare)


_Group = tuple[re.Pattern[bytes], bool, list[tuple[_Rule, int]]]
"""A pattern, whether it is for lower case, and the rules that may match so many bytes before it does."""


def _alone(rules: Iterable[_Rule]) -> list[_Group]:
    return [(rule.head, rule.low, [(rule, 0)]) for rule in rules]


def _together(rules: list[_Rule]) -> list[_Group]:
    """Return the groups of rules that are found by the same part of their signs."""
    groups = _alone(rule for rule in rules if not rule.rare)
    for rare in dict.fromkeys(rule.rare for rule in rules if rule.rare):
        members = [(rule, rule.sign.lower().index(rare)) for rule in rules if rule.rare == rare]
        ways = []
        for rule, at in members:
            behind, sign = re.escape(rule.sign[at + len(rare) :]), re.escape(rule.sign)
            head = rule.head.pattern.removeprefix(sign)  # without escapes in capitals
            ways.append((behind + b"(?<=" + sign + b")" + head).lower())
        groups.append((re.compile(re.escape(rare) + b"(?=" + b"|".join(ways) + b")"), True, members))
    return groups


def _found(data: bytes, groups: list[_Group]) -> Iterator[tuple[_Rule, re.Match[bytes]]]:
    """Return where rules match. Between two windows other threads may run."""
    lowered = data.lower() if any(small or rules[0][0].also for _, small, rules in groups) else data
    done: dict[int, int] = {}
    held = {b"": True}
    for begin in range(0, len(data), _WINDOW):
        if begin:
            time.sleep(0)
        for head, small, rules in groups:
            for candidate in head.finditer(lowered if small else data, begin, begin + _WINDOW + _AHEAD):
                if candidate.start() >= begin + _WINDOW:
                    break
                for rule, before in rules:
                    at = candidate.start() - before
                    text = lowered if rule.low else data
                    if rule.also not in held:
                        held[rule.also] = rule.also in lowered
                    if not held[rule.also] or at < done.get(id(rule), 0) or not (found := rule.pattern.match(text, at)):
                        continue
                    if found.lastgroup != "flag" or _FLAG.search(text, max(0, at - _LONGEST_FLAG), at):
                        done[id(rule)] = found.end()
                        yield rule, found


def _place(sign: str, place: str, letters: str = "[A-Za-z0-9]", behind: str = "[A-Za-z0-9]", more: str = "") -> _Rule:
    head = f"{_word(re.escape(sign), letters)}(?!{behind})"
    return _rule(sign, head, f"{head}({more})", _encoded(place))


class Vault:
    """The placeholders of one recording: the same value gets the same one, whichever session it comes from.

    Args:
        mark: the sign before the number; a replay marks those of its own values with another sign.
    """

    def __init__(self, mark: str = "-") -> None:
        self._mark = mark
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.RLock()
        self.values: dict[str, str] = {}

    def placeholder(self, kind: str, value: str) -> str:
        """Return the placeholder of a value."""
        with self._lock:
            known = self._known.get((kind, value))
            if known is None:
                number = self._counts[kind] = self._counts.get(kind, 0) + 1
                known = self._known[kind, value] = f"<hackamore-{kind}{self._mark}{number}>"
                self.values[known] = value
            return known

    def counts(self) -> dict[str, int]:
        """Return how many values of each kind were replaced."""
        with self._lock:
            return dict(self._counts)


class Unnumbered(Vault):
    """One mark for all keys: there is no list of their values, and nothing is put back."""

    def placeholder(self, kind: str, value: str) -> str:
        """Return the mark for a key, and all else as it is."""
        return "<masked>" if kind == "key" else value


def _existing(find: Callable[[], str]) -> str:
    """Return what `find` finds; nothing where the working directory was deleted, or no folder can be written."""
    try:
        return find()
    except OSError:
        return ""


class Places:
    """The folders of one session: its working directory, its home, temporary folders; and the user's name."""

    def __init__(self, vault: Vault, cwd: str | None, environment: Mapping[str, str]) -> None:
        self._vault = vault
        found: dict[str, str] = {}  # a spelling in texts -> its placeholder
        self.live: dict[str, str] = {}  # a placeholder -> its value here
        self.add(found, "cwd", [cwd or _existing(os.getcwd)])
        self.add(found, "config", [environment.get("CLAUDE_CONFIG_DIR", "")])
        self.add(found, "home", [environment.get("HOME", ""), os.path.expanduser("~")])
        self.add(found, "temp", [environment.get("TMPDIR", ""), _existing(tempfile.gettempdir), "/tmp", "/var/tmp"])  # noqa: S108
        if "<hackamore-home>" in self.live:
            self.live.setdefault("<hackamore-config>", self.live["<hackamore-home>"] + "/.claude")
        # A whole folder only: `/home/ann` does not stand in `/home/anna`, nor in `/mnt/home/ann`.
        self.patterns: list[_Rule] = [
            _place(folder, place, "[A-Za-z0-9_.-]", "[A-Za-z0-9_]", f"{_TEMPORARY}?") for folder, place in found.items()
        ]
        name = (
            os.path.basename(environment.get("HOME", ""))
            if environment.get("HOME", "").startswith(("/home/", "/Users/"))
            else ""
        )
        names = {environment.get("USER", ""), environment.get("LOGNAME", ""), os.environ.get("USER", ""), name}
        personal = sorted({known for known in names if len(known) > 2 and known.lower() not in _NOT_PERSONAL})
        if personal:
            self.live["<hackamore-user>"] = environment.get("USER") or personal[0]
        self.patterns += [_place(one, "<hackamore-user>") for one in personal]
        signs = sorted(
            (rule.sign for rule in self.patterns), key=len
        )  # a folder stands only where the one above it does
        self.patterns = [
            one._replace(rare=next(sign for sign in signs if sign in one.sign).lower()) for one in self.patterns
        ]

    def add(self, found: dict[str, str], kind: str, folders: Iterable[str]) -> None:
        """Add folders of one kind: as they are, with links resolved, and as the CLI spells them in names of its own files."""
        for folder in folders:
            plain = folder.rstrip("/")
            if not plain.startswith("/"):
                continue  # `/` stands everywhere
            for spelling in dict.fromkeys((plain, os.path.realpath(plain))):
                found.setdefault(spelling, f"<hackamore-{kind}>")
                self.live.setdefault(f"<hackamore-{kind}>", spelling)
                slug = re.sub(r"[^A-Za-z0-9]", "-", spelling)
                if spelling.count("/") > 1:  # `-root` alone stands in many words
                    found.setdefault(slug, f"<hackamore-{kind}-slug>")
                    self.live.setdefault(f"<hackamore-{kind}-slug>", slug)

    def spans(self, data: bytes, among: list[_Group]) -> Iterator[Span]:
        """Return where places and the user's name stand in a text, and what to write there."""
        for rule, found in _found(data, among):
            if found[1] and rule.what == b"<hackamore-temp>":
                # The name of a temporary folder is another one each time: a replay learns it from what is sent.
                yield (*found.span(), "folder")
            else:
                yield found.start(), found.start() + len(rule.sign), rule.what


CATEGORIES = (
    "keys",
    "secrets of the environment",
    "e-mail addresses",
    "accounts",
    "places",
    "user name",
    "long texts of the CLI",
)
"""The kinds of values that are removed, as the header of a recording lists them."""

MASKED_OBJECTS = frozenset({"env", "headers"})
"""Every value in an object (or list) under one of these names is masked, regardless of its own name."""
MASKED_VALUES = frozenset(
    {
        *("apiKeyHelper", "otelHeadersHelper", "headersHelper", "proxyAuthHelper"),
        *("awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh"),
    }
)
"""Settings whose value is a command that prints credentials."""

_PREFIXES = {
    **dict.fromkeys(("sk-", "sk-ant-"), 8),
    **dict.fromkeys(
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "hf_", "dckr_pat_"), 12
    ),
    **dict.fromkeys(
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "xapp-", *(f"xox{one}-" for one in "abeprs")), 12
    ),
    **dict.fromkeys(("ya29.", "hvs.", "GOCSPX-", "lin_api_", "doo_v1_", "dop_v1_", "dor_v1_"), 16),
    **dict.fromkeys(("shpat_", "shpca_", "shppa_", "shpss_"), 16),
}
"""How keys of many programs begin, and how many letters, digits, `_` and `-` follow at least."""


_RUN, _PREFIXED, _COOKIES = -1, -2, -3
"""Instead of a group: all of it if its group took part; all of it with its prefix; the values of cookies in its group."""


def _prefixed(end: str) -> _Rule:
    """Return the rule of the keys whose prefix ends in a character. It begins there: to look for each prefix would take longer."""
    known = [
        rf"(?<={re.escape(prefix)})(?=[A-Za-z0-9_-]{{{least}}})"
        + ("" if prefix == "sk-ant-" else _word(re.escape(prefix)))
        for prefix, least in _PREFIXES.items()
        if prefix.endswith(end)
    ]
    before = "".join({prefix[-2] for prefix in _PREFIXES if prefix.endswith(end)})
    head = rf"(?<=[{before}]{re.escape(end)})(?=[A-Za-z0-9_-]{{8}})(?:{'|'.join(known)})"
    return _rule(end, head, head + "[A-Za-z0-9_-]+", _PREFIXED)


_PRIVATE_KEY = "[A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_NOT_ITS_END = rf"(?:[^-]++|-(?!----END {_PRIVATE_KEY}))*+"
_A_KEY = r"(?:[KS]IA[A-Z0-9]{16}(?![A-Z0-9])|Iza[A-Za-z0-9_-]{30,}|GE-SECRET-KEY-1[A-Z0-9]{16,})"
_OF_P = r"\b[^\n|;&\\]{0,200}?\s-p\s?\\*+[\"']?+([^\s\"'\\<>]{8,})"
_OF_U = r"\b[^\n|;&]{0,200}?\s(?:-u|--user)[\s=]*+\\*+[\"']?+[^\s:\"'\\<>]{1,64}+:([^\s\"'\\<>]{8,})"
_OF_COOKIE = r"\\*+[\"']?+([^\r\n\"'`\\<>|]{8,})"
_COOKIE_IS = rf"(?:\\*+[\"']?+\s*+[:=]\s*+|(?<=\s--cookie)[\s=]++){_OF_COOKIE}"
_SHAPES = [
    *map(_prefixed, "_-."),
    _rule("SG.", "", _word(r"SG\.") + r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}", 0),
    _rule("A", "[KS]IA|Iza|GE-", _word("A") + _A_KEY, 0),
    _rule("hooks.slack.com/services/", "", "([A-Za-z0-9/]{16,})"),
    _rule("/api/webhooks/", "", "([0-9]{8,}+/[A-Za-z0-9_-]{16,})"),
    _rule("sig=", "(?<=[?&]sig=)", "(?<=[?&]sig=)([A-Za-z0-9%+/=_-]{16,})"),
    # A run without dots is consumed as well: its inner `eyJ` are not looked at again.
    _rule("eyJ", "", _word("eyJ") + r"[A-Za-z0-9_-]{8,}+(?:(\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*))?", _RUN),
    _rule("-----BEGIN ", "", f"{_PRIVATE_KEY}{_NOT_ITS_END}(?:-----END {_PRIVATE_KEY})?", 0),
    _rule("sshpass", "", _OF_P),
    _rule("docker", r"(?=\s)", r"\s++login" + _OF_P, also="login"),
    _rule("mysql", "", r"\w{0,8}+" + _OF_P),
    _rule("login", r"(?=\s)", r"\s++\S{1,128}+\s++password\s++([^\s\"'\\<>]{8,})", also="password"),
    _rule("curl", "", _OF_U, also="-u"),
    # A URL ends at its next `/`. The last `@` before it ends the password, which may contain one.
    _rule("://", "", r"([^\s/@:\"'<>]*+:(?:[^\s/?#\"'<>]{1,256}|[^\s/@\"'<>]{1,256}))(?=@)", also="@"),
    _rule("cookie", r"[\\\"':=]|\s(?:[\s:=]|(?<=--cookie\s))", _COOKIE_IS, _COOKIES, low=True),
    _rule("-b", r"(?<=\s-b)(?=[\s=])", rf"(?<=\s-b)[\s=]++{_OF_COOKIE}", _COOKIES, also="curl", low=True),
]

_VALUE = r"([^\s\"'`,;<>(){}\[\]\\]{8,})"
_BEHIND = (
    # name=value, "name": "two words", name: Bearer value; backslashes stand there where JSON is quoted in JSON, however often
    r"(?:\\*+[\"']?+\s*+(?:=>|[:=])\s*+\\*+(?:[\"']([^\"'\\<>\n]{8,256}+)(?=\\*+[\"'])|[\"']?+(?:(?:bearer|basic)\s++)?+"
    rf"{_VALUE})"
    # <name>value</name>; "name": "DB_PASSWORD", "value": "..."; --name value
    r"|>([^\s<>]{8,}+)(?=</)"
    r"|\\*+[\"']\s*+,\s*+\\*+[\"']value\\*+[\"']\s*+:\s*+\\*+[\"']([^\"'\\]{8,})"
    # It is not consumed: behind a word that is not a flag the next word may be a name with a value.
    rf"|\s++[\"']?+(?!-)(?={_VALUE.replace('(', '(?P<flag>', 1)}))"
)
_KINDS_OF_KEYS = ("api", "access", "private", "secret", "account", "signing", "encryption")
_KEY = rf"(?:{'|'.join(f'(?<={kind}key)|(?<={kind}[_-]key)' for kind in _KINDS_OF_KEYS)}|(?<=[?&]key))(?:[_-]?+base)?+"
_AFTER = r"(?:[\\=:>]|\s[\s=:]|[\"'](?:[\s=:]|,\s?(?:[\s\\]|[\"']v)))"
_SHORT = r"(?=\\*+[\"']|=(?![/~$]))"
_AUTH = r"(?:orization|(?<=[\"']auth)(?=\\*+[\"'])|(?<=_auth)(?=\\*+[\"']|=))"
_SCHEMES = r"(?:digest\s[^\r\n]{0,400}?response=\\*+[\"']?+|[a-z][\w-]{0,30}+\s++)"


def _named(sign: str, more: str = "", rest: str = "", head: str = "(?!)") -> _Rule:
    """Return the rule of a name, of its sign and `more`, and the value behind it; behind a mere space only if it may be a flag."""
    head = rf"{more}{_AFTER}|(?<=[a-z0-9_-]{sign}){more}\s|{head}"
    return _rule(sign, head, (rest or more) + _BEHIND, "name", low=True)


_NAMED = [
    _rule("key", rf"(?<=[isetgn_?&-]key){_KEY}(?:{_AFTER}|\s)", _KEY + _BEHIND, "name", low=True),
    *map(_named, ("token", "secret", "x-amz-signature")),
    # Short words, which begin other words: a name of its own or behind an underscore, and no folder as its value.
    _named("pass", "(?:word|wd|phrase)", f"(?:word|wd|phrase|(?<![a-z]pass){_SHORT})", "(?<![a-z]pass)" + _AFTER),
    _named("pwd", "(?!)", "(?<![a-z]pwd)" + _SHORT, "(?<![a-z]pwd)" + _AFTER),
    _named("auth", "orization", _AUTH, r"(?<=[\"'_]auth)" + _AFTER),
    _named("_pat", "(?!)", r"(?=\\*+[\"']|=)", _AFTER),
    _rule("bearer", r"\s", r"\s++([a-z0-9._~+/=-]{16,})", "name", low=True),
    _rule("authorization", _AFTER, rf"\\*+[\"']?+\s*+[:=]\s*+\\*+[\"']?+{_SCHEMES}{_VALUE}", "name", low=True),
]
"""Names in lower case, and the values behind them."""
_FLAG = re.compile(rb"(?<![a-z0-9_-])--?[a-z0-9_-]*\Z")
_LONGEST_FLAG = 64
_COOKIE = re.compile(rb"([^\s=;,]++)(?:=([^\s;,]+))?")
_NOT_A_COOKIE = frozenset({b"expires", b"path", b"domain", b"max-age", b"samesite"})
_DOMAIN = _rule("@", "(?=[A-Za-z0-9-])", r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}")
_LOCAL_PART = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-"

_MASKED = [
    _rule(name, rf"(?<=[\"']{name})[\\\"']", rf"(?<=[\"']{name})(\\*+)([\"'])\s*+:\s*+{value}", what)
    for names, value, what in ((MASKED_OBJECTS, r"[{\[]", "object"), (MASKED_VALUES, r"(?=\\*+[\"'])", "value"))
    for name in sorted(names)
]
_RULES = [*_SHAPES, *_NAMED, *_MASKED]
_GROUPS = _together(_RULES)
_PART = re.compile(rb"""(?<!\\)(\\*+)(["'])|[{}\[\]]|(?<=[\s:,\[])-?[0-9][0-9.eE+-]*+(?![^\s,\]}\\"'])""")
_A_NAME = re.compile(rb"\s*+:")

_MAYBE = [
    (sign, re.compile(sign + rb"(?:[\\\"'\snrtf]*+[:=,>]|(?<=bearer)[\s\\])"))
    for sign in (
        b"bearer key base token secret pass word wd phrase auth ization _pat cookie signature credential credentials "
        b"env headers helper refresh export"
    ).split()
] + [
    (
        b"-",  # a flag, whose value is the next word
        re.compile(rb"-(?:(?<![a-z0-9_-]-)|(?<=\\[nrtbf]-))[a-z0-9_-]*+(?<=key|ken|ret|ord|swd|ase|ion|kie|ure)[\s\\]"),
    )
]
"""How the names above end, and how they may continue in a line of JSON, whose escapes are not resolved."""
_TOKEN = re.compile(r'["{}\[\]]|[-0-9][0-9.eE+-]*+')
_COLON = re.compile(r"\s*+:")
_STRING = json.JSONDecoder(strict=False)

_SECRET_NAME = re.compile(
    r"(?:api[_-]?key|access[_-]?key|private[_-]?key|[_-]key|token|secret|password|passwd|passphrase|credentials?"
    r"|authorization|cookie|_auth|^auth|_pat)$",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASS|PASSWORD|PWD|KEY|PAT|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
"""Variables whose values are secret if they look like it: `AWS_BEARER_TOKEN_BEDROCK`, but not `KEY_BINDINGS=standard`."""
_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_SCHEME = re.compile(r"[A-Za-z][\w-]*+\s++(\S{8,})")
_RANDOM = re.compile(r"(?=(?:[^0-9]*+[0-9]){3})(?=[^A-Za-z]*+[A-Za-z])[A-Za-z0-9+_=-]{20,}")
"""An argument of a server that no person would have written."""
_IN_BASE64 = re.compile(r"(?=(?:[^0-9]*+[0-9]){3})(?=[^A-Z]*+[A-Z])(?=[^a-z]*+[a-z])[A-Za-z0-9+/=]{20,}")
_ACCOUNT_NAMES = frozenset(
    {
        *("organization", "organizationName", "organization_name", "organizationUuid"),
        *("accountUuid", "organization_uuid", "account_uuid"),
    }
)
_LONG_NAMES = frozenset({"description", "systemPrompt", "system_prompt", "whenToUse", "when_to_use", "instructions"})
_LONG_FRAMES = frozenset({"control_response", "system"})
_LONG = 100
_LONG_SKILL = 1_000
_LONG_TEXT = 1 << 16
_MANY = 100
"""From so many strings on, a long line is searched for the rules that may find something in it."""
_SHORTEST_SECRET = 8
_DEEPEST = 5


class _Head(msgspec.Struct):
    type: str = ""
    isSynthetic: bool = False  # noqa: N815 - as it is on the wire


_head = msgspec.json.Decoder(_Head).decode


class _Search(NamedTuple):
    """The part of all rules whose signs stand in a line: the others cannot find anything in its texts."""

    keys: list[_Group]
    places: list[_Group]
    names: bool
    known: bool
    addresses: bool
    accounts: bool


class Known:
    """Finds known texts, of seven bytes and more, in others, at a cost that does not grow with their number.

    Four bytes of each text are in a table, and four others that begin at an odd place of it: wherever the text stands, one of them
    begins at an even place. `re` looks for these in pairs of bytes, as the characters of UTF-16; the text is compared where both are.
    """

    _LONGEST_BEGINNING = 1 << 10
    _KINDS = bytes(97 if 97 <= one <= 122 or one == 32 else 48 if 48 <= one <= 57 else one for one in range(256))
    _NO_SURROGATES = bytes.maketrans(bytes(range(0xD8, 0xE0)), bytes(8))

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._places: dict[bytes, list[tuple[int, bytes]]] = {}
        for text in texts:
            kinds = text.translate(self._KINDS)
            for odd in range(2):
                # Prefer rare places, because many URLs begin alike; then pairs that are not of small letters or digits.
                _, at = min(
                    (
                        len(self._places.get(text[at : at + 4], ())) // 8
                        + (kinds[at : at + 2] in (b"aa", b"00"))
                        + (kinds[at + 2 : at + 4] in (b"aa", b"00")),
                        at,
                    )
                    for at in range(odd, min(len(text) - 3, self._LONGEST_BEGINNING), 2)
                )
                self._places.setdefault(text[at : at + 4], []).append((at, text))
        pairs = [{f"\\u{ord(self._pairs(one)[at]):04x}" for one in self._places} for at in range(2)]
        self._search = re.compile("[{}](?=[{}])".format(*map("".join, pairs)) if self._places else "(?!)")

    def _pairs(self, data: bytes) -> str:
        whole = data[: len(data) & ~1]
        return (whole if whole.isascii() else whole.translate(self._NO_SURROGATES)).decode("utf-16-le")

    def may_hold(self, data: bytes) -> bool:
        """Return False if no text is in the data."""
        return any(True for _ in self._candidates(data))

    def _candidates(self, data: bytes) -> Iterator[int]:
        for begin in range(0, len(data), _WINDOW):
            for found in self._search.finditer(self._pairs(data[begin : begin + _WINDOW + 2])):
                yield begin + 2 * found.start()

    def spans(self, data: bytes) -> Iterator[Span]:
        """Return where the texts stand; they may overlap."""
        for place in self._candidates(data):
            for before, text in self._places.get(data[place : place + 4], ()):
                at = place - before
                if at >= 0 and data.startswith(text, at):
                    yield at, at + len(text), "key"


class Redactor:
    """Takes out of texts and frames what does not belong into a recording of one session.

    Args:
        vault: the placeholders of the recording.
        more: called with each text that was redacted already; returns it with more taken out.
    """

    def __init__(self, vault: Vault, more: Callable[[str], str] | None = None) -> None:
        self.vault = vault
        self.places: Places = Places(vault, None, os.environ)
        self._more = more
        self._secrets: set[bytes] = set()
        self._learn(_secrets_of(os.environ))

    def prepare(self, plan: LaunchPlan) -> None:
        """Learn from a launch plan: the places of its session, and the secrets in its variables, arguments and servers."""
        self.places = Places(self.vault, plan.cwd, plan.environment)
        self._learn((*_secrets_of(plan.environment), *_values_of_plan(plan)))

    def _learn(self, values: Iterable[str]) -> None:
        for value in values:
            if len(value) >= _SHORTEST_SECRET and not _is_path(value) and not PLACEHOLDER.fullmatch(value):
                # Each spelling has a placeholder of its own, so that a replay puts the same spelling in.
                spellings = (value, *_in_url(value), *_base64_cores(value), *_quoted(value))
                self._secrets.update(map(_encoded, spellings))
        self._known = Known(self._secrets)

    def text(self, text: str, name: str = "") -> str:
        """Return a text without what does not belong into a recording.

        Args:
            text: the text, its escapes resolved.
            name: the key it stands under, if it does.
        """
        search = self._every() if len(text) > _LONG_TEXT else self._search(_encoded(text))
        return self._text(text, name, search._replace(names=True, accounts=True) if name else search)

    def _text(self, text: str, name: str, search: _Search) -> str:
        if name and text and not PLACEHOLDER.fullmatch(text):
            if name in MASKED_VALUES or (search.names and len(text) >= _SHORTEST_SECRET and _is_secret_name(name)):
                return self.vault.placeholder("key", text)
            if search.accounts and name in _ACCOUNT_NAMES:
                return self.vault.placeholder("account", text)
        data = old = _encoded(text)
        if search.keys or search.known:
            found = [*_found(data, search.keys)]
            keys = [*self._masked(data, found), *_secret_spans(data, found)]
            if search.known:
                keys += self._known.spans(data)
            data = self._replaced(data, keys)
        if search.addresses and b"@" in data:
            data = self._replaced(data, [*self._addresses(data)])
        if search.places:
            data = self._replaced(data, [*self.places.spans(data, search.places)])
        if data is not old:
            text = _decoded(data)
        if self._more is not None:
            text = self._more(text)
            if not isinstance(text, str):
                raise TypeError(f"`redact` must return a str, not {type(text).__name__}")
        return text

    def _search(self, data: bytes, *, escaped: bool = False) -> _Search:
        """Return the rules that may find something in a text, or in the texts of a line of JSON: nearly always none.

        Args:
            data: the text or the line.
            escaped: True for a line. Signs are letters, digits and punctuation that JSON writes as they are, but for `\\u` and `\\/`.
        """
        if escaped and (b"\\u" in data or b"\\/" in data):
            return self._every()
        lowered = data.lower()
        names = len(data) > _LONG_TEXT  # nearly every one holds names
        for sign, pattern in () if names else _MAYBE:
            if sign in lowered and pattern.search(lowered):
                names = True
                break
        return _Search(
            _alone(
                one
                for one in (_RULES if names else _SHAPES)
                if one.sign in (lowered if one.low else data) and (one.what != _PREFIXED or one.head.search(data))
            ),
            _alone(one for one in self.places.patterns if one.sign in data),
            names,
            self._known.may_hold(data),
            b"@" in data,
            b"organization" in data or b"ccount" in data,
        )

    def _every(self) -> _Search:
        return _Search(_GROUPS, _together(self.places.patterns), True, True, True, True)

    def _replaced(self, data: bytes, spans: list[Span]) -> bytes:
        """Put placeholders in. Keys that overlap become one; of other findings the first and longest counts."""
        if not spans:
            return data
        merged: list[Span] = []
        for begin, end, new in sorted(spans, key=lambda span: (span[0], -span[1])):
            if not merged or begin >= merged[-1][1]:
                merged.append((begin, end, new))
            elif end > merged[-1][1] and "key" in (new, merged[-1][2]):
                merged[-1] = merged[-1][0], end, "key"
        parts = []
        done = 0
        for begin, end, new in merged:
            if isinstance(new, str):
                new = _encoded(self.vault.placeholder(new, _decoded(data[begin:end])))  # noqa: PLW2901
            parts += [data[done:begin], new]
            done = end
        return b"".join((*parts, data[done:]))

    def _masked(self, data: bytes, among: list[tuple[_Rule, re.Match[bytes]]]) -> Iterator[Span]:
        """Find the values under the names `MASKED_OBJECTS` and `MASKED_VALUES`, in JSON, JSON that is quoted in JSON, or a repr."""
        names = [(rule, found) for rule, found in among if rule.what in ("object", "value")]
        begins = {found.start() for _, found in names}
        looked_at = 0
        for rule, found in sorted(names, key=lambda one: one[1].start()):
            if found.start() < looked_at:
                continue  # part of a value that was masked
            slashes = len(found[1])
            values, looked_at = _values(data, found.end(), slashes, rule.what == "object", begins)
            for begin, end, is_text in values:
                value = _decoded(data[begin:end])
                if value and not PLACEHOLDER.fullmatch(value):
                    marks = b"" if is_text else found[1] + found[2]
                    placeholder = self.vault.placeholder("key", _unquoted(value, slashes)).encode()
                    yield begin, end, marks + placeholder + marks

    def _addresses(self, data: bytes) -> Iterator[Span]:
        done = 0
        for _, domain in _found(data, _alone((_DOMAIN,))):
            at = domain.start()
            before = data[max(done, at - 64) : at]
            begin = at - len(before) + len(before.rstrip(_LOCAL_PART))
            if begin == at:
                continue
            if begin and data[begin - 1 : begin] == b"\\" and data[begin] in b"nrtbf" and at - begin > 1:
                begin += 1  # the letter of an escape, in JSON that is quoted in JSON
            done = domain.end()
            yield begin, done, "email"

    def line(self, line: bytes, *, inbound: bool) -> tuple[bytes, bool]:
        """Return a line as it is to be written, and whether it is JSON.

        Args:
            line: a whole line without its line end.
            inbound: True if the CLI wrote it.
        """
        try:
            head = _head(line)
            text = line.decode()
        except (ValueError, RecursionError):
            head = _Head()
            try:
                # Lone surrogates, which JavaScript writes, and a `type` that is not a text. NaN and Infinity are not JSON.
                json.loads(line, parse_constant=int)
                text = line.decode()
            except (ValueError, RecursionError):
                return self.text(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"), False
        long = inbound and head.type in _LONG_FRAMES
        synthetic = inbound and head.type == "user" and head.isSynthetic
        search = self._every() if len(line) > _LONG_TEXT else self._search(line, escaped=True)
        if not (long or synthetic or self._more is not None or any(search)):
            return line, True
        return self._frame(text, search, long=long, synthetic=synthetic).encode(), True

    def _frame(self, text: str, search: _Search, *, long: bool, synthetic: bool) -> str:
        """Redact the strings of a frame, each for itself. Everything between them stays."""
        parts: list[str] = []
        done = depth = end = strings = 0
        masked = 0  # the depth from which on everything is masked; 0 for nothing
        follows = 0  # 1 if an object or a list that comes next is masked, 2 if any value is
        name = flag = label = ""
        while found := _TOKEN.search(text, end):
            sign, end = found[0][0], found.end()
            if sign in "{[":
                depth += 1
                masked = masked or (depth if follows else 0)
                follows, new = 0, ""
            elif sign in "}]":
                masked = 0 if masked == depth else masked
                depth -= 1
                follows, new = 0, ""
            elif sign != '"':
                new = json.dumps(self.vault.placeholder("key", found[0])) if masked or follows == 2 else ""
                follows = 0
            else:
                strings += 1
                if strings == _MANY and len(text) > _LONG_TEXT:
                    search = self._search(_encoded(text), escaped=True)
                value, end = _STRING.raw_decode(text, found.start())
                if colon := _COLON.match(text, end):
                    kept = self._text(value, "", search)
                    name, follows, end = value, 2 if value in MASKED_VALUES else value in MASKED_OBJECTS, colon.end()
                elif masked or follows == 2:
                    kept = self.vault.placeholder("key", value) if value and not PLACEHOLDER.fullmatch(value) else value
                elif (long and name in _LONG_NAMES and len(value) > _LONG) or (
                    synthetic and name in ("text", "content") and len(value) > _LONG_SKILL
                ):
                    kept = f"<hackamore-text-{len(value)}>"
                else:
                    kept = self._text(value, flag or (label if name == "value" else name), search)
                if not colon:
                    # In a list of arguments the flag is the name of the next one; {"name": ..., "value": ...} is a variable.
                    flag, follows = value if value.startswith("-") else "", 0
                    label = value if name == "name" else label
                new = "" if kept == value else _quote(kept) + (colon[0] if colon else "")
            if new:
                parts += [text[done : found.start()], new]
                done = end
        return "".join((*parts, text[done:])) if parts else text


def _secret_spans(data: bytes, among: Iterable[tuple[_Rule, re.Match[bytes]]]) -> Iterator[Span]:
    """Return where secrets of a known shape stand, or behind a name that tells; they may overlap."""
    for rule, found in among:
        if rule.what == _PREFIXED:
            at = found.start() + 1
            length = max(len(prefix) for prefix in _PREFIXES if data.endswith(prefix.encode(), 0, at))
            yield at - length, found.end(), "key"
        elif rule.what == _COOKIES:
            for one in _COOKIE.finditer(found.string, *found.span(1)):
                # Without a name it is the value of a variable.
                group = 2 if one[2] else 1 if rule.sign == b"cookie" and one.start() == found.start(1) else 0
                if group and len(one[group]) >= _SHORTEST_SECRET and (group == 1 or one[1] not in _NOT_A_COOKIE):
                    yield (*one.span(group), "key")
        elif rule.what == "name":
            yield (*found.span(found.lastindex or 0), "key")
        elif rule.what in (0, 1) or (rule.what == _RUN and found[1]):
            yield (*found.span(max(rule.what, 0)), "key")


def _values(data: bytes, at: int, slashes: int, depth: int, names: set[int]) -> tuple[list[tuple[int, int, bool]], int]:
    """Return the values of an object or list of JSON (where each begins and ends, and whether it is a text), and where that ends.

    Args:
        data: where it stands.
        at: the place behind its opening bracket.
        slashes: how many backslashes stand before its quotation marks: JSON may be quoted in JSON.
        depth: how many brackets are open; 0 for a single value.
        names: where further masked names begin: there a text begins, even if one that was cut off seems to be open.
    """
    found: list[tuple[int, int, bool]] = []
    single = not depth
    begin, mark = -1, b""
    while part := _PART.search(data, at):
        at = part.end()
        if not part[2]:
            if begin >= 0:
                continue
            if part[0] not in b"{[}]":
                found.append((part.start(), at, False))
                continue
            depth += 1 if part[0] in b"{[" else -1
            if depth <= 0:
                return found, at
        elif at in names and not single:
            if begin >= 0:
                found.append((begin, part.start(), True))
            begin, mark, slashes = at, part[2], len(part[1])
        elif len(part[1]) < slashes and part[2] == b'"':
            # It ends the text in which the JSON is quoted.
            return ([*found, (begin, part.start(), True)] if begin >= 0 else found), at
        elif len(part[1]) % (2 * (slashes + 1)) != slashes or (mark and part[2] != mark):
            continue  # a quotation mark that is part of the text
        elif begin < 0:
            begin, mark = at, part[2]
        else:
            if not _A_NAME.match(data, at):
                found.append((begin, at - 1 - slashes, True))
                if single:
                    return found, at
            begin, mark = -1, b""
    if begin >= 0:
        found.append((begin, len(data), True))  # the text was cut off
    return found, len(data)


def _unquoted(value: str, slashes: int) -> str:
    """Return a value without the escapes that it has because JSON was quoted in JSON."""
    while "\\" in value:
        try:
            value = json.loads(f'"{value}"')
        except ValueError:
            break
        if not slashes:
            break
        slashes //= 2
    return value


def masked_values(data: Any) -> Iterator[str]:
    """Return the texts that are masked in an object, wherever in it they stand."""
    waiting: list[tuple[Any, bool]] = [(data, False)]
    while waiting:
        value, masked = waiting.pop()
        if isinstance(value, str):
            if masked:
                yield value
        elif isinstance(value, dict):
            waiting += [
                (inner, masked or name in MASKED_VALUES or (name in MASKED_OBJECTS and not isinstance(inner, str)))
                for name, inner in value.items()
            ]
        elif isinstance(value, (list, tuple)):
            waiting += [(inner, masked) for inner in value]


def _values_of_plan(plan: LaunchPlan) -> Iterator[str]:
    """Return the values of a plan that are secret for the place where they stand, and the secret parts of its arguments and URLs."""
    own = [plan.environment[name] for name in plan.own_variables if name in plan.environment]
    configurations: list[Any] = [plan.initialize]
    for part in plan.argv:
        text = part[part.find("=") + 1 :] if part.startswith("--") else part
        if text.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                configurations.append(json.loads(text))
    for value in (*own, *masked_values(configurations)):
        yield value
        # A tool may repeat the value after the scheme of a header.
        if (scheme := _SCHEME.fullmatch(value)) and (_looks_secret(scheme[1]) or "bearer" in value.lower()):
            yield scheme[1]
    for value in (*plan.environment.values(), *_arguments(configurations)):
        for begin, end, _ in (
            _secret_spans(_encoded(value), _found(_encoded(value), _alone(_SHAPES + _NAMED)))
            if "://" in value or "-" in value
            else ()
        ):
            secret = _decoded(_encoded(value)[begin:end])
            password = secret.partition(":")[2]
            yield from (secret, password, unquote(password), secret.partition("&")[0])


def _arguments(data: Any) -> Iterator[str]:
    for server in _objects(data):
        if isinstance(url := server.get("url"), str):
            yield url
        if isinstance(given := server.get("args"), list):
            given = [argument for argument in given if isinstance(argument, str)]
            yield " ".join(given)
            yield from (f"--token={argument}" for argument in given if _RANDOM.fullmatch(argument))


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        values = [value]
        if name == _HEADERS:
            values = [header.partition(":")[2].strip() for header in value.splitlines()]
            values += [value.partition(" ")[2] for value in values]  # without its scheme
        elif not _SECRET_NAME.search(name) and not (_SECRET_VARIABLE.search(name) and _looks_secret(value)):
            continue
        yield from (value for value in values if not value.startswith("/") or _IN_BASE64.fullmatch(value))


@lru_cache(1_000)
def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _is_path(value: str) -> bool:
    """Return whether a value is a path, or several: a path is not secret, and `Places` has the personal ones."""
    return value.startswith("/") and os.path.exists(value.partition(":")[0])


def _looks_secret(value: str) -> bool:
    return not value.isdigit() and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _in_url(value: str) -> Iterator[str]:
    """Return how a value stands in a URL or a form: programs differ in what they leave as it is, and in the case of digits."""
    for safe in ("", "/", "!'()*", "!'()*;,/?:@&=+$#"):  # Python, paths, `encodeURIComponent`, `encodeURI`
        once = quote(value, safe=safe, errors="surrogateescape")  # a variable need not be UTF-8
        for spelling in (once, once.replace("%20", "+")):
            yield from (spelling, re.sub("%..", lambda found: found[0].lower(), spelling))


def _quoted(value: str) -> Iterator[str]:
    """Return how a value stands in JSON, and in JSON that is quoted in JSON, `_DEEPEST` times."""
    plain, ascii_only = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True))
    go = re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", plain)
    php = ascii_only.replace("/", "\\/")
    level = {plain, ascii_only, go, php, plain.replace("/", "\\/")}
    for _ in range(_DEEPEST):
        yield from level
        level = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in level for ascii_only in (False, True)}


def _base64_cores(value: str) -> list[str]:
    """Return what stands in every base64 text that holds `value`, for the three places at which it may begin."""
    data = value.encode("utf-8", "surrogateescape")
    cores = []
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        core = encoded[(0, 2, 3)[offset] : len(encoded) - ((offset + len(data)) % 3 != 0)]
        cores += [core, core.translate(str.maketrans("+/", "-_"))]
    return cores
