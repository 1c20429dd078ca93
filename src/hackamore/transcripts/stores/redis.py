"""Session stores in Redis, or a server that speaks its protocol, through `redis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from hackamore.errors import StoreConflictError
from hackamore.transcripts.stores.keys import Adapter, Batch, Positions, milliseconds, missing_extra

if TYPE_CHECKING:
    from hackamore.transcripts.stores.keys import Place

_decode = msgspec.json.Decoder().decode
_PAGE = 1_000

_APPEND = """
local state = redis.call('HMGET', KEYS[1], 'position', 'digest', 'count')
local position, digest, count = tonumber(state[1] or '0') or 0, state[2] or '', tonumber(state[3] or '0')
local expected, talks, new_digest = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3]
if talks and digest == new_digest then return position end
if talks and expected >= 0 and expected ~= position then return -1 end
local fields, known, number = {}, {}, count
for index = 8, #ARGV, 2 do
    local uuid, entry = ARGV[index], ARGV[index + 1]
    local before = uuid ~= '' and (known[uuid] or redis.call('HGET', KEYS[1], 'uuid:' .. uuid))
    if not before or tonumber(before) >= count and not known[uuid] then
        if uuid ~= '' then
            known[uuid] = number
            table.insert(fields, 'uuid:' .. uuid)
            table.insert(fields, number)
        end
        table.insert(fields, number)
        table.insert(fields, entry)
        number = number + 1
        if #fields > 4000 then
            redis.call('HSET', KEYS[1], unpack(fields))
            fields = {}
        end
    end
end
if talks then
    position, digest = position + 1, new_digest
end
redis.call('HSET', KEYS[1], 'position', position, 'digest', digest, 'count', number, unpack(fields))
if ARGV[7] == '' then
    redis.call('ZADD', KEYS[2], 'GT', ARGV[4], ARGV[5])
    redis.call('ZADD', KEYS[3], 'GT', ARGV[4], ARGV[6])
else
    redis.call('SADD', KEYS[4], ARGV[7])
end
return position
"""
"""KEYS: the transcript, sessions of the project, projects of the session, parts of the session.
ARGV: expected position or -1, talks, digest, time, session, project, part, then uuid and entry of each entry.

A server that dies while it writes the script to its file (Redis 7.0.15) leaves a beginning of it there, and after one more start it runs
that beginning with what was written next. So each entry stands under its number, and counts when the last command has said so."""


class RedisStore(Adapter):
    """Keep transcripts in Redis, for the processes of any number of hosts.

    An append is one script, which the server runs as a whole. An append of another writer to the same session raises `StoreConflictError`.
    How much survives a crash of the server is set in the server (`appendfsync`).

    Args:
        url: the server, such as `rediss://user@host:6379/0`.
        prefix: the beginning of all keys. In a cluster all of them are in one slot.
        client: a client of the package `redis` to use in place of `url`; the store does not close it.
        **options: further arguments of `redis.Redis.from_url`: `ssl_ca_certs`, `socket_timeout`, `retry`, ...

    Raises:
        ImportError: `redis` is not installed.
        ValueError: `url` is not the URL of a server.

    Example:
        ::

            store = RedisStore("rediss://cache.example:6379/0", ssl_ca_certs="/etc/ssl/ca.pem")
            options = Options(session_store=store)
    """

    def __init__(
        self, url: str = "redis://localhost:6379/0", *, prefix: str = "hackamore", client: Any = None, **options: Any
    ) -> None:
        try:
            import redis
        except ImportError as error:
            raise missing_extra("redis", "redis") from error
        self._owned = client is None
        self._client: Any = client
        if client is None:
            try:
                self._client = redis.Redis.from_url(url, **options)
            except ValueError:  # its text may have a part of the password
                raise ValueError(
                    "`url` is not the URL of a Redis server. Write `redis://`, `rediss://` or `unix://`, then `user@host:6379/0`, and "
                    "percent-encode special characters of a password."
                ) from None
        self._prefix = prefix
        self._positions = Positions()
        self._script: Any = self._client.register_script(_APPEND)

    def __repr__(self) -> str:
        return f"RedisStore(prefix={self._prefix!r})"

    def close(self) -> None:
        """Close the connections, unless the client was given. The next call opens another one."""
        if self._owned:
            self._client.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _sessions(self, project: str) -> list[tuple[str, int]]:
        found = self._client.zrange(self._key("sessions", project), 0, -1, withscores=True)
        return [(_text(session), int(mtime)) for session, mtime in found]

    def _parts(self, project: str, session: str) -> list[str]:
        return [_text(part) for part in self._client.smembers(self._key("parts", project, session))]

    def _projects(self, session: str) -> list[str]:
        return [_text(project) for project in self._client.zrange(self._key("projects", session), 0, -1, desc=True)]

    def _key(self, kind: str, *parts: str) -> str:
        return ":".join((f"{{{self._prefix}}}", kind, *(quote(part, safe="") for part in parts)))

    def _append(self, place: Place, entries: list[Any]) -> None:
        batch = Batch(entries)
        project, session, part = place
        keys = [
            self._key("transcript", *place),
            self._key("sessions", project),
            self._key("projects", session),
            self._key("parts", project, session),
        ]
        expected = self._positions.seen(place)
        head = [
            -1 if expected is None else expected,
            int(batch.talks),
            batch.digest,
            milliseconds(),
            session,
            project,
            part,
        ]
        pairs = [value for uuid, raw in batch.entries for value in (uuid or "", raw)]
        position = int(self._script(keys=keys, args=[*head, *pairs]))
        if position < 0:
            raise StoreConflictError(session)
        if batch.talks:
            self._positions.saw(place, position)

    def _load(self, place: Place) -> list[Any] | None:
        key = self._key("transcript", *place)
        position, count = self._client.hmget(key, "position", "count")
        entries: list[Any] = []
        for first in range(0, int(count or 0), _PAGE):
            page = self._client.hmget(key, range(first, min(first + _PAGE, int(count))))
            entries += [_decode(entry) for entry in page if entry is not None]  # None: deleted meanwhile
        self._positions.saw(place, int(position or 0))
        return entries if position is not None else None

    def _delete(self, place: Place) -> None:
        project, session, part = place
        parts = [part] if part else ["", *self._parts(project, session)]
        with self._client.pipeline(transaction=True) as pipeline:
            for each in parts:
                pipeline.delete(self._key("transcript", project, session, each))
            if part:
                pipeline.srem(self._key("parts", project, session), part)
            else:
                pipeline.delete(self._key("parts", project, session))
                pipeline.zrem(self._key("sessions", project), session)
                pipeline.zrem(self._key("projects", session), project)
            pipeline.execute()
        self._positions.forget(place)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
