"""Credentials do not reach a store, the log, or the text of an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hackamore import McpHttpServerConfig, McpStdioServerConfig, Options, StoreError, sync
from hackamore.errors import without_passwords
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transcripts.stores import MemoryStore, PostgresStore, RedisStore, S3Store
from tests.conftest import RealCLI
from tests.transcripts.stores.conftest import KINDS, Make
from tests.transcripts.stores.hosts import options

MARK = "MARK-OF-THE-PROMPT"


class Tee(MemoryStore):
    """A store that passes each append on to others."""

    def __init__(self, stores: list[Any]) -> None:
        super().__init__()
        self.stores = stores

    async def append(self, key: Any, entries: list[Any]) -> None:
        await super().append(key, entries)
        for store in self.stores:
            await store.append(key, entries)


def kept(kind: str, request: pytest.FixtureRequest, folder: Path, memory: MemoryStore) -> bytes:
    """Everything that the server or the file of a store holds."""
    if kind == "memory":
        return json.dumps([*memory.transcripts().items()]).encode()
    if kind == "sqlite":
        return b"".join(path.read_bytes() for path in folder.glob("sessions.db*"))
    server = request.getfixturevalue(f"{kind}_server")
    if kind == "redis":
        files = [path for path in server.folder.rglob("*") if path.is_file()]  # each command is in one of them
        return b"".join(path.read_bytes() for path in files)
    if kind == "postgres":
        import psycopg

        with psycopg.connect(server.url) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            )
            rows = [connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables.fetchall()]
        return repr(rows).encode()
    import boto3  # type: ignore[import-untyped,unused-ignore]

    client = boto3.client(
        "s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    found = b""
    for bucket in client.list_buckets()["Buckets"]:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"]):
            for each in page.get("Contents", ()):
                got = client.get_object(Bucket=bucket["Name"], Key=each["Key"])
                found += repr((each["Key"], got["Metadata"])).encode() + got["Body"].read()
    return found


@pytest.mark.timeout(120)
def test_no_credential_reaches_a_store(
    real_cli: RealCLI, making: Callable[[str], Make], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = Tee([making(kind)() for kind in KINDS if kind != "memory"])
    settings = {"env": {"SERVICE_TOKEN": "CANARY-SETTINGS"}, "apiKeyHelper": "echo sk-ant-CANARY-HELPER"}
    servers = {
        "web": McpHttpServerConfig(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer CANARY-HEADER"}),
        "local": McpStdioServerConfig(command="/bin/false", env={"DB_PASSWORD": "CANARY-SERVER"}),
    }
    script = (Reply(ToolCall("Bash", {"command": "echo hi"})), Repeat("done"))
    with ScriptedModel(*script) as model:

        def host(name: str, **more: Any) -> Options:
            given = options(real_cli, model, name, store, allowed_tools=["Bash"], mcp_servers=servers, **more)
            secret = {"ANTHROPIC_API_KEY": "sk-ant-CANARY-KEY", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-CANARY-OAUTH"}
            config = Path(given.env["CLAUDE_CONFIG_DIR"] or "")
            config.mkdir(parents=True, exist_ok=True)
            (config / "settings.json").write_text(json.dumps(settings).replace("CANARY", "CANARY-FILE"))
            oauth = {"accessToken": "sk-ant-oat01-CANARY-ACCESS", "refreshToken": "sk-ant-ort01-CANARY-REFRESH"}
            (config / ".credentials.json").write_text(json.dumps({"claudeAiOauth": oauth}))
            return given.replace(env={**given.env, **secret}, settings=settings)

        first = sync.run(MARK, host("a"))
        assert not first.warnings
        assert sync.run("AGAIN", host("b", resume=first.session_id)).session_id == first.session_id
    for kind in KINDS:
        found = kept(kind, request, tmp_path, store)
        assert MARK.encode() in found, kind
        assert b"AGAIN" in found, kind
        at = found.find(b"CANARY")
        assert at < 0, f"{kind}: {found[max(0, at - 200) : at + 50]!r}"


MESSAGES = [
    ('missing "=" after "postgres:/agents:CANARY@db" in connection info string', 'agents:...@db"'),
    ("cannot reach redis://:CANARY@cache:6379/0", "redis://:...@cache:6379/0"),
    ("cannot reach https://me:CAN@ARY/CANARY@host/x", "https://me:...@host/x"),
    ("bad options host=db password=CANARY port=1", "host=db password=... port=1"),
    ("bad options password = 'CANARY CANARY' port=1", "password = ... port=1"),
    ("{'user': 'me', 'password': 'CANARY'}", "{'user': 'me', 'password': ...}"),
    ("aws_secret_access_key=CANARY, region=x", "aws_secret_access_key=..., region=x"),
    ("refused: sk-ant-api03-CANARY", "refused: ..."),
]


@pytest.mark.parametrize(("text", "shown"), MESSAGES)
def test_the_text_of_a_driver_is_shown_without_passwords(text: str, shown: str) -> None:
    masked = without_passwords(text)
    assert "CANARY" not in masked
    assert shown in masked


@pytest.mark.parametrize(
    "text",
    [
        "could not connect to db:5432",
        "mail me@host",
        "http://127.0.0.1:80/path",
        "unexpected token: x",
        "the password is wrong",
    ],
)
def test_other_texts_are_shown_as_they_are(text: str) -> None:
    assert without_passwords(text) == text


class Failing(MemoryStore):
    async def append(self, key: Any, entries: list[Any]) -> None:
        raise ConnectionError(MESSAGES[0][0])

    async def load(self, key: Any) -> Any:
        raise ConnectionError(MESSAGES[1][0])


def test_neither_the_log_nor_an_error_has_the_password_of_a_store(
    real_cli: RealCLI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedModel(Repeat("done")) as model:
        result = sync.run("one", options(real_cli, model, "a", Failing()))
        assert [warning.code for warning in result.warnings][:1] == ["STORE_FAILED"]
        with pytest.raises(StoreError) as caught:
            sync.run("two", options(real_cli, model, "a", Failing(), resume=result.session_id))
    texts = [
        caplog.text,
        str(caught.value),
        repr(caught.value),
        *map(str, result.warnings),
        *map(repr, result.warnings),
    ]
    texts += [str(message) for message in result.messages] + [repr(message) for message in result.messages]
    assert "ConnectionError" in caplog.text
    assert not [text for text in texts if "CANARY" in text]


def test_an_address_that_is_wrong_is_refused_without_being_shown() -> None:
    with pytest.raises(
        ValueError, match=r"`conninfo` is not a connection string of PostgreSQL\..*percent-encode"
    ) as postgres:
        PostgresStore("postgres:/agents:CANARY@db")
    with pytest.raises(ValueError, match="`conninfo` is not") as escaped:
        PostgresStore("postgresql://agents:CANARY%zz@db")
    with pytest.raises(
        ValueError, match=r"`url` is not the URL of a Redis server\. Write `redis://`.*percent-encode"
    ) as redis:
        RedisStore("redis://agents:CANARY/1@cache:6379/0")
    for caught in (postgres, escaped, redis):
        assert "CANARY" not in str(caught.value)
        assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_the_representation_of_a_store_shows_no_address() -> None:
    made = (
        PostgresStore("postgresql://agents:CANARY@db/name", prefix="a.b_", password="CANARY"),
        RedisStore("redis://agents:CANARY@cache:6379/0", prefix="b"),
        S3Store("bucket", region_name="r", aws_access_key_id="x", aws_secret_access_key="CANARY"),
    )
    shown = ["PostgresStore(prefix='a.b_')", "RedisStore(prefix='b')", "S3Store('bucket', prefix='hackamore')"]
    assert [repr(store) for store in made] == shown
