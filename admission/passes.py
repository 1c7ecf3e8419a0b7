"""Passes: the signed right to shop, an EdDSA JWT (RFC 8037) that anybody can verify with our public keys.

Pure: values in, values out. The verifier keeps a bounded table of passes it has verified, so that a gate sees most
passes without a signature to check; expiry, revocation and the room's epoch are judged every time.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Refusal = Literal["malformed", "unknown-key", "revoked-key", "wrong-room", "old-epoch", "expired", "not-yet", "revoked"]

ALGORITHM = "EdDSA"
# The header's typ (RFC 8725, section 3.11): nothing else that our keys sign serves as a pass.
KIND = "fairgate-pass+jwt"
KINDS = (KIND, "JWT", None)  # the version before named none of its own
TOKEN_CHARACTERS_MAX = 2048
VERIFIED_MAX = 100_000
CLOCK_SKEW_SECONDS = 30  # a pass from a machine whose clock is ahead of ours is not refused for that


class PassRefused(Exception):
    """The token gives no right to shop; `reason` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Refusal = reason


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass says. Times are Unix seconds; `subject` is the ticket's id, `identity` the buyer's if one was signed."""

    room: str
    subject: str
    jti: str
    issued_at: int
    expires_at: int
    identity: str | None = None
    epoch: int = 1


class _Claims(msgspec.Struct, frozen=True):
    aud: str
    sub: str
    jti: str
    iat: int
    nbf: int
    exp: int
    identity: str | None = None
    epoch: int = 1  # the version before knew one epoch and did not name it


def pass_id(ticket_id: str, turn: int) -> str:
    """The jti of the pass for one turn of one ticket: asking twice, or two workers, gives one right."""
    digest = hashlib.sha256(f"fairgate pass\n{ticket_id}\n{turn}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:18]).decode()


class PassSigner:
    """Signs passes with one private key, named by its `kid`."""

    def __init__(self, kid: str, private_key: Ed25519PrivateKey, issuer: str) -> None:
        self.kid = kid
        self._private_key = private_key
        self.issuer = issuer
        self._pass_header = self._header(KIND)

    def sign_as(self, kind: str, claims: Mapping[str, object]) -> str:
        """Another document of ours as a JWS whose typ is `kind`: nothing that takes a pass takes it for one."""
        return self._sign(self._header(kind), claims)

    def sign(self, granted: Pass) -> str:
        """The token for `granted`: the same values give the same token, since Ed25519 is deterministic (RFC 8032)."""
        claims: dict[str, object] = {
            "iss": self.issuer,
            "aud": granted.room,
            "sub": granted.subject,
            "jti": granted.jti,
            "iat": granted.issued_at,
            "nbf": granted.issued_at,
            "exp": granted.expires_at,
            "epoch": granted.epoch,
        }
        if granted.identity is not None:
            claims["identity"] = granted.identity
        return self._sign(self._pass_header, claims)

    def _header(self, kind: str) -> bytes:
        return _segment({"alg": ALGORITHM, "kid": self.kid, "typ": kind})

    def _sign(self, header: bytes, claims: Mapping[str, object]) -> str:
        """The compact serialization (RFC 7515, section 3.1): written here because a claim is a hot call."""
        signed = header + b"." + _segment(claims)
        return (signed + b"." + _base64url(self._private_key.sign(signed))).decode()


class PassVerifier:
    """Verifies passes with the public keys and revocations it was last given; touches no store."""

    def __init__(self, *, verified_max: int = VERIFIED_MAX) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._public: dict[str, bytes] = {}
        self._revoked_keys: frozenset[str] = frozenset()
        self._epochs: Mapping[str, int] = {}
        self._verified: dict[str, Pass] = {}
        self._verified_max = verified_max
        self._revoked: dict[str, int] = {}
        self._identities: set[tuple[str, int, str]] = set()

    @property
    def public_keys(self) -> Mapping[str, bytes]:
        """The raw public keys (32 bytes) by kid."""
        return self._public

    def knows(self, kid: str) -> bool:
        """Whether `kid` names a key that was published, revoked or not."""
        return kid in self._keys or kid in self._revoked_keys

    def trust_keys(self, public_keys: Mapping[str, bytes], revoked: Iterable[str] = ()) -> None:
        """Verify with exactly `public_keys` (raw, by kid) from now on; what a dropped key signed is refused at once.

        What one of the `revoked` kids signed is refused by that name.
        """
        self._revoked_keys = frozenset(revoked)
        if public_keys == self._public:
            return
        if not self._public.items() <= public_keys.items():
            self._verified.clear()
        self._keys = {kid: Ed25519PublicKey.from_public_bytes(raw) for kid, raw in public_keys.items()}
        self._public = dict(public_keys)

    def trust_epochs(self, epochs: Mapping[str, int]) -> None:
        """Refuse passes of an epoch that is over, by the rooms' present ones. A room that is not named is not judged."""
        self._epochs = epochs

    def revoke(self, revoked: Iterable[tuple[str, int]], now: float) -> None:
        """Refuse these (jti, expires_at) from now on, and forget those that have expired anyway."""
        self._revoked.update(revoked)
        for jti in [jti for jti, expires_at in self._revoked.items() if expires_at <= now]:
            del self._revoked[jti]

    def revoke_identities(self, revoked: Iterable[tuple[str, int, str]]) -> None:
        """Refuse all passes of these (room, epoch, identity) from now on."""
        self._identities.update(revoked)

    def verify(self, token: str, room: str | None, now: float) -> Pass:
        """The pass behind `token`, for `room` (or any room when None) at Unix time `now`. Raises PassRefused."""
        granted = self._verified.get(token)
        if granted is None:
            granted = self._check(token, now)
            if len(self._verified) >= self._verified_max:
                del self._verified[next(iter(self._verified))]
            self._verified[token] = granted
        if room is not None and granted.room != room:
            raise PassRefused("wrong-room")
        if granted.expires_at <= now:
            raise PassRefused("expired")
        # A later epoch than the one we read last began since: our own signature says so.
        if granted.epoch < self._epochs.get(granted.room, 0):
            raise PassRefused("old-epoch")
        if granted.jti in self._revoked:
            raise PassRefused("revoked")
        if granted.identity is not None and (granted.room, granted.epoch, granted.identity) in self._identities:
            raise PassRefused("revoked")
        return granted

    def read(self, token: str) -> Pass:
        """What a pass of ours says, live or over: whose it is, not whether it may shop. Raises PassRefused."""
        return _pass_of(self._signed(token))

    def _check(self, token: str, now: float) -> Pass:
        claims = self._signed(token)
        if claims.exp <= now:
            raise PassRefused("expired")
        if claims.nbf > now + CLOCK_SKEW_SECONDS:
            raise PassRefused("not-yet")
        return _pass_of(claims)

    def _signed(self, token: str) -> _Claims:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise PassRefused("malformed")
        try:
            header = jwt.get_unverified_header(token)
            kid, kind = header.get("kid"), header.get("typ")
            if not isinstance(kid, str) or kind not in KINDS:
                raise PassRefused("malformed")
            if kid in self._revoked_keys:
                raise PassRefused("revoked-key")
            key = self._keys.get(kid)
            if key is None:
                raise PassRefused("unknown-key")
            payload = jwt.decode(token, key, algorithms=[ALGORITHM], options=_SIGNATURE_ONLY)
            return msgspec.convert(payload, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError):
            raise PassRefused("malformed") from None


def _segment(members: Mapping[str, object]) -> bytes:
    return _base64url(msgspec.json.encode(members))


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _pass_of(claims: _Claims) -> Pass:
    return Pass(claims.aud, claims.sub, claims.jti, claims.iat, claims.exp, claims.identity, claims.epoch)


def key_named(token: str) -> str | None:
    """The kid that `token` names, unchecked; None when it is no JWT or far too long."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        return None
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return kid if isinstance(kid, str) else None


# We judge the times ourselves, against the `now` we are given, and each time a pass is shown.
_SIGNATURE_ONLY = jwt.types.Options(
    verify_signature=True,
    verify_exp=False,
    verify_nbf=False,
    verify_iat=False,
    verify_aud=False,
    verify_iss=False,
    verify_sub=False,
    verify_jti=False,
    require=["aud", "sub", "jti", "iat", "nbf", "exp"],
)
