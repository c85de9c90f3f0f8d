"""The blocks of a study's settings, and the choices that it has."""

import re
from collections.abc import Sequence
from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from plugformer.configuration import Settings

TUNING_SEED = 2**20
"""The seed of all trials of tuning; it is above those of a study, which must not see it."""

SCREENING_SEED = TUNING_SEED + 100
"""The first seed of screening, above those of tuning."""

Seed = Annotated[int, Field(ge=0, lt=TUNING_SEED)]

BUDGETS = ("tokens", "operations")
"""What of whole trainings can be equal without being measured."""


def _share(text: str) -> str:
    """Returns a share in percent; raises ValueError if it is none."""
    if not re.fullmatch(r"[0-9]*\.?[0-9]+ ?%", text) or not float(text.rstrip(" %")):
        raise ValueError(f"a positive share such as 0.5 %, found {text!r}")
    return text


Effect = Annotated[float, Field(gt=0)] | Annotated[str, AfterValidator(_share)]
"""A difference of a metric, or a share of its value in percent."""

Keep = Literal["results", "best", "all"]


class Factor(Settings):
    """A setting in which arms differ."""

    path: str = Field(description="The key of a task, for example model.attention.")
    values: list[Any] | dict[str, Any] = Field(
        min_length=2,
        description="Names, blocks or numbers, or a mapping from names that reports use to values; the first "
        "belongs to the baseline.",
    )


class Range(Settings):
    """Numbers to try, each the same multiple of the one before."""

    low: float = Field(alias="from", gt=0, description="The smallest number.")
    high: float = Field(alias="to", gt=0, description="The largest one.")
    points: int = Field(ge=2, le=100, description="How many there are, both included.")

    @property
    def numbers(self) -> list[float]:
        """The numbers, to three digits."""
        ratio = (self.high / self.low) ** (1 / (self.points - 1))
        return [float(f"{self.low * ratio**number:.3g}") for number in range(self.points)]


class Tuning(Settings):
    """How settings are tuned, the same for all arms."""

    strategy: Literal["grid", "coordinate", "halving"] = Field(
        default="grid",
        description="`grid` tries combinations of all values; `coordinate` starts with the first values and "
        "changes one setting at a time, until no change is better; `halving` begins with short trainings and "
        "doubles their updates for the better half, until they are whole.",
    )
    trials: int | None = Field(
        default=None,
        ge=2,
        description="So many combinations for each arm, drawn at random; all of them if null.",
    )
    seeds: Literal["each"] | Annotated[int, Field(ge=1, le=100)] = Field(
        default="each",
        description="`each` seed of the study tries all of it and chooses for itself, so that the choice is "
        "part of what verdicts are about; or settings are chosen once for all seeds, by so many trainings of "
        "each combination, none with a seed of the verdict.",
    )
    extend: int = Field(
        default=2,
        ge=0,
        description="How often an arm that chooses the smallest or the largest of several numbers may try "
        "one more, in the same ratio or, of numbers that are not positive, at the same distance.",
    )

    def choosing(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns, for the seeds of a verdict, the seeds of each choice of settings."""
        if self.seeds == "each":
            return [(seed,) for seed in seeds]
        return [tuple(range(TUNING_SEED, TUNING_SEED + self.seeds))]


class Screening(Settings):
    """How the arms that are compared are chosen from many."""

    seeds: int = Field(
        default=3, ge=2, le=100, description="Trainings of every arm; none has a seed of the verdict."
    )
    rate: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Share of arms that do not differ among those that go on, in expectation and at most.",
    )


class Looks(Settings):
    """Seeds that are trained in steps, until a comparison is decided."""

    looks: list[Annotated[int, Field(ge=2, lt=TUNING_SEED)]] = Field(
        min_length=1,
        description="Numbers of seeds, rising, after each of which the arms are compared; one that is "
        "decided is trained with no further seed. The error rates hold for all looks together.",
    )

    @field_validator("looks")
    @classmethod
    def _rising(cls, looks: list[int]) -> list[int]:
        if sorted(set(looks)) != looks:
            raise ValueError(f"expected rising numbers of seeds, found {looks}")
        return looks


class Start(Settings):
    """The task whose training an arm and seed continue."""

    task: str = Field(description="The name of an earlier task of the study.")
    parts: list[str] = Field(
        min_length=1, description="Parts of the model that are taken from there, as by `initialize_from`."
    )


class StudyTask(Settings):
    """One of several tasks."""

    task: str | dict[str, Any] = Field(
        description="A task's name, a file, relative to this one, or the settings of a task."
    )
    changes: dict[str, Any] = Field(
        default={}, alias="set", description="Settings of this task for all arms, by dotted keys."
    )
    metric: str | None = Field(
        default=None, description="Its primary metric; by default that of the study, or the task's first one."
    )
    split: str | None = Field(default=None, description="The split of its verdicts; by default the study's.")
    start: Start | None = Field(
        default=None,
        alias="from",
        description="Each arm and seed starts with parameters of its own training of an earlier task.",
    )


class SizeLadder(Settings):
    """Sizes derived from one number, the number of layers, by a rule.

    The width is `width_per_layer` times the layers, with heads of `head_width`, and feed-forward layers of
    four times the width. Parameters without embeddings count as 12 layers width^2: Kaplan et al. (2020),
    section 2.1, https://arxiv.org/abs/2001.08361.
    """

    layers: list[Annotated[int, Field(gt=0)]] = Field(
        min_length=2, description="Numbers of layers, a scale for each."
    )
    width_per_layer: int = Field(default=64, gt=0, description="The width over the number of layers.")
    head_width: int = Field(default=64, gt=0, description="The width of an attention head.")
    tokens_per_parameter: float | None = Field(
        default=None,
        gt=0,
        description="Tokens that are trained on for each parameter; if null, updates are the task's.",
    )
    batch_tokens: int = Field(default=2048, gt=0, description="Tokens of an update.")
    evaluations: int | None = Field(
        default=None, gt=0, description="Evaluations of each training, at most; if null, as the task says."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len({*self.layers}) < len(self.layers):
            raise ValueError("layers: a number stands twice, and makes one scale")
        if self.evaluations is not None and self.tokens_per_parameter is None:
            raise ValueError("evaluations needs tokens_per_parameter, by which updates are known")
        return self

    @property
    def scales(self) -> dict[str, dict[str, Any]]:
        """The settings of each scale."""
        scales = {}
        for layers in self.layers:
            width = self.width_per_layer * layers
            settings: dict[str, Any] = {
                "model.layers": layers,
                "model.width": width,
                "model.heads": max(1, width // self.head_width),
                "model.ffn_width": 4 * width,
            }
            if self.tokens_per_parameter is not None:
                tokens = self.tokens_per_parameter * 12 * layers * width**2
                steps = ceil(tokens / self.batch_tokens)
                settings |= {"training.batch_tokens": self.batch_tokens, "training.steps": steps}
                if self.evaluations is not None:
                    settings["training.evaluate_every"] = ceil(steps / self.evaluations)
            scales[f"{layers} layer{'s' * (layers > 1)}"] = settings
        return scales
