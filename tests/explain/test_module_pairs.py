"""Pairs of modules that JAX or torch_xla lowered: the cause named is what differs."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from xlagraph.catalogue import kinds
from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine
from xlagraph.run.reader import read_run
from xlagraph.runs.graphs.context import context_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PAIRS = FIXTURES / "module_pairs"
SOURCE = (FIXTURES / "make_jax_pairs.py").read_text().splitlines()
NAMES = sorted(path.name.removesuffix(".a.hlo.gz") for path in PAIRS.glob("*.a.hlo.gz"))


@dataclass(frozen=True)
class Truth:
    line: str = ""
    """What stands on the line that the first cause cites."""
    said: str = ""
    """A regular expression that the first cause's title, or the verdict, matches."""
    kinds: str = ""
    """Kinds of cause, the first one leading; "": the kind that has the pair among its examples."""


PROVED = {
    "heads_tiled": Truth("", r"axes of 5 values .*f32\[2,2,1,16,4\] became f32\[2,1,2,16,4\]"),
    "mask_shifted": Truth("", "0 became 1"),
    "momentum_clipped": Truth("", "scales 2 values by a number computed from all of them"),
    "norm_before_layers": Truth(
        "",
        r"the same operations are connected in another order: \S+ takes the result of ",
        kinds="replaced-subgraph output-order",
    ),
    "pooled_inside": Truth("", "3 values are computed in another way: pad and 4 more"),
    "advantage_kept": Truth("", r"flow further in B than in A, .* gradients of 4 tensors \(input "),
    "state_kept": Truth("", r"flow further in B than in A, .* gradients of 5 tensors \(input "),
    "block_computed_again": Truth("h.var(-1", "B computes 9 values again"),
    "buckets_or_alone": Truth("", r"A reduces 8 tensors one by one, B 8 in 3 buckets"),
    "batch_and_scale": Truth("", r"8 -> 12.*0\.125 -> 0\.0833.* is taken for a number of elements"),
    "batch_and_warm_up": Truth("", r"8 -> 16\)", kinds="input-shape constant-value"),
    "another_operand": Truth("a * (a, b)[picked]", r"takes input 0 .* in B and input 1 .* in A"),
    "argument_of_its_own": Truth("tanh(x * s)", r"its own in B \(input 2"),
    "call_more": Truth(
        "jnp.tanh(v) * 0.5", "multiply and 2 more instructions that A does not, behind tanh"
    ),
    "call_step": Truth("x @ w", "tanh became sine"),
    "collectives_turned": Truth(
        "lax.psum(lax.all_gather", "all-gather of all-reduce in A, all-reduce of all-gather in B"
    ),
    "concatenated_axis": Truth("jnp.concatenate", r"dimensions: \{0\} -> \{1\}"),
    "another_loss": Truth(
        "jnp.logaddexp(d, -d)",
        r"huber_loss\(x, y, delta=0.7\) became log\(cosh\(x - y\)\)",
        kinds="replaced-subgraph",
    ),
    "cond_branch": Truth("jnp.expm1(v)", "in branch 0 of cond"),
    "cond_branch.after": Truth("jnp.expm1(v)", "in branch 0 of cond", kinds="replaced-subgraph"),
    "cond_swapped": Truth("lax.cond", "branches .* changed places"),
    "constant_below_activation": Truth("jax.nn.gelu", kinds="replaced-subgraph constant-value"),
    "custom_call_option": Truth("call(jnp.tanh(x)", "eps = "),
    "custom_call_target": Truth("call(jnp.tanh(x)", "rms_norm_v1.*rms_norm_v2"),
    "difference_turned": Truth("jnp.cos(h) - jnp.sin(h)", "subtract"),
    "donated": Truth("0.1 * g", r"input 0 \(f32\[16,4\]\) in B only"),
    "donated.after": Truth("0.1 * g", kinds="alias"),
    "donor_without_output": Truth("(x * 2)", r"input 0 \(f32\[8,8\]\) in B only"),
    "fori_trip_count": Truth("", "10 became 12 .* the condition of while"),
    "frontend_attributes": Truth("jnp.tanh(x)", 'priority="low".*priority="high"'),
    "fusion_constant.after": Truth("", "0.5 became 0.25 .* in fusion"),
    "dilated_causal": Truth("", r"dilation: 4 -> 3", kinds="convolution-option"),
    "grouped_convolution": Truth("", r"number of groups: 1 -> 2", kinds="convolution-option"),
    "input_bfloat16": Truth("", r"input 1 \(bf16\[8,16\]\).*f32 -> bf16"),
    "jit_inline": Truth("block(w, block(w, x))", "2 calls in A, 0 in B"),
    "key_width": Truth("", r"threefry2x32 in A, rng-bit-generator in B"),
    "layout_of_input": Truth("jnp.tanh(x) * 2", r"input 0 .*, \{1,0\} became \{0,1\}"),
    "layout_of_output": Truth("jnp.sin(x)", r"output 1, \{1,0\} became \{0,1\}", kinds="layout"),
    "log_in_loop": Truth("has_side_effect=True", r"ffi_call.1 .*custom-call"),
    "log_once": Truth("has_side_effect=True", r"B runs ffi_call.1 .* for its effect"),
    "logs_turned": Truth("has_side_effect=True", r"custom-call\) comes in another"),
    "largest_or_sum": Truth("jnp.sin(of(x, 0))", "maximum in 2 reduces"),
    "largest_over_devices": Truth('of(jnp.tanh(x), "d")', "in 1 all-reduce"),
    "layout_of_input.after": Truth("", r"\{1,0\} became f32\[8,16\]\{0,1\}"),
    "matmul_precision": Truth('x @ params["up"]', "default -> highest,highest"),
    "layer_frozen": Truth("", "A updates 2 tensors that B only reads .* 2 more tensors of theirs"),
    "large_constant": Truth("", r"\.\.\.67, 68.* became \.\.\.-1, 68", kinds="constant-value"),
    "mean_over_devices": Truth("lambda g: combined(g", "2 sums divided by 4"),
    "mesh_axis_order": Truth("", r"\(x=2, y=2\) became \(y=2, x=2\)"),
    "norms_left_in_train": Truth("", "batch-norm-inference and", kinds="replaced-subgraph"),
    "left_in_eval": Truth("", "draws random numbers", kinds="random-numbers"),
    "momentum_and_clip": Truth("", "takes in and updates 2", kinds="newly-updated clipping"),
    "momentum_and_rate": Truth(kinds="newly-updated constant-value"),
    "turns_of_derivative": Truth(
        "lax.fori_loop(0, turns", "number of a loop's turns", kinds="python-size"
    ),
    "nested_loop": Truth("inner(v) * 0.5", "the body of while"),
    "weights_left_wider": Truth(
        "lax.rsqrt(h.var",
        "as bf16 and gives their new values back as f32",
        kinds="dtype extra-subgraph",
    ),
    "norm_bfloat16": Truth("", r"f32 -> bf16", kinds="dtype shared-scalar"),
    "number_of_its_own": Truth("jnp.tanh(x * 0.1)", "0.1 became 0.2 at 1 place"),
    "one_gradient_fewer": Truth("jnp.tanh(x @ w) @ v", r"1 gradient .* of input 1 \(f32\[5,2\]"),
    "one_matrix_frozen": Truth("", r"B updates 1 tensor that A only reads \(input 1 "),
    "one_tensor_bfloat16": Truth("w.astype(F32)", r"input 0 \(bf16\[8,16\]\)"),
    "one_more_output.after": Truth("x[::-1]", "1 tensor more", kinds="live-tensor"),
    "one_wider_layer": Truth("", r"input 3 \(f32\[8,4\]\).*8 -> 12"),
    "partitions": Truth("", r"\(x=2\) became \(x=4\)"),
    "partitions.after": Truth(kinds="input-shape sharding replica-groups partitions"),
    "partitions_one.after": Truth(),
    "parts_of_other_widths_reordered": Truth("jnp.concatenate"),
    "parts_reordered": Truth("jnp.concatenate", "concatenate takes"),
    "passes_joined": Truth(
        "jnp.concatenate([real, fake])", "2 passes over 6 rows in A are one pass over 12 in B"
    ),
    "permute_pairs": Truth("lax.ppermute", "source_target_pairs"),
    "pooled_otherwise": Truth("lax.reduce_window", "minimum became maximum"),
    "product_turned": Truth("jnp.cos(w) @ jnp.sin(h)", "dot takes"),
    "reducer": Truth(".max(0)", "add became maximum in 1 reduce"),
    "remat": Truth("deep = lambda", "B computes 3 values again"),
    "remat.after": Truth(kinds="extra-subgraph"),
    "replica_count": Truth(),
    "replica_groups": Truth("lax.psum", r"\{\{0,1\},\{2,3\}\} ->"),
    "replica_groups.after": Truth("lax.psum", kinds="replica-groups"),
    "replica_groups_of_mesh": Truth("lax.psum"),
    "rng_algorithm": Truth("rng_bit_generator", "rng_philox -> rng_three_fry"),
    "rows_of_whole_numbers": Truth("", r"dtype \(s64 -> f32\): A converts input"),
    "scaled_gradient": Truth("", "B computes multiply and 2 more", kinds="extra-subgraph"),
    "scan_activation": Truth("carry = cell(", "the body of while"),
    "scan_activation.after": Truth("carry = cell(", "the body of while", kinds="replaced-subgraph"),
    "scan_activation_of_many": Truth(
        "carry = cell(", "the body of while", kinds="replaced-subgraph"
    ),
    "scan_bfloat16": Truth("", r"input 2 \(bf16\[5,8\]\)"),
    "scan_carry_bfloat16": Truth("", "f32 -> bf16"),
    "scan_clip": Truth(
        "jnp.clip", "minimum and 5 more instructions that A does not.* the body of while"
    ),
    "scan_constant": Truth("", "0.5 became 0.25 .* the body of while"),
    "scan_more_carried": Truth("lax.scan(step", r"1 value more in B \(f32"),
    "scan_of_another_function": Truth(
        "lax.scan(lambda c, x", "in another way .* tanh", kinds="replaced-subgraph"
    ),
    "scan_rescaled": Truth(
        "kept = total * shrink", r"body\(\): .* times exp", kinds="extra-subgraph"
    ),
    "scan_trip_count": Truth("", r"input 2 \(f32\[5,8\]\) became f32\[7,8\]"),
    "seed": Truth("", "0 became 1 at 2 places", kinds="constant-value"),
    "selection_turned": Truth("jnp.where", "call takes"),
    "sharded_and_donated": Truth("", r"input 1 \(f32\[8,16\]\)", kinds="donors sharding"),
    "sharding_constraint": Truth("with_sharding_constraint", r"\{x\}, \{y\}\] -> "),
    "sharding_dropped": Truth("with_sharding_constraint", "1 sharding constraint in A"),
    "sharding_in": Truth("", r"input 1 \(f32\[8,16\]\) \[\{\}, \{x\}\] ->"),
    "sharding_in.after": Truth(kinds="sharding replica-groups"),
    "sizes_in_a_row": Truth("", r"dimension 0: \d+ -> \d+", kinds="input-shape input-shape"),
    "slice_size": Truth("x[:n]", r"dimension 0: 7 -> 9"),
    "static_number": Truth("jnp.tanh(x * s)", r"\(f32\[\]\) became the constant"),
    "target_network": Truth("jnp.tanh(x @", "B takes in 2 tensors more"),
    "target_of_its_own": Truth("p: ((mlp(p, x) - y)", "A uses one for both"),
    "softmax_axis": Truth("softmax(", r"over axis 1 in A and over axis 0 in B", kinds="attribute"),
    "triangular_solve": Truth("", r"uplo = 76 .* -> \.\.\.uplo = 85"),
    "transposed_otherwise": Truth("jnp.transpose", r"\{1,0,2\} -> \{1,2,0\}", kinds="attribute"),
    "transposed_to_other_sizes": Truth("jnp.transpose", "became f32", kinds="attribute"),
    "two_dtypes": Truth("jnp.sin(y) * b", r"input 3 \(f16\[2,16\]\)", kinds="dtype dtype"),
    "type_and_decay": Truth("", r"f32 -> bf16", kinds="dtype constant-value"),
    "two_shapes": Truth("jnp.sin(y) * b", "16 -> 24", kinds="input-shape input-shape"),
    "uniform_or_normal": Truth("draw(key, x.shape)", r"_uniform\S* in A, _normal\S* in B"),
    "while_body_step": Truth("v * 2.0 - x", "the body of while"),
    "while_condition": Truth("v.max()", "the condition of while"),
    "terms_reordered": Truth("", r"3 sums take the same terms in another order"),
    "written_slots": Truth(
        "",
        r"index where values are written .*padding: 2 before and 12 after -> 4 before and 10 after "
        r"in dimension 1",
    ),
    "x64": Truth("", r"input 0 \(s64\[\]\) \(f32 -> f64 and s32 -> s64\)"),
}
SAME = {
    "outputs_moved": "outputs-moved metadata",
    "collective_order.after": "metadata",
    "compile_options": "",
    "compile_options.after": "",
    "jit_inline.after": "metadata",
    "parameter_order": "parameter-order metadata",
}
OPEN = (
    "evaluation",
    "other_operands",
    "pmap_or_jit",
    "scan_unroll",
    "switch_more_branches",
    "train_or_eval",
    "unlike_programs",
)
"""What nobody proves yet, and so must not be told as if it were known."""


