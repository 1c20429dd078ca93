"""Removes secrets from a recording before it is written: keys, addresses, places of this machine, long texts of the CLI.

Rules. A frame is searched string by string, after its escapes are resolved: it stays JSON, and a backslash hides nothing. Numbers,
order and spacing stay unchanged, and a line without a finding stays byte for byte. The same value gets the same placeholder,
`<bridle-KIND-N>`. Places have a placeholder without a number (`<bridle-home>`), because a replay inserts its own places. Values
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
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bridle.launch.plan import LaunchPlan

PLACEHOLDER = re.compile(r"<bridle-[a-z-]+(?:[~-]\d+)?>")

# Or after the letter of an escape: JSON is often quoted in JSON.
WORD = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
"""Where a word begins."""

_TEMPORARY = r"(?:/(?:pytest-of-[^/\s\"']+/pytest-\d+|tmp[A-Za-z0-9_]{6,}|tmp\.[A-Za-z0-9]{6,})(?![A-Za-z0-9_]))"
_NOT_PERSONAL = frozenset(
    {"root", "user", "users", "admin", "home", "runner", "ubuntu", "debian", "nobody", "claude", "app", "node", "test"}
)


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
                known = self._known[kind, value] = f"<bridle-{kind}{self._mark}{number}>"
                self.values[known] = value
            return known

    def counts(self) -> dict[str, int]:
        """Return how many values of each kind were replaced."""
        with self._lock:
            return dict(self._counts)


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
        found: dict[str, str] = {}  # what stands in texts -> its placeholder
        self.live: dict[str, str] = {}  # a placeholder -> what stands for it here
        self.add(found, "cwd", [cwd or _existing(os.getcwd)])
        self.add(found, "config", [environment.get("CLAUDE_CONFIG_DIR", "")])
        self.add(found, "home", [environment.get("HOME", ""), os.path.expanduser("~")])
        self.add(found, "temp", [environment.get("TMPDIR", ""), _existing(tempfile.gettempdir), "/tmp", "/var/tmp"])  # noqa: S108
        if "<bridle-home>" in self.live:
            self.live.setdefault("<bridle-config>", self.live["<bridle-home>"] + "/.claude")
        self._found = found
        ordered = sorted(found, key=len, reverse=True)
        # A whole folder only: `/home/ann` does not stand in `/home/anna`, nor in `/mnt/home/ann`.
        self._pattern = re.compile(
            r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))("
            + "|".join(map(re.escape, ordered))
            + rf")(?![A-Za-z0-9_])({_TEMPORARY})?"
            if ordered
            else r"(?!)"
        )
        name = (
            os.path.basename(environment.get("HOME", ""))
            if environment.get("HOME", "").startswith(("/home/", "/Users/"))
            else ""
        )
        names = {environment.get("USER", ""), environment.get("LOGNAME", ""), os.environ.get("USER", ""), name}
        personal = sorted({known for known in names if len(known) > 2 and known.lower() not in _NOT_PERSONAL})
        self.signs: tuple[str, ...] = (*ordered, *personal)
        """One of these stands in every text that `replace` changes."""
        if personal:
            self.live["<bridle-user>"] = environment.get("USER") or personal[0]
        self._user = (
            re.compile(WORD + r"(?:" + "|".join(map(re.escape, personal)) + r")(?![A-Za-z0-9])") if personal else None
        )

    def add(self, found: dict[str, str], kind: str, folders: Iterable[str]) -> None:
        """Take folders of one kind: as they are, with links resolved, and as the CLI spells them in names of its own files."""
        for folder in folders:
            plain = folder.rstrip("/")
            if not plain.startswith("/"):
                continue  # `/` stands everywhere
            for spelling in dict.fromkeys((plain, os.path.realpath(plain))):
                found.setdefault(spelling, f"<bridle-{kind}>")
                self.live.setdefault(f"<bridle-{kind}>", spelling)
                slug = re.sub(r"[^A-Za-z0-9]", "-", spelling)
                if spelling.count("/") > 1:  # `-root` alone stands in many words
                    found.setdefault(slug, f"<bridle-{kind}-slug>")
                    self.live.setdefault(f"<bridle-{kind}-slug>", slug)

    def replace(self, text: str) -> str:
        """Return the text with placeholders for places and the user's name."""
        if any(folder in text for folder in self._found):
            text = self._pattern.sub(self._placeholder, text)
        if self._user is not None:
            text = self._user.sub("<bridle-user>", text)
        return text

    def _placeholder(self, found: re.Match[str]) -> str:
        place, below = self._found[found[1]], found[2]
        if below is None:
            return place
        # The name of a temporary folder is another one each time: a replay learns it from what is sent.
        return self._vault.placeholder("folder", found[0]) if place == "<bridle-temp>" else place + below


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

