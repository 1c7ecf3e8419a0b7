"""Sealing secrets at rest: AES-256-GCM under the master key, bound to what the secret is for (NIST SP 800-38D)."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class SealBroken(Exception):
    """The sealed bytes are not what this master key sealed for this purpose."""


def seal(master_key: bytes, plain: bytes, purpose: str) -> bytes:
    """nonce ‖ ciphertext ‖ tag of `plain`; only the same key and purpose open it."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(master_key).encrypt(nonce, plain, purpose.encode())


def unseal(master_key: bytes, sealed: bytes, purpose: str) -> bytes:
    """What was sealed. Raises SealBroken for another key, another purpose or changed bytes."""
    try:
        return AESGCM(master_key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
    except InvalidTag:
        raise SealBroken(
            f"{purpose} cannot be opened: FAIRGATE_MASTER_KEY is not the key that this database was sealed with"
        ) from None
