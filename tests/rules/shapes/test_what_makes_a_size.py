"""A size that differs is told by what made it, and a position by its bounds."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Cause, Context, Seen
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def said(first: str, second: str, context: Context | None = None) -> str:
    a, b = read_module(first, "a"), read_module(second, "b")
    explanation = explain_modules(a, b, context, context)
    assert explanation.proved
    (short,) = {str(cause.in_short) for cause in explanation.causes}
    return short


def halves(first: int, overlap: int = 0) -> str:
    """Two parts of eight rows, and a product of each."""
    start, rest = first - overlap, 8 - first + overlap
    return f"""HloModule halves

ENTRY main {{
  x = f32[8,4] parameter(0)
  a = f32[{first},4] slice(x), slice={{[0:{first}], [0:4]}}
  b = f32[{rest},4] slice(x), slice={{[{start}:8], [0:4]}}
  s = f32[{first},4] tanh(a)
  t = f32[{rest},4] exponential(b)
  ROOT r = (f32[{first},4], f32[{rest},4]) tuple(s, t)
}}
"""


def test_parts_that_leave_nothing_out_are_a_split():
    assert said(halves(3), halves(5)) == "the list of split sizes changes from step to step"


def test_slices_that_overlap_are_no_split():
    a, b = (read_module(halves(size, 1), name) for size, name in ((3, "a"), (5, "b")))
    told = {str(cause.in_short) for cause in explain_modules(a, b).causes}
    words = "A Python index or slice changes: "
    assert told == {f"{words}3 became 5", f"{words}6 became 4"}


def cause_of(first: str, second: str) -> Cause:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    return explanation.causes[0]


def test_a_slice_of_another_length_is_not_cured_by_an_index():
    cause = cause_of(halves(3, 1), halves(5, 1))
    assert cause.kind.id == "python-index"
    assert str(cause.short_fix).startswith("Take one length in every step, and mask by")
    assert "torch.arange(n_max, device=n.device) < n" in str(cause.fix)


ROLLED = """HloModule rolled

ENTRY main {
  x = f32[8] parameter(0)
  d = f32[16] concatenate(x, x), dimensions={0}
  n = s64[] constant(SHIFT), metadata={op_type="aten__roll" source_file="t.py" source_line=3}
  r = f32[8] dynamic-slice(d, n), dynamic_slice_sizes={8}, metadata={op_type="aten__roll"}
  ROOT s = f32[8] sine(r)
}
"""


def test_a_roll_gets_a_fix_that_torch_roll_can_take():
    cause = cause_of(ROLLED.replace("SHIFT", "3"), ROLLED.replace("SHIFT", "5"))
    assert cause.kind.id == "constant-value"
    assert str(cause.in_short) == "the shift of torch.roll changes"
    assert str(cause.short_fix) == "Roll on the host, or index with (arange(n) - shift) % n."
    assert "index_select(dim, ((torch.arange(n) - shift) % n).to(x.device))" in str(cause.fix)


def without_lines(text: str) -> str:
    return "\n".join(line.partition(", metadata")[0] for line in text.splitlines())


@pytest.mark.parametrize(
    ("old", "new", "is_rolled"),
    [
        ("", "", True),
        ("concatenate(x, x)", "concatenate(x, y)", False),
        ("s = f32[8] sine(r)", "s = (f32[8], s64[]) tuple(r, n)", False),  # it is handed out too
        ("HloModule rolled", "HloModule jit_rolled", False),  # it can be an argument
    ],
)
def test_a_roll_is_known_without_its_name(old: str, new: str, is_rolled: bool) -> None:
    text = without_lines(ROLLED).replace("  d =", "  y = f32[8] parameter(1)\n  d =")
    text = text.replace(old, new)
    cause = cause_of(text.replace("SHIFT", "3"), text.replace("SHIFT", "5"))
    assert ("torch.roll" in str(cause.in_short)) == is_rolled
    assert ("Roll on the host" in str(cause.fix)) == is_rolled


COUNTED = """HloModule counted

