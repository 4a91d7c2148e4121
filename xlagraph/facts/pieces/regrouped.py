"""Sums that are cut by conversions on one side: the type decides what is added to what first.

Gradients are added where a value was used. Where it is converted before some of its uses, theirs
are added first, and the sum is converted back; without the conversion all are one chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.diff import Diff
    from xlagraph.graph import Module


def are_cut_by_casts(diff: Diff, in_a: Collection[int], in_b: Collection[int]) -> bool:
    """Whether each sum that these operations make up is cut by conversions on one side at least."""
    (number_a, whole_a), (number_b, whole_b) = _sums(diff.a, in_a), _sums(diff.b, in_b)
    return number_a == number_b > 0 and whole_a + whole_b <= number_a


def _sums(module: Module, members: Collection[int]) -> tuple[int, int]:
    """How many sums these operations make up, and how many of them no conversion cuts."""
    roots = set(members)
    cut = set[int]()
    top: dict[int, int] = {}
    for i in sorted(members, reverse=True):  # operands come before users
        home = top.setdefault(i, i)
        for o in module.operands[i]:
            below = o
            while module.opcodes[below] == "convert":
                (below,) = module.operands[below]
            if below in roots and below not in top:
                top[below] = home
                if below != o:
                    cut.add(home)
    found = set(top.values())
    return len(found), len(found - cut)
