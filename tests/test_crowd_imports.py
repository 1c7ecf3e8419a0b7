"""Locust patches sockets when it is imported, so nothing but the crowd's own process may ever load it."""

import subprocess
import sys

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
for root in ("chassis", "admission", "counters", "reconciler", "loadtest", "fairgate"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, f"{root}."):
        # Alembic runs env.py itself; the locustfile is what the crowd's process loads.
        if module.name not in ("loadtest.locustfile", "fairgate.migrations.env"):
            importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ("gevent", "locust", "geventhttpclient")))
"""


def test_importing_every_other_module_never_loads_gevent() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_EVERYTHING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