ENTRY main {
  n = s64[SIZE] parameter(0), metadata={op_type="xla__device_data" source_file="t.py" source_line=3}
  ROOT d = s64[SIZE] add(n, n)
}
"""


def test_a_line_that_counts_into_bins_says_what_the_size_is():
    def told(line: str) -> str:
        context = Context(program={"t.py": {3: line}})
        return said(COUNTED.replace("SIZE", "3"), COUNTED.replace("SIZE", "5"), context)

    assert "bins of bincount" in told("seen = torch.bincount(labels)")
    assert "shape" in told("seen = torch.bincount(labels, minlength=9)[: labels.max()]")
    assert "elements that a mask keeps" in told("rows = torch.nonzero(mask)")
    assert "rows of repeat_interleave" in told("x = row.repeat_interleave(counts, dim=0)")
    assert "shape" in told("x = row.repeat_interleave(counts, dim=0, output_size=n)")


def test_what_the_host_makes_unique_has_to_be_padded_too():
    context = Context(program={"t.py": {3: "pool = torch.unique(ids)"}})
    a, b = (read_module(COUNTED.replace("SIZE", size), size) for size in ("3", "5"))
    (cause,) = explain_modules(a, b, context, context).causes
    assert "on the host and pad to one length" in str(cause.short_fix)
    assert "pad what it gives to one length" in str(cause.fix)


PUT = """HloModule put

ENTRY main {
  d = f32[5] parameter(0)
  c = f32[5] reverse(d), dimensions={0}
  n = f32[3] parameter(1)
  zero = f32[] constant(0)
  wide = f32[5] pad(n, zero), padding=0_2
  r = f32[5] add(c, wide)
  t = f32[3] tanh(n)
  ROOT o = (f32[5], f32[3]) tuple(r, t)
}
"""
WHOLE = (
    PUT.replace("  wide = f32[5] pad(n, zero), padding=0_2\n", "")
    .replace("f32[3]", "f32[5]")
    .replace("add(c, wide)", "add(c, n)")
)


def test_what_only_moves_values_of_another_size_follows_from_the_size():
    told = said(PUT, WHOLE)
    assert (
        told == "an input has another shape: input 1 (f32[3]) became f32[5] (dimension 0: 3 -> 5)"
    )


def test_an_input_that_is_padded_before_its_only_use_did_not_run_early():
    def alone(text: str) -> str:
        return text.replace("  t = f32[3] tanh(n)\n", "").replace("  t = f32[5] tanh(n)\n", "")

    first, second = (alone(text).replace("tuple(r, t)", "tuple(r, c)") for text in (PUT, WHOLE))
    first = first.replace("(f32[5], f32[3]) tuple", "(f32[5], f32[5]) tuple")
    assert said(first, second) == "An input comes in another form in some steps"


PLACES = """HloModule places

ENTRY main {
  x = f32[4,8] parameter(0)
  i = s32[4,1] parameter(1)
  u = f32[4] parameter(2)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  slots = f32[SIZE] broadcast(zero), dimensions={}, metadata={op_type="a" source_file="t.py" source_line=3}
  filled = f32[SIZE] scatter(slots, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, metadata={op_type="b" source_file="t.py" source_line=3}
  ones = f32[SIZE] broadcast(one), dimensions={}, metadata={op_type="c" source_file="t.py" source_line=9}
  more = f32[SIZE] add(filled, ones), metadata={op_type="d" source_file="t.py" source_line=9}
  twos = f32[SIZE] broadcast(one), dimensions={}, metadata={op_type="c" source_file="t.py" source_line=9}
  ROOT most = f32[SIZE] multiply(more, twos), metadata={op_type="d" source_file="t.py" source_line=9}
}

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
"""  # noqa: E501


def test_a_constant_that_fits_what_it_is_added_to_makes_no_size():
    first, second = PLACES.replace("SIZE", "6"), PLACES.replace("SIZE", "5")
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    (cause,) = explanation.causes
    assert cause.proved
    assert str(cause.place.in_short) == "t.py:3"


def sorted_list(number: int) -> str:
    """Values of several steps, joined and sorted with their places, as torch.sort does."""
    size = 4 * number
    lines = [f"  p{k} = f32[4] parameter({k})" for k in range(number)]
    joined = ", ".join(f"p{k}" for k in range(number))
    body = "\n".join(lines)
    return f"""HloModule report

ENTRY main {{
{body}
  all = f32[{size}] concatenate({joined}), dimensions={{0}}
  places = s32[{size}] iota(), iota_dimension=0
  both = (f32[{size}], s32[{size}]) sort(all, places), dimensions={{0}}, to_apply=less
  ordered = f32[{size}] get-tuple-element(both), index=0
  middle = f32[1] slice(ordered), slice={{[2:3]}}
  ROOT picked = f32[] reshape(middle)
}}

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}}
"""


def test_a_list_that_is_joined_and_sorted_is_no_topk():
    text = "the number of tensors joined changes from step to step"
    assert said(sorted_list(3), sorted_list(5)) == text
    assert said(sorted_list(5), sorted_list(3)) == text


def picked(k: int, size: int = 192) -> str:
    """The first k of a sorted value, with the line of the program that asks for them."""
    line = 'metadata={op_type="aten__topk" source_file="t.py" source_line=8}'
    return f"""HloModule picked

