"""The kinds of component, and the interface that each kind's components implement.

Nothing is imported here: `list` and `--help` use these names without torch.
"""

from enum import StrEnum


class Kind(StrEnum):
    """A replaceable part. Its value is the key under which a task file names a component of the kind.

    Only a task type's key is `type`, and metrics stand in a list.
    """

    TASK_TYPE = "task_type"
    ARCHITECTURE = "architecture"
    TOKENIZER = "tokenizer"
    POSITION = "position"
    ATTENTION = "attention"
    FEED_FORWARD = "feed_forward"
    NORM = "norm"
    RESIDUAL = "residual"
    HEAD = "head"
    INITIALIZATION = "initialization"
    DATA = "data"
    METRIC = "metric"
    SCHEDULE = "schedule"
    OPTIMIZER = "optimizer"
    DECODING = "decoding"
    HOOK = "hook"


INTERFACES: dict[Kind, str] = {
    Kind.TASK_TYPE: "plugformer.interfaces.task_type:TaskType",
    Kind.ARCHITECTURE: "plugformer.interfaces.spec:Architecture",
    Kind.TOKENIZER: "plugformer.interfaces.tokenizer:Tokenizer",
    Kind.POSITION: "plugformer.interfaces.position:PositionalEncoding",
    Kind.ATTENTION: "plugformer.interfaces.attention:Attention",
    Kind.FEED_FORWARD: "plugformer.interfaces.layer:FeedForward",
    Kind.NORM: "plugformer.interfaces.layer:Norm",
    Kind.RESIDUAL: "plugformer.interfaces.layer:Residual",
    Kind.HEAD: "plugformer.interfaces.head:Head",
    Kind.INITIALIZATION: "plugformer.interfaces.training:Initialization",
    Kind.DATA: "plugformer.interfaces.data:Data",
    Kind.METRIC: "plugformer.interfaces.metric:Metric",
    Kind.SCHEDULE: "plugformer.interfaces.training:Schedule",
    Kind.OPTIMIZER: "plugformer.interfaces.training:Optimizer",
    Kind.DECODING: "plugformer.interfaces.decoding:Decoding",
    Kind.HOOK: "plugformer.interfaces.training:Hook",
}
