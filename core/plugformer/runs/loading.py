"""From a run directory back to a model that answers."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, overload

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.configuration.overrides import Changes
from plugformer.configuration.task import Task
from plugformer.data.encoding import EncodedSplit
from plugformer.data.processor import Inputs, Processor, iterate_rows, load_processor
from plugformer.distributed import SINGLE_PROCESS, Processes, chosen_device
from plugformer.errors import ConfigurationError, DataError, PlugformerError, RunError, nearest
from plugformer.evaluation.evaluator import Evaluator
from plugformer.evaluation.predictor import GenerativePredictor, Predictor, evaluation_tokens
from plugformer.evaluation.report import Report, SelfCheck
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    AllowedOutputs,
    Constraint,
    Engine,
    Example,
    Generative,
    Level,
    Model,
    Prediction,
    TaskType,
    Tokenizer,
)
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer.runs.directory import RunDirectory, located
from plugformer.runs.lockfile import (
    AFTER_TRAINING,
    ANSWERING,
    changed_components,
    check_overrides,
    refuse_other_files,
    require_installed,
    resolve_run,
)
from plugformer.runs.self_check import check, same_answers
from plugformer.runs.store import load_tensors, read_json, restore

_LOG = logging.getLogger(__name__)

Notify = Callable[[str], None]


class TrainedModel:
    """A model with everything that it needs to answer: its task and its processor.

    Attributes:
        directory: The run directory, as it was given.
        place: The same from any working directory.
        experiment: What it was trained for, and with.
        model: The parameters in their places.
        processor: What turns text into numbers and back.
        changes: How the components that answer differ from those of the training, a line each.
        other_data: Whether it was loaded with other settings of data than those of the training.
        answered_by: Puts the engine of `load` in the place of the model of a predictor.
        report: The final evaluation, if `train` or `resume` returned this model.

    Raises:
        ConfigurationError: No output can respect the task's constraints.
    """

    report: Report

    def __init__(self, directory: Path, experiment: Experiment, model: Model, processor: Processor) -> None:
        self.changes: Sequence[str] = ()
        self.other_data = False
        self.answered_by: Callable[[Predictor], Predictor] = lambda predictor: predictor
        self.directory = directory
        self.place = directory.absolute()
        self.experiment = experiment
        self.model = model
        self.processor = processor
        if experiment.task_type.level is Level.NEXT_TOKEN:
            self._allowed = allowed_outputs(experiment, processor.target)

    @property
    def task(self) -> Task:
        """The settings."""
        return self.experiment.task

    @property
    def registry(self) -> Registry:
        """The installed components, and those of local manifests."""
        return self.experiment.registry

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.device

    def __repr__(self) -> str:
        """Returns the directory, task type, architecture and number of parameters."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        parts = f"{self.task.type.name}, {self.task.model.architecture.name}, {parameters:,} parameters"
        return f"TrainedModel({str(self.directory)!r}: {parts})"

    @overload
    def predict(  # type: ignore[overload-overlap]  # a str is a sequence of str, too, but is one text here
        self, texts: str | Example, *, first: int = 0, n_best: int = 1, probabilities: bool = False
    ) -> Prediction: ...

    @overload
    def predict(
        self, texts: Iterable[str | Example], *, first: int = 0, n_best: int = 1, probabilities: bool = False
    ) -> list[Prediction]: ...

    def predict(
        self,
        texts: str | Example | Iterable[str | Example],
        *,
        first: int = 0,
        n_best: int = 1,
        probabilities: bool = False,
    ) -> Prediction | list[Prediction]:
        """Returns the model's answer to each text; of one text alone, one answer.

        Args:
            texts: Inputs, or one: texts, or values of input columns by name; or a pandas data frame of these.
            first: Number of the first text in the whole input, if it comes in portions: random choices
                depend on it.
            n_best: Outputs for each text; those after the best are its `alternatives`.
            probabilities: Whether answers have the `probabilities` of all classes.

        Raises:
            DataError: A text is no Unicode, or the inputs are neither texts nor examples.
            LengthError: A text is longer than the model can process, and the task does not truncate.
            ConfigurationError: `n_best` is less than one, or more than the task's decoding finds; or there
                are no probabilities of classes.
        """
        if isinstance(texts, str | Mapping):
            return self.predict([texts], first=first, n_best=n_best, probabilities=probabilities)[0]
        answers = []
        for answer in self.predict_each(texts, first=first, n_best=n_best, probabilities=probabilities):
            if isinstance(answer, PlugformerError):
                raise answer
            answers.append(answer)
        return answers

    def predict_each(
        self, texts: Iterable[str | Example], *, first: int = 0, n_best: int = 1, probabilities: bool = False
    ) -> list[Prediction | PlugformerError]:
        """Predicts like `predict`, but returns an error in place of the answer to a text that has one."""
        inputs = Inputs.of(texts, self.experiment, self.processor)
        answers: dict[int, Prediction | PlugformerError] = {**inputs.faults}
        predictor = self.predictor(n_best, probabilities=probabilities)
        found = predictor.predict(inputs.split, inputs.answerable, first=first)
        for row, answer in zip(inputs.answerable, found, strict=True):
            unknown = inputs.unknown.get(row, ())
            answers[row] = replace(answer, truncated=row in inputs.truncated, unknown=unknown)
        return [answers[row] for row in range(len(inputs.split))]

    def questions(
        self, texts: Iterable[str | Example], needed: Collection[str] | None = None
    ) -> EncodedSplit:
        """Returns texts or examples without outputs as a split; errors are those of `predict`.

        Each has the needed columns, by default all inputs that are not optional.
        """
        inputs = Inputs.of(texts, self.experiment, self.processor, needed)
        for fault in inputs.faults.values():
            raise fault
        return inputs.split

    def vectors(self, texts: Iterable[str], name: str = "") -> Float[Tensor, "texts size"]:
        """Returns the vectors of texts, each as one of the task type's inputs, by default the first.

        Raises:
            ConfigurationError: The model has no vectors, no such input, or no vectors of it alone.
            DataError: There are no texts, or only one that is not in a list.
        """
        inputs = self.experiment.task_type.inputs
        names, needed = [part.name for part in inputs], {part.name for part in inputs if not part.optional}
        name = name or names[0]
        if self.model.level is not Level.VECTOR or name not in names or needed - {name}:
            has = f"level {self.model.level}, inputs {', '.join(names)}, required {sorted(needed)}"
            raise ConfigurationError(f"a {self.task.type.name} model has no vectors of {name!r} alone: {has}")
        examples = [{name: text} for text in iterate_rows(texts, "a list of texts")]
        if not examples:
            raise DataError("there are no texts; give one at least")
        found = self.predictor().vectors(self.questions(examples, needed=[name]), range(len(examples)))
        return torch.stack(found)[:, names.index(name)]

    def evaluate(
        self, split: str | None = None, *, data: Any = None, notify: Notify = lambda _: None
    ) -> Report:
        """Reads the task's data again and returns the metrics on one split, or on other examples.

        Args:
            split: Its name; `test` if None.
            data: Other examples in place of a split, all of which are measured: a file like the task's own,
                two parallel files (source before target), several files that follow one another; or rows in
                memory, in the forms of `train`.
            notify: Receives messages for people: what was read, and what was left out.

        Raises:
            ConfigurationError: The task's data component reads no such files; or split and data are given.
            DataError: The task has no such split, the data cannot be read, or the examples are not those of
                the training, and no override of `load` names other data.
            RunError: The data component or a metric is not installed.
        """
        directory = RunDirectory(self.place)
        require_installed(directory, self.task, self.registry, {Kind.DATA, Kind.METRIC})
        for change in changed_components(directory, self.experiment, {Kind.METRIC}):
            notify(f"changed since training: {change}")
        if self.changes:
            notify(self.changed_answers() or "the answers that were recorded after training are the same")
        return self.measure(*self.read(split, data=data, notify=notify))

    def read(
        self, split: str | None = None, *, data: Any = None, notify: Notify = lambda _: None
    ) -> tuple[EncodedSplit, str]:
        """Returns what `evaluate` measures, and its name; for arguments and errors see there."""
        if data is None:
            name = split or "test"
            return self._read_split(name, notify), name
        if split is not None:
            raise ConfigurationError("split and data exclude each other: give one; all of data is measured")
        from plugformer.data.preparation import read_files, read_rows

        files = [data] if isinstance(data, str | Path) else data
        if isinstance(files, list | tuple) and files and all(isinstance(file, str | Path) for file in files):
            name = ", ".join(map(str, files))
            examples, count, notices = read_files(list(map(Path, files)), self.experiment, self.processor)
        else:
            name = "rows in memory"
            examples, count, notices = read_rows(data, self.experiment, self.processor)
        for notice in (*notices, f"{name}: {count}"):
            notify(notice)
        return examples, name

    def _read_split(self, name: str, notify: Notify) -> EncodedSplit:
        """Returns a split of the training's data, or of those that overrides name."""
        from plugformer.data.preparation import missing_files, prepare  # predict does without

        require_installed(RunDirectory(self.place), self.task, self.registry, {Kind.DATA})
        try:
            data = prepare(self.experiment, self.processor)
        except DataError as error:
            if missing := missing_files(self.experiment):
                raise DataError(
                    f"{missing[0]}: no such file, but the run was trained with it\n"
                    "restore it, evaluate on other files with `plugformer evaluate RUN --data FILE`, or set "
                    "the new path with --set data.OPTION=VALUE"
                ) from error
            raise
        if name not in data.splits:
            known = sorted(data.splits)
            raise DataError(f"unknown split {name!r}{nearest(name, known)}; known: {', '.join(known)}")
        notices = [*data.notices, f"{name}: {data.lengths[name]}"]
        if data.hashes[name] != RunDirectory(self.place).read_lockfile()["data"].get(name):
            words = (
                f"the examples of split {name!r} are not those of the training; it may have seen some of them"
            )
            if not self.other_data:
                raise DataError(
                    f"{words}\nrestore the data; to measure other examples, name them with "
                    "`plugformer evaluate RUN --data FILE`, or with --set data.OPTION=VALUE"
                )
            notices.insert(0, words)
        for notice in notices:
            notify(notice)
        return data.splits[name]

    def measure(self, split: EncodedSplit, name: str, processes: Processes = SINGLE_PROCESS) -> Report:
        """Returns the metrics on a split; also those without the task's constraints."""
        report = self.evaluator(processes).report(split, self.directory, name)
        decoding = self.task.decoding
        if not decoding.constrained:
            return report
        free = decoding.model_copy(update={"length": None, "pattern": None, "constraint": None})
        experiment = self.experiment.with_task(self.task.model_copy(update={"decoding": free}))
        model = TrainedModel(self.directory, experiment, self.model, self.processor)
        model.answered_by = self.answered_by
        other = model.evaluator(processes)
        other = replace(other, metrics=other.output_metrics)
        return replace(report, unconstrained=other.report(split, self.directory, name).metrics)

    def changed_answers(self) -> str:
        """Returns what is wrong with the answers that changed components give; nothing if they are equal.

        Those to a few made-up questions were recorded when training ended, decoded as the task says.
        """
        if not self.changes:
            return ""
        directory = RunDirectory(self.place)
        if not (recorded := directory.self_check().get("answers")):
            return "no answers were recorded that could be compared"
        experiment = resolve_run(directory, self.registry, kinds=ANSWERING)
        model = TrainedModel(self.directory, experiment, self.model, self.processor)
        same = same_answers(model, recorded)
        return "" if same else f"they give other answers than those in {self.directory}/self_check.json"

    def refuse_changes(self) -> None:
        """Raises RunError if changed components give other answers than recorded."""
        if problem := self.changed_answers():
            command = f"plugformer train --resume --allow-changes --out {self.directory}"
            way_on = f"restore them, or measure and record the model with the new ones: `{command}`"
            raise RunError(f"{_changes(self)}\n{problem}; {way_on}")

    def saved_model(self) -> Model:
        """Returns the model as it was saved, on the device of this one."""
        return load(self.place, self.registry, device=self.device).model

    def check_itself(self, split: EncodedSplit | None = None) -> SelfCheck:
        """Computes answers to a few validation examples in several ways each, and compares them.

        Args:
            split: The validation split; read if None.

        Raises:
            DataError: The task's data cannot be read, or are not those of the training.
        """
        return check(self, self.read("validation")[0] if split is None else split)

    def evaluator(self, processes: Processes = SINGLE_PROCESS) -> Evaluator:
        """Returns an evaluator with the task's metrics; processes with the same model share the examples."""
        metrics = {
            block.score_name: self.experiment.create(Kind.METRIC, block)
            for block in self.task.evaluation.metrics
        }
        depth = max([1, *(metric.depth for metric in metrics.values())])
        return Evaluator(self.predictor(depth), metrics, processes, self.task.training.batch_size or 1)

    def predictor(self, n_best: int = 1, *, probabilities: bool = False) -> Predictor:
        """Returns a predictor that decodes as the task says, and finds `n_best` outputs for each example."""
        tokens, task_type, head = evaluation_tokens(self.task), self.processor.task_type, self.model.head
        options: dict[str, Any] = {"precision": self.task.training.precision, "n_best": n_best}
        has_classes = type(task_type).answer_with_probabilities is not TaskType.answer_with_probabilities
        if probabilities and not (has_classes and head.probabilities and head.depends_on == "target"):
            kind, name = self.task.type.name, self.task.model.head.name
            raise ConfigurationError(f"probabilities: a {kind} model with head {name} has none of each class")
        found = Predictor(self.model, self.processor, tokens, probabilities=probabilities, **options)
        if task_type.level is Level.NEXT_TOKEN:
            found = GenerativePredictor(
                cast("Generative", self.model),
                self.processor,
                tokens,
                self.experiment.create(Kind.DECODING, self.task.decoding),
                self._allowed,
                **options,
            )
        return self.answered_by(found)


