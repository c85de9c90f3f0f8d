"""Options: a strict model from a constructor's keyword-only parameters."""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError, computed_field

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry.options import checked_options, options_model, written_options


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


@pytest.mark.parametrize(
    "options",
    [
        {"heads": "2"},
        {"heads": 2.0},
        {"heads": True},
        {"heads": 1, "rate": "0.1"},
        {"heads": 1, "rate": float("nan")},
        {"heads": 1, "kind": "c"},
        {"heads": 1, "bias": 1},
        {"heads": 1, "betas": [0.9]},
        {"heads": 1, "sizes": "12"},
        {"heads": 1, "file": 3},
        {"heads": 1, "model": 3},
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
        "sample 's': option rate: should be less than 1, found 2.0\n"
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
        (Unresolved, "name 'Nowhere' is not defined"),
        (Odd, "Odd: its options cannot be checked"),
    ],
)
def test_a_constructor_that_cannot_be_checked_is_the_authors_error(component: type, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        options_model(component)


class Inner(BaseModel):
    rate: float = Field(0.5, alias="lambda")
    file: Path = Path("a")
    inner: "dict[int, Inner]" = Field({}, alias="more")

    @computed_field
    def double(self) -> float:
        return 2 * self.rate


class Aliased:
    def __init__(
        self,
        *,
        rate: Annotated[float, Field(alias="lambda", gt=0)],
        inner: Inner = Inner(),  # noqa: B008 (a default that is a model)
        copied: Annotated[str, Field(alias="copy")] = "",
    ) -> None: ...


def test_an_alias_is_the_key_in_a_file_and_the_name_is_the_constructor_s() -> None:
    written = {"lambda": 0.7, "inner": {"lambda": 0.9, "file": "/b", "more": {"1": {"lambda": 0.8}}}}
    options = options_model(Aliased).model_validate(written)
    assert written_options(options) == {
        "lambda": 0.7,
        "inner": {
            "lambda": 0.9,
            "file": "/b",
            "more": {"1": {"lambda": 0.8, "file": "a", "more": {}}},
        },
        "copy": "",
    }
    read = checked_options(Aliased, written_options(options), "sample")
    assert read["rate"] == 0.7
    assert (read["inner"].rate, read["inner"].file, read["inner"].inner[1].rate) == (0.9, Path("/b"), 0.8)


class Keyed:
    def __init__(
        self,
        *,
        table: dict[int, float] = {0: 1.5, 10: 2},  # noqa: B006 (nobody changes it)
        rates: Mapping[float, str] = {0.5: "half"},
        signs: dict[str, int] = {},  # noqa: B006 (nobody changes it)
    ) -> None: ...


def test_keys_that_are_numbers_may_be_text_and_values_may_not() -> None:
    written = written_options(options_model(Keyed)())
    assert written == {"table": {"0": 1.5, "10": 2}, "rates": {"0.5": "half"}, "signs": {}}
    assert checked_options(Keyed, json.loads(json.dumps(written)), "sample") == {
        "table": {0: 1.5, 10: 2.0},
        "rates": {0.5: "half"},
        "signs": {},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": {"a": 1}}, "option table.a: .* integer, found 'a'"),
        ({"rates": {"a": "b"}}, "option rates.a: .* number, found 'a'"),
        ({"table": {"1": "2"}}, "option table.1: .* number, found '2'"),
        ({"signs": {1: 2}}, "option signs.1: .* string, found 1"),
    ],
)
def test_a_wrong_key_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        checked_options(Keyed, options, "sample")


def test_an_option_that_would_be_read_as_another_is_refused() -> None:
    class Twice:
        def __init__(
            self, *, rate: Annotated[float, AfterValidator(lambda rate: 2 * rate)] = 1.0
        ) -> None: ...

    model = options_model(Twice)
    with pytest.raises(RegistryError, match="Twice"):
        written_options(model.model_validate({"rate": 3.0}))
