"""What a buyer shows us and what we give to the browser: ticket, secret and pass, as headers or host-only cookies."""

from collections.abc import Iterable
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from admission.tickets import SECRET

Token = Literal["ticket", "secret", "pass"]
HEADERS: dict[Token, str] = {"ticket": "Fairgate-Ticket", "secret": "Fairgate-Secret", "pass": "Fairgate-Pass"}
TICKET_SECONDS = 86_400
SHOWN_MAX = 4  # a browser may send several cookies of one name; more than a few is noise


class Cookies:
    """Cookie names and attributes. Over https they carry the __Host- prefix, which no other host can set or read."""

    def __init__(self, *, https: bool) -> None:
        self._https = https

    def name(self, token: Token, room: str) -> str:
        """The cookie's name for a room."""
        return f"{'__Host-' if self._https else ''}fairgate-{token}-{room}"

    def set(self, response: Response, token: Token, room: str, value: str, seconds: int) -> None:
        """Give `value` to the browser for `seconds`; no script can read it."""
        response.set_cookie(
            self.name(token, room),
            value,
            max_age=max(0, seconds),
            path="/",
            secure=self._https,
            httponly=True,
            samesite="lax",
        )

    def drop(self, response: Response, token: Token, room: str) -> None:
        """Take a token back from the browser."""
        self.set(response, token, room, "", 0)

    def shown(self, request: Request, token: Token, room: str) -> list[str]:
        """The values that `request` shows for `token`, its header's first; a few at most, none of them checked."""
        header = request.headers.get(HEADERS[token])
        values = [] if header is None else [header.strip()]
        values += _values(request.headers.getlist("cookie"), self.name(token, room))
        return [value for value in values if value][:SHOWN_MAX]

    def shown_secret(self, request: Request, room: str) -> str | None:
        """The first secret shown that has the form of one."""
        return next((secret for secret in self.shown(request, "secret", room) if SECRET.fullmatch(secret)), None)


def _values(cookie_headers: Iterable[str], name: str) -> list[str]:
    """Every value of one cookie: Starlette's reading keeps only the last of a name."""
    pairs = (pair.strip().partition("=") for header in cookie_headers for pair in header.split(";"))
    return [value.strip('"') for found, _, value in pairs if found == name]
