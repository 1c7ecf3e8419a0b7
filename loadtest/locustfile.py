"""The crowd as Locust users: `fairgate demo` runs it headless, and `locust -f loadtest/locustfile.py` with its web UI.

Every user walks the road once. Settings come from FAIRGATE_CROWD_* variables (see loadtest/settings.py).
"""

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gevent
from locust import FastHttpUser, constant, events, task
from locust.env import Environment
from locust.exception import StopUser

from loadtest.progress import PROGRESS_FILE, Progress, Tally
from loadtest.records import Record, RecordLog
from loadtest.road import Reply, Seen
from loadtest.settings import CrowdSettings
from loadtest.walk import Shopper

KEPT_SECONDS = 1.0  # as a cache in front of the service may keep what is the same for everybody
PROGRESS_SECONDS = 0.5


@dataclass(slots=True)
class Kept:
    """A public document as it was last fetched."""

    asked_at: float = -math.inf
    fetched_at: float = 0.0
    document: dict[str, Any] | None = None


class Crowd:
    """What the shoppers of one process share: settings, numbers, the record file, the tally and public documents."""

    def __init__(self, environment: Environment) -> None:
        self.settings = CrowdSettings()
        self.settings.folder.mkdir(parents=True, exist_ok=True)
        self.numbers = itertools.count()
        self.tally = Tally(self.settings.shoppers)
        self.kept: dict[str, Kept] = {}
        self._environment = environment
        self._log = RecordLog(self.settings.folder / f"shoppers-{os.getpid()}.jsonl")

    def write(self, record: Record) -> None:
        """Keep a record, and count it."""
        self._log.append(record)
        self.tally.count(record)

    def report(self) -> None:
        """Keep the progress file fresh; end the run when everybody has gone home, time is up, or our sender is gone."""
        started, sender = time.monotonic(), os.getppid()
        while True:
            seconds = time.monotonic() - started
            errors = self._environment.stats.total.num_failures
            self._publish(self.tally.progress(seconds, errors))
            over = self.tally.everybody_ended or seconds > self.settings.seconds_max
            if over or os.getppid() != sender:
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

    def status(self) -> Seen | None:
        """The room's public document, fetched at most once a second for the whole process."""
        settings = self.crowd.settings
        return self._shared(f"{settings.prefix}/rooms/{settings.room}/status", "status")

    def free_seats(self) -> list[str] | None:
        """The free seats of the map, fetched at most once a second for the whole process."""
        settings = self.crowd.settings
        seen = self._shared(f"{settings.prefix}/v1/skus/{settings.seated_sku}/seats", "seat map")
        if seen is None:
            return None
        return [seat["seat"] for seat in seen.document["seats"] if seat["state"] == "available"]

    def _shared(self, path: str, name: str) -> Seen | None:
        kept = self.crowd.kept.setdefault(path, Kept())
        now = time.monotonic()
        if now - kept.asked_at > KEPT_SECONDS:
            kept.asked_at = now  # while one shopper fetches it the others go by the old one
            reply = self.request("GET", path, name, {})
            if reply.status == 200:
                kept.document, kept.fetched_at = reply.document, time.monotonic()
        return None if kept.document is None else Seen(kept.document, time.monotonic() - kept.fetched_at)


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