def modules(name):
    return [
        read_module(gzip.decompress((PAIRS / f"{name}.{side}.hlo.gz").read_bytes()).decode(), side)
        for side in "ab"
    ]


@cache
def explained(name):
    return explain_modules(*modules(name))


def sources(cause):
    return [str(line) for evidence in cause.evidence for line in evidence.sources]


def test_every_pair_has_its_truth():
    assert set(NAMES) == {*PROVED, *SAME, *OPEN}


@pytest.mark.parametrize("name", sorted(PROVED))
def test_the_difference_is_named_and_proved(name):
    truth, explanation = PROVED[name], explained(name)
    true = truth.kinds.split() or [kind.id for kind in kinds().values() if name in kind.examples]
    assert [cause.kind.id for cause in explanation.causes] == true
    assert explanation.proved
    assert all(cause.proved for cause in explanation.causes)
    assert explanation.unexplained_share == 0
    first = explanation.causes[0]
    assert re.search(truth.said, str(first.title)), str(first.title)
    if truth.line:
        file, _, number = sources(first)[0].rpartition(":")
        assert file == "make_jax_pairs.py"
        assert truth.line in SOURCE[int(number) - 1]


@pytest.mark.parametrize("name", sorted(PROVED))
def test_the_shares_make_up_the_whole(name):
    explanation = explained(name)
    if explanation.diff.differing:
        assert sum(cause.share for cause in explanation.causes) >= 0.99


