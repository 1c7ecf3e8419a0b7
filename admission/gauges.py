"""Keeps the line's gauges in step with what this worker knows."""

from admission.book import Book
from admission.metrics import LINE_ACTIVE, LINE_CALLED, LINE_LENGTH, LINE_REACHABLE


class Gauges:
    """Sets each room's gauges from the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def run_once(self) -> int:
        """Set all gauges once; how many rooms there are."""
        for name, view in self._book.views.items():
            LINE_REACHABLE.labels(name).set(1 if view.reachable else 0)
            LINE_LENGTH.labels(name).set(max(0, view.issued - view.called))
            LINE_CALLED.labels(name).set(view.called)
            LINE_ACTIVE.labels(name).set(0 if view.figures is None else view.figures.active)
        return len(self._book.views)