_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
MASKED_OBJECTS = frozenset({"env", "headers"})
"""Every value in an object (or list) under one of these names is masked, regardless of its own name."""
MASKED_VALUES = frozenset(
    {
        *("apiKeyHelper", "otelHeadersHelper", "headersHelper", "proxyAuthHelper"),
        *("awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh"),
    }
)
"""Settings whose value is a command that prints credentials."""
_MASKED = re.compile(
    r"""(?<![A-Za-z0-9_\\])(?P<slashes>\\*)(?P<mark>["'])"""
    rf"""(?:(?:{"|".join(sorted(MASKED_OBJECTS))})(?P=slashes)(?P=mark)\s*:\s*(?P<open>[{{\[])"""
    rf"""|(?:{"|".join(sorted(MASKED_VALUES))})(?P=slashes)(?P=mark)\s*:\s*(?=\\*["']))"""
)
_MASKED_SIGNS = ("env", "headers", "Helper", "awsAuth", "awsCred", "gcpAuth")
"""One of these stands in each text that `_MASKED` finds."""
_MASKED_SIGNS_BYTES = tuple(sign.encode() for sign in _MASKED_SIGNS)
_MASKED_BYTES = re.compile(_MASKED.pattern.encode())
_PART = re.compile(r"""(\\*)(["'])|[{}\[\]]|-?[0-9][0-9.eE+-]*""")
_A_NAME = re.compile(r"\s*:")

