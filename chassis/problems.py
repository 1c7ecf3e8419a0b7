"""What goes wrong, and how it is said: one error, one table of codes, RFC 9457 problem details.

Every answer that refuses something carries a stable `code` from PROBLEMS; docs/api.md lists the same table.
"""

from collections.abc import Mapping
from types import MappingProxyType

import orjson
from starlette.responses import Response

from chassis.answer import Answer, as_response
from chassis.telemetry import REQUEST_ID

PROBLEMS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        # what any call may answer
        "malformed": (400, "The request cannot be read"),
        "unauthenticated": (401, "This call needs a valid key"),
        "forbidden": (403, "This key may not do that"),
        "not-found": (404, "There is nothing at this address"),
        "method-not-allowed": (405, "This address does not take that method"),
        "not-acceptable": (406, "This address cannot answer in a form you accept"),
        "too-large": (413, "The body is too large"),
        "unsupported-media-type": (415, "The body must be JSON"),
        "invalid": (422, "The request is readable but not valid"),
        "too-many-requests": (429, "Too many requests"),
        "internal": (500, "Fairgate made a mistake"),
        "busy": (503, "Fairgate cannot decide this now"),
        # the line
        "proof-required": (403, "A proof of work is needed first"),
        "room-closed": (409, "The room takes no entries"),
        "not-called": (202, "It is not your turn yet"),
        "turn-missed": (410, "The turn is over"),
        "ticket-required": (401, "This call needs a ticket"),
        "ticket-refused": (403, "The ticket is not valid here"),
        "secret-required": (401, "This call needs the ticket's secret"),
        "secret-refused": (403, "The secret does not belong to this ticket"),
        "recovery-refused": (404, "No place waits behind this code"),
        "foreign-origin": (403, "The form came from another site"),
        "queue": (429, "A place in line is needed first"),
        # the stock
        "pass-required": (401, "This call needs a pass"),
        "pass-refused": (403, "The pass is not valid here"),
        "key-missing": (400, "An Idempotency-Key is needed"),
        "key-reused": (422, "The Idempotency-Key was used for another request"),
        "key-in-flight": (409, "A request with this Idempotency-Key is still at work"),
        "sold-out": (409, "Nothing is available"),
        "insufficient-stock": (409, "Fewer are available than asked"),
        "seat-taken": (409, "A seat is taken"),
        "buyer-limit": (409, "This buyer has reached the limit"),
        "not-on-sale": (409, "This is not on sale"),
        "hold-expired": (409, "The hold has expired"),
        "hold-released": (409, "The hold was released"),
        "hold-paying": (409, "The hold waits for its payment"),
        "hold-sold": (409, "The hold is sold"),
        "hold-not-paying": (409, "The hold does not wait for a payment"),
        "stale-fence": (409, "The fence is not the hold's"),
        "extension-limit": (409, "It cannot be extended further"),
        "below-commitments": (409, "Fewer than are held and sold"),
        "exists": (409, "It exists already and differs"),
    }
)


class Problem(Exception):
    """A caller's mistake, or a store that cannot answer: raised anywhere, told once at the edge.

    `code` is a key of PROBLEMS, `detail` one sentence that says what happened and what to do, `extensions` become
    members of the problem document (numbers a caller may act on).
    """

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **extensions: object
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.extensions = extensions

    @property
    def status(self) -> int:
        return PROBLEMS[self.code][0]


def busy(detail: str, retry_after_seconds: int = 1) -> Problem:
    """The answer to what cannot be decided in time: 503 with Retry-After, never a refusal for lack of stock."""
    return Problem("busy", detail, headers={"Retry-After": str(retry_after_seconds)})


def problem_document(problem: Problem) -> dict[str, object]:
    """The members of the problem document (RFC 9457, section 3.1) and our extensions."""
    status, title = PROBLEMS[problem.code]
    document: dict[str, object] = {
        "type": f"urn:fairgate:problem:{problem.code}",
        "title": title,
        "status": status,
        "code": problem.code,
        "detail": problem.detail,
        **problem.extensions,
    }
    request_id = REQUEST_ID.get()
    if request_id is not None:
        document["request_id"] = request_id
    return document


def problem_answer(problem: Problem) -> Answer:
    """The HTTP answer for a problem: never stored by a cache, with whatever headers the problem brings."""
    brought = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()
    )
    return Answer(problem.status, orjson.dumps(problem_document(problem)), (*_HEADERS, *brought))


def problem_response(problem: Problem) -> Response:
    """The same answer for a Starlette handler to return."""
    return as_response(problem_answer(problem))


_HEADERS = ((b"content-type", b"application/problem+json"), (b"cache-control", b"no-store"))
