"""Lists of tensors that are joined, and have another length on the other side."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def joined(number: int, *, further: str = "", size: int = 3, last: int = 0) -> str:
    """So many results of size `size` that are joined; the last one of another size if asked."""
    sizes = [size] * (number - 1) + [last or size]
    total = sum(sizes)
    kept = [f"  k{n} = f32[{one}] parameter({n + 2})" for n, one in enumerate(sizes)]
    text = "\n".join(kept)
    names = ", ".join(f"k{n}" for n in range(number))
    return f"""HloModule report

ENTRY main {{
  w = f32[3] parameter(0)
  order = s32[{total}] parameter(1)
{text}
  all = f32[{total}] concatenate({names}), dimensions={{0}}
  places = f32[{total}] convert(order)
  weighted = f32[{total}] multiply(all, places)
  new = f32[3] {further or "tanh"}(w)
  ROOT r = (f32[{total}], f32[3]) tuple(weighted, new)
}}
"""


def explained(a: str, b: str) -> list[tuple[str, bool, str]]:
    causes = explain_modules(read_module(a), read_module(b)).causes
    return [(cause.kind.id, cause.proved, str(cause.in_short)) for cause in causes]


@pytest.mark.parametrize(("few", "many"), [(4, 5), (4, 7), (7, 4)])
def test_a_longer_list_is_one_cause_with_the_sizes_that_grow_with_it(few: int, many: int) -> None:
    told = f"a list of tensors that is joined has {few} in A and {many} in B"
    assert explained(joined(few), joined(many)) == [("added-input", True, told)]


def test_another_edit_stands_beside_it() -> None:
    found = explained(joined(4), joined(5, further="sine"))
    assert sorted(kind for kind, *_ in found) == ["added-input", "replaced-subgraph"]
    assert all(proved for _, proved, _ in found)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (joined(4), joined(4, last=2)),  # one of another size
        (joined(4), joined(4, size=2)),
        (joined(1), joined(2)),  # one is no list
    ],
)
def test_other_joins_are_no_longer_lists(a: str, b: str) -> None:
    assert not any("list of tensors" in told for *_, told in explained(a, b))
