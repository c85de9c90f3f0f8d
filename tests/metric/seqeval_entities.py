"""Writes `seqeval_entities.json`: what seqeval 1.2.2, which has to be installed, finds in random tags."""

import json
import random
from pathlib import Path

SCHEMES = {"IOB1": "BI", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}
TEXTS = 150


def random_tags(marks, draw):
    """Returns tags at random, most of which go on as the one before suggests."""
    tags = []
    for _ in range(draw.randint(1, 9)):
        kind = tags[-1][2:] if tags and tags[-1] != "O" and draw.random() < 0.7 else draw.choice(["A", "B"])
        tags.append("O" if draw.random() < 0.2 else f"{draw.choice(marks)}-{kind}")
    return tags


def main():
    from seqeval import scheme as schemes

    found, draw = {}, random.Random(1)  # noqa: S311 (examples, not secrets)
    for name, marks in SCHEMES.items():
        texts = [random_tags(marks, draw) for _ in range(TEXTS)]
        lists = schemes.Entities(texts, getattr(schemes, name)).entities
        found[name] = [
            [" ".join(tags), sorted([entity.tag, entity.start, entity.end] for entity in entities)]
            for tags, entities in zip(texts, lists, strict=True)
        ]
    lines = [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in found.items()]
    Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
