"""Options: a strict model from a constructor's keyword-only parameters."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry.options import checked_options, options_model


class Color(Enum):
    RED = "red"


class Sample:
    """A component.

    Args:
        model: The context.
        heads: Number of heads,
            a divisor of the width.
        rate: Not this text.

    Raises:
        Nothing: Ever.
    """

    def __init__(
        self,
        model: object,
        *,
        heads: "Annotated[int, Field(ge=1)]",
        rate: Annotated[float, Field(ge=0, lt=1, description="A rate.")] = 0.5,
        kind: Literal["a", "b"] = "a",
        betas: tuple[float, float] = (0.9, 0.99),
        sizes: Sequence[int] = (),
        file: Path | list[Path] | None = None,
        color: Color = Color.RED,
        bias: bool = True,
    ) -> None: ...


def test_fields_are_the_keyword_only_parameters() -> None:
    model = options_model(Sample)
    assert list(model.model_fields) == ["heads", "rate", "kind", "betas", "sizes", "file", "color", "bias"]
    assert model.model_fields["heads"].is_required()
    assert model.model_fields["rate"].default == 0.5


def test_descriptions_come_from_the_annotation_or_the_docstring() -> None:
    fields = options_model(Sample).model_fields
    assert fields["heads"].description == "Number of heads, a divisor of the width."
    assert fields["rate"].description == "A rate."


def test_a_component_without_options_has_an_empty_model() -> None:
    class Plain:
        pass

    assert options_model(Plain).model_fields == {}


@pytest.mark.parametrize(
    "options",
    [
        {"heads": "2"},
        {"heads": 2.0},
        {"heads": True},
        {"heads": 0},
        {"heads": 1, "rate": "0.1"},
        {"heads": 1, "rate": 1},
        {"heads": 1, "rate": float("nan")},
        {"heads": 1, "kind": "c"},
        {"heads": 1, "bias": 1},
        {"heads": 1, "bias": "true"},
        {"heads": 1, "betas": [0.9]},
        {"heads": 1, "betas": [0.9, float("nan")]},
        {"heads": 1, "betas": ["0.9", 0.9]},
        {"heads": 1, "sizes": [1.0]},
        {"heads": 1, "sizes": "12"},
        {"heads": 1, "file": 3},
        {"heads": 1, "color": "blue"},
        {"heads": 1, "model": 3},
        {"heads": 1, "other": 3},
        {},
    ],
)
def test_nothing_is_converted(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        options_model(Sample).model_validate(options)


def test_yaml_forms_become_what_the_constructor_expects() -> None:
    written = {"heads": 2, "rate": 0, "betas": [0, 1], "sizes": [3], "file": ["a", "b"], "color": "red"}
    options = checked_options(Sample, written, "sample")
    assert options == {
        "heads": 2,
        "rate": 0,
        "betas": (0, 1),
        "sizes": [3],
        "file": [Path("a"), Path("b")],
        "color": Color.RED,
    }


def test_all_wrong_options_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked_options(Sample, {"rate": 2.0, "knid": "a"}, "sample 's'")
    assert str(caught.value) == (
        "sample 's': option heads: is missing\n"
        "sample 's': option rate: expected less than 1, found 2.0\n"
        "sample 's': option knid: unknown key 'knid' (did you mean 'kind'?)\n"
        "  known: betas, bias, color, file, heads, kind, rate, sizes"
    )


class Bare:
    def __init__(self, *, size=3): ...


class Clash:
    def __init__(self, *, copy: int = 3) -> None: ...


class Odd:
    def __init__(self, *, thing: "Strange" = None) -> None: ...


class Strange:
    pass


class Unresolved:
    def __init__(self, *, thing: "Nowhere" = None) -> None: ...  # noqa: F821


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (Bare, "option 'size' has no type annotation"),
        (Clash, "option 'copy' has a name that pydantic needs; rename it"),
        (Unresolved, "Unresolved: its options cannot be checked: name 'Nowhere' is not defined"),
        (Odd, "Odd: its options cannot be checked"),
    ],
)
def test_a_constructor_that_cannot_be_checked_is_the_authors_error(component: type, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        options_model(component)
