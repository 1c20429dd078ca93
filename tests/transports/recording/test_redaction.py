"""Redaction: what is never written, what stays as it was, and that a frame stays a frame."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hackamore._engine.launch.plan import LaunchPlan
from hackamore.transports.recording.masking import Mask
from hackamore.transports.recording.recorder import SessionRecord, shown_arguments
from hackamore.transports.recording.redaction import PLACEHOLDER, Redactor, Vault
from tests.contract import shows
from tests.support.seeds import seeded

SECRET = "hunter2-hunter2/+=x"
ENVIRONMENT = {
    "HOME": "/home/ann",
    "USER": "ann-lee",
    "CLAUDE_CONFIG_DIR": "/home/ann/.config/claude",
    "SHOP_API_KEY": SECRET,
    "PATH": "/usr/bin",
}


def redactor(*argv: str, **more: Any) -> Redactor:
    made = Redactor(Vault(), **more)
    made.prepare(plan(*argv))
    return made


def plan(*argv: str) -> LaunchPlan:
    return LaunchPlan(
        argv=("claude", *argv), environment=ENVIRONMENT, cwd="/home/ann/project", owners=("",) * (len(argv) + 1)
    )


KEYS = [
    "sk-ant-api03-AbCdEf_123-456",
    "sk-proj-abcdefghijkl",
    "ghp_abcdefghijklmnop1234",
    "github_pat_abcdefghijklmnop",
    "glpat-abcdefghijklmnop",
    "xoxb-1234567890-abcdef",
    "xapp-1-A111-222-abcdef",
    "sk_" + "live_51HxYzAbCdEfGhIjKl",
    "whsec_abcdefghijkl1234",
    "ya29.a0AfH6SMBabcdefghij",
    "SG.abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRST",
    "AKIAABCDEFGHIJKLMNOP",
    "hvs.CAESIabcdefghijklmnop",
    "GOCSPX-abcdefghijklmnopqrst",
    "lin_api_abcdefghijklmnopqrst",
    "dop_v1_0123456789abcdef0123",
    "shpat_0123456789abcdef0123",
    "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQ",
    "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_DEF-123",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBG\n-----END PGP PRIVATE KEY BLOCK-----",
    SECRET,
    quote(SECRET, safe=""),
    base64.b64encode(SECRET.encode()).decode().rstrip("="),
    "ann@example.com",
    "first.last+tag@mail.example.co.uk",
    "/home/ann",
    "-home-ann",
    "ann-lee",
]
AROUND = ["{}", "a {} b", "\n{}\n", "x='{}'", '"{}"', "\\{}", "\t{},", "\u00e9{}", "({})", "key: {}"]


@pytest.mark.parametrize("secret", KEYS)
def test_planted_secrets_are_gone_wherever_they_stand(secret: str) -> None:
    for around in AROUND:
        text = around.format(secret)
        for value in (
            text,
            {"a": [1e2, text]},
            {text: 1},
            {"message": {"content": [{"type": "text", "text": text}]}},
            json.dumps({"x": text}),
        ):
            for ascii_only in (True, False):
                line = json.dumps({"type": "assistant", "v": value}, ensure_ascii=ascii_only).encode()
                kept, is_json = redactor().line(line, inbound=True)
                assert is_json
                told = json.dumps(json.loads(kept), ensure_ascii=False)
                assert secret not in told, (around, told)
                assert json.dumps(secret)[1:-1] not in told
        assert secret not in redactor().text(text)


@pytest.mark.parametrize("secret", KEYS)
def test_secrets_in_long_texts_are_found_wherever_the_windows_of_the_search_end(secret: str) -> None:
    text = ""
    cuts = range(1, min(len(secret), 20))
    for window, cut in enumerate(cuts, 1):
        text = f"{text} ".ljust(window * (1 << 16) - cut - 1, "x") + f" {secret} "
    kept = redactor().text(f"{text}end")
    assert secret not in kept
    assert len(PLACEHOLDER.findall(kept)) == len(cuts)
    assert kept.endswith(" end")


@pytest.mark.parametrize(
    "told",
    [
        "password=qwerty-uiop-77",
        "--api-key qwerty-uiop-77",
        'X-Shop-Token: "qwerty-uiop-77"',
        "Authorization: Bearer qwerty-uiop-77",
        "https://ann:qwerty-uiop-77@shop.example",
        'curl -u "ann:qwerty-uiop-77"',
    ],
)
def test_values_under_names_are_found_wherever_the_windows_of_the_search_end(told: str) -> None:
    cuts = range(1, len(told))
    text = ""
    for window, cut in enumerate(cuts, 1):
        text = f"{text}\n".ljust(window * (1 << 16) - cut - 1, "x") + f"\n{told.replace('77', str(100 + cut))}\n"
    assert "qwerty" not in redactor().text(f"{text}end")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the token token=abcdefgh12", "the token token=<hackamore-key-1>"),
        ("mytoken token=abcdefgh12", "mytoken token=<hackamore-key-1>"),
        ("--token\n  abcdefgh12", "--token\n  <hackamore-key-1>"),
        ("a secret secret: abcdefgh12", "a secret secret: <hackamore-key-1>"),
    ],
)
def test_a_word_before_a_name_does_not_hide_its_value(text: str, kept: str) -> None:
    assert redactor().text(text) == kept


@pytest.mark.parametrize("escape", ["\\u0040", "\\/"])
def test_nothing_hides_behind_an_escape(escape: str) -> None:
    text = {"\\u0040": "ann\\u0040example.com", "\\/": "\\/home\\/ann\\/x"}[escape]
    kept, is_json = redactor().line(b'{"type":"x","text":"%s"}' % text.encode(), inbound=True)
    assert is_json
    assert b"example.com" not in kept
    assert b"ann" not in kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://bob:hunter2hunter2@example.org/a", "https://<hackamore-key-1>@example.org/a"),
        (
            "https://hooks.slack.com/services/T0ABCDEF/abcdefgh1234",
            "https://hooks.slack.com/services/<hackamore-key-1>",
        ),
        ("cd /home/ann", "cd <hackamore-home>"),
    ],
)
def test_what_begins_with_a_slash_is_found_where_slashes_are_escaped(text: str, kept: str) -> None:
    """As PHP writes JSON."""
    line = json.dumps({"type": "x", "text": text}).replace("/", "\\/").encode()
    assert json.loads(redactor().line(line, inbound=True)[0])["text"] == kept


PREFIXES = {
    8: "sk-",
    12: "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- npm_ pypi- hf_ dckr_pat_ sk_live_ sk_test_ rk_live_ rk_test_ whsec_ xapp- "
    "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-",
    16: "ya29. hvs. GOCSPX- lin_api_ doo_v1_ dop_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_",
}


@pytest.mark.parametrize(
    ("prefix", "least"), [(prefix, least) for least, found in PREFIXES.items() for prefix in found.split()]
)
def test_a_key_begins_with_its_prefix_and_has_enough_letters(prefix: str, least: int) -> None:
    key = prefix + ("Ab3_-" * 4)[:least]
    assert redactor().text(f"a {key}.") == "a <hackamore-key-1>."
    for harmless in (key[:-1], f"x{key}", f"X{key}", f"9{key}"):
        assert redactor().text(f"a {harmless}.") == f"a {harmless}."


TELLING = (
    "apiKey api_key shop-api-key accessKey access_key aws-access-key privateKey private_key private-key SHOP_KEY token "
    "client_secret password passwd passphrase credential credentials Authorization Cookie auth shop_auth my_pat"
)


@pytest.mark.parametrize("name", TELLING.split())
def test_a_value_under_a_telling_name_is_masked_and_learned(name: str) -> None:
    kept, _ = redactor().line(json.dumps({"type": "x", name: "harbour seven"}).encode(), inbound=True)
    assert json.loads(kept)[name] == "<hackamore-key-1>"
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={name: "harbour seven"}, cwd="/srv"))
    assert made.text("in harbour seven!") == "in <hackamore-key-1>!"


@pytest.mark.parametrize("name", ["monkey", "max_tokens", "passport", "author", "oauth", "spat", "cookies", "key"])
def test_a_value_under_another_name_stays(name: str) -> None:
    line = json.dumps({"type": "x", name: "harbour seven"}).encode()
    assert redactor().line(line, inbound=True) == (line, True)


@pytest.mark.parametrize(
    "name",
    [
        "organization",
        "organizationName",
        "organization_name",
        "organizationUuid",
        "accountUuid",
        "organization_uuid",
        "account_uuid",
    ],
)
def test_the_account_is_masked_but_not_everything_named_so(name: str) -> None:
    line = json.dumps({name: "Acme", "organizations": "Acme", "accounts": "one"}).encode()
    assert redactor().line(line, inbound=True)[0] == line.replace(b'"Acme"', b'"<hackamore-account-1>"', 1)
    for alone in (json.dumps({name: "Acme"}).encode(), json.dumps({name: "Acme", "x": "\u00e9"}).encode()):
        assert redactor().line(alone, inbound=True)[0] == alone.replace(b"Acme", b"<hackamore-account-1>")
    assert redactor().text("Acme", name) == "<hackamore-account-1>"


@pytest.mark.parametrize("inner", [{"x": "one two"}, ["one two", ["five six"]], [[], {}, "one two"]])
def test_everything_in_a_masked_object_is_masked_behind_nested_ones(inner: Any) -> None:
    line = json.dumps({"env": {"A": inner, "B": "three four"}, "after": "seven eight"}).encode()
    masked = redactor().line(line, inbound=True)[0]
    assert not re.search(rb"one|three|five", masked)
    assert json.loads(masked)["after"] == "seven eight"


def test_a_value_is_judged_by_the_name_beside_it() -> None:
    for name, secret in (("DB_PASSWORD", True), ("COLOUR", False)):
        line = json.dumps({"variables": [{"name": name, "value": "tulips in a row"}]}).encode()
        assert (b"tulips" not in redactor().line(line, inbound=True)[0]) is secret
    for text in (
        json.dumps({"name": "DB_PASSWORD", "value": "tulips in a row"}),
        '{"x": NaN, "password": "tulips in a row"}',
    ):
        assert b"tulips" not in redactor().line(text.encode(), inbound=False)[0]


@pytest.mark.parametrize(
    "environment",
    [{"USER": "ann-lee"}, {"LOGNAME": "ann-lee"}, {"HOME": "/home/ann-lee"}, {"HOME": "/Users/ann-lee"}],
    ids=lambda environment: "".join(f"{name}={value}" for name, value in environment.items()),
)
def test_the_name_of_the_user_is_masked_where_it_is_a_word(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "root")
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=environment, cwd="/srv"))
    others = "bann-lee, ann-lees, Bann-lee, ann-leeS, 9ann-lee, ann-lee9"
    assert made.text(f"by ann-lee, {others}, ann-lee_") == f"by <hackamore-user>, {others}, <hackamore-user>_"
    assert made.places.live["<hackamore-user>"] == "ann-lee"  # a replay puts it in


@pytest.mark.parametrize(
    "name",
    [
        *("root", "user", "users", "admin", "home", "runner", "ubuntu", "debian"),
        *("nobody", "claude", "app", "node", "test", "Admin", "me"),
    ],
)
def test_a_name_that_many_machines_have_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root")
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"USER": name, "HOME": "/opt/ann-lee"}, cwd="/srv"))
    assert made.text(f"the {name} of ann-lee") == f"the {name} of ann-lee"


def test_names_of_people_are_masked_and_names_of_machines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root")
    for name, masked in (("eva", True), ("li", False)):  # two letters stand in too many texts
        made = Redactor(Vault())
        made.prepare(LaunchPlan(argv=("claude",), environment={"USER": name}, cwd="/srv"))
        assert made.text(f"by {name}") == ("by <hackamore-user>" if masked else f"by {name}")
    monkeypatch.setenv("USER", "ann-lee")  # of this process, where the CLI gets another one
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={}, cwd="/srv"))
    assert made.text("by ann-lee") == "by <hackamore-user>"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer 123456789"),
        ("apiKey", "some value"),
        ("x-api-key", "some value"),
        ("access_token", "some value"),
        ("password", "some value"),
        ("client_secret", "some value"),
        ("Cookie", "a=some value"),
        ("organization", "some value"),
    ],
)
def test_values_under_telling_names(name: str, value: str) -> None:
    kept, _ = redactor().line(json.dumps({"type": "x", "headers": {name: value}}).encode(), inbound=False)
    assert json.loads(kept)["headers"][name].startswith("<hackamore-")
    assert "12345" not in redactor().text(f"curl -H '{name}: {value.replace(' ', '')}12345'") or name == "organization"


def test_in_running_text() -> None:
    shown = redactor().text
    assert shown("export MY_TOKEN=abcdefgh123") == "export MY_TOKEN=<hackamore-key-1>"
    assert shown('{"api_key": "abcdefgh123"}') == '{"api_key": "<hackamore-key-1>"}'
    assert shown("https://user:pass@host/x") == "https://<hackamore-key-2>@host/x"
    assert shown("Authorization: Basic dXNlcjpwYXNz") == "Authorization: Basic <hackamore-key-3>"
    assert shown("run --shop-token abcdefgh456 --verbose") == "run --shop-token <hackamore-key-4> --verbose"
    assert shown("the --token option, --api-key --verbose") == "the --token option, --api-key --verbose"
    for before in ("the token token=", "mytoken token=", "secret api_key="):  # the first name has no value
        assert shown(f"{before}abcdefgh123") == f"{before}<hackamore-key-1>"


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ('SECRET_KEY = "', "abcdefgh123", '"'),
        ("passphrase='", "correct horse battery", "'"),
        ('password = "', "two words", '"'),
        ("AccountName=shop;AccountKey=", "abcdefgh123==", ";"),
        ("https://s3.example.com/x?X-Amz-Signature=", "0123456789abcdef", "&x=1"),
        ("curl -s -u bob:", "abcdefgh123", " https://example.com"),
        ('curl --user "bob:', "abcdefgh123", '" https://example.com'),
        ('{"auths": {"docker.example.com": {"auth": "', "Ym9iOmh1bnRlcjI=", '"}}}'),
        ('{"client_secret": "', "abcdefgh123", '"}'),
        ("SHOP_QUOTED holds ", 'quo"ted\\12', ""),
        ("Authorization: token ", "abcdefgh123", ""),
        ("curl -H 'Authorization: ApiKey ", "abcdefgh123", "'"),
        ('Authorization: Digest username="ann", response="', "abcdefgh123", '"'),
        ("Cookie: a=1; session=", "abcdefgh123", "; b=2"),
        ("Set-Cookie: a=1; csrf=", "abcdefgh123", "; Path=/"),
        ("curl -b 'session=", "abcdefgh123", "' https://example.com"),
        ("SECRET_KEY_BASE=", "abcdefgh123", "\n"),
        ("DATABASE_PASS=", "abcdefgh123", "\n"),
        ("MY_PAT=", "abcdefgh123", "\n"),
        ("Server=x;Uid=sa;Pwd=", "abcdefgh123", ";"),
        ('{"pass": "', "abcdefgh123", '"}'),
        ("_auth=", "Ym9iOmh1bnRlcjI=", ""),
        ("'password' => '", "abcdefgh123", "'"),
        ("<db.password>", "abcdefgh123", "</db.password>"),
        ('{"name": "DB_PASSWORD", "value": "', "abcdefgh123", '"}'),
        ("machine example.com login ann password ", "abcdefgh123", ""),
        ("sshpass -p ", "abcdefgh123", " ssh host"),
        ("docker login -u ann -p ", "abcdefgh123", " example.com"),
        ("mysql -u ann -p", "abcdefgh123", " shop"),
        ("postgres://ann:ab@", "cdefgh123", "@db:5432/shop"),
        ("https://acc.blob.core.windows.net/c?sv=1&sig=", "abcdefghijklmnop%3D", "&x=1"),
        ("https://acc.blob.core.windows.net/c?sig=", "abcd+efghijklmno", ""),
        ("https://hooks.slack.com/services/", "T00000000/B00000000/abcdefgh", ""),
        ("https://discord.com/api/webhooks/", "123456789/abcdefghijklmnop", ""),
        *(
            (f"{kind}{mark}key=", "abcdefgh123", "")
            for kind in ("api", "access", "private", "secret", "account", "signing", "encryption")
            for mark in ("", "_", "-")
        ),
        ("https://example.com/?key=", "abcdefgh123", "&x=1"),
        ("https://example.com/?x=1&key=", "abcdefgh123", ""),
        ("secretkeybase=", "abcdefgh123", ""),
        ("passwd=", "abcdefgh123", ""),
        ('{"pwd":"', "abcdefgh123", '"}'),
        ('{"_auth":"', "abcdefgh123", '"}'),
        ('{"my_pat":"', "abcdefgh123", '"}'),
        ('{"name":"DB_PASSWORD","value":"', "abcdefgh123", '"}'),
        ("token: bearer ", "abcdefgh123", ""),
        ("token: basic ", "abcdefgh123", ""),
        ("they sent bearer ", "0123+56789abcdef", ""),
        ("Authorization:token ", "abcdefgh123", ""),
        ('{"Authorization":"token ', "abcdefgh123", '"}'),
        ("Cookie:a=1;session=", "abcdefgh123", ""),
        ("COOKIE=", "abcdefgh123", ""),
        ("curl --cookie session=", "abcdefgh123", " https://example.com"),
        ("curl --cookie 'session=", "abcdefgh123", "' https://example.com"),
        ("curl -b session=", "abcdefgh123", " https://example.com"),
        ("fetch --cookie session=", "abcdefgh123", " example.com"),
        ("curl -ubob:", "abcdefgh123", " https://example.com"),
        ("redis://:", "abcdefgh123", "@cache:6379"),
        ("https://ann:ab?c", "defgh#123", "@example.com/x"),
        ("an unsigned ", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.", ""),
        ("a cut off -----BEGIN PRIVATE KEY-----\n", "MIIabcdefgh", ""),
        ("x", "sk-ant-abcdefgh", ""),
    ],
)
def test_in_text_and_in_json_in_json(before: str, secret: str, after: str) -> None:
    environment = {**ENVIRONMENT, "SHOP_QUOTED_SECRET": 'quo"ted\\12'}
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=environment, cwd="/", owners=("",)))
    text = before + secret + after
    for _ in range(3):
        assert secret.replace("\\", "") not in made.text(text).replace("\\", "")
        text = json.dumps({"v": text})
        kept, _ = made.line(text.encode(), inbound=True)
        assert secret.replace("\\", "") not in kept.decode().replace("\\", "")
        assert "<hackamore-key" in kept.decode()


def test_what_follows_a_masked_value_stays() -> None:
    assert redactor().text('{"apiKeyHelper": "say seven", "model": "seven"}') == (
        '{"apiKeyHelper": "<hackamore-key-1>", "model": "seven"}'
    )


def test_a_private_key_ends_at_its_end() -> None:
    keys = [f"-----BEGIN {kind}PRIVATE KEY-----\nMII\n-----END {kind}PRIVATE KEY-----" for kind in ("", "EC ")]
    assert redactor().text(" and ".join([*keys, "more"])) == "<hackamore-key-1> and <hackamore-key-2> and more"


@pytest.mark.parametrize(
    "mark", ["<hackamore-key-1>", "<hackamore-key-12>", "<hackamore-key~3>", "<hackamore-cwd-slug>"]
)
def test_what_was_redacted_before_stays(mark: str) -> None:
    value = {"env": {"A": mark}, "apiKeyHelper": mark, "token": mark}
    for text in (json.dumps({"type": "x", **value}), json.dumps({"type": "x", "text": json.dumps(value)})):
        assert redactor().line(text.encode(), inbound=True) == (text.encode(), True)
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"A_TOKEN": mark}, cwd="/srv"))
    assert made.text(f"a {mark} b") == f"a {mark} b"


def test_arguments_in_lists() -> None:
    server = {"command": "serve", "args": ["--api-key", "abcdefgh123", "--port", "abcdefgh"]}
    kept, _ = redactor().line(json.dumps(server).encode(), inbound=False)
    assert json.loads(kept)["args"] == ["--api-key", "<hackamore-key-1>", "--port", "abcdefgh"]
    kept, _ = redactor().line(b'["ann@example.com", {"type": "text"}, ["kept", 7]]', inbound=True)
    assert json.loads(kept) == ["<hackamore-email-1>", {"type": "text"}, ["kept", 7]]


def test_variables_that_hold_secrets_under_longer_names() -> None:
    values = {
        "AWS_BEARER_TOKEN_BEDROCK": "bedrock9f8e7d",
        "DB_PASS": "opensesame-1",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Team: a\nX-Shop: letmein-please\nX-Other: Scheme anotherone-77\nX: Scheme two parts",
        "KEY_BINDINGS": "standard",
        "KEY_TTL_MS": "3600000000",
    }
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=values, cwd="/srv"))
    shown = made.text("bedrock9f8e7d opensesame-1 letmein-please anotherone-77 standard 3600000000, two parts")
    assert (
        shown
        == "<hackamore-key-1> <hackamore-key-2> <hackamore-key-3> <hackamore-key-4> standard 3600000000, <hackamore-key-5>"
    )
    words = ["TOKEN", "SECRET", "PASS", "PASSWORD", "PWD", "KEY", "PAT", "CREDENTIAL", "CREDENTIALS"]
    for secret in (*words, *map(str.lower, words)):
        for name in (f"{secret}_FOR_A", f"A_{secret}_1", f"A_{secret}"):
            made = Redactor(Vault())
            made.prepare(LaunchPlan(argv=("claude",), environment={name: "harbour7"}, cwd="/srv"))
            assert made.text("in harbour7") == "in <hackamore-key-1>", name
    plain = {"XTOKEN_A": "harbour7", "TOKENS_A": "harbour8", "A_TOKEN": "seven77", "B_TOKEN": "/no/such/folder7"}
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=plain, cwd="/srv"))
    assert made.text(" ".join(plain.values())) == " ".join(plain.values())


def test_a_secret_variable_whose_key_begins_like_a_path_is_masked() -> None:
    values = {
        "AWS_SECRET_ACCESS_KEY": "/k7MDENGbPxRfiCYEXAM/PLEKEYwJalrXUtn9F2E",
        "B_TOKEN": "/No/Such/Folder7/Of/Keys",
    }
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=values, cwd="/srv"))
    assert made.text(" in ".join(values.values())) == "<hackamore-key-1> in /No/Such/Folder7/Of/Keys"


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/srv/shop and OLDPWD=/srv/stock",
        "PWD=~/shop-and-stock pass=$SHOP_FILE pwd=/srv/stock",
        "tests pass: everything works, 12345678 passed=12345678",
        "compass=northwest bypass=something sig=abcdefghijkl",
        "the pattern: abcdefghijk, _path=abcdefghijk",
        "curl -b cookies.txt https://example.com/abcdefgh",
        "Set-Cookie: a=b; Expires=Wednesday; Domain=shop.example; Path=/a/long/path; Max-Age=86400000; SameSite=something",
        "curly --user bob:12345678; sshpassing -p 12345678; docker logins -p 12345678; mysqlabcdefghij -p 12345678",
        "https://example.com/?monkey=12345678 and -----BEGIN PUBLIC KEY-----",
        "docker login registry.example; mysql -P 33060000 shop; login as administrator",
        "http://localhost:8080/a?mail=nobody",
        "<name>abcdefghijk</name>",
    ],
)
def test_what_only_looks_like_a_name_stays(text: str) -> None:
    assert redactor().text(text) == text
    line = json.dumps({"type": "x", "text": text}).encode()
    assert redactor().line(line, inbound=True) == (line, True)


def test_what_is_no_secret_stays_byte_for_byte() -> None:
    lines = [
        b'{"type":"result","usage":{"input_tokens":1e2,"max_tokens": 4096},  "total":1.0E+3,"n":12345678901234567890}',
        b'{"type":"assistant","message":{"content":[{"type":"text","text":"A token of my esteem, the key point. tsk-task"}]}}',
        b'{"type":"user","uuid":"3f1c1a0e-1111-4222-8333-444455556666","text":"\\u00e9\\ud83d\\ude00 \xc3\xa9 root user"}',
        b'{"type":"system","apiKeySource":"none","tools":["Bash"],"cwd":"/srv/home/annabel/x"}',
        b'{"type":"x","text":"@ @decorator npm install a@1.2.3 @scope/name"}',
        b'{"type":"x","text":"\\ud83d lone"}',
    ]
    for line in lines:
        assert redactor().line(line, inbound=True) == (line, True)


def test_the_same_value_gets_the_same_placeholder() -> None:
    one = redactor()
    assert one.text("a@b.co c@d.co a@b.co") == "<hackamore-email-1> <hackamore-email-2> <hackamore-email-1>"
    other = Redactor(one.vault)
    assert other.text("c@d.co") == "<hackamore-email-2>"
    assert one.vault.counts() == {"email": 2}


def test_places() -> None:
    shown = redactor().text
    assert shown("/home/ann/project/a.py /home/ann/x") == "<hackamore-cwd>/a.py <hackamore-home>/x"
    assert (
        shown("/home/ann/.config/claude/projects/-home-ann-project/1.jsonl")
        == "<hackamore-config>/projects/<hackamore-cwd-slug>/1.jsonl"
    )
    assert (
        shown("/tmp/pytest-of-me/pytest-12/x /tmp/tmp.Ab3dE6/y /tmp/tmpab_de6 /tmp/tmpab /tmp/x")
        == "<hackamore-folder-1>/x <hackamore-folder-2>/y <hackamore-folder-3> <hackamore-temp>/tmpab <hackamore-temp>/x"
    )
    for other in ("/home/anna", "/mnt/home/ann2", "./home/ann", "x-/home/ann", "x_/home/ann"):
        assert shown(other).replace("<hackamore-user>", "ann") == other
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"HOME": "/ann/"}, cwd="/srv"))
    assert made.text("ls -ann / /ann/x /ann") == "ls -ann / <hackamore-home>/x <hackamore-home>"
    assert made.places.live["<hackamore-config>"] == "/ann/.claude"  # where a replay has its own


def test_a_placeholder_stands_for_exactly_what_was_there() -> None:
    """A replay puts it in again: the folder and the spelling must be the same."""
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={**ENVIRONMENT, "TMPDIR": "/srv/t"}, cwd="/home/ann/project"))
    encoded = base64.b64encode(f"a{SECRET}".encode()).decode()
    told = f"/tmp/tmpabcdef12/x /srv/t/tmpabcdef12/x {SECRET} {quote(SECRET, safe='')} {encoded}"
    shown = made.text(told)
    assert shown.startswith("<hackamore-folder-1>/x <hackamore-folder-2>/x <hackamore-key-")
    for placeholder, value in made.vault.values.items():
        shown = shown.replace(placeholder, value)
    assert shown == told


def test_long_texts_of_the_cli_become_their_length() -> None:
    long = "word " * 100
    answer = {
        "type": "control_response",
        "response": {
            "subtype": "success",
            "request_id": "r",
            "response": {"commands": [{"name": "n", "description": long}]},
        },
    }
    kept, _ = redactor().line(json.dumps(answer).encode(), inbound=True)
    assert json.loads(kept)["response"]["response"]["commands"] == [
        {"name": "n", "description": "<hackamore-text-500>"}
    ]
    ours = {"type": "assistant", "message": {"content": [{"type": "tool_use", "input": {"description": long}}]}}
    kept, _ = redactor().line(json.dumps(ours).encode(), inbound=True)
    assert json.loads(kept) == ours


@pytest.mark.parametrize(
    "name", ["description", "systemPrompt", "system_prompt", "whenToUse", "when_to_use", "instructions"]
)
@pytest.mark.parametrize("kind", ["control_response", "system"])
def test_texts_are_long_from_101_letters_on_in_frames_of_the_cli_alone(kind: str, name: str) -> None:
    def kept(length: int, kind: str = kind, *, inbound: bool = True) -> str:
        line, _ = redactor().line(json.dumps({"type": kind, name: "x" * length}).encode(), inbound=inbound)
        return str(json.loads(line)[name])

    assert kept(101) == "<hackamore-text-101>"
    assert kept(100) == "x" * 100
    assert kept(101, inbound=False) == kept(101, "user") == "x" * 101


@pytest.mark.parametrize("name", ["text", "content"])
def test_what_the_cli_writes_in_the_name_of_the_user_is_long_from_1001_letters_on(name: str) -> None:
    def kept(length: int, *, inbound: bool = True, **more: bool) -> str:
        line = json.dumps({"type": "user", **more, "message": {name: "x" * length}}).encode()
        return str(json.loads(redactor().line(line, inbound=inbound)[0])["message"][name])

    assert kept(1_001, isSynthetic=True) == "<hackamore-text-1001>"
    assert kept(1_000, isSynthetic=True) == "x" * 1_000
    for mine in (kept(1_001), kept(1_001, isSynthetic=False), kept(1_001, inbound=False, isSynthetic=True)):
        assert mine == "x" * 1_001


def test_arguments() -> None:
    servers = json.dumps({"mcpServers": {"s": {"headers": {"X-Api-Key": "abcdefgh"}}}})
    argv = (
        f"--mcp-config={servers}",
        "--api-key",
        "abcdefgh123",
        "--add-dir=/home/ann/y",
        f"--x={SECRET}",
        "--",
        "mail a@b.co",
    )
    shown = shown_arguments(plan(*argv), redactor())
    assert shown == [
        '--mcp-config={"mcpServers": {"s": {"headers": {"X-Api-Key": "<hackamore-key-1>"}}}}',
        "--api-key",
        "<hackamore-key-2>",
        "--add-dir=<hackamore-home>/y",
        "--x=<hackamore-key-3>",
        "--",
        "mail <hackamore-email-1>",
    ]


PLAIN = "harbour seven"  # nothing about it looks like a secret
ODD = "pa\"ss\\wo{}r'd]\\"


def planted(secret: object) -> list[tuple[dict[str, Any], Any]]:
    """Return objects with a secret in them, and what must be left of each."""
    helpers = (
        "apiKeyHelper otelHeadersHelper headersHelper proxyAuthHelper awsAuthRefresh awsCredentialExport gcpAuthRefresh"
    )
    return [
        ({"mcpServers": {"shop": {"command": "x", "env": {"A": secret}}}, "b": "kept"}, "kept"),
        ({"mcpServers": {"shop": {"url": "x", "headers": {"X-Shop": secret}}}, "b": "kept"}, "kept"),
        ({"settings": {"env": {"LEVEL": secret, "B": {"C": [secret]}}}, "b": "kept"}, "kept"),
        ({"env": [secret, {"name": "A", "value": secret}], "b": "kept"}, "kept"),
        *(({"settings": {name: secret}, "b": "kept"}, "kept") for name in helpers.split() if isinstance(secret, str)),
    ]


@shows("recordings.masked")
@pytest.mark.parametrize("secret", [PLAIN, ODD, "x", 17_17], ids=str)
def test_whatever_is_set_in_env_and_headers_is_masked_whatever_its_name(secret: object) -> None:
    """`mcpServers.*.env`, `mcpServers.*.headers`, `settings.env`, `apiKeyHelper`: in frames, arguments, texts, JSON in JSON."""
    for told, left in planted(secret):
        value: Any = told
        for level in range(4):
            line = json.dumps({"type": "x", "v": value})
            for kept in (
                redactor().line(line.encode(), inbound=True)[0].decode(),
                redactor().text(line),
                shown_arguments(plan(f"--x={line}"), redactor())[0].removeprefix("--x="),
                shown_arguments(plan("--x", f" {line}"), redactor())[1],
            ):
                found = json.loads(kept)["v"]
                for _ in range(level):
                    found = json.loads(found)
                assert found["b"] == left
                leaves = [leaf for leaf in _leaves(found) if leaf not in ("A", "x", "kept")]
                assert all(PLACEHOLDER.fullmatch(leaf) for leaf in leaves), leaves
            value = json.dumps(value)
        assert PLAIN not in redactor().text(repr(told))
        assert PLAIN not in redactor().text(json.dumps(told)[:-6])  # cut off


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [leaf for inner in value for leaf in _leaves(inner)] if isinstance(value, list) else [value]


@shows("recordings.masked")
def test_values_that_were_set_are_masked_wherever_they_are_repeated() -> None:
    """A tool may print a variable of `Options.env`, and a server may quote its headers in an error."""
    servers = json.dumps({"mcpServers": {"s": {"command": "x", "env": {"A": "in the server"}}}})
    started = LaunchPlan(
        argv=("claude", f"--mcp-config={servers}", ' [{"headers": {"A": "in a list"}}]'),
        environment={**ENVIRONMENT, "HARBOUR": PLAIN, "SHORT": "yes", "FOLDER": "/usr/bin"},
        initialize={"mcpServers": {"t": {"url": "x", "headers": {"B": "in the headers"}}}},
        own_variables=("HARBOUR", "SHORT", "FOLDER"),
    )
    made = Redactor(Vault())
    made.prepare(started)
    for secret in (PLAIN, "in the server", "in the headers", "in a list"):
        assert secret not in made.text(f"It said {secret}!")
        kept, _ = made.line(json.dumps({"type": "x", "text": f"a{secret}b"}).encode(), inbound=True)
        assert secret not in kept.decode()
    assert made.text("yes, in /usr/bin") == "yes, in /usr/bin"


@shows("recordings.masked")
def test_a_value_that_was_set_and_begins_like_a_path_is_masked_unless_it_is_one() -> None:
    """Keys in base64 may begin with a slash."""
    secret = "/k9Xw+Zr/hQ2v8Tn4LmB0g=="
    environment = {**ENVIRONMENT, "HARBOUR": secret, "FOLDERS": "/usr/bin:/no/such/folder"}
    started = LaunchPlan(argv=("claude",), environment=environment, own_variables=("HARBOUR", "FOLDERS"))
    made = Redactor(Vault())
    made.prepare(started)
    assert made.text(f"It said {secret}!") == "It said <hackamore-key-1>!"
    assert Mask(started)(f"It said {secret}!".encode()) == b"It said <masked>!"
    assert made.text("in /usr/bin:/no/such/folder") == "in /usr/bin:/no/such/folder"


def test_lines_that_are_no_json() -> None:
    kept, is_json = redactor().line(b"Error: key sk-ant-abcdefgh for a@b.co \xff", inbound=True)
    assert (kept, is_json) == (b"Error: key <hackamore-key-1> for <hackamore-email-1> \xff", False)
    deep = b'{"type":"x","a":' + b"[" * 100_000
    assert redactor().line(deep, inbound=True)[1] is False


def test_more_by_callback() -> None:
    made = redactor(more=lambda text: text.replace("Bluebird", "<project>"))
    kept, _ = made.line(b'{"type":"x","Bluebird":"say \\"Bluebird\\"","k":"sk-ant-abcdefgh"}', inbound=True)
    assert json.loads(kept) == {"type": "x", "<project>": 'say "<project>"', "k": "<hackamore-key-1>"}
    with pytest.raises(TypeError, match="must return a str, not int"):
        redactor(more=lambda text: 7).line(b'{"a":"b"}', inbound=True)


def test_any_json_stays_json() -> None:
    chooser = random.Random(seeded(5))
    pieces = [*KEYS, '"', "\\", "\\u0000", "\n", "{", "}", ":", ",", "é", "\U0001f600", "token: ", "x" * 50]

    def value(depth: int) -> Any:
        match chooser.randrange(6 if depth else 3):
            case 0:
                return chooser.choice([None, True, 1.5, 10**30])
            case 1 | 2:
                return "".join(chooser.choices(pieces, k=chooser.randrange(5)))
            case 3:
                return [value(depth - 1) for _ in range(chooser.randrange(4))]
            case _:
                return {"".join(chooser.choices(pieces, k=2)): value(depth - 1) for _ in range(chooser.randrange(4))}

    for _ in range(500):
        line = json.dumps({"type": "x", "v": value(4)}, ensure_ascii=chooser.random() < 0.5).encode()
        kept, is_json = redactor().line(line, inbound=True)
        assert is_json
        told = json.dumps(json.loads(kept), ensure_ascii=False)
        assert "ann@example.com" not in told
        assert "hunter2" not in told


def test_long_lines_take_no_time() -> None:
    """No pattern looks at anything more than a few times, however long it is."""
    rows = [
        b"QUJD" * 250_000,
        b"a-" * 500_000,
        b"A" * 1_000_000,
        b"sk-" * 300_000,
        b"/tmp" * 250_000,
        b"a.b" * 300_000 + b"@",
        b'env\\":{' * 100_000,
        b'\\"env\\":{' * 100_000,
        b'\\"env\\":{\\"a\\":\\"b\\"},' * 50_000,
        b"\\\\" * 500_000 + b'\\"env',
    ]
    for row in rows:
        made = redactor()
        began = time.process_time()
        made.line(b'{"type":"x","d":"@ token ' + row + b'"}', inbound=True)
        assert time.process_time() - began < 5


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)

    def close(self) -> None:
        pass


def test_nothing_is_written_at_any_moment_wherever_a_secret_comes_from() -> None:
    """In arguments, variables, frames that come in pieces, a prompt, an unfinished line, stderr, a failed start."""
    secrets = [KEYS[0], SECRET, "ann@example.com", "/home/ann"]
    for secret in secrets:
        told = json.dumps({"type": "user", "text": f"a {secret} b"}).encode()
        for cut in range(1, len(told), 7):
            kept = Kept()
            record = SessionRecord(kept, redactor(), 0, 1_000_000)
            record.begin(
                plan(
                    "--append-system-prompt",
                    f"use {secret}",
                    f"--x={secret}",
                    "--settings",
                    json.dumps({"env": {"A": secret}}),
                )
            )
            record.sent(told[:cut])
            record.sent(told[cut:] + b"\n")
            record.received(told[:cut])
            record.received(told[cut:] + b"\nno json " + secret.encode()[:-3])
            record.received(secret.encode()[-3:])
            record.output_ended()
            record.exited(1)
            record.stopped(turn_open=False)
            record.end(f"failed with {secret}".encode())
            assert [json.loads(line)["k"] for line in kept.lines] == [
                "start",
                "out",
                "in",
                "in",
                "eof",
                "exit",
                "stop",
                "stderr",
                "end",
            ]
            assert secret.encode() not in b"".join(kept.lines)
            assert json.dumps(secret).encode()[1:-1] not in b"".join(kept.lines)
        kept = Kept()
        record = SessionRecord(kept, redactor(), 0, 1_000_000)
        record.begin(LaunchPlan(argv=("claude",), environment=ENVIRONMENT, stdin=b"x"))
        record.sent(f"first {secret[:3]}".encode())
        record.sent(f"{secret[3:]} last".encode())
        assert len(kept.lines) == 1
        record.input_ended()
        record.start_failed(OSError(f"no {secret}"))
        record.sent(secret.encode())
        assert [json.loads(line)["k"] for line in kept.lines] == ["start", "prompt", "end_input", "start_error", "end"]
        assert secret.encode() not in b"".join(kept.lines)


SPELLED = 'P@ss(w0rd)/!x "y" \\<&>é\n99'


def deeper(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps(text, ensure_ascii=False)
    return text


@pytest.mark.parametrize(
    "spelling",
    [
        *(quote(SPELLED, safe=safe) for safe in ("", "/", "!'()*", "!'()*;,/?:@&=+$#")),
        quote(SPELLED, safe="").replace("%20", "+"),
        re.sub("%..", lambda found: found[0].lower(), quote(SPELLED, safe="")),
        *(deeper(SPELLED, times) for times in range(1, 6)),
        *(deeper(json.dumps(SPELLED), times) for times in range(5)),
        *(deeper(json.dumps(deeper(SPELLED, times)), 4 - times) for times in range(1, 5)),
        json.dumps(SPELLED).replace("/", "\\/"),
        deeper(json.dumps(SPELLED, ensure_ascii=False).replace("/", "\\/"), 2),
        json.dumps(SPELLED, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    ],
)
def test_a_known_secret_is_found_as_other_programs_spell_it(spelling: str) -> None:
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"SHOP_TOKEN": SPELLED}, cwd="/home/ann", owners=("",)))
    kept = made.text(f"see a={spelling}&b")
    assert "w0rd" not in kept
    assert kept.startswith("see a=")
    assert kept.endswith("&b")


@pytest.mark.parametrize("before", ["mysql ", "", "a\n"])
@pytest.mark.parametrize(
    "flag",
    [
        "--password",
        "--passwd",
        "--passphrase",
        "--secretkey",
        "--accesskey",
        "-authtoken",
        "--authorization",
        "--api-key",
        "--x-secret",
        "--x-amz-signature",
    ],
)
def test_a_value_behind_a_flag_is_found_in_a_line_without_other_signs(flag: str, before: str) -> None:
    frame, _ = redactor().line(json.dumps({"text": f"{before}{flag} Walrus-42-tusk db"}).encode(), inbound=True)
    assert json.loads(frame)["text"] == f"{before}{flag} <hackamore-key-1> db"


def test_stderr_in_errors_keeps_places_and_addresses() -> None:
    told = f"/home/ann/project/a.js: ann-lee told ann@example.com {SECRET}".encode()
    assert Mask(plan())(told) == told.replace(SECRET.encode(), b"<masked>")


def test_output_is_never_shown_with_only_some_of_its_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = Mask(plan())

    def interrupted(_: Redactor, __: LaunchPlan) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Redactor, "prepare", interrupted)
        mask(SECRET.encode())
    assert mask(SECRET.encode()) == b"<masked>"


def delta(text: str, name: str = "text", **more: Any) -> bytes:
    kind = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}[name]
    event = {"type": "content_block_delta", "index": more.pop("index", 0), "delta": {"type": kind, name: text}}
    return json.dumps({"type": "stream_event", "event": event, **more}).encode() + b"\n"


STOP = b'{"type":"stream_event","event":{"type":"content_block_stop","index":0}}\n'
SYSTEM = b'{"type":"system","subtype":"thinking_tokens"}\n'


def recorded(*lines: bytes) -> list[bytes]:
    kept = Kept()
    record = SessionRecord(kept, redactor(), 0, 1_000_000)
    record.begin(plan())
    for line in lines:
        record.received(line)
    record.output_ended()
    return [line.partition(b',"f":')[2][:-2] for line in kept.lines if b'"k":"in"' in line]


def texts(lines: list[bytes]) -> str:
    deltas = [json.loads(line).get("event", {}).get("delta", {}) for line in lines]
    return "".join(text for found in deltas for name, text in found.items() if name != "type")


@pytest.mark.parametrize("name", ["text", "thinking", "partial_json"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "secret", [KEYS[0], SECRET, "ann@example.com", "/home/ann", "Authorization: Bearer abcdefgh1234567890"]
)
def test_secrets_that_the_model_writes_in_pieces(secret: str, size: int, name: str) -> None:
    for before in ("", "It is ", "word " * 100):
        told = f"{before}{secret} and {'more ' * 80}{secret}"
        pieces = [delta(told[at : at + size], name) for at in range(0, len(told), size)]
        pieces.insert(len(pieces) // 2, SYSTEM)
        kept = recorded(*pieces, STOP)
        assert len(kept) == len(pieces) + 1
        assert kept.count(SYSTEM.strip()) == 1
        assert texts(kept) == redactor().text(told)


def test_pieces_without_secrets_stay_as_they_came_and_do_not_wait_for_long() -> None:
    told = [delta(f"word{number} ") for number in range(200)]
    assert recorded(*told, STOP) == [line.strip() for line in (*told, STOP)]
    assert recorded(*told) == [line.strip() for line in told]
    kept = Kept()
    record = SessionRecord(kept, redactor(), 0, 1_000_000)
    for line in told:
        record.received(line)
    assert len(kept.lines) > 150
    record.sent(b'{"type":"control_request"}\n')
    record.received(STOP)
    assert len(kept.lines) == 202
    assert [json.loads(line)["k"] for line in kept.lines[-2:]] == ["out", "in"]


@pytest.mark.parametrize("more", [{}, {"session_id": "s"}, {"session_id": "s", "parent_tool_use_id": "t"}])
def test_a_block_that_has_ended_is_written(more: dict[str, str]) -> None:
    kept = Kept()
    record = SessionRecord(kept, redactor(), 0, 1_000_000)
    told = [delta("It is", **more), delta(" done.", **more)]
    for line in told:
        record.received(line)
    assert kept.lines == []
    record.received(json.dumps({**json.loads(STOP), **more}).encode() + b"\n")
    assert [json.loads(line)["f"]["event"]["type"] for line in kept.lines] == [
        *["content_block_delta"] * 2,
        "content_block_stop",
    ]


def test_pieces_of_two_blocks_are_not_mixed() -> None:
    lines = [delta("sk-ant-abc"), delta("defghijk"), delta("sk-ant-", parent_tool_use_id="t"), delta("xyzwvuts")]
    kept = recorded(*lines)
    assert kept[2] == lines[2].strip()
    assert texts([*kept[:2], *kept[3:]]) == "<hackamore-key-1>"


def test_the_text_of_a_block_does_not_continue_that_of_the_one_before() -> None:
    """The end of a block may be missing, as after an interrupted stream: a key is found where its own block begins."""
    kept = recorded(delta("an index"), delta("ghp_abcdef", index=1), delta("ghijklmn", index=1))
    assert texts(kept) == "an index<hackamore-key-1>"


BETWEEN = {
    "hook": b'{"type":"control_request","request_id":"1","request":{"subtype":"hook_callback"}}\n',
    "tool result": b'{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}\n',
    "keep alive": b'{"type":"keep_alive"}\n',
    "reply of a subagent": b'{"type":"assistant","parent_tool_use_id":"t","message":{"content":[]}}\n',
    "piece of a subagent": delta("other ", parent_tool_use_id="t"),
    "no JSON": b"(node) a warning\n",
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("secret", [KEYS[0], SECRET])
def test_lines_between_two_pieces_do_not_split_a_secret(secret: str, between: bytes) -> None:
    kept = Kept()
    record = SessionRecord(kept, redactor(), 0, 1_000_000)
    record.received(delta(f"It is {secret[:5]}"))
    record.received(between)
    record.sent(b'{"type":"control_response"}\n')
    record.received(delta(f"{secret[5:]} and more"))
    record.received(STOP)
    record.output_ended()
    assert [json.loads(line)["k"] for line in kept.lines] == ["in", "in", "out", "in", "in", "eof"]
    frames = [json.dumps(json.loads(kept.lines[at])["f"]).encode() for at in (0, 3)]
    assert texts(frames) == "It is <hackamore-key-1> and more"


def test_lines_between_two_pieces_wait_for_a_bounded_time() -> None:
    kept = Kept()
    record = SessionRecord(kept, redactor(), 0, 10_000_000)
    record.received(delta("It is"))
    result = b'{"type":"user","message":{"content":"' + b"x" * 1_000_000 + b'"}}\n'
    for _ in range(5):
        record.received(result)
    assert len(kept.lines) >= 4
    record.exited(0)
    assert len(kept.lines) == 7


def test_a_long_piece_without_a_space_takes_no_time() -> None:
    began = time.process_time()
    lines = [delta("x" * 1_000) for _ in range(500)]
    assert recorded(*lines, STOP)[:-1] == [line.strip() for line in lines]
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("to\\nann@example.com", "to\\n<hackamore-email-1>"),  # quoted JSON: the letter belongs to its escape
        ("\\tbob@example.com", "\\t<hackamore-email-1>"),
        ("\\nb@example.com", "\\n<hackamore-email-1>"),
        ("\\n@example.com", "\\<hackamore-email-1>"),  # no escape: an address of one letter
        ("C:\\users\\xavier@example.com", "C:\\users\\<hackamore-email-1>"),  # no letter of an escape
        ("to nora@example.com", "to <hackamore-email-1>"),  # no backslash before it
    ],
)
def test_the_letter_of_an_escape_is_no_part_of_an_address(text: str, kept: str) -> None:
    one = redactor()
    assert one.text(text) == kept
    (address,) = one.vault.values.values()
    assert kept.replace("<hackamore-email-1>", address) == text


@pytest.mark.parametrize("secret", ["hunter2-x", "aB3dE6gH9jK2", "correct horse 77", "~~>>??~~>>??"])
@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("behind", range(4))
def test_a_known_secret_is_found_anywhere_in_a_base64_text(secret: str, offset: int, behind: int) -> None:
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"SHOP_API_KEY": secret}, cwd="/srv"))
    data = b"~" * offset + secret.encode() + b"~" * behind
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        shown = made.text(f"x {encoded.decode()} y")
        left = shown.partition("<hackamore-key-")[0].removeprefix("x ")
        assert "<hackamore-key-" in shown
        # Left are the letters with a bit of a neighbour.
        assert len(left) == (offset * 8 + 5) // 6
        right = shown.partition(">")[2].removesuffix(" y")
        assert len(right) == len(encoded) - (offset + len(secret)) * 8 // 6


def test_many_known_secrets_that_begin_or_overlap_in_the_same_way() -> None:
    names = ["abcdefgh", "abcdefgh-and-rest", "rest-and-abcdefgh", "h-and-rest-and-rest"]
    environment = {f"A{number}_SECRET": name for number, name in enumerate(names)}
    environment |= {f"B{number}_TOKEN": f"https://example.com/{number:06}" for number in range(500)}
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment=environment, cwd="/srv"))
    for value in environment.values():
        for before in ("", "1", "12", "123"):
            assert made.text(f"{before}{value}.") == f"{before}{made.vault.placeholder('key', value)}."
    assert PLACEHOLDER.fullmatch(made.text("abcdefgh-and-rest-and-rest"))


@pytest.mark.parametrize("value", ["sch\u00f6nes-Wetter", 'quo"ted\\12'])
def test_a_known_secret_is_found_in_the_spellings_of_json(value: str) -> None:
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude",), environment={"A_SECRET": value}, cwd="/srv"))
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)
        for text in (value, once, json.dumps(once)):
            assert "<hackamore-key-" in made.text(text)
            assert "Wetter" not in made.text(text)
            assert "ted" not in made.text(text)


def test_all_servers_of_a_plan_are_learned_from() -> None:
    """Headers without their scheme, passwords of proxies, secrets in URLs and arguments: a tool may repeat them alone."""
    servers = {
        "a": {"command": "x", "args": ["--token", "opensesame-1", "-v"], "env": {"A": "harbour one"}},
        "b": {
            "command": "x",
            "args": ["f3a9c1d2e4b5968778aa1b2c3d", "abcdefghijklmnopq123", "server-filesystem"],
            "env": {"A": "harbour two"},
        },
        "c": {
            "url": "https://h/x?token=letmein-please&page=2",
            "headers": {"Authorization": "Bearer shop-token-number-1"},
        },
    }
    started = LaunchPlan(
        argv=("claude", f"--mcp-config={json.dumps({'mcpServers': servers})}"),
        environment={
            "HTTPS_PROXY": "http://ann:tulip%2Fgarden@proxy:8080",
            "HTTP_PROXY": "http://ann:orchid:meadow@proxy:8080",
            "FOLDER": "/usr/bin",
        },
        cwd="/srv",
    )
    made = Redactor(Vault())
    made.prepare(started)
    for secret in (
        *(
            "opensesame-1",
            "harbour one",
            "f3a9c1d2e4b5968778aa1b2c3d",
            "abcdefghijklmnopq123",
            "harbour two",
            "letmein-please",
            "shop-token-number-1",
        ),
        *("tulip%2Fgarden", "tulip/garden", "orchid:meadow"),
    ):
        assert made.text(f"It is {secret}!").startswith("It is <hackamore-key-")
        assert secret not in str(shown_arguments(started, made))
    assert made.text("server-filesystem, page=2, proxy:8080") == "server-filesystem, page=2, proxy:8080"


@pytest.mark.parametrize(
    "begin", ['"env":{', '"headers":{', '"headers":["', '"apiKeyHelper":', '"apiKeyHelper":"', "'env': {'"]
)
def test_a_text_that_ends_inside_of_masked_settings_switches_nothing_off(begin: str) -> None:
    """The output of `head -c` is enough to end so."""
    for quoted in (begin, json.dumps(begin), json.dumps(json.dumps(begin))):
        for text in (quoted, f"x {quoted}", quoted.rstrip('"')):
            frame = {"type": "user", "a": text, "b": KEYS[0], "c": {"env": {"A": 7, "B": [True, "plain"]}}, "d": "kept"}
            kept, is_json = redactor().line(json.dumps(frame).encode(), inbound=True)
            assert is_json
            found = json.loads(kept)
            assert PLACEHOLDER.fullmatch(found["b"])
            assert found["d"] == "kept"
            assert all(PLACEHOLDER.fullmatch(masked) for masked in (found["c"]["env"]["A"], found["c"]["env"]["B"][1]))
            assert found["c"]["env"]["B"][0] is True
    assert redactor().text('"env":{"A":"x y z"}') == '"env":{"A":"<hackamore-key-1>"}'
    assert (
        redactor().text('"env" : {"A" : 7, "B": -1.5e+3,"C":[17]}')
        == '"env" : {"A" : "<hackamore-key-1>", "B": "<hackamore-key-2>","C":["<hackamore-key-3>"]}'
    )


@pytest.mark.parametrize(
    "begin", [f'"apiKeyHelper":"{PLAIN}', '"apiKeyHelper":', f'"env":{{"A":"{PLAIN}', '"env":{"A":7,']
)
def test_the_mark_that_ends_a_quoted_text_may_begin_the_next_name(begin: str) -> None:
    """The text was cut off: the first mark that is not quoted belongs to what follows."""
    quoted = begin.replace('"', '\\"')
    assert PLAIN not in redactor().text(f'{quoted}"headers":{{"B":"{PLAIN}"}}')


def everywhere(text: str) -> set[str]:
    """Return a text as it is kept alone, in a frame, and in a frame that is so long that it is searched in another way."""
    made, long = redactor(), "x" * (1 << 16) + "\n"
    shown = {made.text(text)}
    for before, ascii_only in (("", True), (long, False)):
        line = json.dumps({"type": "x", "v": before + text}, ensure_ascii=ascii_only).encode()
        shown.add(json.loads(made.line(line, inbound=True)[0])["v"].removeprefix(before))
    return shown


def masked(marked: str) -> str:
    """Return what must be left of a text whose secrets stand between `«` and `»`; a number becomes a text."""
    number = iter(range(1, 10))
    mark = {True: '"<hackamore-key-{}>"', False: "<hackamore-key-{}>"}
    return re.sub("«(.*?)»", lambda at: mark[NUMBER.fullmatch(at[1]) is not None].format(next(number)), marked)


NUMBER = re.compile("-?[0-9][0-9.e+]*")


def unmarked(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


@pytest.mark.parametrize(
    ("marked", "least"),
    [
        ("«SG.{}.ABCDEFGHIJKLMNOP»", 16),
        ("«SG.ABCDEFGHIJKLMNOP.{}»", 16),
        ("«AKIA{}»", 16),
        ("«ASIA{}»", 16),
        ("«AIza{}»", 30),
        ("«AGE-SECRET-KEY-1{}»", 16),
        ("https://hooks.slack.com/services/«{}»", 16),
        ("https://discord.com/api/webhooks/«{}/abcdefghijklmnop»", 8),
        ("https://discord.com/api/webhooks/«12345678/{}»", 16),
        ("https://acc.blob.core.windows.net/c?sig=«{}»", 16),
        ("«eyJ{}.abcdefgh.»", 8),
        ("«eyJabcdefgh.{}.»", 8),
        ("sshpass -p «{}»", 8),
        ("docker login -p «{}»", 8),
        ("mysql -p«{}» shop", 8),
        ("login anna password «{}»", 8),
        ("curl -u bob:«{}»", 8),
        ("Cookie: a=«{}»", 8),
        ("Cookie: «{}»", 8),
        ("curl -b a=«{}»", 8),
        ("token=«{}»", 8),
        ("token='«{}»'", 8),
        ("<token>«{}»</token>", 8),
        ('"name": "token", "value": "«{}»"', 8),
        ("--token «{}»", 8),
        ("say bearer «{}»", 16),
        ("Authorization: token «{}»", 8),
        ('Authorization: Digest a="b", response="«{}»"', 8),
    ],
)
def test_a_secret_is_masked_from_its_shortest_length_on(marked: str, least: int) -> None:
    digits = "0123456789" * 4
    assert everywhere(unmarked(marked.format(digits[:least]))) == {masked(marked)}
    shorter = unmarked(marked.format(digits[: least - 1]))
    assert everywhere(shorter) == {shorter}


@pytest.mark.parametrize(
    "marked",
    [
        # every letter that a secret may consist of
        "«ghp_Az09_-Az09_-Az09».",
        "«SG.Az09_-Az09_-Az09.Az09_-Az09_-Az09».",
        "«AIzaAz09_-Az09_-Az09_-Az09_-Az09_-».",
        "«eyJAz09_-Az.Az09_-Az.Az09_-».",
        "https://hooks.slack.com/services/«Az09/Az09/Az09/Az09»?",
        "https://discord.com/api/webhooks/«1234567890/Az09_-Az09_-Az09»?",
        "/c?sig=«Az09%+/=_-Az09%+/=_-»&x=1",
        "bearer «Az09._~+/=-Az09._~+/=-», so",
        "token=«a!#$%&*+-./:=?@^_|~b»",
        "token='«a b`,;(){{}}[]c»'",
        # what ends one
        *(f"token=«abcdefgh»{end}ijklmnop" for end in " \t\n\"'`,;<>(){}[]\\"),
        *(f"--token «abcdefgh»{end}ijklmnop" for end in " \n\"'`,;<>(){}[]\\"),
        *(f"token='«abcd efgh»'{end}ijklmnop" for end in " ,;)}]"),
        *(f"mysql -p«abcdefgh»{end}ijklmnop" for end in " \n\"'\\<>"),
        *(f"curl -u a:«abcdefgh»{end}ijklmnop" for end in " \n\"'\\<>"),
        *(f"login a password «abcdefgh»{end}ijklmnop" for end in " \n\"'\\<>"),
        *(f"Cookie: a=«abcdefgh»{end}ijklmnop" for end in "\r\n\"'`\\<>|;,"),
        *(f"say bearer «abcdefgh01234567»{end}x" for end in " \n\"',;:<>(){}[]\\"),
        *(f"http://«ann:secret»@{end}x" for end in ("h", "h.example/", "127.0.0.1:80/")),
        # what stands between a name and its value
        *(
            f"{name}{between}«abcdefgh»"
            for name in ("api_key", "MY_TOKEN", "client_secret", "password", "x-amz-signature", "Authorization")
            for between in (
                "=",
                ":",
                " = ",
                " : ",
                ": ",
                "=>",
                " => ",
                "=\\",
                '="',
                "='",
                ': \\"',
                "':'",
                '" : "',
                "\t=\t",
            )
        ),
        *(f"{name}={scheme} «abcdefgh»" for name in ("token", "api_key") for scheme in ("Bearer", "BASIC", "basic ")),
        *(
            f"{name}{between}«abcdefgh»"
            for name in ("pass", "pwd", "_pat", "_auth")
            for between in ('="', "='", "=", '" : "')
        ),
        *(f"Authorization:{scheme} «abcdefgh»" for scheme in ("token", "aws4", "x", " Api_Key", "Basic")),
        *(
            f"--{name}{between}«abcdefgh»"
            for name in ("password", "x-token", "secret")
            for between in (" ", "  ", "\n", " '", '="', "=")
        ),
        *(f"sshpass {flag}«abcdefgh» ssh" for flag in ("-p", "-p ", "-p '", '-p"', '-p \\"')),
        "x -p abcdefgh; sshpass -v -p «abcdefgh»",
        "docker  login  registry.example -u anna -p «abcdefgh»",
        "mysqldump -h db -p«abcdefgh»",
        "curl https://h.example/?a=b -s --user bob:«abcdefgh»",
        "curl -u=bob:«abcdefgh»",
        "machine h.example login anna\n  password «abcdefgh»",
        "Cookie: a=1; b=«abcdefgh»; c; d=«ijklmnop»",
        "Set-Cookie: a=«abcdefgh»; expires=Wednesday, 01-Jan; path=/abcdefgh",
        *(f"Cookie: a=«abcdefgh»{end}b=ijklmnop" for end in "\r\n\"'`\\<>|"),
        "curl a.example | x -u bob:abcdefgh; curl -u bob:«ijklmnop»",
        *(f"curl a.example{end}x -u bob:abcdefgh" for end in "\n|;&"),
        *(f"mysql shop{end}x -p abcdefgh" for end in "\n|;&\\"),
        *(f"sshpass -e ssh{end}x -p abcdefgh" for end in "\n|;&"),
        f"«sk-abcdefgh-{SECRET}» «ghp_abcdefghijkl» «sk-abcdefghi-{SECRET}»",  # two overlap
        *(
            f"{{{mark}{name}{mark}: {mark}«abcdefgh»{mark}}}"
            for name in ("pass", "pwd", "my_pat", "auth", "_auth")
            for mark in "'\""
        ),
        'Authorization: Digest response="«abcdefgh»"',
        "https://bob:@h.example https://«:p»@h.example",
        "curl --cookie a=«abcdefgh» -s",
        "cookie  :  a=«abcdefgh»",
        "'env': {'A': '«x \" y»', 'B': \"«z ' w»\"} 'seven'",
        "\"apiKeyHelper\" : '«x y»','d':'seven'",
        '"Cookie": "a=«abcdefgh»"',
    ],
)
def test_a_secret_is_masked_with_all_its_letters_and_nothing_else(marked: str) -> None:
    assert everywhere(unmarked(marked)) == {masked(marked)}


@pytest.mark.parametrize(
    "marked",
    [
        '"env":{"A":"«x y»","B":"«z»"},"c":"seven"',
        '"env":{"A":"«x \\" y»","B":"«z»"} "seven"',
        '"env":{"A":"«x \' y»","B":"«z»"} "seven"',
        '"env":{"A":{"B":"«x»"},"C":["«y»",{"D":"«z»"}],"E":"«w»"},"f":"seven"',
        '"env":{"A":"«x }»","B":"«{ y»","C":"«]»"},"d":"seven"',
        '"env":{"A" :"«x»", "B"  :  "«y»" , "C": "«z»" } , "d" : "seven"',
        '"env":{"env":{"A":"«x y»"},"B":"«z»"},"c":"seven"',
        '"env":{"apiKeyHelper":"«x y»","B":"«z»"},"c":"seven","headers":{"D":"«w»"}',
        '"headers":["«x»",["«y»"],"«z»"],"d":"seven"',
        '"env":{"A":«7»,"B":[«-1.5e+3» , «17»],"C" : «8»},"d":7',
        '"headers":[«7», «8» ],"c": [7]',
        '"env":[7a, a7, «9»]',
        '"headers" : [] , "d":"seven"',
        '"env":{"A":"","B":true,"C":null},"d":"seven", "n": 7',
        '"env":{"A":"«x»"},"b":"seven","headers":{"C":"«y»"},"d":"eight"',
        '"apiKeyHelper":"«x y»","d":"seven"',
        '"apiKeyHelper":"«x \\"y\\" z»","d":"seven"',
        '"apiKeyHelper":"","d":"seven"',
        '"env":"seven","apiKeyHelper":7,"headers":8',
        '"xenv":{"A":"x"},"envs":{"A":"x"},env:{"A":"x"}',
        # The text was cut off.
        '"env":{"A":"«x y»',
        '"env":{"A":«123»',
        '"env":{"A":"«x y »"headers":{"B":"«z w»"}} after "seven"',
        '\\"env\\":{\\"A\\":\\"«x y »"headers":{"B":"«z w»"}} after "seven"',
        '\\"env\\":{\\"A\\":\\"«x y»" after "seven"',
        '\\"apiKeyHelper\\":\\"«x y»" after "seven"',
    ],
)
def test_what_is_masked_for_its_place_ends_where_json_ends_it(marked: str) -> None:
    """In a text, and quoted in JSON, however often."""
    text, kept, values = unmarked(marked), masked(marked), re.findall("«(.*?)»", marked)
    for _ in range(4):
        assert everywhere(text) == {kept}
        text, kept = json.dumps({"v": text, "w": "seven"}), json.dumps({"v": kept, "w": "seven"})
    made = redactor()
    made.text(unmarked(marked))
    assert list(made.vault.values.values()) == [re.sub(r'\\(["\'])', r"\1", value) for value in values]


@pytest.mark.parametrize("value", ['say "hi"', "C:\\x\\new", "a\\\\b", "one\ntwo", "plain"])
def test_a_masked_value_has_one_placeholder_however_often_it_is_quoted(value: str) -> None:
    made = redactor()
    text = json.dumps({"env": {"A": value}})
    for _ in range(4):
        assert "<hackamore-key-1>" in made.text(f"it printed {text}")
        text = json.dumps(text)
    assert made.vault.values == {"<hackamore-key-1>": value}


def test_a_number_is_masked_before_the_mark_that_ends_the_text_in_which_it_is_quoted() -> None:
    assert redactor().text('{"v": "{\\"env\\":{\\"A\\":123", "c": 7}') == (
        '{"v": "{\\"env\\":{\\"A\\":\\"<hackamore-key-1>\\"", "c": 7}'
    )


@pytest.mark.parametrize(
    "marked",
    [
        '{"env": {"A": "«x»", "B": {"C": "«y»", "D": [«1», {"E": "«z»"}]}, "F": "«u»"}, "b": "c", "n": -1}',
        '{"env": {"headers": {"A": "«x»"}, "B": "«y»"}, "b": ["c"]}',
        '{"env": [{"A": [], "B": {}}, "«x»"], "b": {"c": "d"}}',
        '{"env": "seven", "b": {"c": "d"}, "headers": 7, "e": [8]}',
        '{"servers": [{"name": "a", "env": null}, {"name": "b", "x": ["y", 7]}]}',
        '{"servers": [{"headers": true}, ["a", 7], [{"apiKeyHelper": null}, 7]]}',
        '{"apiKeyHelper": "«x»", "b": "c", "n": 7}',
        '{"apiKeyHelper": «7», "b": "c", "n": 7}',
        '{"apiKeyHelper": {"a": "«x»", "b": ["«y»", «-8.5e+3»]}, "b": "c", "n": 7}',
        '{"apiKeyHelper": ["«x»", «2»], "b": ["c", 7]}',
        '{"apiKeyHelper": "", "env": {"A": "", "B": "«x»"}}',
        '{"token": ["«harbour seven»", "«harbour eight»"], "b": "harbour nine"}',
        '{"token": "harbour", "secret": "«harbour8»", "tokens": "harbour9"}',
        '["--token", "«harbour seven»", "harbour eight", "-v", "harbour nine", "--x", "harbour ten"]',
        '[["-x", "--token", 7, "«harbour seven»"], ["harbour eight"]]',
        '{"name": "DB_PASSWORD", "value": "«harbour seven»", "b": "harbour eight"}',
        '[{"name": "DB_PASSWORD", "value": "harbour"}, {"name": "COLOUR", "value": "harbour seven"}]',
        '{"n": "DB_PASSWORD", "value": "harbour seven", "name": "COLOUR", "values": "harbour eight"}',
        '{"«sk-ant-abcdefgh»": 1}',
    ],
)
def test_values_of_a_frame_are_masked_for_their_place_and_nothing_else(marked: str) -> None:
    text = unmarked(marked)
    for spaced in (text, text.replace(": ", ":").replace(", ", ","), text.replace(":", " :\n ").replace(",", " ,\t")):
        assert json.loads(redactor().line(spaced.encode(), inbound=True)[0]) == json.loads(masked(marked))


def learned(environment: dict[str, str], *argv: str, cwd: str = "/srv/shop", own: tuple[str, ...] = ()) -> Redactor:
    made = Redactor(Vault())
    made.prepare(LaunchPlan(argv=("claude", *argv), environment=environment, cwd=cwd, own_variables=own))
    return made


def test_each_folder_of_a_session_has_its_placeholder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/srv/own")  # of this process, where the CLI gets another one
    (tmp_path / "real" / "shop").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    real, link = (os.path.realpath(tmp_path / "real" / "shop"), str(tmp_path / "link" / "shop"))
    environment = {"HOME": "/home/ann", "TMPDIR": "/srv/t", "CLAUDE_CONFIG_DIR": "/srv/conf/", "USER": "ann-lee"}
    made = learned(environment, cwd=link)
    assert made.places.live == {
        "<hackamore-cwd>": link,
        "<hackamore-cwd-slug>": re.sub("[^A-Za-z0-9]", "-", link),
        "<hackamore-config>": "/srv/conf",
        "<hackamore-config-slug>": "-srv-conf",
        "<hackamore-home>": "/home/ann",
        "<hackamore-home-slug>": "-home-ann",
        "<hackamore-temp>": "/srv/t",
        "<hackamore-temp-slug>": "-srv-t",
        "<hackamore-user>": "ann-lee",
    }
    for cwd in (link, real):
        assert made.text(f"{cwd}/x {cwd}.") == "<hackamore-cwd>/x <hackamore-cwd>."
        assert made.text(re.sub("[^A-Za-z0-9]", "-", cwd)) == "<hackamore-cwd-slug>"
    for told, kept in (
        ("/var/tmp/x /tmp/x /srv/own/x /srv/t/x /srv/conf/x", "{temp}/x {temp}/x {temp}/x {temp}/x {config}/x"),
        ("-home-ann -srv-conf -tmp -var-tmp -srv-t", "{home-slug} {config-slug} -tmp {temp-slug} {temp-slug}"),
        ("a-srv-t -srv-t9 -srv-t_x .-srv-t", "a-srv-t -srv-t9 -srv-t_x .-srv-t"),
        ('(/srv/t) "/srv/t" =/srv/t, /srv/t.x /srv/t-x', '({temp}) "{temp}" ={temp}, {temp}.x {temp}-x'),
        ("/srv/t_x /srv/tx x/srv/t ./srv/t -/srv/t _/srv/t", "/srv/t_x /srv/tx x/srv/t ./srv/t -/srv/t _/srv/t"),
        ("/srv/tX /srv/t9 X/srv/t 9/srv/t -srv-tX X-srv-t", "/srv/tX /srv/t9 X/srv/t 9/srv/t -srv-tX X-srv-t"),
        ("/tmp/tmpabcde /tmp/tmpabc_ef /tmp/tmpabc-ef", "{temp}/tmpabcde {folder-1} {temp}/tmpabc-ef"),
        ("/tmp/tmp.abcde /tmp/tmp.abcdef/x /tmp/tmp.abc_ef", "{temp}/tmp.abcde {folder-2}/x {temp}/tmp.abc_ef"),
        ("/tmp/pytest-of-a/pytest-12/x /tmp/pytest-of-a/x", "{folder-3}/x {temp}/pytest-of-a/x"),
        ("/tmp/pytest-of-/pytest-1 /tmp/pytest-of-a/pytest-", "{temp}/pytest-of-/pytest-1 {temp}/pytest-of-a/pytest-"),
        ("/tmp/tmpabcdef\\n /tmp/tmpabcdefg", "{folder-4}\\n {folder-5}"),
    ):
        assert made.text(told) == re.sub("{(.*?)}", r"<hackamore-\1>", kept)


@pytest.mark.parametrize("text", ["\\n{}", "\\r{}\\t", "\\u00e9{}", "\\\\n{}", "\\b{}\\f"])
@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("/home/ann/x", "<hackamore-home>/x"),
        ("ann-lee", "<hackamore-user>"),
        ("sk-abcdefgh", "<hackamore-key-1>"),
        ("AKIA0123456789ABCDEF", "<hackamore-key-1>"),
        ("SG.abcdefghijklmnop.abcdefghijklmnop", "<hackamore-key-1>"),
        ("eyJabcdefgh.abcdefgh.", "<hackamore-key-1>"),
        ("token=abcdefgh", "token=<hackamore-key-1>"),
    ],
)
def test_the_letter_of_an_escape_hides_no_word(text: str, told: str, kept: str) -> None:
    """JSON that is quoted in JSON has `\\n` before the first word of a line."""
    assert everywhere(text.format(told)) == {text.format(kept)}


def test_variables_that_were_set_are_learned_as_they_are_and_without_a_scheme() -> None:
    own = {
        "A": "/no/such/thing",
        "B": "usr/bin-x",
        "C": "Token opensesame",
        "D": "Bearer openharbour",
        "E": "Basic dXNlcjpw1",
        "F": "eight888",
        "G": "seven77",
        "H": "/usr/bin:/no/such",
    }
    made = learned(own, own=(*own, "NOT_SET"))
    for secret in (*list(own.values())[:6], "openharbour", "dXNlcjpw1"):
        assert re.fullmatch(r"in <hackamore-key-\d>\.", made.text(f"in {secret}."))
    for plain in ("seven77", "/usr/bin:/no/such", "opensesame"):
        assert made.text(f"in {plain}.") == f"in {plain}."


def test_a_secret_variable_need_not_be_utf_8() -> None:
    made = learned({"A_TOKEN": "abc\udcff d/f9"})
    encoded = base64.b64encode(b"abc\xff d/f9").decode()
    for spelling in ("abc\udcff d/f9", "abc%FF%20d%2Ff9", "abc%ff+d/f9", encoded):
        assert re.fullmatch(r"in <hackamore-key-\d>\.", made.text(f"in {spelling}."))


@pytest.mark.parametrize("strings", [1, 200])
def test_escapes_and_half_characters_hide_nothing_in_frames_of_any_length(strings: int) -> None:
    for size in (1, 1 << 16):
        frame = {"a": ["x"] * strings, "b": "x" * size, "c": "%", "d": "\ud83d seven"}
        for told, kept in (
            ("ann\\u0040example.com", "<hackamore-email-1>"),
            ("\\u0073k-ant-abcdefgh \\ud83d", "<hackamore-key-1> \ud83d"),
            ("\\/home\\/ann\\/x", "<hackamore-home>/x"),
            ("\\u0074oken=abcdefgh", "token=<hackamore-key-1>"),
        ):
            line = json.dumps(frame).replace("%", told).encode()
            assert json.loads(redactor().line(line, inbound=True)[0]) == {**frame, "c": kept}


def test_secrets_of_urls_and_arguments_are_learned_but_not_what_stands_beside_them() -> None:
    servers: dict[str, Any] = {
        "a": {
            "url": "https://h/x?api_key=letmein-please&page=2",
            "args": [
                *("a1b2c3d4e5f6g7h8i9j0", "a1b2cdefghijklmnopqr", "12345678901234567890", "a1b2c3d4e5f6g7h8i9j"),
                *("a1b2c3d4_+=-g7h8i9j0", "a1b2c3d4/5f6g7h8i9j0k", "--api-key", "opensesame-1", 7),
            ],
        },
        "b": [{"url": 7, "args": "x"}],
    }
    environment = {"A": "https://ann:orch%69d:m@h/x", "B": "postgres://u:gardens7@h", "C": "x --password seven-77-x"}
    argv = (f"--mcp-config={json.dumps(servers)}", "{not JSON", "--x=[", '[{"env":{"A":"harbour one"}}]')
    made = learned(environment, *argv)
    args = servers["a"]["args"]
    for secret in (
        *("letmein-please", "letmein-please&page=2", args[0], args[4], "opensesame-1", "harbour one"),
        *("orch%69d:m", "orchid:m", "ann:orch%69d:m", "gardens7", "seven-77-x"),
    ):
        assert re.fullmatch(r"in <hackamore-key-\d+>\.", made.text(f"in {secret}.")), secret
    for plain in (*args[1:4], args[5], "postgres", "page=2"):
        assert made.text(f"in {plain}.") == f"in {plain}."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Az09._%+-x@example.com", "<hackamore-email-1>"),
        ("<a@b.co>, (c@d.example)", "<<hackamore-email-1>>, (<hackamore-email-2>)"),
        ("a@b.co@d.example", "<hackamore-email-1>@d.example"),
        ("a@b.co.", "<hackamore-email-1>."),
        ("a@b.c a@b @b.co a@-_.co a@b.c0", "a@b.c a@b @b.co a@-_.co a@b.c0"),
        ("a@x-9.b-c.d.e.f.g.h.co", "<hackamore-email-1>"),
        (f"{'a' * 70}@b.co", f"{'a' * 6}<hackamore-email-1>"),
        (f"a@{'b' * 63}.co a@{'b' * 64}.co", f"<hackamore-email-1> a@{'b' * 64}.co"),
    ],
)
def test_an_address_is_masked_with_all_its_letters_and_nothing_else(text: str, kept: str) -> None:
    assert everywhere(text) == {kept}
