"""What our HTTP figures stand beside: an app that does nothing, and a bare Redis decrement, on the same server settings.

Run as a program it serves one of them: `python -m loadtest.bench.floors no_op PORT WORKERS`.
"""

import sys

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from starlette.types import ASGIApp, Receive, Scope, Send

from chassis.database import read_text
from chassis.serve import serve
from chassis.settings import Settings

COUNTER = "bench:floor"
JSON_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"12")]


def no_op() -> ASGIApp:
    """Answers at once."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        await _answer(send, b'{"left":000}')

    return app


def redis_decrement() -> ASGIApp:
    """Takes one unit from a counter in Redis: no hold, no key, no ledger."""
    client: list[AsyncScript] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with Redis.from_url(Settings.from_environment().redis_url) as redis:
                client.append(redis.register_script(read_text("loadtest.bench", "lua", "decrement.lua")))
                await _live(receive, send)
            return
        taken = await client[0](keys=[COUNTER])
        await _answer(send, b'{"taken": %d}' % taken)

    return app


async def _live(receive: Receive, send: Send) -> None:
    """Serve until the server stops."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _answer(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": JSON_HEADERS})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    name, port, workers = sys.argv[1:]
    serve(f"loadtest.bench.floors:{name}", host="127.0.0.1", port=int(port), workers=int(workers))
