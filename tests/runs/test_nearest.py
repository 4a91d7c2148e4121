"""The nearest earlier graph, found without looking at all of them."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from xlagraph.runs.graphs.nearest import KEPT, LATEST, VOTED, Earlier, likeness

HISTOGRAMS = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.just("f32[]")), st.integers(1, 9), min_size=1
    ).map(Counter),
    min_size=1,
    max_size=LATEST + 1,
)


@given(HISTOGRAMS)
def test_up_to_so_many_graphs_it_is_the_nearest_of_all(histograms: list[Counter]) -> None:
    *earlier, new = histograms
    index = Earlier()
    for one in earlier:
        index.add(one)
    scores = [likeness(new, one) for one in earlier]
    best = max(((score, k) for k, score in enumerate(scores)), default=None)
    assert index.nearest(new) == (None if best is None else (best[1], best[0]))


def variant(chance: Random, family: int) -> Counter:
    """One of many graphs of a family: 40 counts, three of them its own."""
    counts = Counter({("op", f"f32[{family},{k}]"): 5 + k for k in range(40)})
    for k in chance.sample(range(40), 3):
        counts["op", f"f32[{family},{k}]"] += chance.randrange(1, 1000)
    return counts


def test_an_old_graph_is_found_among_hundreds() -> None:
    chance = Random(1)
    index = Earlier()
    old = [variant(chance, 0) for _ in range(30)]
    for one in old:
        index.add(one)
    for _ in range(10 * LATEST):
        index.add(variant(chance, 1))
    for k, one in enumerate(old[-KEPT:], len(old) - KEPT):
        assert index.nearest(one) == (k, 1.0)
    # Older than what a common count keeps: found by the counts that are its own.
    for k, one in enumerate(old[:-KEPT]):
        assert index.nearest(one) == (k, 1.0)
    assert len(index.candidates(variant(chance, 0))) <= LATEST + VOTED


def test_the_smallest_that_holds_it() -> None:
    index = Earlier()
    small, large = Counter({("a", ""): 10}), Counter({("a", ""): 10, ("b", ""): 90})
    index.add(large)
    index.add(small)
    assert index.container(Counter({("a", ""): 9})) == 1
    assert index.container(Counter({("b", ""): 80})) == 0
    assert index.container(Counter({("c", ""): 80})) is None