above (p: f32[], q: f32[]) -> pred[] {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT g = pred[] compare(p, q), direction=GT
}}

ENTRY main {{
  x = f32[{size}] parameter(0)
  s = f32[{size}] sort(x), dimensions={{0}}, to_apply=above, {line}
  ROOT k = f32[{k}] slice(s), slice={{[0:{k}]}}, {line}
}}
"""


def test_a_topk_names_the_lines_that_make_its_k_and_how_large_that_may_be():
    lines = (
        "def mine(mask, x):\n    k = 3 * int(mask.sum().item())\n    v, i = x.topk(k)\n    return v"
    )
    context = Context(program={"t.py": dict(enumerate(lines.split("\n"), 6))})
    a, b = read_module(picked(18), "a"), read_module(picked(21), "b")
    explanation = explain_modules(a, b, context, context)
    verdict, (cause,) = explanation.verdict, explanation.causes
    assert str(verdict.where) == "t.py:8, with line 7, which makes k"
    assert [number for number, _ in cause.place.excerpt if cause.place.is_marked(number)] == [7, 8]
    assert str(verdict.fix).split("\n") == [
        "Replace lines 7 to 8 (one k for all steps, and a mask):",
        "k = 3 * mask.sum().long()",
        "k_max = x.shape[-1]",
        "v, i = x.topk(k_max)",
        "v = torch.where(torch.arange(k_max, device=v.device) < k, v, 0)",
        "# averages: v.sum() / k, not v.mean()",
    ]
    (note,) = verdict.notes
    assert str(note) == (
        "k was at most 21 so far: a smaller k_max than 192 is faster, if k never exceeds it. "
        "Divide averages by k; sums stay, and a softmax needs float('-inf') in place of 0."
    )
    assert "which makes" not in str(cause.place.within)


def test_a_topk_of_a_line_that_is_not_known_keeps_the_general_words():
    a, b = read_module(picked(18), "a"), read_module(picked(21), "b")
    verdict = explain_modules(a, b).verdict
    assert "k_max = x.shape[-1]\nv = torch.topk(x, k_max)" in str(verdict.fix)
    assert "k was at most 21 so far: a smaller k_max than 192" in str(verdict.notes[0])


def test_what_holds_for_all_graphs_is_said_of_the_largest_k():
    seen = Seen("k", 21, 192).joined(Seen("k", 9, 40))
    assert str(seen.message).startswith(
        "k was at most 21 so far: a smaller k_max than 40 is faster"
    )
    seen = seen.joined(Seen("k", 9, 20))
    assert str(seen.message).startswith("k was at most 21; some steps have only 20 to take from")


def moved(start: int) -> str:
    """Two rows at another place."""
    line = 'metadata={source_file="t.py" source_line=8}'
    return f"""HloModule moved

