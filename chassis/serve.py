"""The one way to run an app: uvicorn with N workers, a graceful stop, and metrics that add up over the workers."""

import gc
import importlib
import os
import tempfile

import uvicorn
from starlette.types import ASGIApp

from chassis.settings import Settings
from chassis.telemetry import configure_logging

FACTORY = "FAIRGATE_APP"


def serve(factory: str, *, host: str, port: int, workers: int, proxied: bool = True) -> None:
    """Run `factory` ("admission.app:create") until SIGTERM or SIGINT; dead workers are replaced.

    `proxied`: believe what trusted proxies say about a caller's address and scheme, where the app looks at either.
    Requests under way get `shutdown_seconds` to end. Raises SettingsError when the environment cannot be used.
    """
    settings = Settings.from_environment()
    configure_logging(settings.log_level)
    with tempfile.TemporaryDirectory(prefix="fairgate-metrics-") as folder:
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        os.environ[FACTORY] = factory
        uvicorn.run(
            "chassis.serve:make_app",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            loop="uvloop",
            http="httptools",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=proxied,
            forwarded_allow_ips=list(settings.trusted_proxies),
            backlog=4096,
            timeout_graceful_shutdown=round(settings.shutdown_seconds),
        )


def make_app() -> ASGIApp:
    """The app of a worker, with what each worker process needs of its own: our logging, and a collector that rests.

    A spawned worker knows nothing of what its parent has set up, and structlog left alone would print local variables.
    """
    configure_logging(Settings.from_environment().log_level)
    module, _, name = os.environ[FACTORY].partition(":")
    app: ASGIApp = getattr(importlib.import_module(module), name)()
    collect_rarely()
    return app


def collect_rarely() -> None:
    """Let the garbage collector leave what stands at the start alone, and look only when much has piled up.

    Requests leave few cycles behind; at the usual thresholds a busy worker spends a tenth of its time looking for them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
