"""`fairgate room verify-draw`: a draw recomputed from its public files, from the network and without it."""

import asyncio
import csv
import hashlib
import json
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner, Result

from admission.draw import commitment
from admission.proofs import Proof, place_of
from admission.room_settings import Beacon
from admission.stages import beacon_words
from admission.tickets import Ticket, TicketKeys, client_id_of
from chassis.database import Pool
from chassis.settings import Settings
from fairgate.__main__ import app
from tests.draw_world import BEGAN, JOINED, SECRET, drawn_proof
from tests.line_world import line_world, serving, soon
from tests.test_draw_stages import entered, number_of, reaches


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["room", "verify-draw", *map(str, arguments)])


def written(folder: Path, proof: Proof, leaves: bytes) -> Path:
    path = folder / "draw.json"
    path.write_bytes(msgspec.json.encode(proof))
    path.with_suffix(".leaves").write_bytes(leaves)
    return path


def ticket(folder: Path, entry: int, owner: int | None = None, room: str = "onsale", joined_at: int = JOINED) -> Path:
    client_id = client_id_of(f"secret {entry if owner is None else owner}")
    token = TicketKeys("k", {"k": b"k" * 32}).sign(Ticket(room, 2, "entry", entry, joined_at, client_id))
    path = folder / "ticket.txt"
    path.write_text(token)
    return path


def test_files_alone_prove_a_draw_and_give_every_place(tmp_path: Path) -> None:
    proof, leaves = drawn_proof()
    path = written(tmp_path, proof, leaves)
    done = run(path, "--ticket", ticket(tmp_path, 7), "--order", tmp_path / "order.csv")
    assert done.exit_code == 0, done.output
    assert f"This ticket's place is {place_of(proof, 7)} of 2468." in done.output
    assert "The operator too" in done.output
    with (tmp_path / "order.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["entry", "place"]
    assert sorted(int(place) for _, place in rows[1:]) == list(range(1, 2_469))
    assert dict(rows)["7"] == str(place_of(proof, 7))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"secret": "11" * 32}, "commitment"),
        ({"root": "11" * 32}, "root"),
        ({"entries": 9}, "entries"),
        ({"beacon_value": None}, "beacon"),
    ],
)
def test_a_changed_proof_ends_with_exit_code_1(tmp_path: Path, change: dict[str, object], what: str) -> None:
    proof, leaves = drawn_proof()
    done = run(written(tmp_path, msgspec.structs.replace(proof, **change), leaves), "--json")
    assert done.exit_code == 1
    assert what in [one["what"] for one in json.loads(done.output)["findings"] if one["holds"] is False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"root": "zz" * 32}, "$.root"),
        ({"root": "0" * 63}, "$.root"),
        ({"root": "00" * 31}, "$.root"),
        ({"secret": "00"}, "$.secret"),
        ({"secret": "AA" * 32}, "$.secret"),
        ({"commitment": "00" * 32 + "\n"}, "$.commitment"),
        ({"beacon_value": "zz" * 32}, "$.beacon_value"),
        ({"beacon_value": "é" * 64}, "$.beacon_value"),
        ({"entries": -1, "last_entry": -1}, "$.last_entry"),
        ({"last_entry": 10**12}, "$.last_entry"),
        ({"epoch": 0}, "$.epoch"),
        ({"room": "on\x1b[2Ksale"}, "$.room"),
        ({"gaps": [[0, 5]]}, "$.gaps"),
        ({"restored": [999, -5]}, "$.restored"),
        ({"committed_at": None}, "$.committed_at"),
        ({"drawn_at": ""}, "$.drawn_at"),
        ({"root_at": "zzzz"}, "$.root_at"),
        ({"root_at": "2026-05-01T99:00:00Z"}, "$.root_at"),
        ({"root_at": "2026-05-01T11:00:00"}, "$.root_at"),
        ({"root_at": "0001-01-01T00:00:00+23:59"}, "root_at"),
        ({"binds": "\ud800"}, "no proof"),
    ],
)
def test_a_proof_of_another_form_is_refused_in_words(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path, tickets = written(tmp_path, *drawn_proof()), ticket(tmp_path, 7)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    done = run(path, "--ticket", tickets, "--order", tmp_path / "order.csv")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "is no proof of a draw" in done.output
    assert said in done.output
    assert not (tmp_path / "order.csv").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"entries": 2_467},
        {"last_entry": 2_501},
        {"entries": 0},
        {"entries": 0, "last_entry": 0, "gaps": ()},
        {"gaps": ((1, 2_500), (1, 2_500))},
        {"gaps": ((60, 40),)},
        {"gaps": ((2_000, 2_010), (40, 60))},
        {"stage": "committed"},
        {"drawn_at": None},
        {"restored": (4,)},
        {"restored": (999,)},
        {"restored": (1, 1, 1)},
        {"beacon": None},
        {"beacon": None, "beacon_value": None, "beacon_missed": True},
    ],
)
def test_no_place_and_no_order_come_from_a_proof_that_fails(tmp_path: Path, change: dict[str, object]) -> None:
    proof, leaves = drawn_proof()
    path, tickets = written(tmp_path, msgspec.structs.replace(proof, **change), leaves), ticket(tmp_path, 7)
    done = run(path, "--ticket", tickets, "--order", tmp_path / "order.csv", "--ask-beacon")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "FAILS" in done.output
    assert "No place follows from a proof that fails" in done.output
    assert "Everybody:" not in done.output
    assert not (tmp_path / "order.csv").exists()
    shown = json.loads(run(path, "--ticket", tickets, "--json").output)
    assert (shown["place"], shown["binds"]) == (None, [])


