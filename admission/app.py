"""The gateway as a process: composition only."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from admission.admin import RoomsApi
from admission.api import LineApi
from admission.away import Away
from admission.book import Book
from admission.claim_keeper import ClaimKeeper
from admission.controller import Controller
from admission.cookies import Cookies
from admission.credentials import Credentials
from admission.draw_api import DrawApi
from admission.entries import Entries
from admission.gate import Gate
from admission.gauges import Gauges
from admission.keyring import Keyring
from admission.keys_api import SigningKeysApi
from admission.line import Line
from admission.openapi import openapi_route
from admission.pages import Pages
from admission.recovery_api import RecoveryApi
from admission.recovery_codes import RecoveryCodes
from admission.redis_bond import RedisBond
from admission.renewals import Renewals
from admission.restoring import Restorer
from admission.revocation_list import RevocationLists
from admission.revocations import Revocations, RevokedTickets
from admission.revocations_api import RevocationsApi
from admission.rooms import Rooms
from admission.shares import Shares
from admission.signing_keys import SigningKeys
from admission.trust import Trust
from admission.waiting_room import WaitingRoom
from chassis.database import STORE_AWAY, Pool, make_pool
from chassis.keys import ApiKeys
from chassis.leases import Lease
from chassis.loops import Loop
from chassis.problems import Problem
from chassis.settings import Settings
from chassis.shell import Check, create_app

STEP_SECONDS = 0.5
BOOK_SECONDS = 0.5
TRUST_SECONDS = 1.0
KEYRING_SECONDS = 1.0
RENEWAL_SECONDS = 1.0
PRUNE_SECONDS = 60.0
KEEPER_SECONDS = 0.5
SHARES_SECONDS = 2.0
STATUS_AT_ONCE_MAX = 4_096  # they are answered from memory at once: as many as the server takes


@dataclass(frozen=True, slots=True)
class Parts:
    """What one worker is made of."""

    settings: Settings
    pool: Pool
    bond: RedisBond
    book: Book
    lists: RevocationLists
    trust: Trust
    keyring: Keyring
    keeper: ClaimKeeper
    shares: Shares
    revoked_tickets: RevokedTickets
    waiting_room: WaitingRoom
    renewals: Renewals
    cookies: Cookies
    credentials: Credentials
    controller: Controller


def create(settings: Settings | None = None) -> Starlette:
    """The app of `fairgate serve gateway`."""
    parts = assemble(settings or Settings.from_environment())

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with parts.pool:
            # A gateway that answers before it knows its keys and rooms would send admitted buyers away.
            for knowing in (parts.keyring, parts.trust, parts.book, parts.revoked_tickets):
                with contextlib.suppress(*STORE_AWAY, Problem):
                    await knowing.refresh()
            running = [asyncio.create_task(loop.run(stop)) for loop in loops(parts)]
            try:
                yield
            finally:
                stop.set()
                await asyncio.gather(*running)
                with contextlib.suppress(*STORE_AWAY):
                    await parts.controller.release()
                    await parts.keeper.run_once()
                    await parts.shares.release()
                await parts.bond.close()

    line_api = LineApi(parts.book, parts.waiting_room, parts.credentials, parts.cookies, parts.settings.prefix)
    return create_app(
        [*line_api.routes(), *routes(parts)],
        name="gateway",
        hot=line_api.hot(),
        hot_at_once_max=STATUS_AT_ONCE_MAX,
        settings=parts.settings,
        lifespan=lifespan,
        checks=readiness(parts.pool, parts.keyring, parts.book, parts.bond),
    )


def assemble(settings: Settings) -> Parts:
    """The parts of one worker, wired to each other; nothing is asked of a store yet."""
    pool = make_pool(settings)
    bond = RedisBond(settings.redis_url)
    book = Book(pool, bond)
    lists = RevocationLists()
    trust = Trust(pool, lists)
    keyring = Keyring(pool, settings.master_key_bytes, settings.public_url + settings.prefix)
    line = Line(bond)
    keeper = ClaimKeeper(pool)
    shares = Shares(pool, book, secrets.token_hex(8))
    revoked_tickets = RevokedTickets(pool, book, line)
    restorer = Restorer(pool, Entries(pool, bond))
    away = Away(pool, keeper, shares)
    cookies = Cookies(https=settings.https)
    lease = Lease(pool, "controller", secrets.token_hex(8))
    return Parts(
        settings=settings,
        pool=pool,
        bond=bond,
        book=book,
        lists=lists,
        trust=trust,
        keyring=keyring,
        keeper=keeper,
        shares=shares,
        revoked_tickets=revoked_tickets,
        waiting_room=WaitingRoom(pool, line, book, keyring, trust, restorer, revoked_tickets, keeper, away),
        renewals=Renewals(book, line, keyring, keeper),
        cookies=cookies,
        credentials=Credentials(cookies, keyring, trust, revoked_tickets),
        controller=Controller(pool, bond, book, lease, settings.master_key_bytes),
    )


def loops(parts: Parts) -> list[Loop]:
    """What one worker does beside answering."""
    return [
        Loop("keyring", parts.keyring.refresh, KEYRING_SECONDS),
        Loop("trust", parts.trust.refresh, TRUST_SECONDS),
        Loop("revoked tickets", parts.revoked_tickets.refresh, TRUST_SECONDS),
        Loop("renewals", parts.renewals.run_once, RENEWAL_SECONDS),
        Loop("book", parts.book.refresh, BOOK_SECONDS),
        Loop("claims", parts.keeper.run_once, KEEPER_SECONDS),
        Loop("shares", parts.shares.run_once, SHARES_SECONDS),
        Loop("controller", parts.controller.run_once, STEP_SECONDS),
        Loop("gauges", Gauges(parts.book).run_once, BOOK_SECONDS),
        Loop("prune", parts.controller.prune, PRUNE_SECONDS),
        Loop("prune keys", parts.keyring.prune, PRUNE_SECONDS),
    ]


def routes(parts: Parts) -> list[BaseRoute]:
    """All that the gateway answers beside the line's own calls; /admin is for operators and never mounted on the shop's host."""
    settings, pool, book, prefix = parts.settings, parts.pool, parts.book, parts.settings.prefix
    codes = RecoveryCodes(pool, parts.keyring, settings.master_key_bytes)
    api_keys = ApiKeys(pool)
    credentials, cookies = parts.credentials, parts.cookies
    return [
        *RecoveryApi(book, codes, credentials, cookies, settings.public_url, prefix).routes(),
        *DrawApi(pool, book).routes(),
        *Pages(book, parts.waiting_room, credentials, cookies, parts.trust.verifier, prefix).routes(),
        *Gate(credentials, cookies, parts.renewals, prefix).routes(),
        *RevocationsApi(book, Revocations(pool), parts.lists, parts.keyring, api_keys).routes(),
        *RoomsApi(Rooms(pool), api_keys).routes(),
        *SigningKeysApi(SigningKeys(pool, settings.master_key_bytes), api_keys).routes(),
        openapi_route(settings),
    ]


def readiness(pool: Pool, keyring: Keyring, book: Book, bond: RedisBond) -> dict[str, Check]:
    """What must hold for the gateway to serve; each raises while it does not."""

    async def postgres() -> None:
        await pool.fetchval("SELECT 1 FROM line.rooms LIMIT 1")

    async def signing_keys() -> None:
        _ = keyring.signer, keyring.ticket_keys

    async def rooms() -> None:
        book.require_read()

    async def redis() -> None:
        await bond.renew()

    return {"postgres": postgres, "signing keys": signing_keys, "rooms": rooms, "redis": redis}
