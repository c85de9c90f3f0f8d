"""The contract of components that add to the residual stream, whatever their kind."""

import torch

from plugformer_testing.check import NotApplicable, check, require_close
from plugformer_testing.module import exercise
from plugformer_testing.subject import Subject


@check()
def last_map_is_linear(subject: Subject) -> None:
    """The output is proportional to the last map of `residual_path`, which some initial values scale."""
    module = subject.perturbed()
    last = module.residual_path[-1]
    parameters = [p for name, p in module.named_parameters() if last in name.split(".")]
    if not parameters:
        raise NotApplicable(f"no parameter is called {last!r}: say in `residual_path` what the maps are")
    expected = 2 * exercise(subject, module)
    with torch.no_grad():
        for parameter in parameters:
            parameter.mul_(2)
    message = f"{last}, the last of residual_path, is not what the output is a multiple of"
    require_close(exercise(subject, module), expected, message)
