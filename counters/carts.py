"""Carts: the lines that a caller writes, as what is wanted of each SKU (pure)."""

from collections.abc import Mapping, Sequence

import msgspec

from chassis.http import invalid_fields
from counters.rules import QUANTITY_MAX, Line, Want


class Item(msgspec.Struct, frozen=True):
    """What a SKU's name stands for: number and kind never change; `batched` is its strategy."""

    id: int
    kind: str
    batched: bool = True


def sum_lines(lines: Sequence[Line], items: Mapping[str, Item]) -> tuple[Want, ...]:
    """One want a SKU: quantities of the same SKU are summed, its seats joined, before anything is checked against stock.

    Raises Problem invalid, with a pointer to the line: neither or both of quantity and seats, the wrong one for the
    SKU's kind, a seat named twice, too many units.
    """
    (line, *others) = lines
    if not others and line.quantity is not None and line.seats is None and items[line.sku].kind == "fungible":
        return (Want(items[line.sku].id, line.quantity, None),)  # what nearly everybody asks for
    errors: list[tuple[str, str]] = []
    quantities: dict[int, int] = {}
    seats: dict[int, list[str]] = {}
    for index, line in enumerate(lines):
        item = items[line.sku]
        sku_id = item.id
        if (line.quantity is None) == (line.seats is None):
            errors.append((f"/lines/{index}", "name either a quantity or seats"))
        elif line.seats is None and item.kind == "seated":
            errors.append((f"/lines/{index}/quantity", f"{line.sku} is seated: name seats"))
        elif line.seats is not None and item.kind == "fungible":
            errors.append((f"/lines/{index}/seats", f"{line.sku} has no seats: name a quantity"))
        elif line.seats is not None:
            seats.setdefault(sku_id, []).extend(line.seats)
            quantities[sku_id] = len(seats[sku_id])
            if len(set(seats[sku_id])) < len(seats[sku_id]):
                errors.append((f"/lines/{index}/seats", "names a seat twice"))
        else:
            quantities[sku_id] = quantities.get(sku_id, 0) + (line.quantity or 0)
        if quantities.get(sku_id, 0) > QUANTITY_MAX:
            errors.append((f"/lines/{index}", f"more than {QUANTITY_MAX} units of {line.sku}"))
    if errors:
        raise invalid_fields(errors)
    return tuple(
        Want(sku_id, quantity, tuple(sorted(seats[sku_id])) if sku_id in seats else None)
        for sku_id, quantity in sorted(quantities.items())
    )