@pytest.mark.parametrize("name", sorted(PROVED))
def test_the_other_way_round_the_kinds_are_the_same(name):
    a, b = modules(name)
    back = explain_modules(b, a)
    assert back.proved
    assert {c.kind.id for c in back.causes} == {c.kind.id for c in explained(name).causes}


@pytest.mark.parametrize("name", sorted(SAME))
def test_the_same_computation_is_told_as_such(name):
    explanation = explained(name)
    assert explanation.same
    assert [cause.kind.id for cause in explanation.causes] == SAME[name].split()


@pytest.mark.parametrize("name", OPEN)
def test_what_is_not_proved_is_not_told_as_a_fact(name):
    explanation = explained(name)
    assert not explanation.proved
    assert explanation.unexplained_share > 0
    assert str(explanation.verdict).startswith("Not explained for sure. Suspected:")
    assert "unexplained." in str(explanation.verdict)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_differs_from_itself_in_nothing(name):
    for module in modules(name):
        assert explain_modules(module, module).causes == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("module_pairs/donated.b", "corpus/jax_small_types.before"),
        ("module_pairs/input_bfloat16.a", "corpus/jax_small_types.after"),
        ("corpus/jax_linear_algebra.after", "corpus/jax_sort.before"),
        ("module_pairs/while_condition.a", "module_pairs/two_shapes.b"),
    ],
)
def test_modules_with_nothing_in_common_have_no_proved_cause(first, second):
    a, b = (
        read_module(gzip.decompress((FIXTURES / f"{name}.hlo.gz").read_bytes()).decode(), name)
        for name in (first, second)
    )
    for explanation in (explain_modules(a, b), explain_modules(b, a)):
        assert not explanation.proved
        assert not explanation.diff.same
        assert "unexplained" in str(explanation.verdict) or "Not explained" in str(
            explanation.verdict
        )


