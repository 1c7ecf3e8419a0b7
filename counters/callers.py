"""Who asks: a shop's server with its key, or a buyer with a pass; and what each may do to a hold."""

import time
from dataclasses import dataclass

from starlette.requests import Request

from admission.passes import Pass, PassRefused
from admission.trust import Trust
from chassis.keys import ApiKeys
from chassis.problems import Problem

PASS_COOKIES = ("__Host-fairgate-pass-", "fairgate-pass-")
_REFUSALS = {
    "malformed": "It is not one of our passes.",
    "unknown-key": "It is signed with a key that we do not know.",
    "wrong-room": "It is for another room.",
    "expired": "It has expired: queue again.",
    "not-yet": "It is not valid yet.",
    "revoked": "It was given back or revoked.",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` acts on holds: shop:client or buyer:room:ticket. `owner`, `buyer` and `room` come from the pass that was shown."""

    name: str
    owner: str | None = None
    buyer: str | None = None
    room: str | None = None


class Callers:
    """Reads callers from requests; passes are verified in process."""

    def __init__(self, keys: ApiKeys, trust: Trust) -> None:
        self._keys = keys
        self._trust = trust

    async def reserver(self, request: Request, buyer: str | None) -> Caller:
        """Who reserves: a shop (forwarding the buyer's live pass, or naming `buyer` itself), or a buyer with a live pass."""
        token = pass_token(request)
        shown = None if token is None else self._live(token)
        if "authorization" in request.headers:
            name = await self._shop(request)
            if shown is None:
                return Caller(name, buyer=buyer)
        elif shown is None:
            raise Problem("pass-required", "Send a live pass as Fairgate-Pass, or a shop key.")
        else:
            name = _owner(shown)
        if buyer is not None:
            raise Problem(
                "invalid",
                "The pass says who buys: leave `buyer` out.",
                errors=[{"pointer": "/buyer", "reason": "a pass is shown"}],
            )
        return Caller(name, _owner(shown), shown.identity or _owner(shown), shown.room)

    async def holder(self, request: Request) -> Caller:
        """Who reads, extends or releases: a shop, or a buyer with any pass of its ticket, expired ones too."""
        if "authorization" in request.headers:
            return Caller(await self._shop(request))
        token = pass_token(request)
        if token is None:
            raise Problem("pass-required", "Send a pass as Fairgate-Pass, or a shop key.")
        try:
            return Caller(_owner(self._trust.verifier.read(token)))
        except PassRefused as refused:
            raise _refused(refused) from None

    async def shop(self, request: Request) -> Caller:
        """Who says that money moves: a shop's server alone. A browser must not be able to say that it has paid."""
        return Caller(await self._shop(request))

    async def _shop(self, request: Request) -> str:
        return f"shop:{(await self._keys.actor(request, 'shop')).client}"

    def _live(self, token: str) -> Pass:
        try:
            return self._trust.verifier.verify(token, None, time.time())
        except PassRefused as refused:
            raise _refused(refused) from None


def pass_token(request: Request) -> str | None:
    """The pass in the header, else in the cookie of whichever room."""
    header = request.headers.get("fairgate-pass")
    if header:
        return header
    return next((value for name, value in request.cookies.items() if name.startswith(PASS_COOKIES)), None)


def _owner(shown: Pass) -> str:
    return f"buyer:{shown.room}:{shown.subject}"


def _refused(refused: PassRefused) -> Problem:
    return Problem("pass-refused", f"The pass is not accepted. {_REFUSALS[refused.reason]}", reason=refused.reason)
