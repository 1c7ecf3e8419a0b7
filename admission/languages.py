"""The waiting page's languages: which one a reader gets, and words, numbers, moments and waits in it.

English stands in the templates; other languages in locale/{name}/LC_MESSAGES/messages.po, read as they are when the
process starts, so that no compiled catalog can be older than its words.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from babel.dates import format_datetime
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from babel.support import NullTranslations, Translations

ENGLISH = "en"
NAMES: Mapping[str, str] = {ENGLISH: "English", "de": "Deutsch"}
HEADER_CHARACTERS_MAX = 500
HOURS_FROM_SECONDS = 5_400
_RANGE = re.compile(r"\s*(?P<tag>[A-Za-z]{1,8})(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=(?P<q>[01](?:\.\d{0,3})?))?\s*")


def _(words: str) -> str:
    """Marks words for the catalogs; they are looked up when they are shown."""
    return words


# What the script says by itself, and what a wait is called. {low}, {high}, {wait} and {ahead} are filled in.
WORDS: Mapping[str, str] = {
    "soon": _("less than a minute"),
    "minute": _("about a minute"),
    "minutes_up_to": _("up to {high} minutes"),
    "minutes": _("{low} to {high} minutes"),
    "hours_up_to": _("up to {high} hours"),
    "hours": _("{low} to {high} hours"),
    "unknown": _("not known now"),
    "resumed": _("{wait}, from when the line goes on"),
    "ahead": _("People ahead: {ahead}. Likely wait: {wait}."),
    "turn": _("It is your turn"),
    "ending": _("Your turn is over in less than a minute."),
    "genuine": _("Your place was drawn fairly: the draw is the one that was committed to before it, and your entry took part in it."),
    "false": _("Something is wrong with this draw: it is not the one that was committed to, or your entry did not take part. Please tell the shop."),
    "undecided": _("This cannot be judged yet. Try again in a while."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Language:
    """One language: `name` as in <html lang>."""

    name: str
    translations: NullTranslations

    def words(self) -> dict[str, str]:
        """The script's words."""
        return {key: str(self.translations.gettext(words)) for key, words in WORDS.items()}

    def number(self, value: int) -> str:
        """1234 as 1,234 or 1.234."""
        return format_decimal(value, locale=self.name)

    def moment(self, text: str) -> str:
        """A document's moment for readers; theirs is not known here, so it names its zone."""
        moment = datetime.fromisoformat(text).astimezone(UTC)
        return f"{format_datetime(moment, 'medium', tzinfo=UTC, locale=self.name)} UTC"

    def wait(self, low_seconds: int, high_seconds: int) -> str:
        """A range of seconds in words that promise no more than is known; static/waiting.js says the same."""
        if high_seconds <= 60:
            return self._say("soon")
        unit, seconds = ("hours", 3600) if high_seconds > HOURS_FROM_SECONDS else ("minutes", 60)
        low, high = low_seconds // seconds, -(-high_seconds // seconds)
        if low not in (0, high):
            return self._say(unit, low=low, high=high)
        return self._say("minute") if high == 1 else self._say(f"{unit}_up_to", high=high)

    def resumed(self, wait: str) -> str:
        """A wait that is counted from when the line goes on."""
        return str(self.translations.gettext(WORDS["resumed"])).format(wait=wait)

    def _say(self, key: str, **numbers: int) -> str:
        words = str(self.translations.gettext(WORDS[key]))
        return words.format(**{name: self.number(value) for name, value in numbers.items()})


@cache
def languages() -> Mapping[str, Language]:
    """All languages by name."""
    return {name: Language(name, _translations(name)) for name in NAMES}


def choose(asked: str | None, kept: str | None, accepted: str) -> str:
    """The reader's language: what the address asks for, what was chosen before, what the browser prefers, or English."""
    for name in (asked, kept):
        if name is not None and name in NAMES:
            return name
    preferred = [
        (-float(found["q"] or 1), number, found["tag"].lower())
        for number, part in enumerate(accepted[:HEADER_CHARACTERS_MAX].split(","))
        if (found := _RANGE.fullmatch(part)) is not None
    ]
    return next((tag for quality, _number, tag in sorted(preferred) if quality < 0 and tag in NAMES), ENGLISH)


def _translations(name: str) -> NullTranslations:
    if name == ENGLISH:
        return NullTranslations()
    text = files("admission").joinpath("locale", name, "LC_MESSAGES", "messages.po").read_bytes()
    compiled = io.BytesIO()
    write_mo(compiled, read_po(io.BytesIO(text), locale=name))
    compiled.seek(0)
    return Translations(compiled)
