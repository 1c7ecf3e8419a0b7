"""Renewal on activity: a buyer who shops on keeps the slot, and gets a longer pass for it.

Activity is noted in memory and costs no store; one call a second and room lengthens the slots of those who were active.
Only after that a longer pass is handed out, with the same sub, jti and iat.
"""

import time
from dataclasses import dataclass, replace

from admission.book import Book, View
from admission.claim_keeper import Claim, ClaimKeeper
from admission.keyring import Keyring
from admission.line import Line
from admission.passes import Pass
from admission.redis_bond import LineAway

NOTED_MAX = 100_000
RENEWED_MAX = 500  # in one call: the script must stay short
WORTH_SHARE = 0.1  # of pass_seconds: what must have passed before a slot is worth lengthening
WORTH_SECONDS_MIN = 1.0


@dataclass(slots=True)
class _Longer:
    """A pass whose slot is long enough for it, and its token once somebody has asked for it."""

    granted: Pass
    token: str | None = None


class Renewals:
    """Who was active since the last pass, and the longer passes that follow from it; both bounded."""

    def __init__(
        self, book: Book, line: Line, keyring: Keyring, keeper: ClaimKeeper, *, noted_max: int = NOTED_MAX
    ) -> None:
        self._book = book
        self._line = line
        self._keyring = keyring
        self._keeper = keeper
        self._noted_max = noted_max
        self._noted: dict[str, dict[str, Pass]] = {}
        self._longer: dict[str, _Longer] = {}

    def note(self, shown: Pass) -> tuple[Pass, str] | None:
        """Note that the buyer behind a live pass is active: the longer pass and its token, if the slot is longer already.

        Touches no store.
        """
        view = self._book.views.get(shown.room)
        if view is None or not view.room.settings.renew:
            return None
        longer = self._longer.get(shown.jti)
        if longer is None or longer.granted.expires_at <= shown.expires_at:
            self._note(view, shown)
            return None
        self._note(view, longer.granted)
        if longer.token is None:
            longer.token = self._keyring.signer.sign(longer.granted)
        return longer.granted, longer.token

    async def run_once(self) -> int:
        """Lengthen the slots of whoever was active; how many are longer now. Raises Problem busy before the keys are read."""
        _ = self._keyring.signer  # whatever is lengthened here must be signable at the gate
        noted, self._noted = self._noted, {}
        renewed = 0
        for room, shown in noted.items():
            view = self._book.views.get(room)
            if view is not None and view.handle is not None:
                passes = list(shown.values())
                for at in range(0, len(passes), RENEWED_MAX):
                    renewed += await self._renew(view, passes[at : at + RENEWED_MAX])
        now = time.time()
        for jti in [jti for jti, longer in self._longer.items() if longer.granted.expires_at <= now]:
            del self._longer[jti]
        return renewed

    def _note(self, view: View, shown: Pass) -> None:
        pass_seconds = view.room.settings.pass_seconds
        used_seconds = pass_seconds - (shown.expires_at - time.time())
        of_room = self._noted.setdefault(shown.room, {})
        if used_seconds >= max(WORTH_SECONDS_MIN, pass_seconds * WORTH_SHARE) and len(of_room) < self._noted_max:
            of_room[shown.subject] = shown

    async def _renew(self, view: View, passes: list[Pass]) -> int:
        assert view.handle is not None
        try:
            expiries = await self._line.renew(view.handle, [shown.subject for shown in passes])
            longer = [
                Claim(shown.subject, 0, shown.issued_at, expires_at)
                for shown, expires_at in zip(passes, expiries, strict=True)
                if expires_at > shown.expires_at
            ]
            await self._keeper.keep_all(view.handle, longer)  # a Redis that is lost must not forget a handed out expiry
        except LineAway:
            return 0  # whoever goes on shopping is noted again
        renewed = 0
        for shown, expires_at in zip(passes, expiries, strict=True):
            if expires_at > shown.expires_at:
                if len(self._longer) >= self._noted_max:
                    del self._longer[next(iter(self._longer))]
                self._longer[shown.jti] = _Longer(replace(shown, expires_at=expires_at))
                renewed += 1
        return renewed
