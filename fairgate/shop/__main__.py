"""Runs the demo shop alone: `python -m fairgate.shop`."""

import sys

from chassis.serve import serve
from chassis.settings import SettingsError
from fairgate.shop.settings import ShopSettings

if __name__ == "__main__":
    try:
        settings = ShopSettings.from_environment()
        serve("fairgate.shop.app:create", host=settings.host, port=settings.port, workers=settings.workers)
    except SettingsError as error:
        sys.exit(str(error))