def test_large_constants_that_the_texts_leave_out_are_said_not_to_be_compared():
    texts = [
        re.sub(
            r"constant\(\{ \{ 0,.*?\} \}\)",
            "constant({...})",
            gzip.decompress((PAIRS / f"large_constant.{side}.hlo.gz").read_bytes()).decode(),
            flags=re.DOTALL,
        )
        for side in "ab"
    ]
    assert all("constant({...})" in text for text in texts)
    explanation = explain_modules(*(read_module(text, "elided") for text in texts))
    assert explanation.diff.same
    assert "Not compared: 1 large constant" in str(explanation.verdict)
    assert "Not compared" not in str(explained("large_constant").verdict)


def test_a_change_in_a_loop_is_told_with_the_calls_that_lead_there():
    (cause,) = explained("nested_loop").causes
    (path,) = [str(e.text) for e in cause.evidence if str(e.text).startswith("it stands in")]
    assert re.search(r"the body of while\.\d+, in call .*, in the body of while\.\d+$", path)


def test_two_changes_of_type_are_two_causes_with_their_own_origins():
    first, second = explained("two_dtypes").causes
    assert "f32 -> f16" in str(first.title)
    assert "input 1 (f16[16])" in str(first.title)
    assert "f32 -> bf16" in str(second.title)
    assert "input 0 (bf16[8,4])" in str(second.title)
    assert not first.a & second.a
    assert not first.b & second.b
    assert re.search(
        r"from there \d+ more instructions take another type", str(first.evidence[1].text)
    )