def load(
    run: Path | str,
    registry: Registry | None = None,
    *,
    components: Mapping[str, Mapping[str, type]] | None = None,
    overrides: Changes = (),
    device: str | torch.device | None = None,
    engine: str | Mapping[str, Any] | None = None,
    notify: Notify = lambda _: None,
) -> TrainedModel:
    """Returns the trained model of a run directory. Nothing in the directory is unpickled or executed.

    A warning is logged if components that answer have changed since training.

    Args:
        run: The run directory; or `hub:NAME`, a run on the Hugging Face Hub, with `@REVISION` if need be.
        registry: What is installed; discovered if None.
        components: Classes that the run was trained with and that no manifest names, by kind and name.
        overrides: Settings on top of the run's task, of `data`, `decoding` and `evaluation`: `KEY=VALUE`, a
            nested dictionary, or a list of these.
        device: Where it computes, as PyTorch names it: `cpu`, `cuda:1`, `mps`; by default on a GPU, if any.
        engine: What computes its answers, such as `ctranslate2`, or a mapping with its `name` and options;
            `auto` is the fastest that gives the same answers. By default the model, as `torch` does.
        notify: Receives messages for people, such as what the comparison with an engine has found.

    Raises:
        ConfigurationError: An override is wrong, or belongs to what was trained; or there is no such device,
            or engine, or the engine cannot express the run.
        DataError: An engine has to be compared with the run, and its examples cannot be read.
        RunError: There is no such run, it is damaged, it comes from a newer version, or a component that it
            uses is not installed.
    """
    registry = (registry or Registry.discover()).with_components(components or {})
    computing = None if engine is None else _engine(engine, registry)
    place = chosen_device(device or (None if computing is None else computing.device))
    directory = RunDirectory.open(located(run))
    settings, registry = check_overrides(overrides, AFTER_TRAINING, registry)
    experiment = resolve_run(directory, registry, settings, ANSWERING)
    processor = read_processor(directory, experiment)
    model = build(experiment.spec, processor.sizes)
    restore(model, load_tensors(directory.model), directory.model)
    trained = TrainedModel(directory.path, experiment, model.to(place).eval(), processor)
    trained.changes = changed_components(directory, experiment)
    trained.other_data = "data" in settings.value
    if trained.changes:
        _LOG.warning("%s", _changes(trained))
    if computing is not None:
        trained.answered_by = computing.answering(trained, notify)
    return trained


