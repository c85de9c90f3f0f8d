"""The interfaces that components implement, and the objects that they exchange."""

from plugformer.interfaces.batch import (
    ABSENT,
    Batch,
    Encoded,
    Ragged,
    Tokens,
)
from plugformer.interfaces.context import Context
from plugformer.interfaces.data import Column, ColumnKind, Data
from plugformer.interfaces.decoding import (
    AllowedOutputs,
    AllowedTokens,
    Constraint,
    Decoding,
    Hypothesis,
    Session,
)
from plugformer.interfaces.head import Head, HeadInput, Likelihoods
from plugformer.interfaces.layer import Attention, FeedForward, Norm, Residual, Sublayer
from plugformer.interfaces.metric import (
    Baseline,
    LikelihoodBaseline,
    LikelihoodMetric,
    Metric,
    OutputBaseline,
    OutputMetric,
    SourceMetric,
)
from plugformer.interfaces.model import Generative, Loss, Model, evaluating
from plugformer.interfaces.position import BIDIRECTIONAL, CAUSAL, PositionalEncoding, Positions, View
from plugformer.interfaces.prediction import Engine, Input, Level, OutputType, Prediction, as_text
from plugformer.interfaces.spec import (
    Architecture,
    HeadContext,
    ModelContext,
    Place,
    ResidualContext,
)
from plugformer.interfaces.task_type import Example, Examples, TaskType, Tokenizers
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer
from plugformer.interfaces.training import (
    Callback,
    Initialization,
    Optimizer,
    ParameterSize,
    Parametrization,
    Role,
    Schedule,
    Updates,
)

__all__ = [
    "ABSENT",
    "BEGIN",
    "BIDIRECTIONAL",
    "CAUSAL",
    "END",
    "PADDING",
    "SPECIAL_TOKENS",
    "UNKNOWN",
    "AllowedOutputs",
    "AllowedTokens",
    "Architecture",
    "Attention",
    "Baseline",
    "Batch",
    "Callback",
    "Column",
    "ColumnKind",
    "Constraint",
    "Context",
    "Data",
    "Decoding",
    "Encoded",
    "Engine",
    "Example",
    "Examples",
    "FeedForward",
    "Generative",
    "Head",
    "HeadContext",
    "HeadInput",
    "Hypothesis",
    "Initialization",
    "Input",
    "Level",
    "LikelihoodBaseline",
    "LikelihoodMetric",
    "Likelihoods",
    "Loss",
    "Metric",
    "Model",
    "ModelContext",
    "Norm",
    "Optimizer",
    "OutputBaseline",
    "OutputMetric",
    "OutputType",
    "ParameterSize",
    "Parametrization",
    "Place",
    "PositionalEncoding",
    "Positions",
    "Prediction",
    "Ragged",
    "Residual",
    "ResidualContext",
    "Role",
    "Schedule",
    "Session",
    "SourceMetric",
    "Sublayer",
    "TaskType",
    "Tokenizer",
    "Tokenizers",
    "Tokens",
    "Updates",
    "View",
    "as_text",
    "evaluating",
]
