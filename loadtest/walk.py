"""One shopper's walk over the public road: join, wait, claim, hold, pay or walk away, leave. No Locust in here.

A shopper speaks only the public contract, repeats with the same key what was not answered, and writes down everything
that it was told.
"""

import base64
import hashlib
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from loadtest.records import (
    Admitted,
    Answered,
    Arrived,
    Ended,
    GaveBack,
    Joined,
    Placed,
    Record,
    Settled,
)
from loadtest.settings import CrowdSettings

Manner = Literal["patient", "impatient", "abandoning", "late-payer"]
REPEAT_SECONDS_MAX = 40.0
SEAT_TRIES_MAX = 6
Outcome = Literal["paid", "declined", "cancelled", "refunded", "refused"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; status 0 when none came."""

    status: int
    document: dict[str, Any]
    headers: Mapping[str, str]


class Client(Protocol):
    """What a walk needs of the world: requests, waiting, and the seat map that all shoppers of a process share."""

    def request(self, method: str, path: str, name: str, headers: Mapping[str, str], body: object = None) -> Reply:
        """One request; `name` groups it in statistics. Never raises for what the network does."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def together(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Do both at once, as a double click does."""
        ...

    def free_seats(self) -> list[str]:
        """Seats that were free a moment ago."""
        ...


class Gone(Exception):
    """The walk is over; `outcome` says how."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Shopper:
    """One person with one manner. All choices come from the seed and the shopper's number."""

    def __init__(self, number: int, settings: CrowdSettings, client: Client, write: Callable[[Record], None]) -> None:
        self.number = number
        self._settings = settings
        self._client = client
        self._write = write
        self._chance = random.Random(f"{settings.seed}:{number}")  # noqa: S311 - behaviour, not a secret
        self.manner = self._choose_manner()
        self.arrives_after_seconds = self._choose_arrival()
        self._wants_seats = self._chance.random() < settings.seats_share
        self._room = f"{settings.prefix}/rooms/{settings.room}"
        self._ticket: dict[str, str] = {}
        self._ticket_id = ""
        self._pass: dict[str, str] = {}

    def walk(self) -> None:
        """The whole road, once."""
        self._client.sleep(self.arrives_after_seconds)
        self._write(Arrived(shopper=self.number, manner=self.manner))
        try:
            self._join()
            self._wait_for_turn()
            hold = self._hold()
            self._pay(hold)
        except Gone as gone:
            outcome = gone.outcome
        else:
            outcome = "bought"
        if self._pass:
            self._client.request("DELETE", f"{self._room}/passes", "leave", self._ticket | self._pass)
        self._write(Ended(shopper=self.number, outcome=outcome))

    def _join(self) -> None:
        secret = secrets.token_urlsafe(32)
        client_id = base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()).decode().rstrip("=")
        self._client.request("GET", "/", "shop without a pass", {"Accept": "text/html"})
        reply = self._until_answered("POST", f"{self._room}/tickets", "join", {}, {"client_id": client_id}, (200, 201))
        ticket = reply.document
        self._ticket = {"Fairgate-Ticket": ticket["ticket"], "Fairgate-Secret": secret}
        self._ticket_id = ticket["ticket_id"]
        entry, number = ticket.get("entry"), ticket.get("number")
        self._write(Joined(shopper=self.number, ticket_id=self._ticket_id, entry=entry, number=number))
        if self.manner == "impatient":  # a reload joins again: the same place must come back
            again = self._until_answered(
                "POST", f"{self._room}/tickets", "join again", self._ticket, {"client_id": client_id}, (200, 201)
            ).document
            self._write(
                Joined(
                    shopper=self.number,
                    ticket_id=again["ticket_id"],
                    entry=again.get("entry"),
                    number=again.get("number"),
                )
            )

    def _wait_for_turn(self) -> None:
        while True:
            place = self._place()
            match place["state"]:
                case "called":
                    if self._claim():
                        return
                case "missed" | "ended":
                    raise Gone(place["state"])
                case _:
                    if self.manner == "abandoning" and self._chance.random() < 0.01:
                        raise Gone("walked out of the line")
                    patience = 0.5 if self.manner == "impatient" else 1.0
                    self._client.sleep(float(place["poll_after_seconds"]) * patience)

    def _place(self) -> dict[str, Any]:
        place = self._until_answered("GET", f"{self._room}/place", "place", self._ticket, None, (200,)).document
        self._write(
            Placed(shopper=self.number, ticket_id=self._ticket_id, state=place["state"], place=place.get("place"))
        )
        return place

    def _claim(self) -> bool:
        """Whether a pass was given; the room may still ask for patience."""
        reply = self._until_answered("POST", f"{self._room}/passes", "claim", self._ticket, None, (200, 201, 202, 410))
        if reply.status in (202, 410):
            self._client.sleep(_retry_after(reply))
            return False
        token = reply.document["pass"]
        self._pass = {"Fairgate-Pass": token}
        jti = _claims(token)["jti"]
        self._write(
            Admitted(
                shopper=self.number,
                ticket_id=self._ticket_id,
                jti=jti,
                expires_at=reply.document["expires_at"],
            )
        )
        return True

    def _hold(self) -> Answered:
        """A hold, or the end of the walk when nothing is left for this shopper."""
        self._think()
        for _ in range(SEAT_TRIES_MAX):
            answered = self._reserve(secrets.token_hex(12), self._choose())
            if answered.hold:
                return answered
            if answered.code != "seat-taken":
                raise Gone(answered.code or f"status {answered.status}")
        raise Gone("seat-taken")

    def _choose(self) -> dict[str, object]:
        if self._wants_seats:
            free = self._client.free_seats()
            if not free:
                raise Gone("no seats left")
            start = self._chance.randrange(len(free))
            return {"sku": self._settings.seated_sku, "seats": free[start : start + self._chance.randint(1, 2)]}
        return {"sku": self._settings.sku, "quantity": 1}

    def _reserve(self, key: str, line: dict[str, object]) -> Answered:
        """Ask until there is an answer; the impatient ask twice at once with one key."""
        answers: list[Answered] = []

        def ask() -> None:
            answers.append(self._ask(key, line))

        if self.manner == "impatient":
            self._client.together(ask, ask)
        else:
            ask()
        granted = [answer for answer in answers if answer.hold]
        return (granted or answers)[0]

    def _ask(self, key: str, line: dict[str, object]) -> Answered:
        headers = self._pass | {"Idempotency-Key": key}
        until = time.monotonic() + REPEAT_SECONDS_MAX
        while True:
            sent = time.monotonic()
            reply = self._client.request("POST", "/api/holds", "reserve", headers, line)
            answered = self._answered(key, sent, reply, line)
            self._write(answered)
            if not _unanswered(reply) or time.monotonic() > until:
                return answered
            self._client.sleep(_retry_after(reply))

    def _answered(self, key: str, sent: float, reply: Reply, line: dict[str, object]) -> Answered:
        if reply.status not in (200, 201):
            code = str(reply.document.get("code", ""))
            return Answered(shopper=self.number, key=key, sent=sent, status=reply.status, code=code)
        seats = line.get("seats", ())
        assert isinstance(seats, list | tuple)
        quantity = line.get("quantity", len(seats))
        assert isinstance(quantity, int)
        return Answered(
            shopper=self.number,
            key=key,
            sent=sent,
            status=reply.status,
            hold=reply.document["id"],
            fence=reply.document["fence"],
            units=quantity,
            seats=tuple(seats),
            expires_at=reply.document["expires_at"],
            replayed=reply.headers.get("idempotent-replayed") == "true",
        )

    def _pay(self, hold: Answered) -> None:
        chance = self._chance.random()
        if self.manner == "abandoning":
            if chance < 0.3:
                body = {"hold": hold.hold, "fence": hold.fence}
                reply = self._until_answered("POST", "/api/release", "release", self._pass, body, (200, 404, 409))
                self._write(GaveBack(shopper=self.number, hold=hold.hold, status=reply.status))
            raise Gone("walked away from the basket")
        if self.manner == "late-payer" and chance < 0.5:
            self._client.sleep(self._settings.stall_seconds)
        else:
            self._think()
        card = "declined" if self.manner == "patient" and chance < 0.03 else "ok"
        if self.manner == "late-payer" and chance >= 0.5:
            card = "slow"
        outcome = self._settle(hold, card)
        if outcome != "paid":
            raise Gone(f"payment {outcome}")

    def _settle(self, hold: Answered, card: str) -> str:
        """Pay, and ask again with the same key until somebody knows how it ended."""
        body: dict[str, object] = {"hold": hold.hold, "fence": hold.fence, "card": card}
        if card == "slow":
            body["delay"] = self._settings.stall_seconds
        headers = self._pass | {"Idempotency-Key": f"pay-{hold.key}"}
        until = time.monotonic() + REPEAT_SECONDS_MAX
        while True:
            sent = time.monotonic()
            reply = self._client.request("POST", "/api/pay", "pay", headers, body)
            if not _unanswered(reply) or time.monotonic() > until:
                break
            self._client.sleep(_retry_after(reply))
        outcome = _outcome(reply)
        self._write(
            Settled(
                shopper=self.number,
                hold=hold.hold,
                sent=sent,
                status=reply.status,
                outcome=outcome,
                code=str(reply.document.get("code", "")),
                sale=str(reply.document.get("sale", {}).get("id", "")),
            )
        )
        return outcome

    def _until_answered(
        self, method: str, path: str, name: str, headers: Mapping[str, str], body: object, wanted: tuple[int, ...]
    ) -> Reply:
        until = time.monotonic() + REPEAT_SECONDS_MAX
        while True:
            reply = self._client.request(method, path, name, headers, body)
            if reply.status in wanted:
                return reply
            if not _unanswered(reply) or time.monotonic() > until:
                raise Gone(f"{name}: {reply.status} {reply.document.get('code', '')}".strip())
            self._client.sleep(_retry_after(reply))

    def _think(self) -> None:
        self._client.sleep(self._chance.uniform(0, self._settings.think_seconds_max))

    def _choose_manner(self) -> Manner:
        settings, chance = self._settings, self._chance.random()
        shares: tuple[tuple[Manner, float], ...] = (
            ("impatient", settings.impatient_share),
            ("abandoning", settings.abandoning_share),
            ("late-payer", settings.late_payer_share),
        )
        for manner, share in shares:
            if chance < share:
                return manner
            chance -= share
        return "patient"

    def _choose_arrival(self) -> float:
        settings = self._settings
        if self._chance.random() < settings.late_share:
            return settings.opens_in_seconds + self._chance.uniform(0, settings.late_seconds)
        return self._chance.uniform(0, settings.spike_seconds)


def _outcome(reply: Reply) -> Outcome:
    said = reply.document.get("outcome") if reply.status == 200 else None
    answers: tuple[Outcome, ...] = ("paid", "declined", "cancelled", "refunded")
    return next((outcome for outcome in answers if outcome == said), "refused")


def _unanswered(reply: Reply) -> bool:
    """Whether nothing was decided: no answer, or a server that is away or too busy to say."""
    return reply.status == 0 or reply.status >= 500 or reply.status == 429


def _retry_after(reply: Reply) -> float:
    try:
        seconds = float(reply.headers.get("retry-after", "0.5"))
    except ValueError:
        seconds = 0.5
    return min(max(seconds, 0.2), 5.0) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter


def _claims(token: str) -> dict[str, Any]:
    """What a pass says, read as any program may; the service's word is not checked here."""
    import jwt

    return jwt.decode(token, options={"verify_signature": False})
