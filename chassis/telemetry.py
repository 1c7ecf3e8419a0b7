"""What a process tells about itself: JSON logs without secrets, and Prometheus metrics that add up over workers."""

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

import orjson
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

# A word that opens a secret hides what follows it, wherever in a log line it stands.
_SECRET_NAMES = re.compile(
    r"(authorization|cookie|secret|password|token|ticket|pass|api_key|master_key)$", re.IGNORECASE
)
_SECRET_VALUES = re.compile(
    r"(fgk_[A-Za-z0-9_-]{6})[A-Za-z0-9_-]+|(eyJ[A-Za-z0-9_-]{8})[A-Za-z0-9_.-]+|(://[^:/@\s]*:)[^@\s]+(?=@)"
)

REQUESTS = Counter(
    "fairgate_http_requests", "HTTP answers by process, route and status", ["process", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "fairgate_http_request_seconds",
    "Time from a request's arrival to its answer",
    ["process", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
LOOP_RUNS = Counter("fairgate_loop_runs", "Passes of a background loop by outcome", ["loop", "outcome"])


def configure_logging(level: str) -> None:
    """Send structlog's and the standard library's records to standard error, one JSON object a line."""
    shared: list[structlog.typing.Processor] = [
        name_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_dumps)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processor=structlog.processors.JSONRenderer(serializer=_dumps)
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for chatty in ("httpx", "httpcore"):  # a line for each request is noise, and their addresses may carry secrets
        logging.getLogger(chatty).setLevel(logging.WARNING)


def name_request(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say which request a record belongs to; found out only where something is logged."""
    request_id = REQUEST_ID.get()
    if request_id is not None:
        event.setdefault("request_id", request_id)
    return event


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Blank every value whose name or shape says that it is a secret."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = "[hidden]"
        elif isinstance(value, str):
            event[name] = _SECRET_VALUES.sub(lambda found: f"{found[1] or found[2] or found[3]}[hidden]", value)
    return event


class Meter:
    """Counts one process's requests. It keeps the counter of each label: finding one costs more than raising it."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._kept: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """One more answer of `route`, a name from our own code, with `status` after `seconds`."""
        kept = self._kept.get((route, status))
        if kept is None:
            kept = REQUESTS.labels(self._process, route, status), REQUEST_SECONDS.labels(self._process, route)
            self._kept[route, status] = kept
        answers, durations = kept
        answers.inc()
        durations.observe(seconds)


def metrics_page() -> tuple[bytes, str]:
    """The Prometheus page and its content type; sums over workers where PROMETHEUS_MULTIPROC_DIR names their folder."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _dumps(value: Any, **_options: Any) -> str:
    return orjson.dumps(value, default=str).decode()
