"""Writes 10,000 lines that no model has been trained on, to try constraints with.

python benchmarks/garbage.py > garbage.txt
"""

import random

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 ,./-ÄÖÜéß日月年🙂"


def main() -> None:
    """Writes the lines, the same at every call."""
    generator = random.Random(1)  # noqa: S311 (texts, no secrets)
    for _ in range(10_000):
        line = "".join(generator.choice(ALPHABET) for _ in range(generator.randint(1, 40)))
        print(line.strip() or "x")


if __name__ == "__main__":
    main()
