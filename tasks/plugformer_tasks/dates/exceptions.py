"""Dates that the grammar leaves out: numbers in another order, and what names no day at all."""

import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from plugformer_tasks.dates.spelling import NoDay, Rules, Speller, drawn_day, make_spellers

_NO_YEAR: Rules = {
    "spelling": ("{month} {day}", "{month} {number}", "{number} {month}", "{number of month}/{number}")
}


def exchanged_dates(locales: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Yields dates in numbers with day and month exchanged, of days that are no month; endless.

    In American English `23.11.2026`, in German `11/23/2026`. There are none where the year comes first.
    """
    draw = random.Random(seed)  # noqa: S311 (examples, not secrets)
    spellers = [speller for speller in make_spellers(locales, draw) if speller.exchanged]
    while spellers:
        day = drawn_day(draw)
        if day.day > 12:
            speller = draw.choice(spellers)
            rules: Rules = {"date": speller.exchanged, "digits": speller.exchanged}
            yield speller.written(day, rules), day.isoformat()


def no_dates(locales: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Yields what is written like a date and names none, each with a day drawn at random; endless.

    There is nothing to be learned from these days, except that no answer is probable.
    """
    draw = random.Random(seed)  # noqa: S311 (examples, not secrets)
    spellers = make_spellers(locales, draw)
    while True:
        speller, day = draw.choice(spellers), drawn_day(draw)
        source = draw.choice((*4 * [_after_the_end], _of_no_number, _of_no_month, *2 * [_of_no_year]))
        yield source(speller, day, draw), drawn_day(draw).isoformat()


def _after_the_end(speller: Speller, day: date, draw: random.Random) -> str:
    """Spells a day of the month that some months have and this one has not: February 30, June 31."""
    month = draw.choice((2, 2, 4, 6, 9, 11))
    last = (date(day.year, month + 1, 1) - timedelta(days=1)).day
    never = NoDay(day.year, month, draw.randint(last + 1, 31))
    both = (*speller.in_order, *speller.exchanged)
    return speller.written(never, {"in order": both})


def _of_no_number(speller: Speller, day: date, draw: random.Random) -> str:
    """Spells a day that no month has: March 32, March 0."""
    return speller.written(NoDay(day.year, day.month, draw.choice((0, *range(32, 40)))))


def _of_no_month(speller: Speller, day: date, draw: random.Random) -> str:
    """Spells a month that no year has, in numbers: 13/13/2013."""
    never = NoDay(day.year, draw.choice((0, *range(13, 32))), draw.randint(13, 31))
    return speller.written(never, {"date": ("{numbers}",)})


def _of_no_year(speller: Speller, day: date, draw: random.Random) -> str:
    """Spells a day without its year, which may be one that the month has not: Feb 30, March 5."""
    return speller.written(NoDay(day.year, day.month, draw.randint(1, 31)), _NO_YEAR)
