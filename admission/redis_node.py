"""The bond to one life of one Redis: a client whose connections refuse any server but the one it was made for.

A restarted, rewound or promoted Redis has another run id or replication id. So each new connection tells its identity
before its first verb, and a client never speaks to a Redis that may have forgotten, or that is set to forget.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import structlog
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from chassis.problems import Problem

CONNECTIONS_MAX = 32
ANSWER_SECONDS_MAX = 1.5
# What a broken, restarting or overloaded Redis raises.
REDIS_AWAY = (RedisError, ConnectionError, TimeoutError, OSError)
SECTIONS = ("server", "replication", "memory", "persistence")
log = structlog.get_logger()


class LineAway(Problem):
    """Redis cannot be asked now, or holds another generation until the leader has restored it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "busy",
            f"The line cannot be reached now ({reason}). Your place is safe; try again shortly.",
            headers={"Retry-After": "2"},
        )


class RedisUnfit(LineAway):
    """This Redis answers but must not be used; the reason says what to mend."""


class NodeBond:
    """One Redis as one identity; `renew` makes the bond to whichever life of it answers now."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Redis | None = None
        self._renewing = asyncio.Lock()
        self._told = ""
        self.identity: str | None = None

    async def renew(self) -> None:
        """Learn who answers, and bind to it when it is another than before.

        Raises LineAway when nobody does, and RedisUnfit for a replica or a Redis that evicts.
        """
        async with self._renewing:
            await self._renew()

    async def run(
        self, text: str, digest: str, identity: str | None, keys: Sequence[str], values: Sequence[str | bytes]
    ) -> list[Any]:
        """Run a script on the life called `identity`. Raises LineAway; it may then have taken effect all the same."""
        client = self._client
        if client is None or identity is None or identity != self.identity:
            raise LineAway("it has just come back")
        try:
            try:
                answer = await client.evalsha(digest, len(keys), *keys, *values)
            except NoScriptError:
                answer = await client.eval(text, len(keys), *keys, *values)
        except REDIS_AWAY as error:
            raise LineAway(type(error).__name__) from error
        return cast(list[Any], answer)

    async def slots(self) -> list[Any]:
        """What CLUSTER SLOTS answers, from whoever is at this address now. Raises LineAway."""
        client = self._client or _client(self._url, None)
        try:
            return cast(list[Any], await client.cluster("SLOTS"))
        except REDIS_AWAY as error:
            raise LineAway(type(error).__name__) from error
        finally:
            if client is not self._client:
                await client.aclose()

    async def close(self) -> None:
        """Drop the connections; verbs under way end with LineAway."""
        client, self._client, self.identity = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _renew(self) -> None:
        if self._client is not None:
            try:
                facts = await _facts(self._client)
            except REDIS_AWAY:
                await self.close()
            else:
                if _identity(facts) == self.identity and _unfit(facts) is None:
                    return
                await self.close()
        probe = _client(self._url, None)
        try:
            facts = await _facts(probe)
        except REDIS_AWAY as error:
            raise LineAway(type(error).__name__) from error
        finally:
            await probe.aclose()
        if facts.get("loading", "0") != "0":
            raise LineAway("it is still reading its file")
        reason = _unfit(facts)
        self._tell(facts, reason)
        if reason is not None:
            raise RedisUnfit(reason)
        identity = _identity(facts)
        self._client, self.identity = _client(self._url, identity), identity

    def _tell(self, facts: Mapping[str, str], reason: str | None) -> None:
        """Say once, for each life of it, what is the matter with this Redis."""
        said = f"{_identity(facts)} {reason}"
        if said == self._told:
            return
        self._told = said
        if reason is not None:
            log.error("this Redis cannot keep the line", reason=reason)
        elif facts.get("aof_enabled") == "0":
            log.warning("Redis writes no append-only file: a restart forgets the line until it is restored")


async def _facts(client: Redis) -> Mapping[str, str]:
    async with client.pipeline(transaction=False) as pipeline:
        for section in SECTIONS:
            pipeline.info(section)
        answers = await pipeline.execute()
    return {name: str(value) for answer in answers for name, value in answer.items()}


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
    facts: dict[str, str] = {}
    for section in SECTIONS:
        await connection.send_command("INFO", section)
        lines = (line.partition(":") for line in str(await connection.read_response()).splitlines())
        facts |= {name: value for name, _, value in lines}
    if _identity(facts) != expected or _unfit(facts) is not None:
        await connection.disconnect()
        raise ConnectionError("this is another Redis than the one before")


def _identity(facts: Mapping[str, str]) -> str:
    return f"{facts['run_id']}/{facts['master_replid']}"


def _unfit(facts: Mapping[str, str]) -> str | None:
    """Why a Redis with these facts must not keep the line, and what to do; None where it may."""
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"it forgets keys when memory is short: set its maxmemory-policy to noeviction, not {policy}"
    if facts.get("role", "master") != "master":
        return "it is a replica: name its primary in FAIRGATE_REDIS_URL, or promote it"
    return None
