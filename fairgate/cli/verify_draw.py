"""`fairgate room verify-draw`: recompute a draw from its public files, without the server that made it."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
import orjson
import typer
from rich.console import Console
from rich.progress import track

from admission.beacon import BeaconRefused, read_round
from admission.merkle import LEAF_BYTES
from admission.proofs import Finding, Proof, place_of, read_proof, verify, verify_ticket, what_binds, whole_order
from admission.room_settings import Beacon
from admission.tickets import Ticket, TicketRefused, client_digest, read_unverified
from fairgate.cli.books import JsonOption, fail

PROOF_BYTES_MAX = 64 * 2**20
SMALL_BYTES_MAX = 64 * 2**10
MARKS = {True: "holds", False: "FAILS", None: "open "}


class _Chain(msgspec.Struct, frozen=True):
    """What a beacon's source tells of itself (drand's /info): when its rounds come."""

    period: Annotated[int, msgspec.Meta(ge=1)]
    genesis_time: int


def verify_draw(
    source: Annotated[str, typer.Argument(help="The proof: a file, or its address, …/rooms/NAME/draw.")],
    ticket_file: Annotated[
        Path | None, typer.Option("--ticket", help="File with a ticket: is it in, and where?")
    ] = None,
    leaves_file: Annotated[
        Path | None,
        typer.Option("--leaves", help="File with the leaves; beside a proof's file it is looked for by itself."),
    ] = None,
    order_file: Annotated[
        Path | None, typer.Option("--order", help="Write every entry and its place here, as CSV.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep the proof and its leaves as DIR/draw.json and DIR/draw.leaves.")
    ] = None,
    ask_beacon: Annotated[
        bool, typer.Option("--ask-beacon", help="Compare the beacon's value, and its time, at its source.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute a draw: commitment, root, key and places. Exit code 0 only when all of it holds."""
    body, leaves = _fetch(source) if source.startswith(("http://", "https://")) else _read(Path(source), leaves_file)
    try:
        proof = read_proof(body)
    except ValueError as error:
        fail(f"{source} is no proof of a draw: {error}")
    findings = verify(proof, leaves)
    fails = any(finding.holds is False for finding in findings)
    if ask_beacon and not fails and proof.beacon is not None and proof.beacon_value is not None:
        findings.append(_at_source(proof, proof.beacon))
        fails = findings[-1].holds is False
    place = None
    if ticket_file is not None:
        ticket, client_id = _ticket(ticket_file, proof)
        findings.append(verify_ticket(proof, leaves, ticket.index, client_id, ticket.joined_at))
        if not fails and findings[-1].holds is not False:
            place = place_of(proof, ticket.index)
    if keep is not None:
        _keep(keep, body, leaves)
    if order_file is not None and not fails:
        _write_order(order_file, proof)
    binds = [] if fails else what_binds(proof.beacon, proof.beacon_missed, len(proof.restored))
    if as_json:
        shown = [{"what": one.what, "holds": one.holds, "words": one.words} for one in findings]
        print(orjson.dumps({"stage": proof.stage, "findings": shown, "place": place, "binds": binds}).decode())
    else:
        _print(proof, findings, place, binds)
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)


def _print(proof: Proof, findings: Sequence[Finding], place: int | None, binds: Sequence[str]) -> None:
    print(f"The draw of room {proof.room}, epoch {proof.epoch}, has come as far as: {proof.stage}.")
    for finding in findings:
        print(f"  {MARKS[finding.holds]}  {finding.what}: {_shown(finding.words)}")
    if not binds:
        print("No place follows from a proof that fails, and it binds nobody.")
        return
    if place is not None:
        print(f"This ticket's place is {place} of {proof.entries}.")
    print("What this proof binds once it is drawn:")
    for words in binds:
        print(f"  - {_shown(words)}")


