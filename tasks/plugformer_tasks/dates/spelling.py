"""The spellings of dates: a grammar of what people write, filled in with a locale's words and order."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from babel import Locale, localedata
from babel.core import UnknownLocaleError
from babel.dates import parse_pattern

from plugformer.errors import ConfigurationError, nearest

FIRST, LAST = date(1970, 1, 1), date(2069, 12, 31)
"""A hundred years, so that a year of two digits means one year only."""

Rules = Mapping[str, Sequence[str]]
"""What a name in braces may be replaced by, each alternative equally often."""


class NoDay(NamedTuple):
    """A year, a month and a day that are no date, such as February 30."""

    year: int
    month: int
    day: int

    def weekday(self) -> int:
        """Returns any day of the week."""
        return sum(self) % 7


_RULES: Rules = {
    "spelling": (
        *10 * ["{date}"],
        *3 * ["{weekday}{comma or space}{date}"],
        *("{date}{comma or space}{weekday}", "{date} ({weekday})"),
        "{digits}",
    ),
    "weekday": ("{EEEE}", "{EEE}"),
    "date": (*3 * ["{words}"], *2 * ["{numbers}"]),
    # The month as a word.
    "words": (*5 * ["{day first}"], "{year first}"),
    "day first": (
        *4 * ["{day} {month}{comma or space}{year}"],
        *("{number}-{month}-{year}", "{number}/{month}/{year}", "{number}.{month}.{year}"),
        *("{number}{month}{year}", "{dd}{MMM}{year}"),
    ),
    # With the century, or the year would read as a day.
    "year first": (
        *("{yyyy} {month} {number}", "{yyyy}, {month} {number}"),
        *("{yyyy}-{month}-{number}", "{yyyy}/{month}/{number}", "{yyyy}{month}{dd}"),
    ),
    "day": ("{number}",),
    "number": ("{d}", "{dd}"),
    "number of month": ("{M}", "{MM}"),
    "century or not": ("{yyyy}", "{yy}"),
    "month": ("{MMMM}", "{MMM}"),
    "year": (*3 * ["{yyyy}"], *2 * ["{yy}"], "{apostrophe}{yy}"),
    "apostrophe": ("'", "'", "\N{RIGHT SINGLE QUOTATION MARK}"),
    "comma or space": (*5 * [", "], *5 * [" "], ",", " , "),
    "digits": ("{yyyy}{MM}{dd}", "{digits in order}"),
    # Numbers alone: in the locale's order, or with a year of four digits before them.
    "numbers": (*3 * ["{in order}"], "{sorted}"),
    "sorted": (
        *2 * ["{yyyy}-{MM}-{dd}", "{yyyy}/{MM}/{dd}"],
        *("{yyyy}.{MM}.{dd}", "{yyyy} {MM} {dd}", "{yyyy}_{MM}_{dd}"),
        *("{yyyy}-{M}-{d}", "{yyyy}/{M}/{d}", "{yyyy}.{M}.{d}", "{yyyy} {M} {d}"),
    ),
}

_ENGLISH: Rules = {
    "words": (*4 * ["{month first}"], *3 * ["{day first}"], "{year first}"),
    "month first": (
        *8 * ["{month} {day}{comma or space}{year}"],
        "{month} the {nth}{comma or space}{year}",
        *("{month}-{number}-{year}", "{month}/{number}/{year}", "{month}{dd}{yyyy}"),
    ),
    "day first": (*_RULES["day first"], *4 * ["{the}{nth}{of}{month}{comma or space}{year}"]),
    "the": ("", "the ", "The ", "this "),
    "of": (" of ", " of ", " day of "),
    "day": (*3 * ["{d}"], "{dd}", *2 * ["{nth}"]),
    "nth": (*4 * ["{ordinal}"], "{ordinal word}"),
}

_BETWEEN_NUMBERS = (*3 * ["/"], *2 * ["-"], ".", " ", " / ", " - ")

_ABBREVIATIONS = {
    "September": ["Sep", "Sept"],
    "Tuesday": ["Tue", "Tues"],
    "Wednesday": ["Wed", "Weds"],
    "Thursday": ["Thu", "Thur", "Thurs"],
}
"""Where people write others in addition to the locale's own."""

