"""The house as a whole: packaging, container files, layers of import, and every command's help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parent.parent


def run(*argv: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")}
    return subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_compose_file_follows_the_compose_schema() -> None:
    checked = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"
    )
    assert checked.returncode == 0, checked.stdout
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    assert {"postgres", "valkey", "gateway", "stock", "reconciler"} <= services.keys()


def test_importing_the_house_never_loads_gevent() -> None:
    program = (
        "import sys; import chassis.http, admission.app, counters.app, reconciler.app, loadtest.crowd, loadtest.walk,"
        " loadtest.verdict, loadtest.bench.engine, loadtest.bench.http, fairgate.__main__, fairgate.demo.run; sys.exit('gevent' in sys.modules or 'locust' in sys.modules)"
    )
    assert run(sys.executable, "-c", program).returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        "demo", "up", "serve gateway", "serve stock", "serve reconciler", "migrate", "room put", "room show", "room list", "room revoke",
        "sku import", "sku list", "sku show", "sku history", "sku adjust", "sku incidents", "sku halt", "sku resume",
        "bench engine", "bench http",
        "hold list", "hold show", "hold explain", "hold resolve", "reconcile", "audit",
        "keys create", "keys list", "keys revoke", "keys master", "keys signing", "keys rotate", "keys revoke-signing",
    ],
)  # fmt: skip
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    shown = run(sys.executable, "-m", "fairgate", *command.split(), "--help")
    assert shown.returncode == 0
    assert "Example" in shown.stdout


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (("serve", "gateway"), "FAIRGATE_DATABASE_URL is not set"),
        (("reconcile",), "--once"),
        (("up", "--room", "onsale"), "--shop and --room together"),
        (("sku", "import", "nowhere.csv"), "cannot be read"),
        (("room", "put", "onsale", "nowhere.json"), "cannot be read"),
        (("room", "revoke", "onsale", "--reason", "why"), "one of --ticket, --pass and --identity"),
        (("hold", "resolve", "x"), "--paid or --unpaid"),
        (("sku", "show", "\udcff"), "not UTF-8"),
        (("audit", "--data", ""), "not Fairgate's"),
    ],
)
def test_a_mistake_is_answered_with_a_line_and_no_traceback(command: tuple[str, ...], word: str) -> None:
    refused = run(sys.executable, "-m", "fairgate", *command)
    assert refused.returncode != 0
    assert word in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_documents_that_the_readme_names_are_there() -> None:
    for line in (PROJECT / "README.md").read_text().split("](")[1:]:
        target = line.partition(")")[0]
        assert (PROJECT / target).exists(), target
