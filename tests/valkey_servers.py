"""Valkeys of a test's own on TCP ports: single ones set up as the test says, and a cluster of three."""

import contextlib
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import redis.asyncio as redis

from fairgate.stack.account import choose_place, own_file, own_folder, server_account
from fairgate.stack.valkey import find_valkey
from tests.servers import ControlledServer, until

SLOTS = 16_384
PASSWORD = secrets.token_hex(8)


@contextlib.asynccontextmanager
async def tcp_valkey(*lines: str) -> AsyncIterator[ControlledServer]:
    """A running Valkey with `lines` added to its configuration; its address is a TCP one."""
    with tempfile.TemporaryDirectory(prefix="fairgate-valkey-") as folder:
        Path(folder).chmod(0o711)
        account = server_account()
        place = choose_place(Path(folder), account)
        valkey = find_valkey(place, own_folder(place / "run", account), account, PASSWORD)
        valkey.make_data()
        configuration = valkey.data / "valkey.conf"
        port = free_port()
        text = "\n".join(
            (configuration.read_text(), f"port {port}", "bind 127.0.0.1", f"primaryauth {PASSWORD}", *lines)
        )
        own_file(configuration, text + "\n", account)
        url = f"redis://:{PASSWORD}@127.0.0.1:{port}"
        async with ControlledServer(url, valkey.service(), Path(folder) / "valkey.log") as server:
            yield server


@contextlib.asynccontextmanager
async def valkey_cluster() -> AsyncIterator[list[ControlledServer]]:
    """Three Valkeys that share the slots; a dead one takes only its own slots along."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(tcp_valkey(*_cluster_lines())) for _ in range(3)]
        clients = [await stack.enter_async_context(redis.Redis.from_url(node.url)) for node in nodes]
        for index, client in enumerate(clients):
            first, last = SLOTS * index // 3, SLOTS * (index + 1) // 3 - 1
            await client.cluster("ADDSLOTSRANGE", first, last)
            await client.cluster("SET-CONFIG-EPOCH", index + 1)
            await client.cluster("MEET", "127.0.0.1", _port(nodes[0]), await _bus_port(clients[0]))

        async def whole() -> bool:
            seen = [await client.cluster("SLOTS") for client in clients]
            return all(sum(last - first + 1 for first, last, *_ in ranges) == SLOTS for ranges in seen)

        await until(whole)
        yield nodes


def cluster_url(nodes: list[ControlledServer]) -> str:
    """The cluster as FAIRGATE_REDIS_URL names it."""
    return f"redis+cluster://:{PASSWORD}@" + ",".join(node.url.rpartition("@")[2] for node in nodes)


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _cluster_lines() -> tuple[str, ...]:
    return (
        "cluster-enabled yes",
        "cluster-config-file nodes.conf",
        "cluster-node-timeout 2000",
        "cluster-require-full-coverage no",
        f"cluster-port {free_port()}",
    )


def _port(node: ControlledServer) -> int:
    return int(node.url.rpartition(":")[2])


async def _bus_port(client: "redis.Redis") -> int:
    return int(str((await client.config_get("cluster-port"))["cluster-port"]))