ENTRY main {{
  x = f32[8,4] parameter(0)
  ROOT r = f32[2,4] slice(x), slice={{[{start}:{start + 2}], [0:4]}}, {line}
}}
"""


def test_a_slice_is_written_with_the_names_of_the_program():
    def fixed(line: str) -> list[str]:
        context = Context(program={"t.py": {8: line}})
        a, b = read_module(moved(2), "a"), read_module(moved(4), "b")
        return str(explain_modules(a, b, context, context).verdict.fix).split("\n")

    assert fixed("    y = table[row:row + 2]")[2:] == [
        "index = torch.arange(row, row + 2).to(table.device)",
        "y = table.index_select(0, index)",
    ]
    assert fixed("    y = table.narrow(0, row, 2)") == [
        "Send the index as data: x.index_select(dim, torch.arange(start, stop).to(x.device))"
    ]


def test_a_slice_that_jax_has_traced_is_advised_as_jax_takes_it():
    a, b = (moved(start).replace("HloModule moved", "HloModule jit_step") for start in (2, 4))
    assert str(cause_of(a, b).short_fix) == (
        "Give the index as an argument that is not static: x[i], or "
        "lax.dynamic_slice_in_dim(x, start, size)."
    )


def weighted_parts(*sizes: int, skipped: int = 0) -> str:
    """Parts of twelve rows; for each a number is spread over as many rows of another value."""
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    lines = []
    for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        start = end - size + skipped
        lines += [
            f"  p{k} = f32[{size - skipped},4] slice(x), slice={{[{start}:{end}], [0:4]}}",
            f"  s{k} = f32[{size - skipped},4] tanh(p{k})",
            f"  m{k} = f32[4] reduce(s{k}, zero), dimensions={{0}}, to_apply=plus",
            f"  g{k} = f32[{size},4] broadcast(w), dimensions={{1}}",
            f"  h{k} = f32[{size},4] sine(g{k})",
        ]
    parts = ", ".join(f"f32[4] m{k}, f32[{size},4] h{k}" for k, size in enumerate(sizes))
    kinds = ", ".join(f"f32[4], f32[{size},4]" for size in sizes)
    return f"""HloModule parts

plus {{
  i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT k = f32[] add(i, j)
}}

ENTRY main {{
  x = f32[12,4] parameter(0)
  w = f32[4] parameter(1)
  zero = f32[] constant(0)
{chr(10).join(lines)}
  ROOT r = ({kinds}) tuple({parts})
}}
"""


def test_what_has_the_size_of_a_part_belongs_to_the_split():
    a, b = (read_module(weighted_parts(*sizes), "m") for sizes in ((3, 4, 5), (5, 1, 6)))
    (cause,) = explain_modules(a, b).causes
    assert "list of split sizes" in str(cause.in_short)


def test_what_has_the_size_of_some_slice_does_not():
    a, b = (read_module(weighted_parts(*s, skipped=1), "m") for s in ((3, 4, 5), (5, 2, 5)))
    assert "list of split sizes" not in str(explain_modules(a, b).causes[0].in_short)


def sums(number: int) -> str:
    """Rows that are added to zeros, of which there are so many."""
    line = 'metadata={op_name="new_zeros" source_file="t.py" source_line=9}'
    return f"""HloModule sums

add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}}

ENTRY main {{
  r = f32[6] parameter(0)
  i = s64[6,1] parameter(1)
  c = f32[] constant(0)
  z = f32[{number}] broadcast(c), dimensions={{}}, {line}
  s = f32[{number}] scatter(z, i, r), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
  n = s64[{number}] iota(), iota_dimension=0
  f = f32[{number}] convert(n)
  m = f32[{number}] multiply(s, f)
  ROOT t = f32[] reduce(m, c), dimensions={{0}}, to_apply=add
}}
"""


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("n, at = torch.unique(y, return_inverse=True)", "python-size", "values of unique"),
        ("n = torch.nonzero(y)", "python-size", "elements that a mask keeps"),
        ("n = other(y)", "python-index", "index or slice changes"),
        ("m = torch.unique(y)", "python-index", "index or slice changes"),
        ("def f(n=torch.unique(y)):", "python-index", "index or slice changes"),
    ],
    ids=["unique", "nonzero", "not known", "another name", "another function"],
)
def test_a_size_that_a_line_above_makes(text, kind, what):
    context = Context(program={"t.py": {7: "def sums(y):", 8: text, 9: "z = x.new_zeros(len(n))"}})
    a, b = read_module(sums(5), "a"), read_module(sums(4), "b")
    (cause,) = explain_modules(a, b, context, context).causes
    assert (cause.kind.id, cause.proved) == (kind, True)
    assert what in str(cause.in_short)
    assert (str(cause.place.line) == "t.py:8") == (kind == "python-size")
