"""The interfaces that components implement, one file for each kind, and the objects that they exchange."""

from plugformer.interfaces.attention import Attention
from plugformer.interfaces.context import HeadContext, ModelContext, Place
from plugformer.interfaces.data import Data, TaskType
from plugformer.interfaces.decoding import Decoding, Hypothesis, Session
from plugformer.interfaces.fast_tokenizer import FastTokenizer
from plugformer.interfaces.feed_forward import FeedForward
from plugformer.interfaces.head import Head
from plugformer.interfaces.linear_cross_entropy import linear_cross_entropy
from plugformer.interfaces.metric import LikelihoodMetric, Metric, OutputMetric, SourceMetric, Table
from plugformer.interfaces.norm import Norm
from plugformer.interfaces.optimizer import Optimizer
from plugformer.interfaces.position import NoPositions, Padding, PositionalEncoding, Positions
from plugformer.interfaces.real_tokens import take_tokens
from plugformer.interfaces.schedule import Schedule
from plugformer.interfaces.scope import Observer, Scope
from plugformer.interfaces.softmax_attention import softmax_attention
from plugformer.interfaces.state import PerPosition, State
from plugformer.interfaces.tokenizer import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer

__all__ = [
    "BEGIN",
    "END",
    "PADDING",
    "SPECIAL_TOKENS",
    "UNKNOWN",
    "Attention",
    "Data",
    "Decoding",
    "FastTokenizer",
    "FeedForward",
    "Head",
    "HeadContext",
    "Hypothesis",
    "LikelihoodMetric",
    "Metric",
    "ModelContext",
    "NoPositions",
    "Norm",
    "Observer",
    "Optimizer",
    "OutputMetric",
    "Padding",
    "PerPosition",
    "Place",
    "PositionalEncoding",
    "Positions",
    "Schedule",
    "Scope",
    "Session",
    "SourceMetric",
    "State",
    "Table",
    "TaskType",
    "Tokenizer",
    "linear_cross_entropy",
    "softmax_attention",
    "take_tokens",
]
