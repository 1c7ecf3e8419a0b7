"""docs/invariants.md names, for each invariant, constraints, assertions and tests; every name in it must exist."""

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent


def test_each_invariant_names_what_enforces_asserts_and_tests_it() -> None:
    schema = "".join(file.read_text() for file in (PROJECT / "fairgate/migrations/versions").glob("*.sql"))
    tests = "".join(file.read_text() for file in (PROJECT / "tests").glob("test_*.py") if file != Path(__file__))
    rows = [
        line.split("|")[1:-1]
        for line in (PROJECT / "docs/invariants.md").read_text().splitlines()
        if line.startswith("| I")
    ]
    assert [row[0].strip() for row in rows] == [f"I{number}" for number in range(1, 10)]
    for row in rows:
        enforced, asserted, tried = (re.findall(r"`([^`]+)`", cell) for cell in row[2:5])
        assert enforced
        assert asserted
        assert tried
        for name in enforced + asserted:
            assert (PROJECT / name).exists() if "/" in name else re.search(rf"\b{name}\b", schema), name
        for name in tried:
            assert f"def {name}(" in tests, name
