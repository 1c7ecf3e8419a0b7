"""The Merkle tree over a draw's entries (pure): RFC 6962's hashing and shape, with leaves of our own.

Entry i is leaf i - 1. What nobody holds (an index that was never issued, or whose owner is unknown) is an empty leaf, 32
zero bytes. A chunk of 1,024 leaves is a whole subtree, so that the tree's root and any path follow from the roots of its
chunks and the leaves of one: a million entries cost a thousand hashes at the close.
"""

import hashlib
from collections.abc import Mapping, Sequence

LEAF_BYTES = 32
CHUNK_LEAVES = 1_024  # a power of two: a chunk stands alone in RFC 6962's tree
EMPTY_LEAF = bytes(LEAF_BYTES)


def leaf(room: str, epoch: int, entry: int, client_id: bytes) -> bytes:
    """The leaf of an entry: SHA-256(0x00 ‖ name, room, epoch, entry ‖ client_id).

    The client_id (32 bytes) is itself the hash of 256 random bits: it salts the leaf, and the leaf does not show it.
    """
    return hashlib.sha256(b"\x00" + f"fairgate draw leaf\n{room}\n{epoch}\n{entry}\n".encode() + client_id).digest()


def chunk_leaves(room: str, epoch: int, chunk: int, length: int, client_ids: Mapping[int, bytes]) -> bytes:
    """The leaves of chunk 0, 1, …, `length` of them one after another; entries that `client_ids` lacks are empty."""
    first = chunk * CHUNK_LEAVES + 1
    return b"".join(
        leaf(room, epoch, entry, client_ids[entry]) if entry in client_ids else EMPTY_LEAF
        for entry in range(first, first + length)
    )


def split(leaves: bytes) -> list[bytes]:
    """The single leaves of a run of them."""
    return [leaves[at : at + LEAF_BYTES] for at in range(0, len(leaves), LEAF_BYTES)]


def chunks_of(last_entry: int) -> int:
    """How many chunks a tree over entries 1 … last_entry has."""
    return -(-last_entry // CHUNK_LEAVES)


def chunk_length(last_entry: int, chunk: int) -> int:
    """How many leaves `chunk` has in a tree over entries 1 … last_entry."""
    return min(CHUNK_LEAVES, last_entry - chunk * CHUNK_LEAVES)


def root(nodes: Sequence[bytes]) -> bytes:
    """The root over `nodes`: leaves, or the roots of chunks in order. RFC 6962, section 2.1; of none, SHA-256('')."""
    return levels(nodes)[-1][0] if nodes else hashlib.sha256(b"").digest()


def levels(nodes: Sequence[bytes]) -> list[list[bytes]]:
    """All levels of the tree over `nodes`, at least one, from below.

    Pairing level by level, with an odd last node carried up, gives the very tree that splitting at the largest power of
    two below the length does.
    """
    level = list(nodes)
    found = [level]
    while len(level) > 1:
        paired = [_parent(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = paired if len(level) % 2 == 0 else [*paired, level[-1]]
        found.append(level)
    return found


def path(tree: Sequence[Sequence[bytes]], index: int) -> list[bytes]:
    """The audit path of node `index` in a tree's levels, from below (RFC 6962, section 2.1.1)."""
    found = []
    for level in tree[:-1]:
        sibling = index ^ 1
        if sibling < len(level):
            found.append(level[sibling])
        index //= 2
    return found


def includes(root_hash: bytes, size: int, index: int, leaf_hash: bytes, audit_path: Sequence[bytes]) -> bool:
    """Whether `audit_path` leads from leaf `index` of `size` to the root (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, at, last = leaf_hash, index, size - 1
    for sibling in audit_path:
        if last == 0:
            return False
        if at % 2 == 1 or at == last:
            node = _parent(sibling, node)
            while at % 2 == 0 and at != 0:
                at, last = at // 2, last // 2
        else:
            node = _parent(node, sibling)
        at, last = at // 2, last // 2
    return last == 0 and node == root_hash


def _parent(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
