"""Stores over real servers, which each run of the tests starts once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from hackamore.transcripts.stores import MemoryStore, PostgresStore, RedisStore, S3Store, SQLiteStore
from tests.support.servers import Moto, Redis, running

KINDS = ("memory", "sqlite", "redis", "postgres", "s3")
Make = Callable[[], Any]


@pytest.fixture(scope="session")
def redis_server() -> Generator[Redis, None, None]:
    yield from running(Redis)


@pytest.fixture(scope="session")
def s3_server() -> Generator[Moto, None, None]:
    yield from running(Moto)


@pytest.fixture
def making(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Callable[[str], Make], None, None]:
    """Return a function of a kind of store; it returns a function that makes stores of that kind over the same data."""
    made: list[Any] = []

    def kept(store: Any) -> Any:
        made.append(store)
        return store

    def of(kind: str) -> Make:
        name = f"test{secrets.token_hex(6)}"
        if kind == "memory":
            return MemoryStore
        if kind == "sqlite":
            return lambda: kept(SQLiteStore(tmp_path / "sessions.db"))
        if kind == "redis":
            url = request.getfixturevalue("redis_server").url
            return lambda: kept(RedisStore(url, prefix=name))
        if kind == "postgres":
            url = request.getfixturevalue("postgres_server").url
            return lambda: kept(PostgresStore(url, prefix=f"{name}_"))
        options = {
            "endpoint_url": request.getfixturevalue("s3_server").url,
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }
        boto3.client("s3", **options).create_bucket(Bucket=name)
        return lambda: kept(S3Store(name, **options))

    yield of
    for store in made:
        store.close()


@pytest.fixture(params=KINDS)
def make_store(request: pytest.FixtureRequest, making: Callable[[str], Make]) -> Make:
    return making(request.param)


os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