def _shown(words: str) -> str:
    """Words that a proof may have part in, without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _fetch(address: str) -> tuple[bytes, bytes | None]:
    """The proof at an address, and its leaves where they are published."""
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        fail(f"{address} cannot be read: {error}")
    with httpx.Client(timeout=30) as client:
        body = _get(client, url, PROOF_BYTES_MAX)
        if body is None:
            fail(f"{address} has no proof of a draw.")
        try:
            proof = read_proof(body)
        except ValueError:  # the caller says what is wrong with it
            return body, None
        url = url.copy_merge_params({"epoch": proof.epoch})
        leaves = _get(
            client, url.copy_with(path=f"{url.path.rstrip('/')}/leaves"), (proof.last_entry or 0) * LEAF_BYTES
        )
    return body, leaves


def _get(client: httpx.Client, url: httpx.URL | str, bytes_max: int) -> bytes | None:
    """What stands at `url`, or None where nothing does."""
    body = bytearray()
    try:
        with client.stream("GET", url, headers={"Accept": "application/json, application/octet-stream"}) as answer:
            if answer.status_code == 404:
                return None
            answer.raise_for_status()
            for part in answer.iter_bytes():
                body += part
                if len(body) > bytes_max:
                    fail(f"{url} answers more than it should.")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # UnicodeError: a host that is no name
        fail(f"{url} cannot be read: {error}")
    return bytes(body)


def _read(proof: Path, leaves: Path | None) -> tuple[bytes, bytes | None]:
    """The proof in a file, and its leaves beside it."""
    try:
        beside = leaves or proof.with_suffix(".leaves")
        return proof.read_bytes(), beside.read_bytes() if leaves is not None or beside.exists() else None
    except (OSError, ValueError) as error:  # ValueError: a path without a name
        fail(f"A file cannot be read: {error}")


def _ticket(path: Path, proof: Proof) -> tuple[Ticket, bytes]:
    """The ticket in a file (its token, or an answer of POST …/tickets), and the client_id that its leaf is made of."""
    try:
        text = path.read_text().strip()
        token = orjson.loads(text)["ticket"] if text.startswith("{") else text
        ticket = read_unverified(token)
        client_id = client_digest(ticket.entrant)
    except (OSError, ValueError, KeyError, TypeError, TicketRefused) as error:
        fail(f"{path} holds no ticket: {error}")
    if (ticket.room, ticket.epoch) != (proof.room, proof.epoch) or ticket.kind != "entry":
        fail(
            f"The ticket is {ticket.kind} {ticket.index} of room {ticket.room}, epoch {ticket.epoch}: not of this draw."
        )
    return ticket, client_id


def _at_source(proof: Proof, beacon: Beacon) -> Finding:
    """Whether the beacon's source gives this value, for a moment after the root stood."""
    what = "beacon at its source"
    with httpx.Client(timeout=30) as client:
        answer = _get(client, f"{beacon.source}/public/{beacon.round}", SMALL_BYTES_MAX)
        about = _get(client, f"{beacon.source}/info", SMALL_BYTES_MAX)
    try:
        value = read_round(answer or b"", beacon.round)
        chain = msgspec.json.decode(about or b"", type=_Chain)
    except (BeaconRefused, msgspec.MsgspecError) as error:
        return Finding(what, None, f"cannot be read: {error}")
    if value.hex() != proof.beacon_value:
        return Finding(what, False, "is another value")
    came_at = chain.genesis_time + (beacon.round - 1) * chain.period
    if proof.root_at is None or came_at <= proof.root_at.timestamp():
        return Finding(what, False, "was known before the root stood: it does not bind the operator")
    return Finding(what, True, "is this value, and came after the root stood")


def _keep(folder: Path, proof: bytes, leaves: bytes | None) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "draw.json").write_bytes(proof)
        if leaves is not None:
            (folder / "draw.leaves").write_bytes(leaves)
    except OSError as error:
        fail(f"{folder} cannot be written: {error}")


def _write_order(path: Path, proof: Proof) -> None:
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("entry", "place"))
            writer.writerows(
                track(whole_order(proof), "Working out places", total=proof.entries or 0, console=Console(stderr=True))
            )
    except OSError as error:
        fail(f"{path} cannot be written: {error}")
