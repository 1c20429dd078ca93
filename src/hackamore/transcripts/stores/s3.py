"""Session stores in S3, or any storage that speaks its protocol, through `boto3`.

Each append is one object, numbered. The object is made only if its number is free (`If-None-Match`), so two writers cannot both have it:

    PREFIX/parts/PROJECT/SESSION/PART/000000000007        the entries of one append, a line each
    PREFIX/sessions/PROJECT/SESSION                       the time of the last append, for lists
    PREFIX/projects/SESSION/PROJECT                       where a session is
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from hackamore.errors import StoreConflictError
from hackamore.transcripts.stores.keys import Adapter, Batch, Positions, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.transcripts.stores.keys import Place

_decode_lines = msgspec.json.Decoder().decode_lines
_MAIN = "_"
"""The folder of the main transcript: a quoted name of a part is never this alone."""
_READERS = 8
_DELETED_AT_ONCE = 1_000
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class S3Store(Adapter):
    """Keep transcripts in a bucket, for the processes of any number of hosts.

    An append is one object, which is there as a whole or not at all. An append of another writer to the same session raises
    `StoreConflictError`. The storage has to honour `If-None-Match` when it puts an object, as Amazon S3, MinIO and Cloudflare R2 do.

    Args:
        bucket: the bucket.
        prefix: the beginning of all keys, without a slash at its end.
        client: a client that `boto3` made, to use in place of the options.
        **options: arguments of `boto3.client("s3", ...)`: `endpoint_url`, `region_name`, `verify`, `config` (retries, timeouts), ...

    Raises:
        ImportError: `boto3` is not installed.

    Example:
        ::

            store = S3Store("my-agents", prefix="sessions", region_name="eu-central-1")
            options = Options(session_store=store)
    """

    def __init__(self, bucket: str, *, prefix: str = "hackamore", client: Any = None, **options: Any) -> None:
        try:
            import boto3  # type: ignore[import-untyped,unused-ignore]
            from botocore.exceptions import ClientError  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise missing_extra("boto3", "s3") from error
        self._bucket = bucket
        self._prefix = prefix
        self._client: Any = boto3.client("s3", **options) if client is None else client
        self._owned = client is None
        self._refused: type[Exception] = ClientError
        self._positions = Positions()

    def __repr__(self) -> str:
        return f"S3Store({self._bucket!r}, prefix={self._prefix!r})"

    def close(self) -> None:
        """Close the connections, unless the client was given."""
        if self._owned:
            self._client.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        return "/".join((self._prefix, *(quote(part, safe="") for part in parts))).lstrip("/")

    def _folder(self, place: Place) -> str:
        project, session, part = place
        return f"{self._key('parts', project, session)}/{_MAIN if not part else '=' + quote(part, safe='')}/"

    def _objects(self, prefix: str) -> Iterator[Any]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            yield from page.get("Contents", ())

    def _append(self, place: Place, entries: list[Any]) -> None:
        batch = Batch(entries)
        folder = self._folder(place)
        known = self._positions.seen(place)
        number = self._next(folder) if known is None else known
        body = b"".join(raw + b"\n" for _, raw in batch.entries)
        # Only a writer that may be first, or that adds no messages, looks further: behind the titles and tags of others.
        while not self._put(f"{folder}{number:012d}", body, batch):
            facts = self._client.head_object(Bucket=self._bucket, Key=f"{folder}{number:012d}")["Metadata"]
            if facts.get("digest") == batch.digest:
                break  # this append, whose answer was lost
            if batch.talks and facts.get("talks") == "1":
                raise StoreConflictError(place[1])
            number += 1
        self._positions.saw(place, number + 1)
        if not place[2]:
            for name in (self._key("sessions", *place[:2]), self._key("projects", place[1], place[0])):
                self._client.put_object(Bucket=self._bucket, Key=name, Body=b"")

    def _put(self, key: str, body: bytes, batch: Batch) -> bool:
        """Make an object; return False if it is there already."""
        facts = {"digest": batch.digest, "talks": str(int(batch.talks))}
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*", Metadata=facts)
        except self._refused as error:
            if getattr(error, "response", {}).get("Error", {}).get("Code") in _TAKEN:
                return False
            raise
        return True

    def _next(self, folder: str) -> int:
        last = max((each["Key"] for each in self._objects(folder)), default=None)
        return 0 if last is None else int(last.rpartition("/")[2]) + 1

    def _load(self, place: Place) -> list[Any] | None:
        folder = self._folder(place)
        names = sorted(each["Key"] for each in self._objects(folder))
        if not names:
            self._positions.saw(place, 0)
            return None
        with ThreadPoolExecutor(min(_READERS, len(names))) as readers:
            bodies = list(readers.map(self._read, names))
        entries: list[Any] = []
        known: set[str] = set()
        for body in bodies:
            for entry in _decode_lines(body):
                uuid = entry.get("uuid")
                if uuid and isinstance(uuid, str):
                    if uuid in known:
                        continue
                    known.add(uuid)
                entries.append(entry)
        self._positions.saw(place, int(names[-1].rpartition("/")[2]) + 1)
        return entries

    def _read(self, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return body

    def _sessions(self, project: str) -> list[tuple[str, int]]:
        listed = self._objects(f"{self._key('sessions', project)}/")
        return [(_last_part(each), int(each["LastModified"].timestamp() * 1000)) for each in listed]

    def _parts(self, project: str, session: str) -> list[str]:
        prefix = f"{self._key('parts', project, session)}/="
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, Delimiter="/"
        )
        return [unquote(each["Prefix"][len(prefix) : -1]) for page in pages for each in page.get("CommonPrefixes", ())]

    def _projects(self, session: str) -> list[str]:
        listed = self._objects(f"{self._key('projects', session)}/")
        found = [(each["LastModified"], _last_part(each)) for each in listed]
        return [project for _, project in sorted(found, reverse=True)]

    def _delete(self, place: Place) -> None:
        project, session, part = place
        if part:
            names = [each["Key"] for each in self._objects(self._folder(place))]
        else:
            # The lists first: a deletion that stops half-way leaves nothing that is listed and not whole.
            names = [self._key("sessions", project, session), self._key("projects", session, project)]
            names += [each["Key"] for each in self._objects(f"{self._key('parts', project, session)}/")]
        for start in range(0, len(names), _DELETED_AT_ONCE):
            objects = [{"Key": name} for name in names[start : start + _DELETED_AT_ONCE]]
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
            if problems := answer.get("Errors"):
                raise OSError(f"{len(problems)} objects could not be deleted, such as {problems[0].get('Key')!r}")
        self._positions.forget(place)


def _last_part(listed: Any) -> str:
    return unquote(listed["Key"].rpartition("/")[2])
