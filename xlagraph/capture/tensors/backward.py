"""Which gradients an FSDP module still waits for, once backward is over.

torch_xla's FSDP hooks every parameter that requires a gradient in forward, counts the hooks
down in backward and empties its bucket at zero. A parameter that got no gradient keeps the
count from it. As its hook runs, a parameter's full value is given back
(``XlaFullyShardedDataParallel._post_backward_hook``): those that still have theirs after
backward were never asked. All is read from attributes; nothing is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

from xlagraph.capture.tensors.names import clean_name
from xlagraph.capture.tensors.tensor_shapes import tensor_shape
from xlagraph.run.records import Frame, MissingGradient
from xlagraph.tensors import Role, Tensor

MAX_NAMED = 16
"""Parameters without a gradient that are recorded for one bucket."""
_NOT_THE_USERS = ("torch.", "torch_xla.")
_COUNT = "_post_backward_hooks_to_call"


@dataclass(frozen=True, slots=True)
class Backward:
    """What is left of an FSDP module's backward."""

    hooks: int = 0
    """Parameters that require a gradient."""
    hooks_left: int = 0
    missing: tuple[MissingGradient, ...] = ()


def backward_of(module: Any, path: str) -> Backward:
    """How far the backward of an FSDP module came; ``path`` is its own from the root.

    Which parameters got no gradient is said only where as many are found as hooks are left, and
    not while backward goes on.
    """
    left = vars(module).get(_COUNT) if module is not None else None
    if not isinstance(left, int):
        return Backward()
    hooked = [
        (parameter, info)
        for parameter, info in zip(module.full_params, module.full_param_infos, strict=False)
        if parameter.requires_grad
    ]
    if left <= 0:
        return Backward(len(hooked), left)
    missing = hooked if left == len(hooked) else [one for one in hooked if _was_not_asked(one[0])]
    if len(missing) != left or any(hasattr(one, "_shard_bwd_hook") for one, _ in hooked):
        missing = []
    found = [_missing(parameter, info, path) for parameter, info in missing[:MAX_NAMED]]
    return Backward(len(hooked), left, tuple(found))


def _was_not_asked(parameter: Any) -> bool:
    return bool(getattr(parameter, "_has_full_param", False)) and parameter.grad is None


def _missing(parameter: Any, info: tuple[str, Any, str], path: str) -> MissingGradient:
    inner, owner, name = info
    return MissingGradient(
        tensor=Tensor(clean_name(f"{path}.{inner}").strip("."), name, Role.PARAMETER),
        shape=_full_shape(parameter),
        owner_class=type(owner).__name__,
        defined=_definition(type(owner)),
    )


def _full_shape(parameter: Any) -> str:
    """The parameter's own shape: it may stand for its shard now."""
    size = getattr(getattr(parameter, "_sharded_param", None), "_orig_size", parameter.shape)
    dtype = tensor_shape(parameter).partition("[")[0]
    return f"{dtype}[{','.join(map(str, size))}]"


def _definition(owner: type) -> tuple[Frame, ...]:
    """Where the class makes its parameters, as far as Python knows; nothing of torch's own."""
    init = owner.__init__  # type: ignore[misc] # read, not called
    if not isinstance(init, FunctionType) or init.__module__.startswith(_NOT_THE_USERS):
        return ()
    code = init.__code__
    return (Frame(code.co_filename, code.co_firstlineno, owner.__qualname__),)
