"""Where a buyer goes on to: paths on the shop's own origin and nothing else (pure)."""

import re
from urllib.parse import quote

PATH_CHARACTERS_MAX = 2_000
# One slash, then no second one and no backslash: browsers read "//host" and "/\\host" as another origin. Controls and
# blanks are dropped by browsers before they look, so they may stand nowhere.
_PATH = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")


def safe_return(target: str | None) -> str:
    """`target` where it is a path on this origin, else "/"; ready for a Location header."""
    if target is None or len(target) > PATH_CHARACTERS_MAX or not _PATH.fullmatch(target):
        return "/"
    return quote(target, safe="/?#[]@!$&'()*+,;=:%-._~")


def with_return(address: str, target: str) -> str:
    """`address` carrying a safe `target` in its query; "/" needs no carrying."""
    return address if target == "/" else f"{address}?return={quote(target, safe='/')}"
