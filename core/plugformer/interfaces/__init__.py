"""The interfaces that components implement, one file for each kind, and the objects that they exchange."""

from plugformer.interfaces.architecture import Architecture, Limits, Sizes, Stack
from plugformer.interfaces.attention import Attention, State
from plugformer.interfaces.attention_context import AttentionContext
from plugformer.interfaces.batch import (
    IGNORED,
    NO_TARGETS,
    NO_TOKENS,
    Batch,
    Encoded,
    Ragged,
    Side,
    Tokens,
    places_of,
    token_targets,
    unpad,
)
from plugformer.interfaces.context import HeadContext, LayerContext, ModelContext
from plugformer.interfaces.data import Data, require_columns, require_one_text
from plugformer.interfaces.decoding import Decoding, Hypothesis, Session
from plugformer.interfaces.feed_forward import FeedForward
from plugformer.interfaces.head import Best, Head, Likelihoods
from plugformer.interfaces.hook import Hook
from plugformer.interfaces.initialization import Initialization, ParameterContext
from plugformer.interfaces.metric import LikelihoodMetric, Metric, OutputMetric, SourceMetric, Table
from plugformer.interfaces.model import Generative, Loss, Model, evaluating, next_tokens
from plugformer.interfaces.norm import Norm
from plugformer.interfaces.optimizer import Optimizer
from plugformer.interfaces.position import NoPositions, Padding, PositionalEncoding, Positions
from plugformer.interfaces.prediction import Level, OutputType, Prediction, Value, as_text
from plugformer.interfaces.residual import Residual, ResidualContext, Sublayer
from plugformer.interfaces.schedule import Schedule
from plugformer.interfaces.spec import EmbeddingSpec, LayerSpec, ModelSpec, PartSpec, StackSpec
from plugformer.interfaces.task_type import Column, Example, Examples, Holds, TaskType, Tokenizers
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer

__all__ = [
    "BEGIN",
    "END",
    "IGNORED",
    "NO_TARGETS",
    "NO_TOKENS",
    "PADDING",
    "SPECIAL_TOKENS",
    "UNKNOWN",
    "Architecture",
    "Attention",
    "AttentionContext",
    "Batch",
    "Best",
    "Column",
    "Data",
    "Decoding",
    "EmbeddingSpec",
    "Encoded",
    "Example",
    "Examples",
    "FeedForward",
    "Generative",
    "Head",
    "HeadContext",
    "Holds",
    "Hook",
    "Hypothesis",
    "Initialization",
    "LayerContext",
    "LayerSpec",
    "Level",
    "LikelihoodMetric",
    "Likelihoods",
    "Limits",
    "Loss",
    "Metric",
    "Model",
    "ModelContext",
    "ModelSpec",
    "NoPositions",
    "Norm",
    "Optimizer",
    "OutputMetric",
    "OutputType",
    "Padding",
    "ParameterContext",
    "PartSpec",
    "PositionalEncoding",
    "Positions",
    "Prediction",
    "Ragged",
    "Residual",
    "ResidualContext",
    "Schedule",
    "Session",
    "Side",
    "Sizes",
    "SourceMetric",
    "Stack",
    "StackSpec",
    "State",
    "Sublayer",
    "Table",
    "TaskType",
    "Tokenizer",
    "Tokenizers",
    "Tokens",
    "Value",
    "as_text",
    "evaluating",
    "next_tokens",
    "places_of",
    "require_columns",
    "require_one_text",
    "token_targets",
    "unpad",
]