def test_two_changes_of_size_are_two_causes_with_their_own_origins():
    first, second = explained("two_shapes").causes
    assert "input 3 (f32[2,16]), input 1 (f32[16])" in str(first.title)
    assert "input 2 (f32[3,8]) became f32[5,8]" in str(second.title)
    assert not first.a & second.a
    assert not first.b & second.b


@pytest.mark.parametrize(
    ("name", "said"),
    [("batch_and_warm_up", "1000 became 2000"), ("type_and_decay", "0.99 became 0.9961")],
)
def test_a_constant_that_does_not_follow_is_a_cause_of_its_own(name, said):
    assert said in str(explained(name).causes[1].title)


def test_what_is_only_assumed_is_not_called_proved():
    (cause,) = explained("batch_and_scale").causes
    assert str(cause.proof).endswith("that 0.125 -> 0.0833333358 follows from them is assumed")


def test_advice_fits_what_may_be_a_weight():
    fix = str(explained("one_wider_layer").causes[0].fix)
    assert fix.startswith("For data: Pad or drop the odd batch")
    assert "For a weight: Build the model" in fix


def test_the_same_module_under_another_key():
    run = read_run(FIXTURES / "pairs" / "other_key")
    (process,) = run.processes
    first, again = [g for g in process.graphs if g.digest == process.graphs[-1].digest]
    module = read_module(run.graph_text(first.digest), "step")
    explanation = explain_modules(
        module, module, context_of(process, first), context_of(process, again)
    )
    assert explanation.causes == ()
    assert str(explanation.verdict).startswith("Same computation, another cache key: ")
    assert "graph_hash" in str(explanation.verdict)


@pytest.mark.parametrize("place", ["in front of the buckets", "behind the buckets"])
def test_what_stands_around_the_buckets_of_one_side_is_compared(place):
    a, b = modules("buckets_or_alone")
    proof = str(explain_modules(a, b).causes[0].proof)
    assert "one operation on each; barriers" in proof  # and no output set aside
    root = b.entry_computation.root
    (power, *_) = [i for i, opcode in enumerate(b.opcodes) if opcode == "power"]
    changed = b.operands[root][-1] if place.startswith("behind") else power
    other = replace(b, opcodes=[*b.opcodes[:changed], "maximum", *b.opcodes[changed + 1 :]])
    for explanation in (explain_modules(a, other), explain_modules(other, a)):
        assert explanation.proved
        kinds = {cause.kind.id for cause in explanation.causes}
        assert kinds == {"bucket-composition", "replaced-subgraph"}


def test_channel_numbers_are_noise():
    a, _ = modules("replica_groups.after")
    path = PAIRS / "replica_groups.after.a.hlo.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    assert "channel_id=1," in text
    b = read_module(text.replace("channel_id=1,", "channel_id=7,"), "b")
    assert explain_modules(a, b).diff.same


def test_what_is_computed_with_new_state_is_compared():
    """The proof may not rest on outputs that the state does not reach."""
    _, clip, *_ = explained("momentum_and_clip").causes
    assert "cuts 2 values off" in str(clip.title)
    rate = explained("momentum_and_rate").causes[-1]
    assert "0.1 became 0.3 at 2 places" in str(rate.title)


def test_an_evaluation_is_a_graph_of_its_own_and_no_step_that_updates_less():
    step, evaluation = modules("evaluation")
    lines = [Context(call_site=SourceLine("train.py", n)) for n in (8, 20)]
    for forward in (True, False):
        pair = (step, evaluation, *lines) if forward else (evaluation, step, *lines[::-1])
        (own,) = explain_modules(*pair).causes
        assert own.kind.id == "own-graph"
        other = "B" if forward else "A"
        assert str(own.title).startswith(f"{other} is a graph of its own, from train.py:20: ")
        (updated,) = explain_modules(*pair[:2], lines[0], lines[0]).causes
        assert updated.kind.id == "skipped-update"