_TO_TWENTY = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth"),
    *("eighteenth", "nineteenth", "twentieth"),
)
_ORDINALS = (*_TO_TWENTY, *(f"twenty-{word}" for word in _TO_TWENTY[:9]), "thirtieth", "thirty-first")

_FIELD = re.compile(r"\{([^}]*)\}")
_SKELETONS = ("yMd", "yMEd", "yMMMd", "yMMMEd")
_NEEDLESS_SPACE = re.compile(r"(?<=[^\W\d]) (?=\d)|(?<=\d) (?=[^\W\d])|(?<=[.,]) ")
"""A space whose loss leaves the numbers apart."""

_OWN_FORMS = 0.2  # share of the spellings that are a form from the locale's data, not of the grammar
_PATIENCE = 100_000  # known spellings drawn in a row before the locales count as exhausted


def spelled_dates(locales: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Yields pairs of a spelled date and its ISO 8601 form, no spelling twice, until none is found.

    Days and locales are drawn uniformly.

    Raises:
        ConfigurationError: A locale is unknown.
    """
    draw = random.Random(seed)  # noqa: S311 (examples, not secrets)
    spellers = make_spellers(locales, draw)
    known: set[str] = set()
    repeats = 0
    while repeats < _PATIENCE:
        day = drawn_day(draw)
        source = draw.choice(spellers).spell(day)
        repeats = repeats + 1 if source in known else 0
        if not repeats:
            known.add(source)
            yield source, day.isoformat()


def drawn_day(draw: random.Random) -> date:
    """Returns one of the days that are spelled."""
    return date.fromordinal(draw.randint(FIRST.toordinal(), LAST.toordinal()))


def make_spellers(locales: Sequence[str], draw: random.Random) -> list["Speller"]:
    """Returns a speller for each locale.

    Raises:
        ConfigurationError: A locale is unknown.
    """
    spellers = []
    for name in locales:
        try:
            spellers.append(Speller(Locale.parse(name), draw))
        except (UnknownLocaleError, ValueError):
            close = nearest(name, localedata.locale_identifiers())
            raise ConfigurationError(
                f"data 'dates': locales: unknown locale {name!r}{close}; expected one of Babel's, such as "
                "de_DE, en_US or fr_FR; correct the name"
            ) from None
    return spellers


class Speller:
    """Writes dates as a locale's speakers do."""

    def __init__(self, locale: Locale, draw: random.Random) -> None:
        self._locale = locale
        self._draw = draw
        self._forms = [parse_pattern(form) for form in _forms(locale)]
        self._months = [_names(locale.months, month, "M") for month in range(1, 13)]
        self._weekdays = [_names(locale.days, weekday, "E") for weekday in range(7)]
        self._rules = {**_RULES, **(_ENGLISH if locale.language == "en" else {}), **_in_order(locale)}
        if any(map(str.isdigit, locale.months["format"]["abbreviated"][1])):
            self._rules["date"] = ("{numbers}",)

    @property
    def in_order(self) -> Sequence[str]:
        """Forms of numbers in the order of the locale."""
        return self._rules["in order"]

    @property
    def exchanged(self) -> Sequence[str]:
        """The same with day and month exchanged; none where the year comes first."""
        month, day = "{number of month}", "{number}"
        return [
            form.replace(month, "{}").replace(day, month).replace("{}", day)
            for form in self.in_order
            if not form.startswith("{yyyy}")
        ]

    def spell(self, day: date) -> str:
        """Returns a spelling of a day, of the grammar or one of the locale's own forms, in some case."""
        if self._draw.random() < _OWN_FORMS:
            return self._in_some_case(self._draw.choice(self._forms).apply(day, self._locale))
        return self.written(day)

    def written(self, day: date | NoDay, changes: Rules | None = None) -> str:
        """Returns a spelling of the grammar, in some case; `changes` replace rules."""
        rules = {
            **self._rules,
            **(changes or {}),
            **_numbers(day),
            **self._months[(day.month - 1) % 12],
            **self._weekdays[day.weekday()],
        }
        return self._in_some_case(self._expanded("spelling", rules))

    def _in_some_case(self, text: str) -> str:
        return self._careless(self._draw.choice((str, str, str.upper, str.lower))(text))

    def _expanded(self, name: str, rules: Rules) -> str:
        """Replaces a name by one of its alternatives, and the names in it likewise."""
        return _FIELD.sub(lambda field: self._expanded(field[1], rules), self._draw.choice(rules[name]))

    def _careless(self, text: str) -> str:
        """Leaves out a space now and then, doubles one, or adds a space or a full stop at the end."""
        chance = self._draw.random()
        if chance < 0.04 and (spaces := list(_NEEDLESS_SPACE.finditer(text))):
            space = self._draw.choice(spaces).start()
            return text[:space] + text[space + 1 :]
        if 0.04 <= chance < 0.08 and " " in text:
            return text.replace(" ", "  ", self._draw.randint(1, 2))
        return text + self._draw.choice(". ") if chance >= 0.98 else text


def _forms(locale: Locale) -> list[str]:
    """Returns the locale's distinct patterns: short to full, skeletons, numbers with and without zeros."""
    written = [str(pattern) for pattern in locale.date_formats.values()]
    written += [
        str(locale.datetime_skeletons[name]) for name in _SKELETONS if name in locale.datetime_skeletons
    ]
    for form in list(written):
        if re.search("[ML]", form) and not re.search("MMM|LLL", form):
            for field in ("M", "L", "d"):
                form = form if field * 2 in form else form.replace(field, field * 2)
            written.append(form)
    return list(dict.fromkeys(written))


def _names(names: Mapping[str, Mapping[str, Mapping[int, str]]], index: int, letter: str) -> Rules:
    """Returns the rules for a month or a day of the week, named by CLDR's letter for it.

    https://unicode.org/reports/tr35/tr35-dates.html#Date_Field_Symbol_Table
    """
    long, short = (names["format"][width][index] for width in ("wide", "abbreviated"))
    written = _ABBREVIATIONS.get(long, [short.rstrip(".")])
    dotted = [] if short == long else [f"{word}." for word in written]
    return {4 * letter: [long], 3 * letter: written + dotted}


def _in_order(locale: Locale) -> Rules:
    """Returns the rules for numbers in the order of a locale."""
    letters = dict.fromkeys(re.findall("[yMd]", str(locale.date_formats["short"])))
    year_first = next(iter(letters)) == "y"
    fields = {"y": "{yyyy}" if year_first else "{year}", "M": "{number of month}", "d": "{number}"}
    digits = {"y": "{yyyy}" if year_first else "{century or not}", "M": "{MM}", "d": "{dd}"}
    return {
        "in order": [between.join(fields[letter] for letter in letters) for between in _BETWEEN_NUMBERS],
        "digits in order": ["".join(digits[letter] for letter in letters)],
    }


def _numbers(day: date | NoDay) -> Rules:
    """Returns the rules for the numbers of a day."""
    ending = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    texts = {
        "d": f"{day.day}",
        "dd": f"{day.day:02}",
        "M": f"{day.month}",
        "MM": f"{day.month:02}",
        "yy": f"{day.year % 100:02}",
        "yyyy": f"{day.year}",
        "ordinal": f"{day.day}{ending}",
        "ordinal word": dict(enumerate(_ORDINALS, 1)).get(day.day, f"{day.day}{ending}"),
    }
    return {name: (text,) for name, text in texts.items()}
