"""Who asks: a shop's server with its key, or a buyer with a pass; and what each may do to a hold."""

import time
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import cookie_parser

from admission.passes import Pass, PassRefused
from admission.trust import Trust
from chassis.hot import Headers
from chassis.http import invalid_fields
from chassis.keys import ApiKeys
from chassis.problems import Problem
from counters.rules import Done, Refused

PASS_COOKIES_MAX = 8
PASS_COOKIES = ("__Host-fairgate-pass-", "fairgate-pass-")
_REFUSALS = {
    "malformed": "It is not one of our passes.",
    "unknown-key": "It is signed with a key that we do not know.",
    "revoked-key": "It is signed with a key that was revoked: claim it again with your ticket.",
    "wrong-room": "It is for another room.",
    "old-epoch": "It is from a sale that is over: queue again.",
    "expired": "It has expired: queue again.",
    "not-yet": "It is not valid yet.",
    "revoked": "It was given back or revoked.",
}


class Caller(msgspec.Struct, frozen=True):
    """`name` acts on holds: shop:client or buyer:room:ticket. `owner`, `buyer` and `room` come from the pass that was shown."""

    name: str
    owner: str | None = None
    buyer: str | None = None
    room: str | None = None


class Callers:
    """Reads callers from requests' headers; passes are verified in process."""

    def __init__(self, keys: ApiKeys, trust: Trust) -> None:
        self._keys = keys
        self._trust = trust

    async def reservers(self, headers: Headers) -> list[Caller]:
        """Who may be reserving: a shop, with or without the buyer's live pass, or a buyer with it.

        Several only where cookies of several rooms are shown: the SKU's room tells which one is meant.
        """
        shop = await self._shop(headers) if b"authorization" in headers else None
        tokens = pass_tokens(headers)
        if not tokens:
            if shop is None:
                raise Problem("pass-required", "Send a live pass as Fairgate-Pass, or a shop key.")
            return [Caller(shop)]
        shown = await self._each(tokens, lambda token: self._trust.verifier.verify(token, None, time.time()))
        return [_reserver(one, shop) for one in shown]

    async def holders(self, headers: Headers) -> list[Caller]:
        """Who may be reading, extending or releasing: a shop, or a buyer with any pass of its ticket, expired ones too."""
        if b"authorization" in headers:
            return [Caller(await self._shop(headers))]
        tokens = pass_tokens(headers)
        if not tokens:
            raise Problem("pass-required", "Send a pass as Fairgate-Pass, or a shop key.")
        return [Caller(_owner(shown)) for shown in await self._each(tokens, self._trust.verifier.read)]

    async def shop(self, headers: Headers) -> Caller:
        """Who says that money moves: a shop's server alone. A browser must not be able to say that it has paid."""
        return Caller(await self._shop(headers))

    async def _shop(self, headers: Headers) -> str:
        shown = headers.get(b"authorization", b"").decode("latin-1")
        return f"shop:{(await self._keys.bearer(shown, 'shop')).client}"

    async def _each(self, tokens: list[str], read: Callable[[str], Pass]) -> list[Pass]:
        """The passes that `read` accepts; an old cookie beside a good one does no harm. Raises when it accepts none.

        One that is signed with a key we have not read yet is worth a look into Postgres, once a second at most.
        """
        shown: list[Pass] = []
        refusals: list[PassRefused] = []
        for token in tokens:
            try:
                shown.append(read(token))
            except PassRefused as refused:
                if refused.reason == "unknown-key" and await self._trust.learn(token):
                    return await self._each(tokens, read)
                refusals.append(refused)
        if not shown:
            raise _refused(refusals[0])
        return shown


def for_buyer(callers: list[Caller], buyer: str | None) -> list[Caller]:
    """The callers with the buyer whom the shop names. Raises Problem invalid where a pass says already who buys."""
    if buyer is None:
        return callers
    if callers[0].owner is not None:
        raise invalid_fields([("/buyer", "a pass is shown: it says who buys")])
    return [msgspec.structs.replace(caller, buyer=buyer) for caller in callers]


async def as_holder(callers: list[Caller], verb: Callable[[str], Awaitable[Done | Refused]]) -> Done | Refused:
    """Do `verb` as whichever of the callers shown has the hold; to all others it does not exist."""
    outcome: Done | Refused = Refused("not-found")
    for caller in callers:
        outcome = await verb(caller.name)
        if not (isinstance(outcome, Refused) and outcome.code == "not-found"):
            break
    return outcome


def pass_tokens(headers: Headers) -> list[str]:
    """The pass in the header, else those in the cookies of whichever rooms."""
    header = headers.get(b"fairgate-pass")
    if header:
        return [header.decode("latin-1")]
    if b"cookie" not in headers:
        return []
    cookies = cookie_parser(headers[b"cookie"].decode("latin-1"))
    return [value for name, value in cookies.items() if name.startswith(PASS_COOKIES)][:PASS_COOKIES_MAX]


def _reserver(shown: Pass, shop: str | None) -> Caller:
    owner = _owner(shown)
    return Caller(shop or owner, owner, shown.identity or owner, shown.room)


def _owner(shown: Pass) -> str:
    return f"buyer:{shown.room}:{shown.subject}"


def _refused(refused: PassRefused) -> Problem:
    return Problem("pass-refused", f"The pass is not accepted. {_REFUSALS[refused.reason]}", reason=refused.reason)
