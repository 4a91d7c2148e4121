"""Inputs of another size from which sizes come that seem to be made where matching begins again.

What one side alone does with an input, as mixing it with another one, takes its partner away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.hlo.shapes import read_shape

_SIZE = re.compile(r"\bsize=([\dx]+)")

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.facts.shapes.sizes import Sizes
    from xlagraph.graph import Module


def inputs_above(case: Case, starts: Mapping[int, int]) -> dict[int, int]:
    """The only inputs of one type and rank, A's to B's, that lead here through what is unpaired.

    Empty if sizes begin here that none of what these lead to has: they are made here.
    """
    above_a, above_b = _fed(case.a, starts), _fed(case.b, starts.values())
    found = _pairs(case, set().union(*above_a.values()), set().union(*above_b.values()))
    fed = {x: y for x, y in starts.items() if above_a[x] & found.keys() and above_b[y]}
    sizes = sizes_of(case, fed)
    is_all = all(sizes_of(case, {x: y}) <= sizes for x, y in starts.items())
    return found if fed and is_all and len(found) == 1 else {}


def sizes_of(case: Case, pairs: Mapping[int, int]) -> Sizes:
    """The sizes that A's instructions and B's have where they differ."""
    a, b = case.diff.a, case.diff.b
    return frozenset(
        (old, new)
        for x, y in pairs.items()
        for _, old, new in changed_sizes(a.shapes[x], b.shapes[y])
    )


def gives_windows(sizes: Sizes, finding: Finding, diff: Diff) -> bool:
    """Whether a finding tells of convolutions whose windows alone differ, by these sizes.

    The gradient of a weight is a convolution whose window is as large as what was convolved.
    """
    a, b, cited = diff.a, diff.b, finding.evidence[0]
    found = False
    for x, y in zip(cited.a, cited.b, strict=False):
        old, new = (_window(module, i) for module, i in ((a, x), (b, y)))
        if a.opcodes[x] != "convolution" or len(old) != len(new) or old[::2] != new[::2]:
            return False
        spans = ([int(n) for n in own[1].split("x")] if len(own) > 1 else [] for own in (old, new))
        changed = [(p, q) for p, q in zip(*spans, strict=True) if p != q]
        if not changed or not sizes.issuperset(changed):
            return False
        found = True
    return found


def _window(module: Module, i: int) -> list[str]:
    """The window of a convolution: the text around its sizes at even places."""
    return _SIZE.split(dict(module.attributes[i].items).get("window", ""), maxsplit=1)


def _fed(view: SideView, starts: Iterable[int]) -> dict[int, set[int]]:
    """The unpaired inputs that each of these is computed from through what has no partner."""
    module, partners = view.module, view.partners
    found: dict[int, set[int]] = {}
    for start in starts:
        seen = {o for o in module.operands[start] if partners[o] < 0}
        stack = list(seen)
        while stack:
            fresh = {o for o in module.operands[stack.pop()] if partners[o] < 0} - seen
            seen |= fresh
            stack += fresh
        found[start] = {i for i in seen if is_input(module, i)}
    return found


def _pairs(case: Case, in_a: set[int], in_b: set[int]) -> dict[int, int]:
    """Those of another size that are the only ones of their type and rank on both sides."""
    forms_a, forms_b = _by_form(case.a, in_a), _by_form(case.b, in_b)
    return {
        xs[0]: ys[0]
        for form, xs in forms_a.items()
        if len(xs) == len(ys := forms_b.get(form, [])) == 1
        and changed_sizes(case.diff.a.shapes[xs[0]], case.diff.b.shapes[ys[0]])
        and not _are_two(case, xs[0], ys[0])
    }


def _by_form(view: SideView, inputs: Iterable[int]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for i in sorted(inputs):
        text = view.module.shapes[i]
        form = text.partition("[")[0], len(read_shape(text).dimensions)
        found.setdefault(form, []).append(i)
    return found


def _are_two(case: Case, x: int, y: int) -> bool:
    first, second = case.a.input_tensor(x), case.b.input_tensor(y)
    return first is not None and second is not None and first != second