_KEYS = re.compile(
    "|".join(
        (
            r"sk-ant-[A-Za-z0-9_-]{8,}",
            WORD + r"sk-[A-Za-z0-9_-]{8,}",
            WORD + r"(?:gh[pousr]_|github_pat_|glpat-|npm_|pypi-|xox[abeprs]-|xapp-|hf_|dckr_pat_)[A-Za-z0-9_-]{12,}",
            WORD + r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{12,}",
            WORD + r"ya29\.[A-Za-z0-9_-]{16,}",
            WORD + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
            WORD + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
            WORD + r"AIza[A-Za-z0-9_-]{30,}",
            WORD + r"(?:hvs\.|GOCSPX-|lin_api_|do[opr]_v1_|shp(?:at|ca|pa|ss)_)[A-Za-z0-9_-]{16,}",
            WORD + r"AGE-SECRET-KEY-1[A-Z0-9]{16,}",
            r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{16,}",
            r"(?<=/api/webhooks/)[0-9]{8,}/[A-Za-z0-9_-]{16,}",
            r"(?<=[?&]sig=)[A-Za-z0-9%+/=_-]{16,}",
            r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,}",
            WORD + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        )
    ),
    re.DOTALL,
)
_NAMES = (
    r"(?:(?:api|access|private|secret|account|signing|encryption)[_-]?key|token|secret|password|passwd|passphrase"
    r"|secret[_-]?key[_-]?base|authorization|cookie|x-amz-signature|(?<=[\"'])auth(?=\\*[\"'])"
    # Short words, which begin other words: a name of its own or behind an underscore, and no folder as its value.
    r"|(?<![A-Za-z])(?:pass|pwd)(?=\\*[\"']|=(?![/~$]))|_(?:pat|auth)(?=\\*[\"']|=))"
)
# Backslashes: JSON that is quoted in JSON, however often.
_AFTER_A_NAME = re.compile(
    rf"({_NAMES}\\*[\"']?\s*(?:=>|[:=])\s*\\*[\"']?(?:(?:bearer|basic)\s+)?)" r"([^\s\"'`,;<>(){}\[\]\\]{8,})",
    re.IGNORECASE,
)
_QUOTED_AFTER_A_NAME = re.compile(
    rf"({_NAMES}\\*[\"']?\s*(?:=>|[:=])\s*\\*([\"']))" r"([^\"'\\<>\n]{8,256})(?=\\*\2)", re.IGNORECASE
)
_IN_A_TAG = re.compile(rf"(<[\w:.-]{{0,64}}{_NAMES}>)" r"([^\s<>]{8,})(?=</)", re.IGNORECASE)
_AFTER_ITS_NAME = re.compile(
    rf"(name\\*[\"']\s*:\s*\\*[\"'][\w.-]{{0,64}}{_NAMES}\\*[\"']\s*,\s*\\*[\"']value\\*[\"']\s*:\s*\\*[\"'])"
    r"([^\"'\\]{8,})",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    r"(authorization\\*[\"']?\s*[:=]\s*\\*[\"']?"
    r"(?:digest\s[^\r\n]{0,1000}?\bresponse=\\*[\"']?|[A-Za-z][\w-]{0,30}\s+))([^\s\"'`,;<>(){}\[\]\\]{8,})",
    re.IGNORECASE,
)
_COOKIES = re.compile(
    r"(cookie\\*[\"']?\s*[:=]\s*\\*[\"']?|\s(?:-b|--cookie)[\s=]+\\*[\"']?)([^\r\n\"'`\\<>|]{8,4096})", re.IGNORECASE
)
_COOKIE = re.compile(r"(\b(?!(?:expires|path|domain|max-age|samesite)=)[^\s=;,]{1,256}=)([^\s;,]{8,})", re.IGNORECASE)
_PASSWORD_OF_A_PROGRAM = re.compile(
    r"(\b(?:sshpass|docker\s+login|mysql\w{0,8})\b[^\n|;&\\]{0,200}?\s-p\s?\\*[\"']?|\blogin\s+\S{1,128}\s+password\s+)([^\s\"'\\<>]{8,})"
)
_USER_OF_CURL = re.compile(
    r"(curl\b[^\n|;&]{0,200}?\s(?:-u|--user)[\s=]*\\*[\"']?[^\s:\"'\\<>]{1,64}:)([^\s\"'\\<>]{8,})"
)
_AFTER_A_FLAG = re.compile(
    r"((?<![A-Za-z0-9_-])--?(?:[a-z0-9]+[_-])*(?:api[_-]?key|access[_-]?key|private[_-]?key|token|secret|password|passwd|passphrase)"
    r"\s+[\"']?)([^\s\"'`,;<>(){}\[\]\\-][^\s\"'`,;<>(){}\[\]\\]{7,})",
    re.IGNORECASE,
)
_KEY_SIGNS = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "xox", "hf_"),
    *("xapp-", "dckr_pat_", "k_live_", "k_test_", "whsec_", "ya29.", "SG."),
    *("AKIA", "ASIA", "AIza", "eyJ", "earer ", "PRIVATE KEY"),
    *("hvs.", "GOCSPX-", "lin_api_", "_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "AGE-SECRET"),
    *("hooks.slack.com/", "/api/webhooks/", "sig="),
)
"""One of these stands in each text that `_KEYS` finds. To look for a literal is far cheaper than any pattern."""
_NAME_SIGNS = (
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "credential",
    "cookie",
    "auth",
    "_pat",
    "amz-signature",
)
_PROGRAM_SIGNS = ("sshpass", "docker login", "mysql", "login ")
"""Programs that are given a password, and the words before one in `.netrc`."""
_NAMED = re.compile(
    rb"(?:key|token|secret|password|passwd|passphrase|pass|pwd|credentials?|authorization|cookie|auth|_pat|base|amz-signature)"
    rb"\\*[\"']?\s*[:=,>]"
    rb"|-(?:key|apikey|token|secret|password|passwd|passphrase)(?:\s|\\|\"\s*,)"
)
_LOWERED_NAME_SIGNS = tuple(sign.encode() for sign in _NAME_SIGNS)
_SIGNS = tuple(sign.encode() for sign in (*_KEY_SIGNS, *_PROGRAM_SIGNS, "@", "\\u00", "\\/", "curl "))
_IN_A_URL = re.compile(r"(?<=://)[^\s/@:\"'<>]{0,256}:(?:[^\s/?#\"'<>]{1,256}|[^\s/@\"'<>]{1,256})(?=@)")
# From the sign in the middle, and back over at most 64 characters: long runs of base64 are not looked at again and again.
_DOMAIN = re.compile(r"@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}")
_LOCAL_PART = re.compile(r"[A-Za-z0-9._%+-]{1,64}\Z")
_SECRET_NAME = re.compile(
    r"(?:api[_-]?key|access[_-]?key|private[_-]?key|[_-]key|token|secret|password|passwd|passphrase|credentials?"
    r"|authorization|cookie|_auth|^auth|_pat)$",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASS|PASSWORD|PWD|KEY|PAT|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
"""Variables whose values are secret if they look like it: `AWS_BEARER_TOKEN_BEDROCK`, but not `KEY_BINDINGS=standard`."""
_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_ACCOUNT_NAMES = frozenset(
    {
        "organization",
        "organizationName",
        "organization_name",
        "organizationUuid",
        "accountUuid",
        "organization_uuid",
        "account_uuid",
    }
)
_ACCOUNT_SIGNS = (b'"organization', b'"accountUuid"', b'"account_uuid"')
_LONG_NAMES = frozenset({"description", "systemPrompt", "system_prompt", "whenToUse", "when_to_use", "instructions"})
_LONG_FRAMES = frozenset({"control_response", "system"})
_LONG = 100
_LONG_SKILL = 1_000
_SHORTEST_SECRET = 8


class _Head(msgspec.Struct):
    type: str = ""
    isSynthetic: bool = False  # noqa: N815 - as it is on the wire


_head = msgspec.json.Decoder(_Head).decode


class Redactor:
    """Takes out of texts and frames what does not belong into a recording of one session.

    Args:
        vault: the placeholders of the recording.
        more: called with each text that was redacted already; returns it with more taken out.
    """

    def __init__(self, vault: Vault, more: Callable[[str], str] | None = None) -> None:
        self.vault = vault
        self._more = more
        self.places: Places = Places(vault, None, os.environ)
        self._secrets: set[str] = set()
        self._secret_pattern: re.Pattern[str] | None = None
        self._signs: tuple[bytes, ...] = ()
        self._learn_secrets(os.environ)

    def prepare(self, plan: LaunchPlan) -> None:
        """Learn from a launch plan: the places of its session, and the secrets in its variables."""
        self.places = Places(self.vault, plan.cwd, plan.environment)
        own = (value for value in _values_of_plan(plan) if len(value) >= _SHORTEST_SECRET and not _is_path(value))
        self._learn_secrets(plan.environment, own)

    def _learn_secrets(self, environment: Mapping[str, str], more: Iterable[str] = ()) -> None:
        for value in (*_secrets_of(environment), *more):
            # Each spelling has a placeholder of its own, so that a replay puts the same spelling in.
            self._secrets.update((value, quote(value, safe=""), *_base64_cores(value), *_quoted(value)))
        # Inside of JSON a backslash or a quote would be written with another one before it.
        inside = (*self.places.signs, *(json.dumps(secret, ensure_ascii=False)[1:-1] for secret in self._secrets))
        self._signs = tuple(sign.encode("utf-8", "surrogateescape") for sign in inside)
        if self._secrets:
            ordered = sorted(self._secrets, key=len, reverse=True)
            self._secret_pattern = re.compile("|".join(map(re.escape, ordered)))

    def text(self, text: str, name: str = "") -> str:
        """Return a text without what does not belong into a recording.

        Args:
            text: the text, its escapes resolved.
            name: the key it stands under, if it does.
        """
        if name:
            if len(text) >= _SHORTEST_SECRET and _SECRET_NAME.search(name) and not PLACEHOLDER.fullmatch(text):
                return self.vault.placeholder("key", text)
            if name in MASKED_VALUES and text and not PLACEHOLDER.fullmatch(text):
                return self.vault.placeholder("key", text)
            if name in _ACCOUNT_NAMES and text:
                return self.vault.placeholder("account", text)
        key = self.vault.placeholder
        if any(sign in text for sign in _MASKED_SIGNS):
            text = self._without_masked(text)
        if self._secret_pattern is not None and any(secret in text for secret in self._secrets):
            text = self._secret_pattern.sub(lambda found: key("key", found[0]), text)
        if any(sign in text for sign in _KEY_SIGNS):
            text = _KEYS.sub(lambda found: key("key", found[0]), text)
        lowered = text.lower()
        if any(sign in lowered for sign in _NAME_SIGNS):
            text = self._without_headers(text, lowered)
            text = _QUOTED_AFTER_A_NAME.sub(lambda found: found[1] + key("key", found[3]), text)
            text = _AFTER_A_NAME.sub(lambda found: found[1] + key("key", found[2]), text)
            text = _AFTER_ITS_NAME.sub(lambda found: found[1] + key("key", found[2]), text)
            if "</" in text:
                text = _IN_A_TAG.sub(lambda found: found[1] + key("key", found[2]), text)
            if "-" in text:
                text = _AFTER_A_FLAG.sub(lambda found: found[1] + key("key", found[2]), text)
        if "curl" in text:
            text = _USER_OF_CURL.sub(lambda found: found[1] + key("key", found[2]), text)
            text = self._without_cookies(text)
        if any(sign in text for sign in _PROGRAM_SIGNS):
            text = _PASSWORD_OF_A_PROGRAM.sub(lambda found: found[1] + key("key", found[2]), text)
        if "@" in text:
            text = _IN_A_URL.sub(lambda found: key("key", found[0]), text)
            text = self._without_addresses(text)
        text = self.places.replace(text)
        if self._more is not None:
            text = self._more(text)
            if not isinstance(text, str):
                raise TypeError(f"`redact` must return a str, not {type(text).__name__}")
        return text

    def _without_masked(self, text: str) -> str:
        """Mask the values under the names `MASKED_OBJECTS` and `MASKED_VALUES`, in JSON, JSON that is quoted in JSON, or a repr."""
        parts: list[str] = []
        done = looked_at = 0
        for found in _MASKED.finditer(text):
            if found.start() < looked_at:
                continue  # part of a value that was masked
            values, looked_at = _values(text, found.end(), len(found["slashes"]), 1 if found["open"] else 0)
            for begin, end, is_text in values:
                value = text[begin:end]
                if value and not PLACEHOLDER.fullmatch(value):
                    marks = "" if is_text else found["slashes"] + found["mark"]
                    placeholder = self.vault.placeholder("key", _unquoted(value, len(found["slashes"])))
                    parts += [text[done:begin], marks, placeholder, marks]
                    done = end
        return "".join((*parts, text[done:])) if parts else text

    def _without_headers(self, text: str, lowered: str) -> str:
        """Take out what stands in headers: all of it, not its first word alone."""
        if "authorization" in lowered:
            text = _AUTHORIZATION.sub(lambda found: found[1] + self.vault.placeholder("key", found[2]), text)
        return self._without_cookies(text) if "cookie" in lowered else text

    def _without_cookies(self, text: str) -> str:
        def replaced(found: re.Match[str]) -> str:
            return found[1] + _COOKIE.sub(lambda one: one[1] + self.vault.placeholder("key", one[2]), found[2])

        return _COOKIES.sub(replaced, text)

    def _without_addresses(self, text: str) -> str:
        parts = []
        done = 0
        for domain in _DOMAIN.finditer(text):
            local = _LOCAL_PART.search(text[max(done, domain.start() - 64) : domain.start()])
            if local is None:
                continue
            begin = domain.start() - len(local[0])
            if begin and text[begin - 1] == "\\" and local[0][0] in "nrtbf" and len(local[0]) > 1:
                begin += 1  # the letter of an escape, in JSON that is quoted in JSON
            parts += [text[done:begin], self.vault.placeholder("email", text[begin : domain.end()])]
            done = domain.end()
        return "".join((*parts, text[done:])) if parts else text

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
                json.loads(line)  # lone surrogates, which JavaScript writes, and a `type` that is no text
                text = line.decode()
            except (ValueError, RecursionError):
                return self.text(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"), False
        if any(sign in line for sign in _MASKED_SIGNS_BYTES) and _MASKED_BYTES.search(line):
            text = self._without_masked(text)
            line = text.encode()
        long = inbound and head.type in _LONG_FRAMES
        synthetic = inbound and head.type == "user" and head.isSynthetic
        if not (long or synthetic or self._more is not None or self._may_hold(line)):
            return line, True
        name = flag = ""

        def replaced(found: re.Match[str]) -> str:
            nonlocal name, flag
            body, colon = found[1], found[2]
            value = json.loads(found[0][: len(body) + 2]) if "\\" in body else body
            new = value
            if colon:
                new = self.text(value)
                name = value
            elif (long and name in _LONG_NAMES and len(value) > _LONG) or (
                synthetic and name in ("text", "content") and len(value) > _LONG_SKILL
            ):
                new = f"<bridle-text-{len(value)}>"
            else:
                new = self.text(value, flag or name)
            # In a list of arguments the flag is the name of the next one.
            flag = value if not colon and value.startswith("-") else ""
            return found[0] if new == value else json.dumps(new) + (colon or "")

        return _STRING.sub(replaced, text).encode(), True

    def _may_hold(self, line: bytes) -> bool:
        """Return whether anything that is looked for may be in a line of JSON: nearly always no, and then it is left alone."""
        if any(sign in line for sign in _SIGNS) or any(sign in line for sign in self._signs):
            return True
        lowered = line.lower()
        if any(sign in lowered for sign in _LOWERED_NAME_SIGNS) and _NAMED.search(lowered):
            return True
        return any(name in line for name in _ACCOUNT_SIGNS)


def _values(text: str, at: int, slashes: int, depth: int) -> tuple[list[tuple[int, int, bool]], int]:
    """Return the values of an object or list of JSON (where each begins and ends, and whether it is a text), and where that ends.

    Args:
        text: where it stands.
        at: the place behind its opening bracket.
        slashes: how many backslashes stand before its quotation marks: JSON may be quoted in JSON.
        depth: how many brackets are open; 0 for a single value.
    """
    found: list[tuple[int, int, bool]] = []
    single = not depth
    begin, mark = -1, ""
    while part := _PART.search(text, at):
        at = part.end()
        if not part[2]:
            if begin >= 0:
                continue
            if part[0] not in "{[}]":
                found.append((part.start(), at, False))
                continue
            depth += 1 if part[0] in "{[" else -1
            if depth <= 0:
                return found, at
        elif len(part[1]) % (2 * (slashes + 1)) != slashes or (mark and part[2] != mark):
            continue  # a quotation mark that is part of the text
        elif begin < 0:
            begin, mark = at, part[2]
        else:
            if not _A_NAME.match(text, at):
                found.append((begin, at - 1 - slashes, True))
                if single:
                    return found, at
            begin, mark = -1, ""
    if begin >= 0:
        found.append((begin, len(text), True))  # the text was cut off
    return found, len(text)


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
    """Return the values of a plan that are secret because of the place where they stand."""
    yield from (plan.environment[name] for name in plan.own_variables if name in plan.environment)
    yield from masked_values(plan.initialize)
    for part in plan.argv:
        text = part[part.find("=") + 1 :] if part.startswith("--") else part
        if text.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                yield from masked_values(json.loads(text))


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    """Return the values of variables that are secret."""
    for name, value in environment.items():
        values = [value]
        if name == _HEADERS:
            values = [header.partition(":")[2].strip() for header in value.splitlines()]
            values += [value.partition(" ")[2] for value in values]  # without its scheme
        elif not _SECRET_NAME.search(name) and not (_SECRET_VARIABLE.search(name) and _looks_secret(value)):
            continue
        yield from (value for value in values if len(value) >= _SHORTEST_SECRET and not value.startswith("/"))


def _is_path(value: str) -> bool:
    """Return whether a value is a path, or several: a path is not secret, and `Places` has the personal ones."""
    return value.startswith("/") and os.path.exists(value.partition(":")[0])


def _looks_secret(value: str) -> bool:
    return not value.isdigit() and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _quoted(value: str) -> Iterator[str]:
    """Return how a value stands in JSON, and in JSON that is quoted in JSON."""
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (once, json.dumps(once)[1:-1])


def _base64_cores(value: str) -> list[str]:
    """Return what stands in every base64 text that holds `value`, for the three places at which it may begin."""
    data = value.encode("utf-8", "surrogateescape")
    cores = []
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        begin = (0, 2, 3)[offset]
        end = len(encoded) - (0 if (offset + len(data)) % 3 == 0 else 1)
        cores += [encoded[begin:end], encoded[begin:end].translate(str.maketrans("+/", "-_"))]
    return cores
