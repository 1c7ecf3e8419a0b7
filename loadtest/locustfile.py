"""The crowd as Locust users: `fairgate demo` runs it headless, and `locust -f loadtest/locustfile.py` with its web UI.

Every user walks the road once. Settings come from FAIRGATE_CROWD_* variables (see loadtest/settings.py).
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from locust import FastHttpUser, constant, events, task
from locust.env import Environment
from locust.exception import StopUser

from loadtest.progress import PROGRESS_FILE, Progress, Tally
from loadtest.records import Record, RecordLog
from loadtest.settings import CrowdSettings
from loadtest.walk import Reply, Shopper

SEAT_MAP_SECONDS = 1.0
PROGRESS_SECONDS = 0.5


class Crowd:
    """What the shoppers of one process share: settings, numbers, the record file, the tally and the seat map."""

    def __init__(self, environment: Environment) -> None:
        self.settings = CrowdSettings()
        self.settings.folder.mkdir(parents=True, exist_ok=True)
        self.numbers = itertools.count()
        self.tally = Tally(self.settings.shoppers)
        self.seats: tuple[float, list[str]] = (0.0, [])
        self._environment = environment
        self._log = RecordLog(self.settings.folder / f"shoppers-{os.getpid()}.jsonl")

    def write(self, record: Record) -> None:
        """Keep a record, and count it."""
        self._log.append(record)
        self.tally.count(record)

    def report(self) -> None:
        """Keep the progress file fresh, and end the run when everybody has gone home or time is up."""
        started = time.monotonic()
        while True:
            seconds = time.monotonic() - started
            errors = self._environment.stats.total.num_failures
            self._publish(self.tally.progress(seconds, errors))
            if self.tally.everybody_ended or seconds > self.settings.seconds_max:
                assert self._environment.runner is not None
                self._environment.runner.quit()
                return
            gevent.sleep(PROGRESS_SECONDS)

    def _publish(self, progress: Progress) -> None:
        file = self.settings.folder / PROGRESS_FILE
        fresh = file.with_suffix(".new")
        fresh.write_bytes(progress.encoded())
        fresh.replace(file)


class PublicRoad(FastHttpUser):
    """A shopper. Its manner (patient, impatient, abandoning, late payer) comes from the seed and its number."""

    wait_time = constant(0)
    connection_timeout = 10.0
    network_timeout = 40.0
    max_retries = 0
    crowd: Crowd  # set when a run begins

    @task
    def walk_once(self) -> None:
        """Walk the road and go home."""
        number = next(self.crowd.numbers)
        if number < self.crowd.settings.shoppers:
            Shopper(number, self.crowd.settings, self, self.crowd.write).walk()
        raise StopUser

    def request(self, method: str, path: str, name: str, headers: Mapping[str, str], body: object = None) -> Reply:
        """One request; an answer of any kind is an answer, and only what decides nothing counts as a failure."""
        data = None if body is None else json.dumps(body)
        sent = dict(headers) if body is None else {**headers, "Content-Type": "application/json"}
        with self.client.request(
            method, path, name=name, headers=sent, data=data, catch_response=True, allow_redirects=False
        ) as response:
            status = response.status_code or 0
            if status in (0, 429) or status >= 500:
                response.failure(f"no decision: {status}")
            else:
                response.success()
            received = {key.lower(): value for key, value in (response.headers or {}).items()}
            return Reply(status, _document(response.content), received)

    def sleep(self, seconds: float) -> None:
        """Wait without holding up the others."""
        gevent.sleep(seconds)

    def together(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Both at once."""
        gevent.joinall([gevent.spawn(first), gevent.spawn(second)], raise_error=True)

    def free_seats(self) -> list[str]:
        """The free seats, looked up at most once a second for the whole process."""
        crowd = self.crowd
        looked_at, seats = crowd.seats
        if time.monotonic() - looked_at > SEAT_MAP_SECONDS:
            crowd.seats = (time.monotonic(), seats)  # others use the old map while we look
            path = f"{crowd.settings.prefix}/v1/skus/{crowd.settings.seated_sku}/seats"
            reply = self.request("GET", path, "seat map", {})
            if reply.status == 200:
                seats = [seat["seat"] for seat in reply.document["seats"] if seat["state"] == "available"]
                crowd.seats = (time.monotonic(), seats)
        return seats


def _begin(environment: Environment, **_: Any) -> None:
    PublicRoad.crowd = Crowd(environment)
    gevent.spawn(PublicRoad.crowd.report)


events.test_start.add_listener(_begin)


def _document(content: bytes | None) -> dict[str, Any]:
    try:
        document = json.loads(content or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
