"""One shopper's walk over the public road: join, wait, claim, hold, pay or walk away, leave. No Locust in here.

A shopper speaks only the public contract, repeats with the same key what was not answered, and writes down everything
that it was told.
"""

import base64
import hashlib
import json
import random
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from loadtest.foresight import seconds_to_opening, seconds_to_turn
from loadtest.records import Admitted, Answered, Arrived, Ended, GaveBack, Joined, Placed, Record, Settled
from loadtest.road import Client, Reply, repeat_until_decided
from loadtest.settings import CrowdSettings

Manner = Literal["patient", "impatient", "abandoning", "late-payer"]
Outcome = Literal["paid", "declined", "cancelled", "refunded", "refused"]
TRIES_MAX = 6
RETURN_SECONDS_MAX = 20.0
LOOK_SECONDS_MAX = 10.0  # nobody looks away from a line for longer


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
        ticket = self._ask_for_ticket("join", client_id)
        self._ticket = {"Fairgate-Ticket": ticket["ticket"], "Fairgate-Secret": secret}
        self._ticket_id = ticket["ticket_id"]
        if self.manner == "impatient":  # a reload joins again: the same place must come back
            self._ask_for_ticket("join again", client_id)

    def _ask_for_ticket(self, name: str, client_id: str) -> dict[str, Any]:
        body = {"client_id": client_id}
        ticket = self._until_answered("POST", f"{self._room}/tickets", name, self._ticket, body, (200, 201)).document
        entry, number = ticket.get("entry"), ticket.get("number")
        self._write(Joined(shopper=self.number, ticket_id=ticket["ticket_id"], entry=entry, number=number))
        return ticket

    def _wait_for_turn(self) -> None:
        """Work out from the public document when to knock; ask for the own place only when it is new."""
        if self.manner == "abandoning" and self._chance.random() < 0.25:
            self._client.sleep(self._chance.uniform(0, self._settings.opens_in_seconds * 2))
            raise Gone("walked out of the line")
        place: int | None = None
        while True:
            if place is None or self.manner == "impatient":
                place = self._place()
            seconds = self._seconds_to_turn(place)
            if seconds == 0 and place is not None and self._claim():
                return
            if seconds:
                self._client.sleep(min(seconds, LOOK_SECONDS_MAX) + self._chance.uniform(0.2, 0.8))

    def _seconds_to_turn(self, place: int | None) -> float:
        """When it is worth looking again; 0 when the place is called."""
        seen = self._client.status()
        if seen is None:
            return 1.0
        if place is None:
            return seconds_to_opening(seen.document, seen.age_seconds) + self._chance.uniform(0.5, 2.5)
        seconds = seconds_to_turn(seen.document, seen.age_seconds, place)
        return 1.0 if seconds is None else seconds

    def _place(self) -> int | None:
        place = self._until_answered("GET", f"{self._room}/place", "place", self._ticket, None, (200,)).document
        self._write(Placed(shopper=self.number, ticket_id=self._ticket_id, state=place["state"], place=place["place"]))
        if place["state"] in ("missed", "ended"):
            raise Gone(place["state"])
        return None if place["place"] is None else int(place["place"])

    def _claim(self) -> bool:
        """Whether a pass was given; the room may still ask for patience."""
        reply = self._ask_for_pass("claim")
        if reply.status == 202:
            self._client.sleep(reply.retry_after_seconds())
            return False
        if reply.status == 410:
            raise Gone("missed")
        self._pass = {"Fairgate-Pass": reply.document["pass"]}
        if self.manner == "impatient":  # the same right once more, and a look at the shop's front page
            self._ask_for_pass("claim again")
            self._client.request("GET", "/", "shop", self._pass | {"Accept": "text/html"})
        return True

    def _ask_for_pass(self, name: str) -> Reply:
        reply = self._until_answered("POST", f"{self._room}/passes", name, self._ticket, None, (200, 201, 202, 410))
        if reply.status in (200, 201):
            jti, expires_at = _claims(reply.document["pass"])["jti"], reply.document["expires_at"]
            self._write(Admitted(shopper=self.number, ticket_id=self._ticket_id, jti=jti, expires_at=expires_at))
        return reply

    def _hold(self) -> Answered:
        """A hold, or the end of the walk when nothing is left for this shopper."""
        self._think()
        units, returned = self._chance.choice((1, 1, 1, 2)), False
        for _ in range(TRIES_MAX):
            answered = self._reserve(secrets.token_hex(12), self._choose(units))
            match answered.code:
                case "" if answered.hold:
                    return answered
                case "seat-taken":
                    continue
                case "insufficient-stock" if units > 1:
                    units = 1
                case "sold-out" if not returned and answered.next_release_at:
                    returned = True
                    self._client.sleep(_seconds_until(answered.next_release_at) + self._chance.uniform(0.2, 1))
                case _:
                    raise Gone(answered.code or f"status {answered.status}")
        raise Gone("no luck")

    def _choose(self, units: int) -> dict[str, object]:
        if not self._wants_seats:
            return {"sku": self._settings.sku, "quantity": units}
        free = self._client.free_seats()
        while free is None:
            self._client.sleep(1.0)
            free = self._client.free_seats()
        if not free:
            raise Gone("no seats left")
        start = self._chance.randrange(len(free))
        return {"sku": self._settings.seated_sku, "seats": free[start : start + units]}

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
        answered: list[Answered] = []

        def ask() -> Reply:
            sent = time.monotonic()
            headers = self._pass | {"Idempotency-Key": key}
            reply = self._client.request("POST", "/api/holds", "reserve", headers, line)
            answered.append(self._answered(key, sent, reply, line))
            self._write(answered[-1])
            return reply

        repeat_until_decided(self._client, ask)
        return answered[-1]

    def _answered(self, key: str, sent: float, reply: Reply, line: dict[str, object]) -> Answered:
        if reply.status not in (200, 201):
            code = str(reply.document.get("code", ""))
            next_release_at = str(reply.document.get("next_release_at") or "")
            return Answered(
                shopper=self.number,
                key=key,
                sent=sent,
                status=reply.status,
                code=code,
                next_release_at=next_release_at,
            )
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
            self._client.sleep(self._settings.late_payer_seconds)
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
            body["delay"] = self._settings.stalled_payment_seconds
        headers = self._pass | {"Idempotency-Key": f"pay-{hold.key}"}
        sent = time.monotonic()
        reply = repeat_until_decided(
            self._client, lambda: self._client.request("POST", "/api/pay", "pay", headers, body)
        )
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
        """The first answer whose status is wanted; any other decision ends the walk."""
        reply = repeat_until_decided(self._client, lambda: self._client.request(method, path, name, headers, body))
        if reply.status in wanted:
            return reply
        raise Gone(f"{name}: {reply.status} {reply.document.get('code', '')}".strip())

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


def _seconds_until(moment: str) -> float:
    """Seconds until `moment`, within what a person would wait for."""
    seconds = (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), RETURN_SECONDS_MAX)


def _claims(token: str) -> dict[str, Any]:
    """What a pass says, read as any program may; whether it is genuine is the gate's business."""
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims
