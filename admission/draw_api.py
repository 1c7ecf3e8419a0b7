"""A draw over HTTP: its proof, its leaves, and single entries' paths. Public, cacheable, also for epochs that have ended."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from admission.book import Book
from admission.draw import draw_key, drawn_place
from admission.merkle import CHUNK_LEAVES, EMPTY_LEAF, LEAF_BYTES, chunks_of, levels, path, split
from admission.places import Gap, dense, in_gap
from admission.proofs import proof_document
from admission.stages import Draw, draw_of
from chassis.database import Pool, read_text
from chassis.http import invalid_fields
from chassis.problems import Problem, busy

T = TypeVar("T")

KEPT_SECONDS = 0.5
KEPT_MAX = 64
DOWNLOADS_MAX = 4  # of leaves, at once for each worker
FOR_A_SECOND = "public, max-age=1, s-maxage=1, stale-while-revalidate=5"
FOR_A_MINUTE = "public, max-age=60, s-maxage=60"
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Known:
    """A draw as it was read at `read_at` (monotonic)."""

    room: str
    epoch: int
    draw: Draw
    gaps: tuple[Gap, ...]
    restored: tuple[int, ...]
    read_at: float


class DrawApi:
    """The public calls on draws."""

    def __init__(self, pool: Pool, book: Book) -> None:
        self._pool = pool
        self._book = book
        self._known: dict[tuple[str, int], Known] = {}
        self._trees: dict[tuple[str, int], list[list[bytes]]] = {}  # over the roots of chunks
        self._downloads = asyncio.Semaphore(DOWNLOADS_MAX)

    def routes(self) -> list[Route]:
        """The routes below the prefix."""
        return [
            Route("/rooms/{room}/draw", self.proof, methods=["GET"]),
            Route("/rooms/{room}/draw/leaves", self.leaves, methods=["GET"]),
            Route("/rooms/{room}/draw/entries/{entry}", self.entry, methods=["GET"]),
        ]

    async def proof(self, request: Request) -> Response:
        """200: all that is public of the draw as of now."""
        known = await self._find(request)
        document = proof_document(known.room, known.epoch, known.draw, known.gaps, known.restored)
        return _cached(document, _age(request, FOR_A_SECOND if known.draw.drawn_at is None else FOR_A_MINUTE))

    async def leaves(self, request: Request) -> Response:
        """200: the tree's leaves, 32 bytes each, in the order of entries. Raises Problem not-found before the root stands."""
        known = await self._find(request)
        if known.draw.root is None or known.draw.last_entry is None:
            raise Problem("not-found", "The leaves are published once the draw's root stands.")
        if self._downloads.locked():
            raise busy("Many are fetching the leaves at the moment. Try again shortly.", 5)
        headers = {"Cache-Control": _age(request, FOR_GOOD), "ETag": f'"{known.draw.root.hex()[:32]}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return StreamingResponse(
            self._stream(known, known.draw.last_entry),
            media_type="application/octet-stream",
            headers=headers | {"Content-Length": str(known.draw.last_entry * LEAF_BYTES)},
        )

    async def entry(self, request: Request) -> Response:
        """200: one entry's leaf, its path to the root, and its place once it is drawn."""
        text = request.path_params["entry"]
        entry = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        known = await self._find(request)
        draw = known.draw
        if draw.root is None or draw.last_entry is None or not 1 <= entry <= draw.last_entry:
            raise Problem("not-found", "There is no such entry in the draw, or its root does not stand yet.")
        chunk, at = divmod(entry - 1, CHUNK_LEAVES)
        tree = await self._tree(known)
        leaves = split(await self._chunk(known, chunk))
        place = None
        if draw.material is not None and draw.entries:
            key = draw_key(draw.material, known.room, known.epoch, draw.entries)
            place = drawn_place(key, draw.entries, min(dense(entry, known.gaps), draw.entries))
        document = {
            "room": known.room,
            "epoch": known.epoch,
            "entry": entry,
            "leaf": leaves[at].hex(),
            "empty": leaves[at] == EMPTY_LEAF,
            "passed_over": in_gap(entry, known.gaps),
            "path": [node.hex() for node in (*path(levels(leaves), at), *path(tree, chunk))],
            "last_entry": draw.last_entry,
            "root": draw.root.hex(),
            "place": place,
        }
        return _cached(document, _age(request, FOR_A_SECOND if draw.drawn_at is None else FOR_GOOD))

    async def _stream(self, known: Known, last_entry: int) -> AsyncIterator[bytes]:
        async with self._downloads:
            for chunk in range(chunks_of(last_entry)):
                yield await self._chunk(known, chunk)

    async def _chunk(self, known: Known, chunk: int) -> bytes:
        leaves = await self._pool.fetchval(
            read_text("admission", "sql", "read_chunk.sql"), known.room, known.epoch, chunk
        )
        assert isinstance(leaves, bytes)
        return leaves

    async def _tree(self, known: Known) -> list[list[bytes]]:
        """The tree above the chunks; it stands, so that it is made once for each draw that is asked about."""
        name = known.room, known.epoch
        tree = self._trees.get(name)
        if tree is None:
            rows = await self._pool.fetch(read_text("admission", "sql", "read_chunk_roots.sql"), *name)
            tree = levels([row["root"] for row in rows])
            _keep(self._trees, name, tree)
        return tree

    async def _find(self, request: Request) -> Known:
        """The draw that is asked for, at most half a second old. Raises Problem not-found and invalid."""
        view = await self._book.view(request.path_params["room"])
        text = request.query_params.get("epoch", str(view.room.epoch))
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 2**31):
            raise invalid_fields([("/epoch", "must be the number of an epoch")])
        room, epoch, now = view.room.name, int(text), time.monotonic()
        known = self._known.get((room, epoch))
        if known is None or now - known.read_at > KEPT_SECONDS:
            known = await self._read(room, epoch, now)
            _keep(self._known, (room, epoch), known)
        return known

    async def _read(self, room: str, epoch: int, now: float) -> Known:
        row = await self._pool.fetchrow(read_text("admission", "sql", "read_draw.sql"), room, epoch)
        if row is None or row["ordered_by"] != "draw":
            raise Problem("not-found", "This room draws no places, or its draw has not begun.")
        gaps = tuple(Gap(first, last) for first, last in zip(row["gap_first"], row["gap_last"], strict=True))
        return Known(room, epoch, draw_of(row), gaps, tuple(row["restored"]), now)


def _keep(kept: dict[tuple[str, int], T], name: tuple[str, int], value: T) -> None:
    """Keep `value`, and the last KEPT_MAX of them."""
    kept.pop(name, None)
    if len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[name] = value


def _age(request: Request, cache_control: str) -> str:
    """How long an answer may be kept: only one that names its epoch longer than a second, since a reset changes the others."""
    return cache_control if "epoch" in request.query_params else FOR_A_SECOND


def _cached(document: object, cache_control: str) -> Response:
    return Response(orjson.dumps(document), media_type="application/json", headers={"Cache-Control": cache_control})
