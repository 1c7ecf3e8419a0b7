"""Keys, leases, seals and the loop runner: what every process trusts."""

import asyncio
import time
from typing import Any

import pytest
import structlog
from starlette.requests import Request

from chassis.database import Pool
from chassis.keys import KEPT_SECONDS, Actor, ApiKeys, Role
from chassis.leases import Lease
from chassis.loops import Loop
from chassis.problems import Problem
from chassis.seal import SealBroken, seal, unseal
from chassis.telemetry import hide_secrets


def request_with(authorization: str | None) -> Request:
    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    return Request({"type": "http", "headers": headers})


async def test_a_key_is_shown_once_and_stored_only_as_a_hash(pool: Pool) -> None:
    key = await ApiKeys(pool).create("box-office", "shop")
    secret = key.split("_", 2)[2]
    stored = await pool.fetchval("SELECT string_agg(api_keys::text, ' ') FROM chassis.api_keys")
    assert secret not in stored
    actor = await ApiKeys(pool).actor(request_with(f"Bearer {key}"), "shop")
    assert actor == Actor("box-office", "shop", key.split("_")[1])


@pytest.mark.parametrize(
    ("role", "needed", "code"),
    [
        ("shop", "operator", "forbidden"),
        ("operator", "shop", "forbidden"),
        ("operator", "admin", "forbidden"),
        ("admin", "shop", None),
        ("admin", "operator", None),
    ],
)
async def test_roles_bound_what_a_key_may_do(pool: Pool, role: Role, needed: Role, code: str | None) -> None:
    keys = ApiKeys(pool)
    request = request_with(f"Bearer {await keys.create('someone', role)}")
    if code is None:
        assert (await keys.actor(request, needed)).role == role
        return
    with pytest.raises(Problem) as refused:
        await keys.actor(request, needed)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", "Basic abc", "Bearer fgk_000000000000_" + "A" * 43, "Bearer fgk_\u00e9"]
)
async def test_no_valid_key_is_unauthenticated(pool: Pool, header: str | None) -> None:
    with pytest.raises(Problem) as refused:
        await ApiKeys(pool).actor(request_with(header), "shop")
    assert refused.value.code == "unauthenticated"


async def test_the_right_id_with_another_secret_is_refused(pool: Pool) -> None:
    keys = ApiKeys(pool)
    first, second = await keys.create("a", "shop"), await keys.create("b", "shop")
    mixed = f"fgk_{first.split('_')[1]}_{second.split('_', 2)[2]}"
    with pytest.raises(Problem) as refused:
        await keys.actor(request_with(f"Bearer {mixed}"), "shop")
    assert refused.value.code == "unauthenticated"


async def test_a_revoked_key_is_refused(pool: Pool) -> None:
    keys = ApiKeys(pool)
    key = await keys.create("box-office", "shop")
    await keys.actor(request_with(f"Bearer {key}"), "shop")
    await keys.revoke(key.split("_")[1])
    with pytest.raises(Problem):
        await keys.actor(request_with(f"Bearer {key}"), "shop")
    with pytest.raises(Problem):
        await keys.revoke("ffffffffffff")


async def test_a_key_that_another_process_revoked_is_refused_once_it_is_no_longer_remembered(pool: Pool) -> None:
    here, elsewhere = ApiKeys(pool), ApiKeys(pool)
    key = await here.create("box-office", "shop")
    used_from = time.monotonic()
    await here.bearer(f"Bearer {key}", "shop")
    with pytest.raises(Problem, match="operator"):
        await here.bearer(f"Bearer {key}", "operator")
    await elsewhere.revoke(key.split("_")[1])
    with pytest.raises(Problem, match="valid key"):
        while time.monotonic() < used_from + 2 * KEPT_SECONDS:
            await here.bearer(f"Bearer {key}", "shop")
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("client", "role"), [("Box Office", "shop"), ("", "shop"), ("x" * 64, "shop"), ("a", "root")])
async def test_a_key_for_nobody_is_refused(pool: Pool, client: str, role: Any) -> None:
    with pytest.raises(Problem) as refused:
        await ApiKeys(pool).create(client, role)
    assert refused.value.code == "invalid"


async def test_one_process_leads_a_role_at_a_time(pool: Pool) -> None:
    bids = await asyncio.gather(*(Lease(pool, "sweeper", f"holder-{i}").hold() for i in range(20)))
    assert [term for term in bids if term is not None] == [1]


async def test_a_lease_renewed_in_time_keeps_its_term_and_a_lapsed_one_does_not(pool: Pool) -> None:
    lease = Lease(pool, "sweeper", "a")
    assert [await lease.hold(), await lease.hold()] == [1, 1]
    await pool.execute("UPDATE chassis.leases SET until = clock_timestamp() - interval '1 s'")
    assert await lease.hold() == 2


async def test_a_lease_that_ran_out_passes_on_with_a_higher_term(pool: Pool) -> None:
    paused, successor = Lease(pool, "sweeper", "paused"), Lease(pool, "sweeper", "successor")
    assert await paused.hold() == 1
    assert await successor.hold() is None
    await pool.execute("UPDATE chassis.leases SET until = clock_timestamp() - interval '1 s'")
    assert await successor.hold() == 2
    assert await paused.hold() is None
    await paused.release()
    assert await successor.hold() == 2


async def test_a_released_lease_is_free_at_once(pool: Pool) -> None:
    first, second = Lease(pool, "sweeper", "first"), Lease(pool, "sweeper", "second")
    await first.hold()
    await first.release()
    assert await second.hold() == 2


def test_only_the_same_key_and_purpose_open_a_seal() -> None:
    key = bytes(range(32))
    sealed = seal(key, b"draw secret", "draw:onsale:1")
    assert b"draw secret" not in sealed
    assert unseal(key, sealed, "draw:onsale:1") == b"draw secret"
    for other_key, other_sealed, purpose in (
        (bytes(32), sealed, "draw:onsale:1"),
        (key, sealed, "draw:onsale:2"),
        (key, sealed[:-1] + bytes([sealed[-1] ^ 1]), "draw:onsale:1"),
    ):
        with pytest.raises(SealBroken):
            unseal(other_key, other_sealed, purpose)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Bearer abc"),
        ("fairgate_secret", "abc"),
        ("set_cookie", "abc"),
        ("error", "key fgk_0123456789ab_SECRETSECRET refused"),
        ("url", "redis://:SECRET@host"),
        ("detail", "eyJhbGciOiJFZERTQSJ9.SECRET.SECRET"),
    ],
)
def test_secrets_never_reach_the_log(name: str, value: str) -> None:
    event = hide_secrets(None, "info", {name: value})
    assert "SECRET" not in event[name]
    assert event[name] != "abc"
    assert "Bearer" not in event[name]


async def test_a_loop_survives_its_job_and_stops_when_told() -> None:
    runs: list[int] = []
    stop = asyncio.Event()

    async def job() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise ConnectionRefusedError("away")
        if len(runs) == 2:
            raise ValueError("a bug")
        stop.set()

    with structlog.testing.capture_logs() as logs:
        await asyncio.wait_for(Loop("job", job, 0.01).run(stop), 10)
    assert runs == [0, 1, 2]
    assert [entry["event"] for entry in logs] == ["loop waits for a store", "loop failed"]
