"""Forms of pages without JavaScript: read, refused when another site sent them, answered with 303."""

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse

from chassis.problems import Problem

FORM = "application/x-www-form-urlencoded"


def is_form(request: Request) -> bool:
    """Whether a browser's form was sent, and not JSON."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def refuse_foreign(request: Request) -> None:
    """Raise Problem foreign-origin for what another site made the browser send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    same_host = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if site not in (None, "same-origin", "none") or not same_host:
        raise Problem("foreign-origin", "This was sent from another site, so nothing was done.")


async def read_form(request: Request) -> dict[str, str]:
    """The form's fields, the first of each name. Raises Problem foreign-origin for a form that another site sent."""
    refuse_foreign(request)
    try:
        fields = parse_qs((await request.body()).decode(), max_num_fields=20)
    except ValueError as error:
        raise Problem("malformed", f"The form cannot be read: {error}") from None
    return {name: values[0] for name, values in fields.items()}


def see_other(target: str) -> RedirectResponse:
    """303 to `target`, kept by no cache."""
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
