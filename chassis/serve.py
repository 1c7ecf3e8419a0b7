"""The one way to run an app: uvicorn with N workers, a graceful stop, and metrics that add up over the workers."""

import os
import tempfile

import uvicorn

from chassis.settings import Settings
from chassis.telemetry import configure_logging


def serve(factory: str, *, host: str, port: int, workers: int) -> None:
    """Run `factory` ("admission.app:create") until SIGTERM or SIGINT; dead workers are replaced.

    Requests under way get `shutdown_seconds` to end. Raises SettingsError when the environment cannot be used.
    """
    settings = Settings.from_environment()
    configure_logging(settings.log_level)
    with tempfile.TemporaryDirectory(prefix="fairgate-metrics-") as folder:
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        uvicorn.run(
            factory,
            factory=True,
            host=host,
            port=port,
            workers=workers,
            loop="uvloop",
            http="httptools",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=list(settings.trusted_proxies),
            backlog=4096,
            timeout_graceful_shutdown=round(settings.shutdown_seconds),
        )
