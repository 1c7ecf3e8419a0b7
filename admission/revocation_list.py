"""The public list of refused passes, for verifiers elsewhere: signed, whole or what is new since an earlier one (pure).

It names passes by jti and identities by a hash, so that nobody is shown in it.
"""

import hashlib
from base64 import urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

LIST_KIND = "fairgate-revocations+jwt"


@dataclass(frozen=True, slots=True)
class RefusedPass:
    """A pass that is refused until `expires_at` (Unix seconds); `written_by` orders what was written when."""

    room: str
    jti: str
    expires_at: int
    written_by: int


@dataclass(frozen=True, slots=True)
class RefusedIdentity:
    """An identity whose passes of `epoch` are refused."""

    room: str
    epoch: int
    identity: str
    written_by: int

    @property
    def hashed(self) -> str:
        """base64url(SHA-256(identity)): what a verifier compares with the hash of a pass's identity."""
        return urlsafe_b64encode(hashlib.sha256(self.identity.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class RefusedSince:
    """What is refused in a room since some earlier list, and `next`: what to ask for the next time."""

    room: str
    next: int
    passes: tuple[RefusedPass, ...]
    identities: tuple[RefusedIdentity, ...]

    @property
    def tag(self) -> str:
        """The same for the same refusals, however much time has passed."""
        said = "\n".join(
            [*(f"{one.jti} {one.expires_at}" for one in self.passes), *(one.hashed for one in self.identities)]
        )
        return hashlib.sha256(f"{self.room}\n{said}".encode()).hexdigest()[:24]

    def claims(self, issuer: str, now: float) -> dict[str, object]:
        """The payload to sign."""
        return {
            "iss": issuer,
            "aud": self.room,
            "iat": int(now),
            "next": str(self.next),
            "passes": [{"jti": one.jti, "exp": one.expires_at} for one in self.passes],
            "identities": [{"sha256": one.hashed, "epoch": one.epoch} for one in self.identities],
        }


class RevocationLists:
    """What is refused, room by room, in the order in which it was written."""

    def __init__(self) -> None:
        self.horizon = 0
        self._passes: dict[str, dict[str, RefusedPass]] = {}
        self._identities: dict[str, dict[tuple[int, str], RefusedIdentity]] = {}
        self._ordered: dict[str, list[RefusedPass]] = {}

    def note(self, refused: Iterable[RefusedPass | RefusedIdentity], horizon: int, now: float) -> None:
        """Add what was read up to `horizon`, and forget passes that have expired."""
        for one in refused:
            if isinstance(one, RefusedPass):
                if self._passes.setdefault(one.room, {}).get(one.jti) != one:
                    self._passes[one.room][one.jti] = one
                    self._ordered.pop(one.room, None)
            else:
                self._identities.setdefault(one.room, {})[one.epoch, one.identity] = one
        self.horizon = horizon
        for room, passes in self._passes.items():
            expired = [jti for jti, one in passes.items() if one.expires_at <= now]
            if expired:
                self._ordered.pop(room, None)
            for jti in expired:
                del passes[jti]

    def since(self, room: str, earlier: int) -> RefusedSince:
        """What is refused in `room` and may be new to whoever read up to `earlier`; everything when that is 0 or to come."""
        start = 0 if earlier > self.horizon else earlier
        ordered = self._ordered.get(room)
        if ordered is None:
            ordered = sorted(self._passes.get(room, {}).values(), key=_written_by)
            self._ordered[room] = ordered
        identities = [one for one in self._identities.get(room, {}).values() if one.written_by >= start]
        first = bisect_left(ordered, start, key=_written_by)
        return RefusedSince(room, self.horizon, tuple(ordered[first:]), tuple(identities))


def _written_by(one: RefusedPass) -> int:
    return one.written_by
