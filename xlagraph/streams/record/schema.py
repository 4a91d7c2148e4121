"""What an operator reads and writes, by its schema, and where the schema does not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METADATA_ONLY = frozenset(
    [
        "as_strided_",
        "detach",
        "detach_",
        "is_pinned",
        "is_set_to",
        "requires_grad_",
        "resize_",
        "resize_as_",
        "set_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "squeeze_",
        "unsqueeze_",
        "sym_size",
        "sym_stride",
        "sym_numel",
        "sym_storage_offset",
        "is_same_size",
        "_has_compatible_shallow_copy_type",
        "device",
    ]
)
"""Operators that touch no bytes of their tensors."""

UNWRITTEN = frozenset(
    ["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"]
)
"""Operators whose fresh result is memory and no more."""

SOME_READ = frozenset(
    [
        "index",
        "_unsafe_index",
        "index_select",
        "gather",
        "take",
        "embedding",
        "embedding_bag",
        "_embedding_bag",
        "_embedding_bag_forward_only",
    ]
)
SOME_WRITTEN = frozenset(
    [
        "index_put_",
        "_index_put_impl_",
        "index_add_",
        "index_copy_",
        "index_fill_",
        "scatter_",
        "scatter_add_",
        "scatter_reduce_",
        "put_",
    ]
)
"""Operators that read, or write, those elements of their first tensor that indices select."""

TRAINED = frozenset({"running_mean", "running_var"})
"""Arguments of batch norms that are written while training, marked or not."""

UNSCALED = frozenset({"_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"})
"""Optimizers whose schema says that they write gradients: they do where they unscale them."""


class Argument(NamedTuple):
    """A tensor argument, by place and by name, since it may be given either way."""

    place: int
    name: str
    writes: bool
    some: bool = False
    """Only some of its elements are used: which ones depends on values."""


class Plan(NamedTuple):
    """What an operator does to its arguments and results."""

    name: str
    arguments: tuple[Argument, ...]
    fresh: bool
    """Whether a result may be a tensor of its own."""
    collective: bool
    silent: bool
    """Nothing is read and nothing written: views and metadata."""
    switch: Argument | None = None
    """The argument that decides whether `TRAINED` or gradients are written."""


def plan_of(operator: Any) -> Plan:
    """The plan of an ``OpOverload``, or of whatever else a dispatch mode is given."""
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return Plan(str(operator), (), fresh=False, collective=False, silent=True)
    namespace, _, base = schema.name.partition("::")
    if namespace.endswith(("c10d", "c10d_functional")):
        return _collective(str(operator), namespace, base, schema)
    if _is_metadata(operator, base):
        return Plan(str(operator), (), fresh=False, collective=False, silent=True)
    arguments = tuple(_arguments(schema, base))
    fresh = base not in UNWRITTEN and any(_is_fresh(one) for one in schema.returns)
    views = bool(schema.returns) and all(
        one.alias_info is not None and not one.alias_info.is_write for one in schema.returns
    )
    silent = (views and not any(one.writes for one in arguments)) or base in UNWRITTEN
    return Plan(
        str(operator),
        arguments,
        fresh,
        collective=False,
        silent=silent,
        switch=_switch(schema, base),
    )


def is_written(plan: Plan, one: Argument, given: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether an argument is written in a call with these arguments."""
    switch = plan.switch
    if switch is None or (one.name not in TRAINED and one.name != "grads"):
        return one.writes
    value = given[switch.place] if switch.place < len(given) else named.get(switch.name)
    return value is not None and value is not False


def _arguments(schema: Any, base: str) -> list[Argument]:
    found: list[Argument] = []
    shape_only = base.endswith("_like") or base.startswith("new_")
    for place, argument in enumerate(schema.arguments):
        if "Tensor" not in str(argument.type):
            continue
        info = argument.alias_info
        writes = info is not None and info.is_write
        if writes or not shape_only:
            some = not found and base in (SOME_WRITTEN if writes else SOME_READ)
            found.append(Argument(place, argument.name, writes, some))
    return found


def _collective(name: str, namespace: str, base: str, schema: Any) -> Plan:
    """A collective's plan: c10d's schemas do not mark what they change.

    Their arguments are called ``output...`` or ``input...`` where they are apart, and
    ``tensor(s)`` where they are one.
    """
    if base.startswith("wait_tensor"):
        return Plan(name, (), fresh=False, collective=False, silent=True)
    arguments: list[Argument] = []
    for place, argument in enumerate(schema.arguments):
        if "Tensor" not in str(argument.type):
            continue
        info, called = argument.alias_info, argument.name
        marked = info is not None and info.is_write
        if marked or not called.startswith(("output", "input", "self")):
            reads, writes = not base.startswith("recv"), not base.startswith("send")
        else:
            reads = not called.startswith("output")
            writes = not reads
        arguments += [
            Argument(place, called, writes=w)
            for w, does in ((False, reads), (True, writes))
            if does
        ]
    fresh = namespace.endswith("functional") and any(_is_fresh(one) for one in schema.returns)
    return Plan(name, tuple(arguments), fresh, collective=True, silent=False)


def _switch(schema: Any, base: str) -> Argument | None:
    decides = {"training", "train"}
    if base in UNSCALED:
        decides = {"grad_scale"}
    elif not any(one.name in TRAINED for one in schema.arguments):
        return None
    for place, argument in enumerate(schema.arguments):
        if argument.name in decides:
            return Argument(place, argument.name, writes=False)
    return None


def _is_fresh(result: Any) -> bool:
    return result.alias_info is None and "Tensor" in str(result.type)


def _is_metadata(operator: Any, base: str) -> bool:
    tags = {str(tag).rpartition(".")[2] for tag in getattr(operator, "tags", ())}
    return base in METADATA_ONLY or "inplace_view" in tags
