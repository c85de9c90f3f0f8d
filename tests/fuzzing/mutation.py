"""Strategies for damage: bytes that were valid once, and documents of familiar words in another order."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

YAML_TOKENS = [
    b"&a ", b"*a", b"<<: *a\n", b"!!python/object/apply:os.system [echo]", b"!!python/name:canary.Canary ",
    b"canary:Canary", b"registry: canary.yaml\n", b"extends: dates\n", b"---\n", b"...\n", b"? ",
    b": ", b"- ", b"[" * 50, b"{a: " * 50, b"\t", b"\n", b"|", b">", b"'", b'"', b"#", b"%YAML 9.9\n", b"@",
    b"0x" + b"f" * 99, b"9" * 5000, b".nan", b"-.inf", b"null", b"1e999", b"true", b"~", b"\\", b"name: ",
]  # fmt: skip
JSON_TOKENS = [
    b"{", b"}", b"[", b"]", b"[" * 5000, b'{"a":' * 5000, b'"', b",", b":", b"null", b"NaN", b"-Infinity",
    b"1e999", b"9" * 5000, b"true", b'"\\ud800"', b'"\\u0000"', b"-1", b"0", b"{}", b"[]", b'""',
]  # fmt: skip
BYTES = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\x80\x04K\x01.",
]
"""Nul, byte-order marks, half a surrogate pair, line ends of other kinds, a pickle."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.sampled_from([2**31, 2**63, 10**30, -(2**63)])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["canary:Canary", "../../x", "/etc/passwd", "a" * 500, "\ud800", "0", "on", "[", "*a"])
)


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Draws valid content with a few places cut out, doubled or replaced."""
    content = draw(st.sampled_from(originals))
    pieces = st.sampled_from([*tokens, *BYTES]) | st.binary(max_size=6)
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 0, 1, 2, 8, 64, 10**6])))
        middle = draw(pieces | st.just(content[start:end] * 2))
        content = content[:start] + middle + content[end:]
    return content


def documents(words: Sequence[str]) -> st.SearchStrategy[object]:
    """Returns lists and mappings of any depth, the keys mostly from a list of words."""
    keys = st.sampled_from(words) | st.text(max_size=5)
    return st.recursive(
        SCALARS | st.sampled_from(words),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=25,
    )


@st.composite
def altered(draw: st.DrawFn, tree: dict, words: Sequence[str]) -> dict:
    """Draws a valid document with one to three values exchanged, removed or added."""
    tree = json.loads(json.dumps(tree))
    for _ in range(draw(st.integers(1, 3))):
        node: object = tree
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inner = node[key]
            if isinstance(inner, dict | list) and draw(st.booleans()):
                node = inner
                continue
            if draw(st.integers(0, 3)):
                node[key] = draw(SCALARS | st.sampled_from(words) | documents(words))
            else:
                del node[key]
            break
    return tree


def as_json(document: object) -> bytes:
    """Returns a document as JSON, which is YAML, too; text that is no Unicode is escaped."""
    return json.dumps(document).encode()
