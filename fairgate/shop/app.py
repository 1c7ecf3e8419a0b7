"""Wires the demo shop together: settings in, a Starlette app out."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from chassis.http import json_response
from chassis.problems import Problem, problem_response
from chassis.settings import SettingsError
from chassis.shell import Shell
from fairgate.shop.api import Api
from fairgate.shop.checkout import Checkout
from fairgate.shop.inquiry import Inquiry
from fairgate.shop.pages import Pages
from fairgate.shop.payments import Payments
from fairgate.shop.settings import ShopSettings
from fairgate.shop.shelf import Shelf
from fairgate.shop.stock import Stock

STOCK_CONNECTIONS_MAX = 64
STOCK_TIMEOUT_SECONDS = 10.0


def create(settings: ShopSettings | None = None, transport: httpx.AsyncBaseTransport | None = None) -> Starlette:
    """The shop's app. Without `settings` they are read from the environment; raises SettingsError.

    `transport` reaches the stock in another way than over TCP.
    """
    settings = settings or ShopSettings.from_environment()
    client = httpx.AsyncClient(
        base_url=settings.stock_url,
        timeout=STOCK_TIMEOUT_SECONDS,
        limits=httpx.Limits(max_connections=STOCK_CONNECTIONS_MAX, max_keepalive_connections=STOCK_CONNECTIONS_MAX),
        transport=transport,
        trust_env=False,
    )
    stock = Stock(client, settings.stock_key.get_secret_value())
    payments = Payments(settings.payments_file)
    checkout = Checkout(stock, payments, (settings.pay_seconds_min, settings.pay_seconds_max))
    pages = Pages(
        _templates(settings.title),
        checkout=checkout,
        stock=stock,
        payments=payments,
        shelf=Shelf(stock, settings.skus),
        settings=settings,
    )
    inquiry = Inquiry(payments, settings.inquiry_key.get_secret_value())

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            await payments.open()
        except sqlite3.Error as error:
            raise SettingsError(
                f"FAIRGATE_SHOP_PAYMENTS_FILE {settings.payments_file} cannot be used: {error}"
            ) from None
        async with client:
            yield
        await payments.close()

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return pages.problem(request, error) if _browses(request) else problem_response(error)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "malformed")
        return await on_problem(request, Problem(code, str(error.detail), headers=dict(error.headers or {})))

    return Starlette(
        routes=[
            *pages.routes(),
            *Api(checkout, stock).routes(),
            *inquiry.routes(),
            Mount("/static", StaticFiles(packages=[("fairgate.shop", "static")])),
            Route("/healthz", _healthz, methods=["GET"]),
            Route("/readyz", _healthz, methods=["GET"]),
        ],
        lifespan=lifespan,
        middleware=[Middleware(Shell, name="shop", body_bytes_max=settings.body_bytes_max)],
        exception_handlers={Problem: on_problem, HTTPException: on_http_exception},
    )


def _templates(title: str) -> Jinja2Templates:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fairgate.shop"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals["shop_title"] = title
    return Jinja2Templates(env=environment)


def _browses(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(("/api/", "/payments/"))


async def _healthz(_request: Request) -> Response:
    """Alive and ready are one here: the shop opens its payments before it listens, and asks the stock only when used."""
    return json_response({"status": "ready"})
