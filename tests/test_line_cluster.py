"""The line on a cluster: each room lives and dies with its own node; and which Redis may keep a line at all."""

import contextlib

import pytest
import redis.asyncio as redis

from admission.redis_bond import LineAway, RedisBond
from admission.redis_cluster import SlotRange, owner_of, read_seeds, read_slots
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, until
from tests.servers import ControlledServer
from tests.valkey_servers import PASSWORD, cluster_url, tcp_valkey, valkey_cluster


async def rooms_on(nodes: list[ControlledServer]) -> list[str]:
    """A room's name for each node, in order."""
    async with redis.Redis.from_url(nodes[0].url, decode_responses=True) as client:
        seeds = read_seeds(cluster_url(nodes))
        assert seeds is not None
        ranges = read_slots(await client.cluster("SLOTS"), seeds, "127.0.0.1:1")
    names = [f"room-{number}" for number in range(200)]
    return [next(name for name in names if owner_of(f"{{{name}}}:line", ranges) == node.url) for node in nodes]


async def test_when_a_node_dies_the_rooms_of_the_others_go_on(settings: Settings, pool: Pool) -> None:
    async with valkey_cluster() as nodes:
        settings = settings.model_copy(update={"redis_url": cluster_url(nodes)})
        names = await rooms_on(nodes)
        async with line_world(settings, pool, names[0]) as doomed, contextlib.AsyncExitStack() as stack:
            others = [LineWorld(doomed.url, pool, name) for name in names[1:]]
            for world in others:
                await stack.enter_async_context(world.http)
            for world in (doomed, *others):
                await world.put(rate_per_minute=60_000)
                await world.admitted(await world.join())
            waiting = await doomed.join()
            await doomed.shows("called", 2)
            await nodes[0].kill()
            await doomed.shows("line", "away")
            assert (await doomed.place(waiting))["place"] == 2
            generations = await generations_of(pool)
            for world in others:
                await world.admitted(await world.join())
                assert (await world.status())["line"] == "reachable"
            await nodes[0].start()
            await doomed.admitted(waiting)
            after = await generations_of(pool)
            assert after[names[0]] > generations[names[0]]
            assert {name: after[name] for name in names[1:]} == {name: generations[name] for name in names[1:]}


async def test_a_room_whose_slot_moves_goes_on_at_its_new_node(settings: Settings, pool: Pool) -> None:
    async with valkey_cluster() as nodes:
        settings = settings.model_copy(update={"redis_url": cluster_url(nodes)})
        name = (await rooms_on(nodes))[0]
        async with line_world(settings, pool, name) as world:
            await world.put(rate_per_minute=60_000)
            inside, waiting = await world.join(), await world.join()
            granted = await world.admitted(inside)
            await move_slot(nodes[0], nodes[1], name)
            assert await world.admitted(waiting)
            assert (await world.claim(inside)).json()["pass"] == granted
            newcomer = await world.join()
            assert newcomer.joined["number"] not in {inside.joined["number"], waiting.joined["number"]}


async def generations_of(pool: Pool) -> dict[str, int]:
    """Each room's generation."""
    return {row["room"]: row["generation"] for row in await pool.fetch("SELECT room, generation FROM line.progress")}


async def move_slot(source: ControlledServer, target: ControlledServer, room: str) -> None:
    """Move a room's slot with its keys, as redis-cli --cluster reshard does."""
    async with redis.Redis.from_url(source.url) as old, redis.Redis.from_url(target.url) as new:
        slot = await old.cluster("KEYSLOT", f"{{{room}}}")
        old_id, new_id = await old.cluster("MYID"), await new.cluster("MYID")
        await new.cluster("SETSLOT", slot, "IMPORTING", old_id)
        await old.cluster("SETSLOT", slot, "MIGRATING", new_id)
        host, port = target.url.rpartition("@")[2].split(":")
        while keys := await old.cluster("GETKEYSINSLOT", slot, 100):
            await old.migrate(host, int(port), keys, 0, 5_000, auth=PASSWORD)
        for node in (new, old):
            await node.cluster("SETSLOT", slot, "NODE", new_id)


async def test_a_redis_that_evicts_is_never_used_and_readiness_says_what_to_mend(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with redis.Redis.from_url(valkey_server.url) as memory:
        await memory.config_set("maxmemory-policy", "allkeys-lru")
        async with line_world(settings, pool) as world:
            answer = await world.http.get("/readyz")
            assert answer.status_code == 503
            assert "set its maxmemory-policy to noeviction, not allkeys-lru" in answer.json()["failed"]["redis"]
            assert await memory.keys() == []
            await memory.config_set("maxmemory-policy", "noeviction")
            await world.put(rate_per_minute=60_000)
            assert (await world.http.get("/readyz")).status_code == 200
            await memory.config_set("maxmemory-policy", "volatile-ttl")
            await world.shows("line", "away")
            refused = await world.http.post("/rooms/onsale/tickets", json={"client_id": "A" * 43})
            assert refused.status_code == 503


async def test_a_replica_is_never_used() -> None:
    async with tcp_valkey() as primary, tcp_valkey() as replica:
        async with redis.Redis.from_url(replica.url) as client:
            host, port = primary.url.rpartition("@")[2].split(":")
            bond = RedisBond(replica.url)
            await bond.renew()
            before = bond.identity_of("onsale")
            await client.replicaof(host, int(port))
            with pytest.raises(LineAway, match="replica"):
                await bond.renew()
            assert bond.identity_of("onsale") is None
            await client.replicaof("NO", "ONE")

            async def renewed() -> bool:
                with contextlib.suppress(LineAway):
                    await bond.renew()
                return bond.identity_of("onsale") is not None

            await until(renewed, "the promoted replica may be used")
            assert bond.identity_of("onsale") != before
            await bond.close()


def test_a_cluster_url_names_nodes_with_one_password() -> None:
    seeds = read_seeds("rediss+cluster://me:secret@a.example:7000,b.example:7001")
    assert seeds is not None
    assert seeds.urls == ("rediss://me:secret@a.example:7000", "rediss://me:secret@b.example:7001")
    assert read_seeds("redis://a.example:7000") is None
    answer = [[100, 199, ["", 7000, "id"]], [0, 99, ["::1", 7001, "id"], ["10.0.0.9", 7002, "id"]]]
    assert read_slots(answer, seeds, "a.example:7000") == [
        SlotRange(0, 99, "rediss://me:secret@[::1]:7001"),
        SlotRange(100, 199, "rediss://me:secret@a.example:7000"),
    ]


def test_a_slot_without_owner_keeps_no_room() -> None:
    ranges = [SlotRange(0, 10, "a"), SlotRange(16_000, 16_383, "b")]
    assert owner_of("{onsale}:line", ranges) is None
    assert owner_of("{onsale}:line", []) is None
