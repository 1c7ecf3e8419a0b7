"""The stock's OpenAPI document and docs/api.md describe what the service answers: every call and code, nothing else."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.routing import Route

from chassis.problems import PROBLEMS
from chassis.settings import Settings
from counters.app import create
from counters.openapi import openapi_document

API_PAGE = Path(__file__).parent.parent / "docs" / "api.md"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document("https://tickets.example/.fairgate")


async def served_calls(settings: Settings) -> set[tuple[str, str]]:
    """The (method, path) pairs that the service routes."""
    return {
        (method, route.path)
        for route in create(settings).routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }


async def test_the_document_has_every_call_and_no_other(document: dict[str, Any], settings: Settings) -> None:
    described = {
        (method.upper(), path)
        for path, calls in document["paths"].items()
        for method in calls
        if method not in ("parameters", "servers")
    }
    assert described == await served_calls(settings) - {("GET", "/openapi.json")}


def test_every_reference_leads_somewhere_and_every_schema_is_one(document: dict[str, Any]) -> None:
    def references(part: object) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if "$ref" in part else []
            return own + [found for value in part.values() for found in references(value)]
        return [found for value in part for found in references(value)] if isinstance(part, list) else []

    for reference in references(document):
        part = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_operations_and_path_parameters_are_named(document: dict[str, Any]) -> None:
    operations = []
    for path, calls in document["paths"].items():
        named = {parameter["name"] for parameter in calls.get("parameters", []) if parameter["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path
        operations += [call["operationId"] for method, call in calls.items() if method not in ("parameters", "servers")]
    assert len(operations) == len(set(operations))


async def test_the_page_has_every_call_of_the_stock(settings: Settings) -> None:
    page = API_PAGE.read_text()
    section = page[page.index("\n## Stock\n") : page.index("\n## Codes\n")]
    listed = {(method, path) for method, path in re.findall(r"^\| `([A-Z]+) (/\S*)` \|", section, re.MULTILINE)}
    assert listed == await served_calls(settings)


def test_the_page_and_the_table_of_codes_are_one_list() -> None:
    section = API_PAGE.read_text().partition("\n## Codes\n")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| (.+) \|$", section, re.MULTILINE)
    assert {code: (int(status), title) for code, status, title in rows} == dict(PROBLEMS)
    assert len(rows) == len(PROBLEMS)
