"""What is taken out of a recording before it is written: keys, addresses, places of this machine, the CLI's own long texts.

Rules. A frame is looked at string by string, after its escapes were resolved, so that it stays JSON and nothing hides behind a
backslash; numbers, order and spacing stay as they came, and a line in which nothing was found stays byte for byte. The same value
gets the same placeholder, `<bridle-KIND-N>`. Places have a placeholder without a number (`<bridle-home>`), because a replay puts its
own places in. Not found: a secret that is encoded in a way which is not looked for (base64 and percent encoding of the secrets known
from the environment are), or that is a number. Pieces of a text are put together by `recorded_pieces`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from bridle.transports.recording.places import PLACEHOLDER, WORD, Places, Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bridle.launch.plan import LaunchPlan

__all__ = ["CATEGORIES", "Redactor", "Vault"]

CATEGORIES = (
    "keys",
    "secrets of the environment",
    "e-mail addresses",
    "accounts",
    "places",
    "user name",
    "long texts of the CLI",
)
"""What is looked for, as the header of a recording says it."""

_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)

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
"""One of these stands in whatever `_KEYS` finds. To look for a literal is far cheaper than any pattern."""
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
        self.places = Places(vault, None, os.environ)
        self._secrets: set[str] = set()
        self._secret_pattern: re.Pattern[str] | None = None
        self._signs: tuple[bytes, ...] = ()
        self._learn_secrets(os.environ)

    def prepare(self, plan: LaunchPlan) -> None:
        """Learn from a launch plan: the places of its session, and the secrets in its variables."""
        self.places = Places(self.vault, plan.cwd, plan.environment)
        self._learn_secrets(plan.environment)

    def _learn_secrets(self, environment: Mapping[str, str]) -> None:
        for value in _secrets_of(environment):
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
            if name in _ACCOUNT_NAMES and text:
                return self.vault.placeholder("account", text)
        key = self.vault.placeholder
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


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    """Return the values that nobody else should see."""
    for name, value in environment.items():
        values = [value]
        if name == _HEADERS:
            values = [header.partition(":")[2].strip() for header in value.splitlines()]
            values += [value.partition(" ")[2] for value in values]  # without its scheme
        elif not _SECRET_NAME.search(name) and not (_SECRET_VARIABLE.search(name) and _looks_secret(value)):
            continue
        yield from (value for value in values if len(value) >= _SHORTEST_SECRET and not value.startswith("/"))


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