def _engine(named: str | Mapping[str, Any], registry: Registry) -> Engine:
    """Returns an engine by its name, alone or with options."""
    options = dict(named) if isinstance(named, Mapping) else {"name": named}
    if not isinstance(options.get("name"), str):
        example = "ctranslate2, or {name: ctranslate2, compute_type: int8}"
        raise ConfigurationError(f"engine {named!r}: it has no name; expected one such as {example}")
    engine: Engine = registry.create(Kind.ENGINE, options.pop("name"), **options)
    return engine


def _changes(trained: TrainedModel) -> str:
    return "\n  ".join([f"{trained.directory}: components have changed since training:", *trained.changes])


def allowed_outputs(experiment: Experiment, tokenizer: Tokenizer) -> AllowedOutputs:
    """Returns the outputs that a task allows.

    Raises:
        ConfigurationError: The vocabulary cannot spell an output that the task's constraint allows.
    """
    decoding = experiment.task.decoding
    limit, length = experiment.task.model.max_length, decoding.length
    allowed = AllowedOutputs(limit, max_length=decoding.max_length, length=length)
    if (block := decoding.output_constraint) is not None:
        constraint: Constraint = experiment.registry.create(Kind.CONSTRAINT, block.name, **block.options)
        shortest = length if isinstance(length, int) else 0
        try:
            allowed.begin = constraint.compile(tokenizer, shortest, allowed.longest)
        except ConfigurationError as error:
            experiment.raise_for([(("decoding", decoding.constraint_key), str(error))])
    return allowed


def read_processor(directory: RunDirectory, experiment: Experiment) -> Processor:
    """Returns the processor of a run; RunError if a file is damaged, or does not fit the task type."""
    refuse_other_files(directory)
    return load_processor(experiment, directory.path, read_json(directory.learned))
