"""The crowd's log survives a kill in the middle of a line, and never swallows a line that is something else."""

from pathlib import Path

import pytest

from loadtest.records import Admitted, Answered, Arrived, Ended, Joined, Placed, Record, RecordLog, read_records

TOLD: list[Record] = [
    Arrived(shopper=1, mono=1.0, manner="patient"),
    Joined(shopper=1, mono=2.0, ticket_id="t1", entry=4, number=None),
    Placed(shopper=1, mono=3.0, ticket_id="t1", state="waiting", place=12),
    Admitted(shopper=1, mono=4.0, ticket_id="t1", jti="j1", expires_at="2026-11-30T10:00:00.000Z"),
    Answered(shopper=1, mono=5.0, key="k", sent=4.9, status=201, hold="h", fence=3, units=2, seats=("A-1", "A-2")),
    Ended(shopper=1, mono=6.0, outcome="bought"),
]


def write(folder: Path, process: int, records: list[Record]) -> Path:
    file = folder / f"shoppers-{process}.jsonl"
    with RecordLog(file) as log:
        for record in records:
            log.append(record)
    return file


def test_what_is_written_is_read_in_the_order_of_time_over_all_processes(tmp_path: Path) -> None:
    write(tmp_path, 1, TOLD[::2])
    write(tmp_path, 2, TOLD[1::2])
    assert read_records(tmp_path) == TOLD


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, 1, TOLD)
    file.write_bytes(file.read_bytes()[:-20])
    assert read_records(tmp_path) == TOLD[:-1]


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, 1, TOLD)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b'{"record":"joined"}\n', *lines[2:]]))
    with pytest.raises(ValueError, match=r"shoppers-1\.jsonl, line 2, is no record"):
        read_records(tmp_path)


def test_an_empty_folder_is_an_empty_log(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []
