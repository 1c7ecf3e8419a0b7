"""The public keys as a JSON Web Key Set (RFC 7517; Ed25519 keys after RFC 8037). Pure."""

import base64
from collections.abc import Mapping


def key_set(public_keys: Mapping[str, bytes]) -> dict[str, object]:
    """The set of raw Ed25519 keys by kid."""
    return {
        "keys": [
            {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": _text(raw)}
            for kid, raw in public_keys.items()
        ]
    }


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
