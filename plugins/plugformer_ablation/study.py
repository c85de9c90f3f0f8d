"""What a study file says, as pydantic models."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from plugformer.configuration import Key, Settings

TUNING_SEED = 2**20
"""The seed of all trainings that settings are chosen by: above those of a study, which must not see it."""

Seed = Annotated[int, Field(ge=0, lt=TUNING_SEED)]
Matched = Literal["none", "parameters", "flops", "time"]


class Factor(Settings):
    """Something that arms differ in."""

    path: str = Field(description="The key of a task, such as model.attention.")
    values: list[Any] | dict[str, Any] = Field(
        min_length=2,
        description="What stands there: names, blocks or numbers, or such by what reports call them; "
        "the first belongs to the baseline.",
    )

    @property
    def keys(self) -> list[Key]:
        """The keys of the values: numbers in a list, else names."""
        return list(range(len(self.values))) if isinstance(self.values, list) else list(self.values)


class Study(Settings):
    """A whole study."""

    study: str = Field(default="", description="Its title.")
    task: str = Field(description="A task's name, or a file, relative to this one.")
    changes: dict[str, Any] = Field(
        default={}, alias="set", description="Settings of all arms on top of the task, by dotted keys."
    )
    factors: Annotated[dict[str, Factor], Field(min_length=1)] = Field(
        description="What is compared, by a name for each."
    )
    design: Literal["one-factor", "grid"] = Field(
        default="one-factor",
        description="Change one factor of the baseline at a time, or combine all values of all.",
    )
    seeds: Annotated[int, Field(ge=1, lt=TUNING_SEED)] | list[Seed] = Field(
        default=5, description="Trainings of each arm: a number, from seed 1 on, or a list of seeds."
    )
    match: Matched = Field(
        default="none",
        description="What arms have in common: hidden widths are solved for equal parameters or forward "
        "FLOPs per token, numbers of updates for equal training time.",
    )
    metric: str | None = Field(
        default=None, description="What decides, declared beforehand; the task's first metric if not given."
    )
    split: str | None = Field(
        default=None,
        description="What it is measured on; the first test split, or validation if there is none.",
    )
    tune: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Settings that are chosen for each arm on validation, by dotted keys: the values to try.",
    )

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError(f"expected at least one seed, and each once, found {seeds}")
        return seeds

    @property
    def seed_list(self) -> list[int]:
        """The seeds of each arm."""
        return self.seeds if isinstance(self.seeds, list) else list(range(1, self.seeds + 1))