def test_a_ticket_older_than_the_commitment_is_not_confirmed(tmp_path: Path) -> None:
    path = written(tmp_path, *drawn_proof())
    done = run(path, "--ticket", ticket(tmp_path, 7, joined_at=int(BEGAN.timestamp()) - 61))
    assert_words(done, "this ticket is older than the commitment")
    assert "This ticket's place" not in done.output
    assert "Everybody:" in done.output  # the proof itself holds


def test_a_ticket_of_another_form_is_refused_in_words(tmp_path: Path) -> None:
    path, tickets = written(tmp_path, *drawn_proof()), tmp_path / "ticket.txt"
    keys = TicketKeys("k", {"k": b"k" * 32})
    for client_id in ("é", "A"):
        tickets.write_text(keys.sign(Ticket("onsale", 2, "entry", 7, JOINED, client_id)))
        assert_words(run(path, "--ticket", tickets), "holds no ticket")
    for text in ('{"ticket": 7}', '{"ticket": []}', "{", "", "[" * 100_000):
        tickets.write_text(text)
        assert_words(run(path, "--ticket", tickets), "holds no ticket")


def test_odd_sources_are_refused_in_words(tmp_path: Path) -> None:
    for source in ("http://[", f"http://{'a' * 70}.invalid/", "http://a:b/draw", ".", "/", ""):
        assert_words(run(source), "cannot be read")
    proof, leaves = drawn_proof(beacon=Beacon("http://[::x/y", 3))
    assert_words(run(written(tmp_path, proof, leaves), "--ask-beacon"), "cannot be read")


def assert_words(done: Result, words: str) -> None:
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert words in done.output


def test_a_ticket_of_somebody_else_or_of_another_room_is_not_confirmed(tmp_path: Path) -> None:
    path = written(tmp_path, *drawn_proof())
    stolen = run(path, "--ticket", ticket(tmp_path, 7, owner=8))
    assert (stolen.exit_code, "another owner" in stolen.output) == (1, True)
    foreign = run(path, "--ticket", ticket(tmp_path, 7, room="other"))
    assert foreign.exit_code == 1
    (tmp_path / "ticket.txt").write_text("nonsense")
    assert run(path, "--ticket", tmp_path / "ticket.txt").exit_code == 1


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"format": "fairgate draw 9"}', b'{"x": ' + b"[" * 100_000]
)
def test_what_is_no_proof_is_refused_in_a_line(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "draw.json").write_bytes(body)
    done = run(tmp_path / "draw.json")
    assert_words(done, "is no proof of a draw")
    assert_words(run(tmp_path / "missing.json"), "cannot be read")


def test_a_draw_without_its_leaves_is_not_said_to_hold(tmp_path: Path) -> None:
    path = written(tmp_path, *drawn_proof())
    path.with_suffix(".leaves").unlink()
    done = run(path)
    assert done.exit_code == 1
    assert "cannot be recomputed without the leaves" in done.output


async def test_a_draw_is_verified_from_its_address_and_again_from_what_was_kept(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=6_000)
        buyers = await entered(world, 7)
        address = f"{world.url}/rooms/onsale/draw"
        early = await asyncio.to_thread(run, address)
        assert (early.exit_code, "not closed yet" in early.output) == (1, True)
        await reaches(world, "drawn")
        (tmp_path / "ticket.json").write_text(json.dumps(buyers[0].joined))
        ticket_file = ("--ticket", tmp_path / "ticket.json")
        done = await asyncio.to_thread(run, address, *ticket_file, "--keep", tmp_path / "kept", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["place"] == (await world.place(buyers[0]))["place"]
        assert number_of(buyers[0]) > 0
    kept = await asyncio.to_thread(run, tmp_path / "kept" / "draw.json", *ticket_file)
    assert kept.exit_code == 0, kept.output
    away = await asyncio.to_thread(run, address)
    assert (away.exit_code, "cannot be read" in away.output) == (1, True)


async def test_the_beacons_source_is_asked_for_value_and_time(tmp_path: Path) -> None:
    value = hashlib.sha256(b"beacon").hexdigest()
    chain = {"period": 30, "genesis_time": 1_777_633_230}  # its third round comes at 2026-05-01T11:01:30Z

    async def public(request: Request) -> Response:
        return JSONResponse({"round": int(request.path_params["round"]), "randomness": value})

    async def info(_request: Request) -> Response:
        return JSONResponse(chain)

    async with serving(Starlette(routes=[Route("/public/{round}", public), Route("/info", info)])) as url:
        proof, leaves = drawn_proof(beacon=Beacon(url, 3))
        path = written(tmp_path, proof, leaves)
        done = await asyncio.to_thread(run, path, "--ask-beacon")
        assert done.exit_code == 0, done.output
        early = msgspec.structs.replace(
            proof,
            beacon=Beacon(url, 1),
            commitment=commitment(SECRET, "onsale", 2, beacon_words(Beacon(url, 1))).hex(),
        )
        chain["genesis_time"] -= 3_600
        done = await asyncio.to_thread(run, written(tmp_path, early, leaves), "--ask-beacon")
        assert (done.exit_code, "was known before the root stood" in done.output) == (1, True)
        value = "00" * 32
        done = await asyncio.to_thread(run, path, "--ask-beacon")
        assert (done.exit_code, "is another value" in done.output) == (1, True)
