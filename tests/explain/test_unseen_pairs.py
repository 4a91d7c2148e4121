"""Pairs of the rounds of unseen programs, and what is said of each first."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.explain import explain_modules
from xlagraph.explain.names.training.optimizers import family
from xlagraph.hlo import load

UNSEEN = Path(__file__).resolve().parents[2] / "benchmarks" / "unseen"
SAID = {
    "commits/r56_q10": "The loss is another function: cross_entropy(x, y) became logsigmoid(x)",
    "commits/r58_q07": "A batch is mixed with itself in another order, as by mixup, in B only",
    "commits/r59_q20": "A divides a sum over f32[32,5] by input 12 (f32[]), B by 160: the same",
    "commits/r60_q19": "The optimizer is another one: SGD with momentum became RMSprop",
    "commits/r63_q10": "Attention is computed by scaled_dot_product_attention in B, by hand in A",
    "round64/q06": "3 sums of f32[1536] give f32[] in A and f32[6] in B: over other dimensions",
    "round64/q16": "Pooling is another function: max_pool became avg_pool",
    "round65/q01": "computes with 10 weights, 4 of them trained",
    "round33/q01": "1 - lr * weight_decay rounds to 1 in some steps",
    "round33/q07": "1 weight (f32[24,8]) is trained in B and left as it is in A",
    "round33/q10": "x - y < top_p became scatter(x <= top_p, z, true)",
    "round33/q11": "3 sums of f32[4,6,16,16] give f32[6] in A and f32[4,6] in B",
    "round33/q12": "A factor scales another term",
    "round33/q17": "A branch in Python picks another value",
    "round33/q18": "A takes 19 tensors as bf16 and gives their new values back as f32",
    "round34/q10": "Gradients are clipped in each turn of a loop in B, and once, behind it, in A",
    "round34/q13": "Gradients are scaled before they are clipped by their norm in A",
    "round34/q17": "A value is divided by input 27 (f32[]) before sort, compare in A",
    "round35/q02": "index_add takes input 12 (s64[2,80])[1:2] in A and input 12 (s64[2,80])[0:1]",
    "round35/q05": "8 tensors (f32[]) are renewed before they are used in A, as running statistics",
    "round35/q06": "sum(max(x, pow(y + clamp(s, z - y, t) - u, 2))) became sum(x)",
    "round35/q07": "mean(x) + mean(y) * s became mean(x) * s + mean(y)",
    "round35/q08": "Gradients are clipped by their norm before Adam takes them in A; B clips what",
    "round35/q10": "A value passes through rotate() before write() in A, and not in B",
    "round35/q16": "sum(x) became sum(clamp(s, y[z] / (1 - y[z]), t) / (y[z] / (1 - y[z])) * x)",
    "round36/q02": "The backward pass goes through more steps before it",
    "round36/q15": "A Python number is 0, 1 or -1: input 30 (f32[]) became the constant 1",
    "round36/q16": "scatter takes input 9 (s64[60]) in A and input 12 (s64[60]) in B",
    "round37/q01": "Gradients are clipped by their norm before Adam takes them in A; B clips what",
    "round37/q05": "Values are written at another Python index: 5 became 0",
    "round37/q06": "Weight decay is on for 14 tensors of 19, all of one dimension",
    "round38/q09": "before the optimizer takes them in A; B clips what it makes of them",
    "round38/q15": "Weight decay goes into the weight alone in A and into the gradient in B",
    "round38/q18": "sum(x) became sum(sum(x)); pad has padding: 2 before and 0 after",
    "round38/q20": "are another value: add.246",
    "round39/q01": "cuts them at negate.356, as by create_graph=False or .detach()",
    "round39/q03": "Values are sorted in descending order in A, in ascending order in B",
    "round39/q05": "averages off, in B only: it is centered (RMSprop)",
    "round40/q05": "Log_softmax of f32[5,5] runs over axis 1 in A and over axis 0 in B",
    "round40/q06": "A value is computed in another way: x * y became (1 - z) * y",
    "round40/q11": "takes input 10 (s64[120]) in A and what is input 17 (s64[120]) of A in B",
    "round41/q10": "Values are repeated one by one (repeat_interleave, jnp.repeat) in A, all",
    "round42/q20": "reshape takes pos in A and the result of call s32[]",
    "round43/q05": "computed from each other in turns, and each side begins with the other one",
    "round43/q07": "Gradients flow further in A than in B, which cuts them at multiply.134",
    "round43/q10": "Input 9 (f32[3,2,8]) and 5 more: used after the update in A, before it in B",
    "round43/q11": "Gradients flow further in B than in A, which cuts them at add.406",
    "round43/q12": "Values are written at another Python index",
    "round48/q12": "Values are written at another Python index",
    "round43/q13": "Weight decay goes into the gradient in A and into the weight alone in B",
    "round43/q15": "sum takes the result of multiply f32[24,3] at q15/before.py:35 in A and part",
    "round43/q16": "9 slow weights (f32[7,3], f32[30,8], f32[30,10] and 3 more) move towards",
    "round44/q01": "B uses input 16 (s64[108]) also where A uses another input, input 13",
    "round44/q02": "Input 32 (f32[16,9]) and 7 more: used after the update in A, before it in B",
    "round44/q06": "Gradients of fewer tensors are clipped by their norm in B than in A",
    "round44/q07": "A branch in Python picks another value",
    "round44/q15": "Gradients are scaled before they are clipped by their norm in A",
    "round44/q19": "A loop uses 1 value of the turn before in B, of the same turn in A",
    "round44/q20": "Argument state has another dtype (f32 -> bf16)",
    "round45/q01": "Gradients flow further in B than in A, which cuts them at exponential.119",
    "round45/q05": "x / y - z became (x - z) / y",
    "round45/q16": "Weight decay goes into the gradient in A and into the weight alone in B",
    "round45/q19": "Gradients flow further in A than in B, which cuts them at dot_general.55",
    "round46/q03": "-mean(max(x, y)) became -max(mean(x), mean(y))",
    "round46/q13": "A value is computed anew in A, and taken again in B: add takes the result of",
    "round46/q15": "Weight decay goes into the weight alone in A and into the gradient in B",
    "round46/q19": "Values are combined each with each in B (f32[5,1] and f32[5,1] to f32[5,5])",
    "round47/q01": "Gradients flow further in B than in A, which cuts them at add.1294",
    "round47/q07": "x became sqrt(x), and x / s - y became (x - y) / s",
    "round47/q09": "support[0] @ x became support[0] @ params['net'][0]['w']",
    "round47/q10": "A product sums over other axes of its two factors: {1} and {1} in A, {2} and",
    "round47/q11": "are trained by the optimizer in B alone: gradients reach them there",
    "round47/q16": "input 4 (f32[24,8]), input 2 (s64[24]) became f32[28,8], s64[28]",
    "round47/q17": "Values are joined in another order: input 12 (s64[]) and input 11 (s64[3])",
    "round48/q07": "sum(x) became sum(y), where x is multiply f32[10,3] and y is slice f32[10,3]",
    "round49/q17": "before the optimizer takes them in A, and behind its step in B",
    "round49/q18": "mean(x * x) became mean(x) * mean(x)",
    "round50/q13": "Optimizer state came into being",
    "round50/q17": "A value is computed with or without minimum: min(x, y) became (x + y) * s",
    "round40/q19": "before the optimizer takes them in A; B clips what it makes of them",
    "round47/q20": "before the optimizer takes them in A; B clips what it makes of them",
    "round48/q08": "before the optimizer takes them in A; B clips what it makes of them",
    "round49/q05": "lies along axis 1 in A and along axis 2 in B, where subtract takes it with",
    "round50/q05": "takes it with the result of multiply f32[6,6]; reduce runs over axis 1 in A",
    "round50/q07": "select (where) comes before tanh in 3 places in B, and behind that in A",
    "round50/q10": "Dot of bf16 values gives f32 in A, and bf16 in B",
    "round50/q12": "Values are padded otherwise: 2 before and 0 after -> 1 before and 1 after",
    "round50/q15": "select (where) comes before softmax in 6 places in A, and behind that in B",
    "round50/q20": "A random key is split in each turn of a loop in A, and used again as it is",
    "round51/q01": "cuts them at subtract.372, as by create_graph=False or .detach()",
    "round51/q06": "mean(sqrt(sum(x) + s)) * t became sqrt(sum(x) + s) * t",
    "round51/q20": "Weight decay is on in B only",
    "round52/q02": "Gradients flow further in B than in A, which cuts them at divide.249 f32[7,5]",
    "round52/q05": "Dropout is on, and norms take the batch's statistics and keep them, in B only",
    "round52/q12": "The backward pass computes more in B, in 8 places",
    "round52/q15": "Values are padded otherwise: 2 before and 0 after -> 1 before and 1 after",
    "round53/q02": "B leaves out a part of the model that A computes with 4 weights",
    "round53/q05": "Argument noise_std takes the type of the arrays that it meets, bf16, in A",
    "round53/q06": "B gives back 2 results more than A: f32[], f32[]",
    "round53/q09": "A value (bf16[8,4,16,16]) is converted to f32 before softmax in B only",
    "round53/q14": "A cache is filled in B: it computes 6 values that A takes in ready-made",
    "round53/q19": "became mean(x) + s, and max(x * s) became max(x * s + y * s)",
    "round54/q01": "A number of the optimizer (the learning rate, most likely) is 0 in B",
    "round54/q02": "Values are written at another Python index",
    "round54/q09": "Argument lr takes the type of the arrays that it meets, bf16, in A",
    "round54/q11": "Values are written at another Python index",
    "round54/q13": "An input ([16,1]) has another dtype (f32 -> f64)",
    "round54/q15": "2 sums (f32[]) begin with a Python number in B, and go on from inputs in A",
    "round54/q16": "Argument temp takes the type of the arrays that it meets, bf16, in A",
    "round54/q18": "Gradients flow further in A than in B, which cuts them at convert.302",
    "round54/q19": "became sum(max(x, (mb_value + clip(y - mb_value, -0.2, 0.2) - mb_ret)**2))",
    "round55/q03": "Some steps use tensors that others do not: x + (1 - y) * s became x.",
    "round55/q11": "B takes in one tensor 10 times where A takes in two (input 23 (f32[24,6])",
    "round55/q14": "The step is divided by the root of mean squares in B only, as by RAdam",
    "round55/q15": "state_lam__ic__, state_lam__bc__ take the type of the arrays that they meet",
    "round56/q05": "A takes 15 tensors as bf16 and gives their new values back as f32",
    "round57/q03": "B does all that A does, and also trains 6 weights that A does not take in",
    "round57/q05": "Argument state_router_temp comes as f32 in A, as a Python number does",
    "round57/q07": "instructions with input 1 (f32[4,32]) run in bf16 in A and in f32 in B",
    "round57/q09": "The average of weights takes in 8 further buffers",
    "round57/q14": "Argument g__y_mask__ has another dtype (pred -> f32)",
    "round57/q19": "a small number is added under the root in A and bounds it in B (clamp)",
    "round58/q05": "Argument state_params__log_scale__ takes the type of the arrays that it meets",
    "round58/q09": "A leaves out a part of the model that B computes with 2 weights",
    "round58/q16": "Argument batch__valid__ is given in B only: sum(x) became sum(x * ",
    "round58/q19": "13 values are converted to bf16 in B only (autocast)",
    "round37/q10": "The minimum of f32[6,20,16] is taken along other axes",
    "round59/q02": "The span that is assigned to changes from step to step",
    "round59/q05": "A takes 13 tensors as bf16 and gives their new values back as f32",
    "round59/q08": "A value is computed in another way: slice(x) became sum(x * y) / sum(y)",
    "round59/q09": "2 values are converted to bf16 in B only (autocast), for dot",
    "round59/q16": "The model, or a part of it, runs once more in B, with convolution",
    "round60/q04": "Adam's correction of its first steps rounds to 1",
    "round60/q05": "A takes 3 tensors as bf16 and gives their new values back as f32",
    "round60/q09": "A value (bf16[8,8,4,4]) is converted to f32 before logistic",
    "round60/q13": "An input ([64]) has another dtype (s64 -> f64)",
    "round60/q14": "A tensor made in the step changed size: 67 became 58",
    "round60/q15": "Argument state__temperature__ takes the type of the arrays that it meets",
    "round60/q17": "B also trains input 24 (f32[32]), input 13 (f32[16])",
    "round61/q04": "An input has another shape: input 9 (f32[12,3,32]) became f32[3,3,32]",
    "round61/q05": "Argument carry is given in A only, and made from constants in B",
    "round61/q13": "A leaves out a part of the model that B computes with 2 weights",
    "round62/q02": "Argument state_stats_count is s32[] in A and f32[] in B",
    "round62/q03": "Weights are tied in one graph only",
    "round62/q04": "A branch in Python picks another value",
    "round62/q06": "1 weight (f32[40,12]) is trained in B and left as it is in A",
    "round62/q09": "Gradients are clipped by their norm in A only",
    "round62/q13": "A gradient penalty (a loss of gradients) is computed on one side only",
    "round62/q17": "sum(x) / sum(y) became mean(mean(sum(x)))",
    "round62/q19": "Exponential, tanh and 99 more instructions went from f32 to bf16",
    "round63/q02": "Tensors (f32[4,4], f32[]) are set to numbers before some steps end",
    "round63/q08": "Dot, add and 8 more instructions, first of f32[4,64,64], run in bf16 in A",
    "round63/q09": "Weights have another shape: f32[32,32] became f32[16,32]",
    "round63/q15": "Argument state_baseline takes the type of the arrays that it meets",
    "round63/q17": "Multiply takes [20:40] of a tensor in place of [0:20]",
    "round66/q03": "A takes 14 tensors as bf16 and gives their new values back as f32",
    "round66/q13": "Averages of weights are moved in some steps only, by the weights before this",
    "round66/q16": "Argument lr takes the type of the arrays that it meets, bf16, in A",
    "round66/q19": "Weight decay goes into the weight alone in A and into the gradient in B",
    "round67/q02": "A term of the loss is added once more in B than in A: x * s became (x + mean(",
    "round67/q03": "Dropout is on in A only: p is 0 in B, or eval() was called",
    "round67/q04": "A computes the first values of 6 tensors (f32[8]) that B takes in and renews",
    "round67/q18": "A convolution pads with zeros by itself in B; A pads its input before it",
    "round68/q01": "A loop has other turns: dot, reduce and 142 more",
    "round68/q07": "A convolution pads with zeros by itself in A; B pads its input before it",
    "round68/q08": "Gradients flow further in A than in B, which cuts them at div.45",
    "round68/q13": "A takes 14 tensors as bf16 and gives their new values back as f32",
}
SAME = (
    *("round33/q08", "round33/q15", "round33/q20", "round34/q08", "round34/q14", "round34/q19"),
    *("round35/q03", "round35/q09", "round35/q18", "round36/q08", "round36/q13"),
    *("round36/q18", "round37/q04", "round37/q07", "round38/q08"),
    *("round39/q07", "round39/q14", "round40/q03", "round40/q08", "round40/q13", "round40/q18"),
    *("round41/q09", "round41/q15", "round42/q03", "round42/q08", "round42/q19"),
    *("round43/q09", "round43/q18", "round44/q08", "round44/q14", "round45/q20"),
    *("round43/q04", "round46/q04", "round47/q05", "round48/q03", "round48/q09"),
    *("round49/q19", "round50/q04", "round50/q08", "round51/q02", "round51/q19"),
    *("round52/q07", "round52/q19", "round53/q10", "round57/q10", "round57/q20"),
    *("round64/q05", "round66/q06", "round68/q10", "round68/q20"),
)


def _explained(pair: str):
    folder, name = pair.split("/")
    files = (str(UNSEEN / folder / "pairs" / f"{name}_{side}.hlo.gz") for side in "ab")
    return explain_modules(*map(load, files))


@pytest.mark.parametrize("pair", SAID)
def test_what_was_edited_is_told_first(pair):
    found = _explained(pair)
    assert not found.same
    assert found.causes[0].proved
    assert SAID[pair] in str(found.verdict.what)


@pytest.mark.parametrize("pair", SAME)
def test_a_refactoring_is_told_as_that(pair):
    found = _explained(pair)
    assert found.same
    assert found.evaluated == 6
    assert str(found.verdict.what).startswith("The same values, but for rounding")


@pytest.mark.parametrize("pair", ["round35/q14", "round38/q19"])
def test_a_refactoring_that_takes_a_mask_of_lengths_is_told_with_that(pair):
    found = _explained(pair)
    assert found.same
    assert " is 0 or 1, ones first in each row" in str(found.verdict.what)


BESIDE = {
    "round43/q10": "the loss is computed in another way: sum(mean(x)) became sum(min(y / (1 - y)",
    "round43/q13": "a value is computed with or without scatter_reduce: exp(clamp(s, x, t))",
    "round44/q02": "sub takes the result of minimum f32[12,1] at q02/before.py:55 in A",
    "round44/q06": "values are spread along another axis: f32[1,10] became f32[10,1]",
    "round45/q16": "a value is computed in another way: x / s - y became (x - y) / s",
    "round46/q15": "sum's dimensions: {2,3} -> {0,2,3}",
    "round35/q06": "a Python index or slice changes: {[1:2], [0:6]} became {[0:1], [0:6]}",
    "round35/q16": "input 12 (f32[8,1,3]) and 11 more: used after the update in A, before it in B",
    "round40/q19": "x @ y became z @ y, where x is tanh f32[6,10]",
    "round47/q20": "x + y became x * z + y",
    "round48/q08": "(x + y * 0.05) * 0.05 became x * 0.05",
    "round51/q06": "input 7 (f32[8,4]) and 11 more: used after the update in A, before it in B",
    "round51/q20": "x * concatenate(1, slice(y)) became x * y",
    "round52/q02": "gradients are clipped by their norm before the optimizer takes them in A, and",
    "round52/q13": "a value is computed in another way: x + sum(y * s) became x + z",
    "round57/q08": "-100 marks labels that the loss leaves out",
    "round58/q09": "gradients are clipped by their norm in B only",
    "round58/q12": "a number is computed in some steps only, as for a log, q12/step.py:93",
    "round58/q18": "became mean(pow(sum(pow(abs(x - y), 2)), 0.5) / (pow(sum(pow(abs(y), 2)), 0.5)",
    "round59/q19": "a sum is divided by the number of its values (mean) in B, and by another one",
    "round60/q09": "one version uses tensors that the other does not: sum(x) became sum(y[z] * x)",
    "round60/q14": "a number is computed in some steps only, as for a log",
    "round60/q17": "weight decay is on in A only, torch/optim/adam.py:411 (a library)",
    "round61/q04": "a Python number is 0, 1 or -1: input 24 (f32[]) became the constant 1",
    "round61/q13": "1 further cause: a Python number is 0, 1 or -1, q13/step.py:71",
    "round62/q04": "1 sum (f32[]) begins with a Python number in A",
    "round64/q06": "input 9 (f32[6]) and 19 more: used after the update in A, before it in B",
    "round64/q16": "mean(x) became sum(x) / clamp(1, sum(y), s)",
    "round65/q10": "1 bound taken as not set, for which torch_xla hands in the largest number",
    "round65/q19": "weight decay is on for 3 tensors of 11, all of one dimension",
    "round66/q18": "1 further cause: topk takes 7 in B, of which a slice cuts off 1, and 6 in A",
    "round67/q16": "a number waited behind the sync of the step before, as for a log",
    "round67/q18": "gradients are clipped by their norm in B only",
    "round68/q15": "divided by the root of mean squares in B only, as by RAdam from its sixth step",
    "round63/q09": "B adds a term to the loss, with its derivatives: reduce, exponential and 70",
    "round55/q18": "the variance divided by N - 1 in A (unbiased=True) and by N in B",
    "round36/q17": "values are padded otherwise: 2 before and 0 after -> 1 before and 1 after",
}


@pytest.mark.parametrize("pair", BESIDE)
def test_the_second_edit_is_told_beside_it(pair):
    assert BESIDE[pair] in " ".join(map(str, _explained(pair).verdict.notes))


def test_a_number_of_the_formula_that_is_told_is_no_cause_of_its_own():
    """3 * mask.sum() became 3: the product comes in ready-made, at the line that is told."""
    found = _explained("round38/q11")
    assert "sum(x) / (sum(y) * s) became mean(x) / t" in str(found.verdict.what)
    assert not found.verdict.notes


def test_a_refactoring_that_takes_a_mask_is_told_with_that():
    """With any numbers but 0 both agree as well, and part where a row is left out as a whole."""
    found = _explained("round51/q09")
    assert found.same
    assert "where input 26 (f32[3,9]) is 0 or 1, indices are in range" in str(found.verdict.what)


def test_what_texts_leave_out_is_said_where_it_may_make_them_the_same():
    """A mask of numbers in one text, of truth values in the other; both are left out."""
    (note,) = (n for n in map(str, _explained("round39/q09").verdict.notes) if "leave out" in n)
    assert note.startswith("Whether both compute the same is not known: the texts leave out")
    assert "f32[1,4,4] of A, pred[4,4] of B" in note


FOLLOWS = (
    *("round60/q13", "round60/q15", "round61/q05", "round62/q02", "round62/q13", "round62/q19"),
    *("round63/q15", "round65/q16", "round66/q03", "round66/q16", "round66/q19"),
    *("round68/q01", "round68/q07", "round68/q13"),
)


@pytest.mark.parametrize("pair", FOLLOWS)
def test_what_follows_from_a_type_or_an_argument_is_no_further_cause(pair):
    assert not _explained(pair).verdict.notes


def test_counters_of_norms_that_a_flag_freezes_belong_to_them():
    found = _explained("round38/q17")
    assert "frozen in B, as by eval()" in str(found.verdict.what)
    assert not any("further cause" in str(note) for note in found.verdict.notes)


def test_suspicions_of_special_numbers_in_a_list_that_is_joined_are_one():
    """Bands of frequencies, of which one is weighed by 0 and the next by 1."""
    found = _explained("round64/q11")
    assert str(found.verdict.what) == (
        "Not explained for sure. Suspected: a Python number is 0, 1 or -1."
    )
    assert str(found.verdict.where) == "q11/step.py:61"
    assert [str(note) for note in found.verdict.notes] == ["12 instructions stay unexplained."]


OPTIMIZERS = {
    "round60/q08": "Adagrad",
    "round60/q10": "RMSprop",
    "round60/q11": "Adam",
    "round60/q12": "SGD",
    "round61/q10": "SGD with momentum",
    "round61/q04": "RMSprop",
}


@pytest.mark.parametrize("pair", OPTIMIZERS)
def test_an_optimizer_is_known_by_what_it_keeps_and_how_it_steps(pair):
    folder, name = pair.split("/")
    module = load(str(UNSEEN / folder / "pairs" / f"{name}_a.hlo.gz"))
    assert family(module) == OPTIMIZERS[pair]


def test_what_changes_no_value_is_told_apart():
    """repeat() in place of cat() gives the same; labels in another order do not."""
    found = _explained("round34/q06")
    formula = "x * ((y - sqrt(z) * u) / sqrt(1 - z)) became x * v"
    assert formula in str(found.verdict.what)
    (form,) = (cause for cause in found.causes if cause.is_neutral)
    assert "transpose(concatenate(concatenate(x)))" in str(form.in_short)
    further, written, *_ = map(str, found.verdict.notes)
    assert further.startswith("1 further cause: values are joined in another order: input 21 (s6")
    assert written.startswith("Written otherwise, with the same values: ")


def test_what_follows_from_an_edit_is_no_further_cause():
    for pair in ("round43/q15", "round44/q07", "round44/q16", "round44/q20", "round45/q19"):
        assert not _explained(pair).verdict.notes
    for pair in ("round50/q12", "round50/q15", "round50/q20", "round53/q17"):
        assert not _explained(pair).verdict.notes


def test_which_outputs_there_are_and_in_which_order_is_no_further_cause():
    """Norms and biases in a group of their own are updated behind the others."""
    for pair in ("round53/q07", "round53/q08", "round53/q14", "round53/q18", "round54/q13"):
        assert not any("further cause" in str(note) for note in _explained(pair).verdict.notes)


def test_dropout_is_told_beside_a_part_that_takes_in_tensors_of_its_own():
    notes = [str(note) for note in _explained("round54/q04").verdict.notes]
    assert notes[0].startswith("1 further cause: dropout is on in A only: p is 0 in B")


def test_tensors_given_back_more_make_no_refactoring_an_edit():
    what = str(_explained("round54/q08").verdict.what)
    assert what.startswith("The same values, but for rounding")
    assert "A gives back 2 tensors more (output 6 (f32[6,8]), output 7 (f32[6,4]))" in what


def test_one_index_that_several_lines_write_at_is_one_cause():
    assert len(_explained("round54/q02").causes) == 1


def test_derivatives_of_a_value_that_python_picks_are_no_further_cause():
    notes = [str(note) for note in _explained("round53/q13").verdict.notes]
    assert notes == [
        "1 further cause: a branch in Python picks another value in some steps, q13/step.py:49."
    ]
