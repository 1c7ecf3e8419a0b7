"""The reconciler as a process: its jobs as loops under one lease, beside health and metrics."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import structlog
from prometheus_client import Counter
from starlette.applications import Starlette

from chassis.database import Pool, make_pool
from chassis.leases import Lease
from chassis.loops import Loop
from chassis.settings import Settings
from chassis.shell import create_app
from counters.app import migrated
from counters.history import History
from counters.store import Stock
from reconciler.jobs import Job, Number, Rebalance, RepairDrift, Report, SettlePayments, Sweep
from reconciler.payments import HttpPaymentInquiry, NoPaymentInquiry, PaymentInquiry

LEASE_INTERVAL_SECONDS = 0.5
NUMBER_INTERVAL_SECONDS = 0.2
INQUIRY_SECONDS_MAX = 3.0
ROUTINE = (Number.name,)  # it always has something to do, and nothing to say
WORK = Counter("fairgate_reconciler_work", "What the reconciler's jobs did", ["job", "figure"])
log = structlog.get_logger()


class Leadership:
    """Whether this process leads the reconciler's role now. All verbs are safe without it; it saves double work."""

    def __init__(self, pool: Pool) -> None:
        self._lease = Lease(pool, "reconciler", f"{socket.gethostname()}:{secrets.token_hex(4)}")
        self._term: int | None = None

    async def bid(self) -> None:
        """Take or renew the lease; a store that is away ends our leadership."""
        term, self._term = self._term, None
        self._term = await self._lease.hold()
        if self._term != term:
            log.info("reconciler leadership", term=self._term)

    async def give_back(self) -> None:
        """Let a successor start at once."""
        if self._term is not None:
            await self._lease.release()

    def only(self, job: Job) -> Callable[[], Awaitable[None]]:
        """A pass of `job` that does nothing while another process leads."""

        async def run_once() -> None:
            if self._term is not None:
                tell(await job.run_once())

        return run_once


def tell(report: Report) -> None:
    """Count what a job did, and log it when it did something."""
    for figure, value in report.done.items():
        WORK.labels(report.job, figure).inc(value)
    if not report.idle and report.job not in ROUTINE:
        log.info("reconciled", job=report.job, **report.done, attention=list(report.attention))


def payment_inquiry(settings: Settings, client: httpx.AsyncClient) -> PaymentInquiry:
    """Where the settings say that payments are asked about."""
    if settings.payment_inquiry_url is None or settings.payment_inquiry_key is None:
        return NoPaymentInquiry()
    return HttpPaymentInquiry(settings.payment_inquiry_url, settings.payment_inquiry_key.get_secret_value(), client)


def create(settings: Settings | None = None) -> Starlette:
    """The app of `fairgate serve reconciler`."""
    settings = settings or Settings.from_environment()
    pool = make_pool(settings, connections=6)
    stock = Stock(pool)
    client = httpx.AsyncClient(timeout=INQUIRY_SECONDS_MAX, trust_env=False)
    leadership = Leadership(pool)
    jobs: list[tuple[Job, float]] = [
        (Sweep(stock), settings.sweep_interval_seconds),
        (SettlePayments(stock, payment_inquiry(settings, client)), settings.payment_interval_seconds),
        (Rebalance(stock), settings.rebalance_interval_seconds),
        (RepairDrift(stock), settings.repair_interval_seconds),
        (Number(History(pool)), NUMBER_INTERVAL_SECONDS),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        stop = asyncio.Event()
        loops = [Loop("lease", leadership.bid, LEASE_INTERVAL_SECONDS)]
        loops += [Loop(job.name, leadership.only(job), seconds) for job, seconds in jobs]
        async with pool, client:
            running = asyncio.gather(*(loop.run(stop) for loop in loops))
            yield
            stop.set()
            await running
            with contextlib.suppress(OSError):
                await leadership.give_back()

    async def schema() -> None:
        await migrated(pool)

    return create_app([], name="reconciler", settings=settings, lifespan=lifespan, checks={"schema": schema})
