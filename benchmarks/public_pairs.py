"""Writes pairs of English and translated messages, which two packages of PyPI contain, as tables.

    pip download --no-deps --only-binary :all: --dest packages Django==5.2.19 wagtail==8.0.1
    python benchmarks/public_pairs.py packages pairs

Wagtail's decide about defaults; Django's are held back. Both have the BSD licence. Rows have a fixed order
that says nothing; an English message occurs once.
"""

import argparse
import csv
import hashlib
import io
import zipfile
from pathlib import Path

from babel.messages.mofile import read_mo

SETS = {
    "wagtail_it": ("wagtail-8.0.1", "it"),
    "wagtail_ru": ("wagtail-8.0.1", "ru"),
    "django_fr": ("django-5.2.19", "fr"),
    "django_nl": ("django-5.2.19", "nl"),
}


def pairs(wheel: Path, language: str) -> dict[str, str]:
    """Returns the translation of each message of one form, both in one line."""
    found = {}
    with zipfile.ZipFile(wheel) as files:
        for name in sorted(files.namelist()):
            if name.endswith(f"/locale/{language}/LC_MESSAGES/django.mo"):
                for message in read_mo(io.BytesIO(files.read(name))):
                    if isinstance(message.id, str) and message.id:
                        found[" ".join(message.id.split())] = " ".join(message.string.split())
    return found


def main() -> None:
    """Writes a file for each set, and prints how many rows it has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", type=Path)
    parser.add_argument("pairs", type=Path)
    arguments = parser.parse_args()
    arguments.pairs.mkdir(parents=True, exist_ok=True)
    for name, (package, language) in SETS.items():
        (wheel,) = arguments.packages.glob(f"{package}-*.whl")
        rows = sorted(
            pairs(wheel, language).items(), key=lambda each: hashlib.sha256(each[0].encode()).digest()
        )
        with (arguments.pairs / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("english", "translation"), *rows])
        print(f"{name}: {len(rows):,} pairs")


if __name__ == "__main__":
    main()
