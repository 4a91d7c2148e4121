"""What PyTorch's autograd does with an operation: whose values its derivative uses.

The names are those of ``aten`` operations as torch_xla writes them into ``op_type``, without
prefix and leading underscores (`bare_name`). Source: ``derivatives.yaml`` of PyTorch. Every list
is on the safe side: an operation that is in none of them may use any value it met.
"""

from __future__ import annotations

import re

_PREFIX = re.compile(r"(?:aten|xla|prim|torch_xla)__")
_MATRIX_NAME = re.compile(
    r"mm\b|matmul|linear|einsum|mv\b|dot|outer|addr\b|ger\b|det\b|lu\b|cdist|tensordot|linalg|chol"
    r"|inverse|solve|svd|eig|qr\b|matrix|lstm|gru|rnn|attention|triangular|lstsq|householder|ormqr"
)

PASSING = frozenset(
    {
        *("add", "as_strided", "cast", "cat", "clone", "copy", "diagonal", "expand", "flip"),
        *("neg", "permute", "repeat", "roll", "rsub", "select", "slice", "split", "squeeze"),
        *("stack", "sub", "sum", "mean", "t", "to_copy", "transpose", "unbind", "unsqueeze"),
        *("view", "constant_pad_nd", "unselect", "update_slice", "generic_slice"),
        *("optimization_barrier", "unsafe_view", "narrow", "alias", "detach"),
    }
)
"""Operations whose derivative uses the gradient only, no value of the forward pass."""
WITHOUT_DERIVATIVE = frozenset(
    {
        *("arange", "argmax", "argmin", "bernoulli", "bitwise_and", "bitwise_not", "bitwise_or"),
        *("constant", "device_data", "empty", "eq", "full", "ge", "gt", "isnan", "le", "lt"),
        *("logical_and", "logical_not", "logical_or", "ne", "normal", "ones", "rand", "randperm"),
        *("scalar_tensor", "uniform", "zeros"),
    }
)
"""Operations through which no gradient flows."""
VIEWS = frozenset(
    {
        *("permute", "squeeze", "t", "transpose", "unsqueeze", "view", "unsafe_view", "alias"),
        *("detach", "reshape"),
    }
)
"""Operations that give the same elements in another order or shape."""
SAME = VIEWS | {"cast", "clone", "copy", "to_copy", "optimization_barrier"}
"""Operations whose result and operand have one gradient, in another shape or type."""
CHANGING = frozenset(
    {
        *("bmm", "convolution_overrideable", "div", "einsum", "elu", "exp", "gelu", "hardtanh"),
        *("leaky_relu", "log", "log_softmax", "matmul", "max_pool2d_with_indices"),
        *("max_pool_nd", "mm", "mul", "native_batch_norm", "native_layer_norm", "nll_loss", "pow"),
        *("relu", "rsqrt", "sigmoid", "silu", "softmax", "softplus", "sqrt", "tanh"),
    }
)
"""Operations that hand on another tensor than the gradient that they were given."""
MATRIX = frozenset({"addmm", "baddbmm", "bmm", "dot", "einsum", "matmul", "mm", "mv"})
"""Operations of a derivative that only derivatives of matrix operations use."""
_NAMES = {
    "convolution_backward_overrideable": ("convolution_overrideable",),
    "embedding_dense_backward": ("embedding", "embedding_dense"),
    "hardtanh_backward": ("hardtanh", "relu6", "clamp"),
    "log_softmax_backward_data": ("log_softmax",),
    "max_pool2d_with_indices_backward": ("max_pool2d_with_indices", "max_pool2d", "max_pool_nd"),
    "max_pool_nd_backward": ("max_pool_nd", "max_pool2d_with_indices", "max_pool2d"),
    "native_dropout_backward": ("native_dropout", "dropout"),
    "softmax_backward_data": ("softmax",),
    "threshold_backward": ("relu", "threshold", "hardtanh"),
}


def bare_name(op_type: str) -> str:
    """``aten___softmax_backward_data`` without prefix and leading underscores."""
    return _PREFIX.sub("", op_type, count=1).lstrip("_").lower()


def forward_names(name: str) -> tuple[str, ...]:
    """The forward operations that a derivative of this name belongs to, or nothing."""
    if name in _NAMES:
        return _NAMES[name]
    base, found, _ = name.partition("_backward")
    return (base,) if found else ()


def has_matrix_derivative(name: str) -> bool:
    """Whether the derivative of a forward operation may multiply matrices."""
    return bool(_MATRIX_NAME.search(name))
