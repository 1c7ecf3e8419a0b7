"""Signing keys over HTTP for administrators: listed, rotated with overlap, revoked."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.signing_keys import SigningKeys, read_purpose
from chassis.http import json_response
from chassis.keys import ApiKeys


class SigningKeysApi:
    """The administrator's calls; each needs a key with the role admin."""

    def __init__(self, signing_keys: SigningKeys, keys: ApiKeys) -> None:
        self._signing_keys = signing_keys
        self._keys = keys

    def routes(self) -> list[Route]:
        """The routes; proxies do not mount them publicly."""
        return [
            Route("/admin/signing-keys", self.list, methods=["GET"]),
            Route("/admin/signing-keys/{purpose}/rotate", self.rotate, methods=["POST"]),
            Route("/admin/signing-keys/{kid}/revoke", self.revoke, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """200: all keys, newest first, without anything secret."""
        await self._admin(request)
        return json_response({"keys": [key.document() for key in await self._signing_keys.list()]})

    async def rotate(self, request: Request) -> Response:
        """201: the next key, which signs in five seconds; 200 with the same while it waits."""
        actor = await self._admin(request)
        key, made = await self._signing_keys.rotate(read_purpose(request.path_params["purpose"]), actor=actor)
        return json_response(key.document(), 201 if made else 200)

    async def revoke(self, request: Request) -> Response:
        """200: the revoked key; twice is once. What it signed is refused everywhere within two seconds."""
        actor = await self._admin(request)
        return json_response((await self._signing_keys.revoke(request.path_params["kid"], actor=actor)).document())

    async def _admin(self, request: Request) -> str:
        actor = await self._keys.actor(request, "admin")
        return f"{actor.client} ({actor.key_id})"
