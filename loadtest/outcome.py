"""One check of a verdict: what was measured, against what, and which faults were found."""

from dataclasses import dataclass

FAULTS_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the verdict. Without faults it passed; `bound` is empty where a figure is only shown."""

    name: str
    measured: str
    bound: str
    faults: tuple[str, ...] = ()
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    @property
    def said(self) -> str:
        """The faults in a line, the first few of them in full."""
        shown = "; ".join(self.faults[:FAULTS_SHOWN_MAX])
        more = len(self.faults) - FAULTS_SHOWN_MAX
        return f"{shown}; and {more:,} more" if more > 0 else shown
