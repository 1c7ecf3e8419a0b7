"""Revocations over HTTP: operators revoke and look; verifiers elsewhere fetch the signed list."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.book import Book
from admission.keyring import Keyring
from admission.revocation_list import LIST_KIND, RevocationLists
from admission.revocations import Kind, Revocations
from admission.room_settings import PLAIN
from chassis.http import invalid_fields, json_response, read_json, timestamp
from chassis.keys import ApiKeys

SINCE_DIGITS_MAX = 19
SIGNED_MAX = 64  # lists kept signed: verifiers that ask each second ask for few different ones
LIST_SECONDS = 0.5


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST …/revocations: what ends, and why; the reason is shown to whom it concerns."""

    kind: Kind
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=PLAIN)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=PLAIN)]


class RevocationsApi:
    """The calls on revocations; an operator's need a key with the role operator."""

    def __init__(
        self, book: Book, revocations: Revocations, lists: RevocationLists, keyring: Keyring, keys: ApiKeys
    ) -> None:
        self._book = book
        self._revocations = revocations
        self._lists = lists
        self._keyring = keyring
        self._keys = keys
        self._signed: dict[tuple[str, int], tuple[float, str, str]] = {}

    def routes(self) -> list[Route]:
        """The routes; proxies mount only the one that is public."""
        return [
            Route("/rooms/{room}/revocations", self.signed_list, methods=["GET"]),
            Route("/admin/rooms/{room}/revocations", self.revoke, methods=["POST"]),
            Route("/admin/rooms/{room}/revocations", self.list, methods=["GET"]),
        ]

    async def signed_list(self, request: Request) -> Response:
        """200 with the list as a JWS, 304 when nothing in it is new; `?since=` a list's `next` leaves older ones out."""
        since = request.query_params.get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) <= SINCE_DIGITS_MAX):
            raise invalid_fields([("/since", "must be the `next` of an earlier list")])
        room = (await self._book.view(request.path_params["room"])).room.name
        body, tag = self._list(room, int(since))
        headers = {"ETag": f'"{tag}"', "Cache-Control": "public, max-age=1, s-maxage=1"}
        if f'"{tag}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/jose", headers=headers)

    async def revoke(self, request: Request) -> Response:
        """201: every verifier refuses it within two seconds, and its slot is free; 200 with the first reason when it was before."""
        actor = await self._keys.actor(request, "operator")
        body = await read_json(request, Revocation)
        revoked = await self._revocations.revoke(
            request.path_params["room"],
            body.kind,
            body.subject,
            body.reason,
            actor=f"{actor.client} ({actor.key_id})",
        )
        return json_response(revocation_document(asdict(revoked)), 200 if revoked.repeated else 201)

    async def list(self, request: Request) -> Response:
        """200: what was revoked in the room's present epoch, newest first."""
        await self._keys.actor(request, "operator")
        found = await self._revocations.list(request.path_params["room"])
        return json_response({"revocations": [revocation_document(one) for one in found]})

    def _list(self, room: str, since: int) -> tuple[str, str]:
        """The signed list and its tag; signed again when half a second old, so that `iat` tells how fresh it is."""
        now = time.monotonic()
        made_at, body, tag = self._signed.get((room, since), (0.0, "", ""))
        if now - made_at > LIST_SECONDS:
            refused = self._lists.since(room, since)
            signer = self._keyring.signer
            body, tag = signer.sign_as(LIST_KIND, refused.claims(signer.issuer, time.time())), refused.tag
            self._signed.pop((room, since), None)
            if len(self._signed) >= SIGNED_MAX:
                del self._signed[next(iter(self._signed))]
            self._signed[room, since] = (now, body, tag)
        return body, tag


def revocation_document(revoked: Mapping[str, Any]) -> dict[str, object]:
    """A revocation as its kind, subject, reason and moment."""
    return {name: revoked[name] for name in ("kind", "subject", "reason")} | {"at": timestamp(revoked["at"])}
