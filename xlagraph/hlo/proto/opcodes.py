"""The attributes that each opcode has in XLA's text, in XLA's order (``hlo_instructions.cc``)."""

from __future__ import annotations

from xlagraph.hlo.proto import writers
from xlagraph.hlo.proto.writers import Writer

_DIMENSIONS = (writers.numbers("dimensions", "dimensions"),)
_BATCH_NORM = (writers.epsilon, writers.number("feature_index", "feature_index"))
_COLLECTIVE = (writers.channel, writers.groups)
_GLOBAL = writers.if_true("use_global_device_ids", "use_global_device_ids")
_HOST = writers.if_true("is_host_transfer", "is_host_transfer")
_SORTED = writers.if_true("indices_are_sorted", "indices_are_sorted")
_TRANSFER = (writers.channel, _HOST)
_ALL_REDUCE = (*_COLLECTIVE, _GLOBAL)
_PERMUTE = (writers.channel, writers.pairs)

WRITERS: dict[str, tuple[Writer, ...]] = {
    "all-gather": (*_COLLECTIVE, *_DIMENSIONS, _GLOBAL),
    "all-gather-start": (*_COLLECTIVE, *_DIMENSIONS, _GLOBAL),
    "all-reduce": _ALL_REDUCE,
    "all-reduce-start": _ALL_REDUCE,
    "all-to-all": (*_COLLECTIVE, writers.some_dimensions),
    "async-start": (writers.asynchronous, writers.aliasing),
    "async-update": (),
    "async-done": (),
    "batch-norm-grad": _BATCH_NORM,
    "batch-norm-inference": _BATCH_NORM,
    "batch-norm-training": _BATCH_NORM,
    "broadcast": _DIMENSIONS,
    "cholesky": (writers.options("cholesky_options"),),
    "collective-broadcast": (*_COLLECTIVE, writers.if_true("has_dynamic_root", "has_dynamic_root")),
    "collective-permute": _PERMUTE,
    "collective-permute-start": _PERMUTE,
    "compare": (writers.comparison,),
    "concatenate": _DIMENSIONS,
    "convolution": (
        writers.window,
        writers.labels,
        writers.group_counts,
        writers.convolution_kind,
        writers.precision,
        writers.sparsity,
    ),
    "copy-start": (writers.prefetch,),
    "custom-call": (
        *(
            writers.window,
            writers.labels,
            writers.group_counts,
            writers.precision,
            writers.padding_type,
            writers.target,
            writers.aliasing,
        ),
        writers.custom_call_kind,
    ),
    "domain": (writers.domain,),
    "dot": (writers.dot, writers.precision),
    "dynamic-slice": (writers.numbers("dynamic_slice_sizes", "dynamic_slice_sizes"),),
    "fft": (
        writers.named("fft_type", "fft_type", writers.FFT),
        writers.numbers("fft_length", "fft_length"),
    ),
    "fusion": (lambda fields: [("kind", fields.pop("fusion_kind", ""))], writers.aliasing),
    "gather": (
        writers.dimension_lists(
            "gather_dimension_numbers",
            ("offset_dims", "collapsed_slice_dims", "start_index_map"),
            ("operand_batching_dims", "start_indices_batching_dims"),
        ),
        writers.numbers("gather_slice_sizes", "slice_sizes"),
        _SORTED,
    ),
    "get-dimension-size": _DIMENSIONS,
    "get-tuple-element": (writers.number("tuple_index", "index"),),
    "infeed": (writers.if_set("infeed_config", "infeed_config"),),
    "iota": (writers.one_dimension("iota_dimension"),),
    "map": _DIMENSIONS,
    "outfeed": (writers.outfeed, writers.if_set("outfeed_config", "outfeed_config")),
    "pad": (writers.padding,),
    "parameter": (writers.replication,),
    "ragged-all-to-all": _COLLECTIVE,
    "ragged-dot": (writers.ragged_dot, writers.precision),
    "recv": _TRANSFER,
    "recv-done": _TRANSFER,
    "reduce": _DIMENSIONS,
    "reduce-precision": (
        writers.number("exponent_bits", "exponent_bits"),
        writers.number("mantissa_bits", "mantissa_bits"),
    ),
    "reduce-scatter": (*_ALL_REDUCE, *_DIMENSIONS),
    "reduce-window": (writers.window,),
    "reshape": (writers.one_dimension("inferred_dimension"),),
    "reverse": _DIMENSIONS,
    "rng": (writers.named("distribution", "distribution", writers.DISTRIBUTIONS),),
    "rng-bit-generator": (writers.named("rng_algorithm", "algorithm", writers.ALGORITHMS),),
    "rng-get-and-update-state": (writers.number("delta", "delta"),),
    "scaled-dot": (writers.dot, writers.precision),
    "scan": (
        *(*_DIMENSIONS, writers.number("num_carries", "num_carries")),
        *(writers.if_true("is_reverse", "is_reverse"), writers.associative),
    ),
    "scatter": (
        writers.dimension_lists(
            "scatter_dimension_numbers",
            ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
            ("input_batching_dims", "scatter_indices_batching_dims"),
        ),
        *(_SORTED, writers.if_true("unique_indices", "unique_indices")),
    ),
    "select-and-scatter": (writers.window,),
    "send": _TRANSFER,
    "send-done": _TRANSFER,
    "set-dimension-size": _DIMENSIONS,
    "slice": (writers.slices,),
    "sort": (*_DIMENSIONS, writers.if_true("is_stable", "is_stable")),
    "topk": (writers.number("k", "k"), writers.either("largest")),
    "transpose": _DIMENSIONS,
    "triangular-solve": (writers.options("triangular_solve_options"),),
}
"""Opcodes that have attributes of their own; the others have only what all share."""
