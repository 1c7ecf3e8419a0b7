"""What each worker of a process has of its own, however many there are: JSON logs without secrets, answers, metrics."""

import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path

import httpx

from chassis.database import Pool
from chassis.keys import ApiKeys
from chassis.settings import Settings
from tests.line_world import until
from tests.shop_world import unused_port


async def test_several_workers_log_json_and_no_secret_when_callers_hang_up(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    key = await ApiKeys(pool).create("ops", "operator")
    port = unused_port()
    log = tmp_path / "stock.log"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")},
        "FAIRGATE_DATABASE_URL": settings.database_url,
        "FAIRGATE_REDIS_URL": settings.redis_url,
        "FAIRGATE_MASTER_KEY": settings.master_key.get_secret_value(),
        "FAIRGATE_STOCK_PORT": str(port),
        "FAIRGATE_STOCK_WORKERS": "2",
    }
    with log.open("wb") as output:
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairgate", "serve", "stock", env=environment, stdout=output, stderr=output
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as api:

            async def ready() -> bool:
                try:
                    return (await api.get("/readyz")).status_code == 200
                except httpx.HTTPError:
                    return False

            await until(ready, "the workers serve")
            body = json.dumps({"title": "Ticket", "total": 10, "shards": 1024}).encode()
            head = (
                f"PUT /admin/skus/ticket-{{}} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            for number in range(30):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head.format(number).encode() + body)
                await writer.drain()
                writer.transport.abort()
            answers = [await api.get(f"/v1/skus/{secrets.token_hex(4)}") for _ in range(10)]
            assert {answer.status_code for answer in answers} == {404}
    finally:
        server.send_signal(signal.SIGTERM)
        await asyncio.wait_for(server.wait(), 20)
    text = log.read_text()
    assert key not in text and key[17:40] not in text
    assert all(line.startswith("{") for line in text.splitlines() if line), text
