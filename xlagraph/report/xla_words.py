"""The words that XLA itself writes into the text of a module; all others may be names.

From openxla/xla ``xla/hlo/ir/hlo_opcode.h``, ``xla/hlo/parser/hlo_parser.cc``,
``xla/hlo/ir/hlo_sharding.cc``, ``xla/primitive_util.cc`` and ``xla/xla_data.proto``.
"""

from __future__ import annotations

import re

_OPCODES = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2
atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast
call cbrt ceil cholesky clamp clz collective-broadcast collective-permute collective-permute-done
collective-permute-start compare complex concatenate conditional constant convert convolution copy
copy-done copy-start cosine cosh count-leading-zeros custom-call divide domain dot dynamic-reshape
dynamic-slice dynamic-update-slice erf exponential exponential-minus-one fft floor fusion gather
get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one logistic map
maximum minimum multiply negate not opt-barrier optimization-barrier or outfeed pad parameter
partition-id partition-id-assertion popcnt power ragged-all-to-all ragged-dot real recv recv-done
reduce reduce-precision reduce-scatter reduce-window remainder replica-id reshape reverse rng
rng-bit-generator rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot
scan scatter select select-and-scatter send send-done set-dimension-size shift-left
shift-right-arithmetic shift-right-logical sign sine sinh slice sort sqrt stochastic-convert
subtract tan tanh topk transpose triangular-solve tuple while xor undone
"""
_KEYS = """
HloModule ENTRY ROOT is_scheduled entry_computation_layout replica_count num_partitions
input_output_alias buffer_donor may-alias must-alias allow_spmd_sharding_propagation_to_output
allow_spmd_sharding_propagation_to_parameters frontend_attributes origin_recovery_table
debug_attributes execution_thread sharding metadata op_type op_name source_file source_line
source_end_line source_column source_end_column stack_frame_id profile_type deduplicated_name
scheduling_name backend_config operand_layout_constraints output_to_operand_aliasing
custom_call_target custom_call_has_side_effect custom_call_schedule api_version literal
dimensions dimension index channel_id replica_groups source_target_pairs use_global_device_ids
constrain_layout mode to_apply calls body condition branch_computations true_computation
false_computation called_computations select scatter async_execution_thread control-predecessors
window size stride pad lhs_dilate rhs_dilate rhs_reversal dim_labels feature_group_count
batch_group_count padding slice slice_sizes dynamic_slice_sizes offset_dims collapsed_slice_dims
start_index_map index_vector_dim indices_are_sorted unique_indices operand_batching_dims
start_indices_batching_dims update_window_dims inserted_window_dims scatter_dims_to_operand_dims
input_batching_dims scatter_indices_batching_dims lhs_contracting_dims rhs_contracting_dims
lhs_batch_dims rhs_batch_dims lhs_ragged_dims rhs_ragged_dims rhs_group_dims operand_precision
algorithm precision_config fft_type fft_length direction type comparison_type order is_stable
distribution epsilon feature_index exponent_bits mantissa_bits lower unit_diagonal transpose_a
left_side iota_dimension broadcast_sizes permutation delta infeed_config outfeed_config
outfeed_shape is_host_transfer kind domain entry exit cholesky_options split_count split_dimension
all_gather_dimension scatter_dimension largest result_accuracy tolerance statistics origin sparsity
largest_k k tuple_index known_trip_count n last_tile_dims devices maximal manual replicated
last_tile_dim_replicate unreduced shard_as shard_like shard_barrier_from shard_barrier_to metadata
device tuple unknown mesh axes parameters outputs donors aliases flags shardings graph_hash
root_hashes ir_nodes live_tensors live_tensors_agree inputs computation_hash
"""
_VALUES = """
true false none absent default high highest packed_nibble nan inf EQ NE GT GE LT LE FLOAT TOTALORDER
SIGNED UNSIGNED FFT IFFT RFFT IRFFT NO_TRANSPOSE TRANSPOSE ADJOINT rng_uniform rng_normal
rng_default rng_three_fry rng_philox kLoop kInput kOutput kCustom SCHEDULE_NONE SCHEDULE_LATEST
SCHEDULE_EARLIEST API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING
API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI dot_bf16_bf16_bf16 dot_bf16_bf16_f32
dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_bf16_bf16_f32_x9 dot_f16_f16_f16 dot_f16_f16_f32
dot_f32_f32_f32 dot_f64_f64_f64 dot_tf32_tf32_f32 dot_tf32_tf32_f32_x3 dot_any_f8_any_f8_f32
cross_replica cross_partition cross_replica_and_partition flattened_id forward_feature GIVEN
not sharded
"""
_LAYOUT = "T E S L M SC D C H N Z A"
_WORDS = frozenset(f"{_OPCODES} {_KEYS} {_VALUES} {_LAYOUT}".split())
_TYPE = re.compile(
    r"(?:pred|token|opaque|tuple|[su](?:1|2|4|8|16|32|64)|b?f16|f32|f64|c64|c128|i(?:1|8|16|32|64)"
    r"|f(?:4|8)e\d+m\d+\w{0,6})"
)
_LABELS = re.compile(r"[bfio\d?_]+-?")
"""The pieces of ``b01f_01io->b01f``."""
_NUMBER = re.compile(r"\d+(?:[_x.\-]\d*)*(?:e[+-]?\d*)?|0x[\da-f.]+(?:p[+-]?\d*)?", re.I)
"""``12``, ``1e-05``, ``0x1p-3``, and rows of numbers such as ``3x3`` and ``1_1x0_-10``."""

_OPTIMIZERS = """
SGD Adam AdamW Adamax NAdam RAdam Adadelta Adagrad ASGD LBFGS RMSprop Rprop SparseAdam Adafactor
Muon momentum_buffer exp_avg exp_avg_sq max_exp_avg_sq step square_avg grad_avg sum acc_delta
exp_inf mu mu_product eta ax prev
"""
OPTIMIZER_WORDS = frozenset(_OPTIMIZERS.split()) | {""}
"""PyTorch's optimizers, and the keys of their state."""


def is_xla_word(word: str) -> bool:
    """Whether a word of a module's text is XLA's own: an opcode, a type, a key, a value."""
    return (
        word in _WORDS
        or bool(_TYPE.fullmatch(word))
        or bool(_LABELS.fullmatch(word))
        or bool(_NUMBER.fullmatch(word))
    )
