"""The bond to one life of Redis: a client whose connections refuse any server but the one it was made for.

A restarted, rewound or promoted Redis has another run id or replication id, and all of them break connections. So each
new connection tells its identity before its first verb, and a client never speaks to a Redis that may have forgotten.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from chassis.database import read_text
from chassis.problems import Problem

CONNECTIONS_MAX = 32
ANSWER_SECONDS_MAX = 1.5
OPEN_BY_THEMSELVES = ("restore", "salvage", "tell_stock")
# What a broken, restarting or overloaded Redis raises.
REDIS_AWAY = (RedisError, ConnectionError, TimeoutError, OSError)


class LineAway(Problem):
    """Redis cannot be asked now, or holds another generation until the leader has restored it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "busy",
            f"The line cannot be reached now ({reason}). Your place is safe; try again shortly.",
            headers={"Retry-After": "2"},
        )


class RedisBond:
    """Redis as one identity; `renew` makes the bond to whichever life of it answers now."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._client: Redis | None = None
        self._renewing = asyncio.Lock()
        self.identity: str | None = None

    async def renew(self) -> None:
        """Learn who answers, and bind to it when it is another than before. Raises LineAway when nobody does."""
        async with self._renewing:
            await self._renew()

    async def run(
        self,
        verb: str,
        identity: str | None,
        keys: Sequence[str],
        values: Sequence[str],
        *,
        may_be_absent: bool = False,
    ) -> list[Any]:
        """Run admission/lua/<verb>.lua on the Redis called `identity`. Raises LineAway.

        A verb may have taken effect although its answer was lost; every verb is safe to repeat. A room that this Redis
        does not hold in the caller's generation raises too, unless it `may_be_absent`.
        """
        client = self._client
        if client is None or identity is None or identity != self.identity:
            raise LineAway("it has just come back")
        text, digest = _script(verb)
        try:
            try:
                answer = await client.evalsha(digest, len(keys), *keys, *values)
            except NoScriptError:
                answer = await client.eval(text, len(keys), *keys, *values)
        except REDIS_AWAY as error:
            raise LineAway(type(error).__name__) from error
        if answer[0] == "generation" and not may_be_absent:
            raise LineAway("it is being restored")
        return cast(list[Any], answer)

    async def close(self) -> None:
        """Drop the connections; verbs under way end with LineAway."""
        client, self._client, self.identity = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _renew(self) -> None:
        try:
            if self._client is not None:
                await self._client.ping()
                return
        except REDIS_AWAY:
            await self.close()
        probe = _client(self._url, None)
        try:
            identity = _identity(await probe.info("everything"))
        except REDIS_AWAY as error:
            raise LineAway(type(error).__name__) from error
        finally:
            await probe.aclose()
        self._client, self.identity = _client(self._url, identity), identity


@cache
def _script(verb: str) -> tuple[str, str]:
    """The text and SHA-1 of a verb: opening.lua and the verb's own file, but for those that open by themselves."""
    own = read_text("admission", "lua", f"{verb}.lua")
    text = own if verb in OPEN_BY_THEMSELVES else read_text("admission", "lua", "opening.lua") + own
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _client(url: str, identity: str | None) -> Redis:
    """A client for `identity` alone, or for anybody when None."""
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS_MAX,
        timeout=ANSWER_SECONDS_MAX,
        decode_responses=True,
        socket_timeout=ANSWER_SECONDS_MAX,
        socket_connect_timeout=ANSWER_SECONDS_MAX,
        retry=Retry(NoBackoff(), 1),
        **({} if identity is None else {"redis_connect_func": partial(_greet, identity)}),
    )
    return Redis.from_pool(pool)


async def _greet(expected: str, connection: Connection) -> None:
    await connection.on_connect()
    await connection.send_command("INFO", "everything")
    if _identity(await connection.read_response()) != expected:
        await connection.disconnect()
        raise ConnectionError("this is another Redis than the one before")


def _identity(info: Any) -> str:
    """Run id and replication id, from the text of INFO or from redis-py's reading of it."""
    if isinstance(info, dict):
        return f"{info['run_id']}/{info['master_replid']}"
    lines = (line.partition(":") for line in str(info).splitlines())
    facts = {name: value for name, _, value in lines}
    return f"{facts['run_id']}/{facts['master_replid']}"
