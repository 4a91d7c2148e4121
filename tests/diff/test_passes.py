"""Each pass of the matcher alone: what it pairs, what it leaves, and that pairs remember it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_modules import graph

from xlagraph.canon.labels import Interner
from xlagraph.diff.known import KnownTensors, identities
from xlagraph.diff.match import match_modules, prepare
from xlagraph.diff.pairing import MAX_CANDIDATES, Pairing, Pass
from xlagraph.diff.passes.anchors import pair_anchors
from xlagraph.diff.passes.barriers import pair_barriers
from xlagraph.diff.passes.bridges import pair_across
from xlagraph.diff.passes.constants import part_constants, part_strays
from xlagraph.diff.passes.contexts import pair_by_context
from xlagraph.diff.passes.names import pair_by_name
from xlagraph.diff.passes.near import pair_near_names
from xlagraph.diff.passes.neighbours import frontier, pair_neighbours
from xlagraph.diff.passes.outputs import pair_outputs_by_place, pair_outputs_on_the_way
from xlagraph.diff.passes.votes import pair_by_vote
from xlagraph.hlo import read_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Computation, Module

P = "p = f32[4] parameter(0); "


def module(body: str) -> Module:
    """A module of one entry computation; its statements are separated by semicolons."""
    lines = "\n".join(f"  {line.strip()}" for line in body.split(";"))
    return read_module(f"HloModule m\nENTRY e {{\n{lines}\n}}\n", "test")


class Bench:
    """Two sides with some pairs made already, to run one pass on."""

    def __init__(self, a: str, b: str, given: str = ""):
        interner = Interner()
        self.pairing = Pairing(prepare(module(a), interner), prepare(module(b), interner), interner)
        for names in given.split():
            one, _, other = names.partition("=")
            x = self.pairing.a.module.names.index(one)
            y = self.pairing.b.module.names.index(other or one)
            assert self.pairing.pair(x, y, Pass.SAME)
        self.given = set(given.split())

    @property
    def entries(self) -> tuple[Computation, Computation]:
        """The computations to run a pass on."""
        return self.pairing.a.module.entry_computation, self.pairing.b.module.entry_computation

    @property
    def found(self) -> dict[str, tuple[str, Pass]]:
        """What the pass paired: A's name to B's, and the pass that a pair remembers."""
        pairing = self.pairing
        names_a, names_b = pairing.a.module.names, pairing.b.module.names
        made = ((x, y, Pass(pairing.made_by[x])) for x, y in enumerate(pairing.to_b))
        return {names_a[x]: (names_b[y], by) for x, y, by in made if y >= 0 and by is not Pass.SAME}


def by(made_by: Pass, pairs: str) -> Mapping[str, tuple[str, Pass]]:
    """``n=m k`` as `Bench.found` has it."""
    names = (pair.partition("=") for pair in pairs.split())
    return {one: (other or one, made_by) for one, _, other in names}


def test_anchors_are_expressions_that_stand_once_with_all_below_them():
    shared = P + "n = f32[4] negate(p); c = f32[4] cosine(n); "
    bench = Bench(
        shared + "ROOT t = (f32[4]) tuple(c)",
        shared + "m = f32[4] tanh(c); ROOT t = (f32[4]) tuple(m)",
    )
    pair_anchors(bench.pairing, *bench.entries)
    assert bench.found == by(Pass.ANCHOR, "p n c")


def test_anchors_leave_what_stands_twice_and_what_is_made_of_constants():
    body = P + "n = f32[4] negate(p); m = f32[4] negate(p); k = f32[] constant(2); "
    bench = Bench(
        body + "ROOT t = (f32[4], f32[4], f32[]) tuple(n, m, k)",
        body + "ROOT t = (f32[], f32[4], f32[4]) tuple(k, n, m)",
    )
    pair_anchors(bench.pairing, *bench.entries)
    assert bench.found == by(Pass.ANCHOR, "p")


def test_neighbours_are_the_only_candidates_of_their_kind():
    bench = Bench(
        P + "n = f32[4] negate(p); c = f32[4] cosine(p); d = f32[4] cosine(p); "
        "ROOT t = (f32[4], f32[4], f32[4]) tuple(n, c, d)",
        P + "e = f32[4] cosine(p); m = f32[4] negate(p); ROOT t = (f32[4], f32[4]) tuple(e, m)",
        "p",
    )
    pair_neighbours(bench.pairing)
    assert bench.found == by(Pass.NEIGHBOUR, "n=m")


def test_neighbours_are_operands_at_the_same_place():
    bench = Bench(
        P + "n = f32[4] negate(p); c = f32[4] cosine(p); ROOT r = f32[4] add(n, c)",
        P + "m = f32[4] negate(p); d = f32[4] sine(p); ROOT r = f32[4] add(m, d)",
        "r",
    )
    assert bench.pairing.root == bench.pairing.a.module.names.index("r")
    bench.pairing.root = -1  # an instruction on the way, not the outputs
    pair_neighbours(bench.pairing)
    assert bench.found == by(Pass.NEIGHBOUR, "n=m p")


RESIDUAL = P + "n = f32[4] negate(p); "


def test_neighbours_take_no_value_that_is_paired_with_another():
    bench = Bench(
        RESIDUAL + "c = f32[4] cosine(n); ROOT s = f32[4] add(n, c)",
        RESIDUAL + "c = f32[4] cosine(n); d = f32[4] cosine(c); ROOT s = f32[4] add(n, d)",
        "n c",
    )
    bench.pairing.root = -1
    pair_neighbours(bench.pairing)
    assert bench.found == by(Pass.NEIGHBOUR, "p")


def test_neighbours_whose_operands_are_all_paired_come_first():
    """Two layers against the first of them: the sum is that of the layer, not the next one."""
    one = "q = f32[4] parameter(1); {a} = f32[4] multiply({x}, q); {s} = f32[4] add({x}, {a}); "
    two = "r = f32[4] parameter(2); {a} = f32[4] multiply({x}, r); {s} = f32[4] add({x}, {a}); "
    bench = Bench(
        P + one.format(x="p", a="a", s="s") + "ROOT t = (f32[4]) tuple(s)",
        P + two.format(x="p", a="b", s="u") + one.format(x="u", a="a", s="s")
        + "ROOT t = (f32[4]) tuple(s)",
        "p a",
    )  # fmt: skip
    bench.pairing.part(bench.pairing.a.module.names.index("p"))
    pair_neighbours(bench.pairing)
    assert bench.found["s"] == ("s", Pass.NEIGHBOUR)


def test_products_with_numbers_that_are_made_in_other_ways_are_not_each_other():
    """What a value is scaled by before its use is not the number that it is multiplied by there."""
    scaled = P + "{made}; w = f32[4] broadcast(v), dimensions={{}}; ROOT m = f32[4] multiply(p, w)"
    plain = scaled.format(made="v = f32[] parameter(1)")

    def pairs(made: str) -> bool:
        bench = Bench(plain, scaled.format(made=made), "p")
        bench.pairing.root = -1
        pair_neighbours(bench.pairing)
        return "m" in bench.found

    assert not pairs("u = f32[] parameter(1); v = f32[] sine(u)")
    assert pairs("v = f32[] parameter(1)")
    assert pairs("v = f32[] constant(1)")  # any number may become one


def test_the_frontier_is_what_stands_next_to_unpaired_instructions():
    body = P + "q = f32[4] parameter(1); n = f32[4] negate(p); m = f32[4] cosine(q); "
    bench = Bench(
        body + "ROOT t = (f32[4], f32[4]) tuple(n, m)",
        body + "k = f32[4] tanh(n); ROOT t = (f32[4], f32[4]) tuple(k, m)",
        "p q n m t",
    )
    names = bench.pairing.a.module.names
    assert frontier(bench.pairing, *bench.entries) == []  # A, the side with fewer, has none
    bench.pairing.part(names.index("n"))
    near = frontier(bench.pairing, *bench.entries)
    assert [names[x] for x, _ in near] == ["p", "t"]


def test_contexts_are_uses_that_no_other_instruction_has():
    bench = Bench(
        P + "n = f32[4] negate(p); m = f32[4] negate(p); "
        "c = f32[4] cosine(n); d = f32[4] sine(m); ROOT t = (f32[4], f32[4]) tuple(c, d)",
        "q = f32[4] parameter(0); m = f32[4] negate(q); n = f32[4] negate(q); "
        "c = f32[4] cosine(n); d = f32[4] sine(m); ROOT t = (f32[4], f32[4]) tuple(d, c)",
        "p=q c d t",
    )
    bench.pairing.queue.clear()  # contexts alone
    assert not pair_by_context(bench.pairing, *bench.entries)
    assert bench.found == by(Pass.CONTEXT, "n m")


def test_expressions_are_what_is_made_alike_of_pairs():
    many = ", ".join(["c"] + ["w"] * 4)
    bench = Bench(
        P + "w = f32[4] parameter(1); n = f32[4] negate(p); c = f32[4] cosine(n); "
        f"ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[4]) tuple({many})",
        P + "w = f32[4] parameter(1); n = f32[4] negate(p); c = f32[4] cosine(n); "
        "s = f32[4] sine(c); u = f32[4] sine(n); "
        "ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(s, u, w, w)",
        "p w",
    )
    bench.pairing.queue.clear()
    pair_by_context(bench.pairing, *bench.entries)
    assert bench.found == by(Pass.EXPRESSION, "n c")


ALIKE = P + "n = f32[4] negate(p); m = f32[4] negate(p); "
FIVE = "(f32[4], f32[4], f32[4], f32[4], f32[4])"
"""In a list of more than four operands the place of one says nothing."""


def test_interchangeable_outputs_are_paired_by_place():
    bench = Bench(
        ALIKE + f"ROOT t = {FIVE} tuple(m, n, p, p, p)",
        ALIKE + f"ROOT t = {FIVE} tuple(n, m, p, p, p)",
        "p t",
    )
    bench.pairing.queue.clear()
    assert not pair_by_context(bench.pairing, *bench.entries)
    assert bench.found == by(Pass.OUTPUT, "m=n n=m")
    assert bench.pairing.ambiguous == 2


def test_interchangeable_instructions_wait_for_text_order():
    many = 'c = f32[4] custom-call({}, p, p, p), custom_call_target="c"; ROOT t = (f32[4]) tuple(c)'
    bench = Bench(ALIKE + many.format("n, m"), ALIKE + many.format("m, n"), "p c t")
    bench.pairing.queue.clear()
    assert pair_by_context(bench.pairing, *bench.entries)
    assert bench.found == {}
    pair_by_context(bench.pairing, *bench.entries, by_text=True)
    assert bench.found == by(Pass.TEXT_ORDER, "n m")
    assert bench.pairing.ambiguous == 2


def test_outputs_between_paired_ones_are_paired_by_place():
    body = P + "k = f32[] constant({}); b = f32[4] broadcast(k), dimensions={{}}; "
    body += "n = f32[4] negate(p); x = f32[4] add(n, b); c = f32[4] cosine(p); "
    body += "ROOT t = (f32[4], f32[4], f32[4]) tuple(n, x, c)"
    bench = Bench(body.format("2"), body.format("3"), "p n c t")
    bench.pairing.queue.clear()
    pair_outputs_by_place(bench.pairing)
    assert bench.found["x"] == ("x", Pass.OUTPUT)


def test_an_output_is_one_of_the_like_values_that_the_other_computes_on_the_way():
    a = P + "a = f32[4] parameter(1); x = f32[4] negate(p); y = f32[4] negate(a);"
    bench = Bench(
        a + "s = f32[4] add(x, y); ROOT t = (f32[4]) tuple(s)",
        P + "x = f32[4] negate(p); ROOT t = (f32[4]) tuple(x)",
        "t",
    )
    pair_outputs_on_the_way(bench.pairing)
    assert bench.found == by(Pass.OUTPUT, "x") | by(Pass.NEIGHBOUR, "p")


def test_an_output_is_not_another_output_that_is_made_alike():
    text = P + "x = f32[4] negate(p); y = f32[4] negate(x); ROOT t = (f32[4], f32[4]) tuple(x, y)"
    bench = Bench(text, text, "t")
    pair_outputs_on_the_way(bench.pairing)
    assert bench.found == {}


def test_a_bridge_leads_across_what_one_side_has():
    bench = Bench(
        P + "n = f32[4] negate(p); ROOT t = (f32[4]) tuple(n)",
        P + "e = f32[4] exponential(p); n = f32[4] negate(e); ROOT t = (f32[4]) tuple(n)",
        "p t",
    )
    bench.pairing.queue.clear()
    pair_across(bench.pairing, bench.entries[0])
    assert bench.found == by(Pass.BRIDGE, "n")


def test_no_bridge_leads_to_one_of_two():
    bench = Bench(
        P + "n = f32[4] negate(p); ROOT t = (f32[4]) tuple(n)",
        P + "e = f32[4] exponential(p); n = f32[4] negate(e); m = f32[4] negate(e); "
        "ROOT t = (f32[4], f32[4]) tuple(n, m)",
        "p",
    )
    bench.pairing.queue.clear()
    pair_across(bench.pairing, bench.entries[0])
    assert bench.found == {}


def test_what_stands_behind_an_insertion_comes_before_text_order():
    a = module(
        P + "u = f32[4] parameter(1); v = f32[4] parameter(2);"
        "x = f32[4] exponential(p); x2 = f32[4] add(x, u); xo = f32[4] cosine(x2);"
        "y = f32[4] sine(p); y2 = f32[4] add(y, v); yo = f32[4] tanh(y2);"
        "ROOT t = (f32[4], f32[4]) tuple(xo, yo)"
    )
    b = module(
        P + "v = f32[4] parameter(1); u = f32[4] parameter(2); n = f32[4] negate(v);"
        "q = f32[4] abs(p); x = f32[4] exponential(q); x2 = f32[4] add(x, u);"
        "m = f32[4] abs(x2); xo = f32[4] cosine(m);"
        "y = f32[4] sine(p); y2 = f32[4] add(y, n); yo = f32[4] tanh(y2);"
        "ROOT t = (f32[4], f32[4]) tuple(xo, yo)"
    )
    match = match_modules(a, b)
    pairs = {a.names[x]: b.names[y] for x, y in enumerate(match.to_b)}
    assert pairs == {name: name for name in a.names}


def test_votes_go_to_the_candidate_with_most_neighbours():
    bench = Bench(
        P + "q = f32[4] parameter(1); x = f32[4] add(p, q); n = f32[4] negate(x); "
        "ROOT t = (f32[4]) tuple(n)",
        P + "q = f32[4] parameter(1); y = f32[4] add(p, p); x = f32[8] add(p, q); "
        "n = f32[8] negate(x); ROOT t = (f32[4], f32[8]) tuple(y, n)",
        "p q n t",
    )
    bench.pairing.queue.clear()
    pair_by_vote(bench.pairing, bench.entries[0])
    assert bench.found == by(Pass.VOTE, "x")


def _renewed(*sizes: int) -> str:
    """Tensors of these sizes, each times one number, as an optimizer's state is."""
    lines = ["s = f32[] parameter(0)"]
    for k, size in enumerate(sizes, 1):
        lines += [
            f"m{k} = f32[{size}] parameter({k})",
            f"b{k} = f32[{size}] broadcast(s), dimensions={{}}",
            f"n{k} = f32[{size}] multiply(m{k}, b{k})",
        ]
    shapes = ", ".join(f"f32[{size}]" for size in sizes)
    news = ", ".join(f"n{k}" for k in range(1, len(sizes) + 1))
    return "; ".join([*lines, f"ROOT t = ({shapes}) tuple({news})"])


def test_a_number_tells_nothing_of_tensors_of_other_sizes():
    """Unless both sides have as many that nothing else tells of."""
    bench = Bench(_renewed(4, 6), _renewed(8), "s")
    pair_by_vote(bench.pairing, bench.entries[0])
    assert bench.found == {}
    bench = Bench(_renewed(4), _renewed(8), "s")
    pair_by_vote(bench.pairing, bench.entries[0])
    assert bench.found["b1"] == ("b1", Pass.VOTE)


def test_votes_on_the_last_instruction_of_a_module():
    """What has no instruction behind it has no neighbour there."""
    body = P + "x = f32[4] negate(p); ROOT t = (f32[4]) tuple(x); "
    effect = 'v = f32[{}] custom-call(p), custom_call_target="c", custom_call_has_side_effect=true'
    bench = Bench(body + effect.format(4), body + effect.format(8), "p x t")
    bench.pairing.queue.clear()
    pair_by_vote(bench.pairing, bench.entries[0])
    assert bench.found == by(Pass.VOTE, "v")


def test_constants_without_a_common_use_are_parted():
    body = P + "k = f32[] constant(2); b = f32[4] broadcast(k), dimensions={}; "
    bench = Bench(
        body + "c = f32[4] add(p, b); ROOT t = (f32[4]) tuple(c)",
        body + "l = f32[] constant(2); d = f32[4] broadcast(l), dimensions={}; "
        "c = f32[4] add(p, d); ROOT t = (f32[4], f32[4]) tuple(c, b)",
        "p k b=d c",
    )
    part_constants(bench.pairing, bench.entries[0])
    names = bench.pairing.a.module.names
    assert bench.pairing.to_b[names.index("k")] == -1
    assert bench.pairing.made_by[names.index("k")] == Pass.NONE
    assert bench.pairing.to_b[names.index("b")] >= 0


def test_strays_are_constants_whose_users_have_no_partners():
    bench = Bench(
        P + "k = f32[] constant(2); b = f32[4] broadcast(k), dimensions={}; "
        "c = f32[4] add(p, b); ROOT t = (f32[4]) tuple(c)",
        P + "k = f32[] constant(3); b = f32[4] broadcast(k), dimensions={}; "
        "c = f32[4] multiply(p, b); ROOT t = (f32[4]) tuple(c)",
        "p k b t",
    )
    part_strays(bench.pairing, bench.entries[0])
    names = bench.pairing.a.module.names
    assert [names[x] for x, y in enumerate(bench.pairing.to_b) if y >= 0] == ["p", "t"]


def test_an_instruction_has_one_partner_and_may_lose_it():
    bench = Bench(P + "ROOT n = f32[4] negate(p)", P + "ROOT n = f32[4] negate(p)", "p")
    pairing = bench.pairing
    assert not pairing.pair(0, 1, Pass.VOTE)
    assert not pairing.pair(1, 0, Pass.VOTE)
    pairing.part(0)
    assert pairing.to_b == pairing.to_a == [-1, -1]
    assert pairing.pair(0, 0, Pass.VOTE)
    assert pairing.made_by == bytes([Pass.VOTE, Pass.NONE])


def test_what_has_many_users_is_not_searched():
    users = "".join(f"n{k} = f32[4] negate(p); " for k in range(MAX_CANDIDATES + 1))
    names = ", ".join(f"n{k}" for k in range(MAX_CANDIDATES + 1))
    shapes = ", ".join(["f32[4]"] * (MAX_CANDIDATES + 1))
    body = P + users + f"c = f32[4] cosine(p); ROOT t = ({shapes}, f32[4]) tuple({names}, c)"
    bench = Bench(body, body, "p")
    pair_neighbours(bench.pairing)
    assert bench.found == {}


# -- what is known by name, and barriers ---------------------------------------------------

TWO = "p = f32[4] parameter(0); q = f32[4] parameter(1); "


def known(body: Module, inputs: str, outputs: str = "") -> KnownTensors:
    """Names of tensors: ``p=w``, instruction and tensor."""
    pairs = [[one.split("=") for one in text.split()] for text in (inputs, outputs)]
    found = [{body.names.index(i): name for i, name in pair} for pair in pairs]
    return KnownTensors(*found)


def named(a: str, b: str, names_a: tuple[str, str], names_b: tuple[str, str]) -> Pairing:
    """A pairing in which only the pass by names has run."""
    interner = Interner()
    first, second = module(a), module(b)
    one, other = identities(known(first, *names_a), known(second, *names_b), interner)
    sides = prepare(first, interner, known=one), prepare(second, interner, known=other)
    pairing = Pairing(*sides, interner)
    pair_by_name(pairing)
    return pairing


def test_inputs_with_one_name_are_paired_and_outputs_if_they_are_made_alike():
    a = TWO + "n = f32[4] negate(p); c = f32[4] cosine(q); ROOT t = (f32[4], f32[4]) tuple(n, c)"
    b = TWO + "n = f32[4] negate(q); c = f32[4] tanh(p); ROOT t = (f32[4], f32[4]) tuple(n, c)"
    pairing = named(a, b, ("p=w q=v", "n=w c=v"), ("q=w p=v", "n=w c=v"))
    names = pairing.a.module.names
    found = {names[x]: pairing.b.module.names[y] for x, y in enumerate(pairing.to_b) if y >= 0}
    assert found == {"p": "q", "q": "p", "n": "n"}
    assert {Pass(pairing.made_by[x]) for x, y in enumerate(pairing.to_b) if y >= 0} == {Pass.NAME}


def test_an_input_known_by_name_pairs_with_nothing_else():
    body = TWO + "ROOT s = f32[4] add(p, q)"
    pairing = named(body, body, ("p=w q=v", ""), ("p=v q=w", ""))
    a, b = pairing.a.module.names, pairing.b.module.names
    assert pairing.to_b[a.index("p")] == b.index("q")
    assert not pairing.pair(a.index("q"), b.index("q"), Pass.VOTE)


def test_a_name_of_one_side_alone_and_one_that_stands_twice_say_nothing():
    body = TWO + "ROOT s = f32[4] add(p, q)"
    pairing = named(body, body, ("p=w q=w", ""), ("p=w q=v", ""))
    assert set(pairing.to_b) == {-1}
    assert pairing.pair(0, 1, Pass.VOTE)


def test_names_decide_which_of_two_like_layers_is_missing():
    layer = "{o} = f32[4] multiply({i}, {w}); {o}r = f32[4] tanh({o}); "
    three = "x = f32[4] parameter(0); " + "".join(
        f"w{k} = f32[4] parameter({k}); " for k in (1, 2, 3)
    )
    two = "x = f32[4] parameter(0); w2 = f32[4] parameter(1); w3 = f32[4] parameter(2); "
    a = three + "".join(
        layer.format(o=f"y{k}", i="x" if k == 1 else f"y{k - 1}r", w=f"w{k}") for k in (1, 2, 3)
    )
    b = two + layer.format(o="y2", i="x", w="w2") + layer.format(o="y3", i="y2r", w="w3")
    first = module(a + "ROOT t = (f32[4]) tuple(y3r)")
    second = module(b + "ROOT t = (f32[4]) tuple(y3r)")
    names = known(first, "w1=a w2=b w3=c"), known(second, "w2=b w3=c")
    match = match_modules(first, second, known=names)
    found = {first.names[x]: second.names[y] for x, y in enumerate(match.to_b) if y >= 0}
    assert {one: found.get(one) for one in ("w1", "w2", "w3", "y2", "y3")} == {
        "w1": None,
        "w2": "w2",
        "w3": "w3",
        "y2": "y2",
        "y3": "y3",
    }


BIASED = (
    "{o}d = f32[4] multiply({i}, {w}); {o}b = f32[4] reshape({v}); {o} = f32[4] add({o}d, {o}b); "
)
WEIGHTS = "w{k} = f32[4] parameter({p}); v{k} = f32[4] parameter({q}); "


def test_what_is_computed_alike_from_a_named_input_is_paired():
    """The second of two like layers is itself where the first is missing."""
    a = module(
        P + WEIGHTS.format(k=1, p=1, q=2) + WEIGHTS.format(k=2, p=3, q=4)
        + BIASED.format(o="y", i="p", w="w1", v="v1") + BIASED.format(o="z", i="y", w="w2", v="v2")
        + "ROOT t = (f32[4]) tuple(z)"
    )  # fmt: skip
    b = module(
        P + WEIGHTS.format(k=2, p=1, q=2) + BIASED.format(o="z", i="p", w="w2", v="v2")
        + "ROOT t = (f32[4]) tuple(z)"
    )  # fmt: skip
    interner = Interner()
    one, other = identities(known(a, "w1=k v1=l w2=m v2=n"), known(b, "w2=m v2=n"), interner)
    pairing = Pairing(prepare(a, interner, known=one), prepare(b, interner, known=other), interner)
    entries = a.entry_computation, b.entry_computation
    pair_near_names(pairing, *entries)
    found = {a.names[x]: b.names[y] for x, y in enumerate(pairing.to_b) if y >= 0}
    assert found == {"z": "z", "zb": "zb", "zd": "zd"}
    assert {pairing.made_by[a.names.index(name)] for name in found} == {Pass.NEAR}


def test_without_names_nothing_is_near_one():
    pairing = named(
        TWO + "ROOT s = f32[4] add(p, q)", TWO + "ROOT s = f32[4] add(p, q)", ("", ""), ("", "")
    )
    entries = pairing.a.module.entry_computation, pairing.b.module.entry_computation
    pair_near_names(pairing, *entries)
    assert set(pairing.to_b) == {-1}


def test_a_barrier_is_the_one_that_most_of_what_is_picked_out_belongs_to():
    body = (
        TWO
        + "t = (f32[4], f32[4]) tuple({ab}); b = (f32[4], f32[4]) opt-barrier(t); "
        + "g = f32[4] get-tuple-element(b), index=0; h = f32[4] get-tuple-element(b), index=1; "
        + "ROOT r = (f32[4], f32[4]) tuple(g, h)"
    )
    bench = Bench(body.format(ab="p, q"), body.format(ab="q, p"), "p q g=h h=g")
    pair_barriers(bench.pairing)
    assert bench.found == by(Pass.BARRIER, "b t")


def test_a_value_at_a_barrier_is_itself_wherever_it_stands_in_the_tuple():
    body = (
        "p = f32[4] parameter(0); n = f32[4] negate(p); c = f32[4] cosine(p); "
        "t = (f32[4], f32[4]) tuple({given}); b = (f32[4], f32[4]) opt-barrier(t); "
        "g = f32[4] get-tuple-element(b), index={n}; h = f32[4] get-tuple-element(b), index={c}; "
        "ROOT s = f32[4] subtract(g, h)"
    )
    first, second = (
        module(body.format(given=given, n=n, c=c))
        for given, n, c in (("n, c", 0, 1), ("c, n", 1, 0))
    )
    match = match_modules(first, second)
    pairs = {first.names[x]: second.names[y] for x, y in enumerate(match.to_b) if y >= 0}
    assert {"g": "g", "h": "h", "b": "b", "t": "t"}.items() <= pairs.items()


# -- all passes together -------------------------------------------------------------------

REAL = [("carry:E", "carry:G"), ("carry:D", "carry:E"), ("fixed:D", "fixed:E")]


@pytest.mark.parametrize(("first", "second"), REAL)
def test_both_directions_remember_the_same_pass(first, second):
    there = match_modules(graph(first), graph(second))
    back = match_modules(graph(second), graph(first))
    for x, y in enumerate(there.to_b):
        assert (y < 0) == (there.made_by(x) is Pass.NONE)
        if y >= 0:
            assert back.made_by(y) is there.made_by(x)
    assert {Pass.ROOT, Pass.ANCHOR, Pass.NEIGHBOUR} < set(
        map(there.made_by, range(len(there.to_b)))
    )


def test_the_same_computation_is_one_walk():
    module = graph("carry:E")
    match = match_modules(module, module)
    live = match.a.live
    assert {match.made_by(x) for x in range(len(live)) if live[x]} == {Pass.SAME}


def test_parameters_of_callees_are_paired_by_number():
    text = (
        "HloModule m\ns {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
        "  ROOT z = f32[] add(x, y)\n}\nENTRY e {\n  v = f32[4] parameter(0)\n"
        "  k = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(v, k), dimensions={0}, to_apply=s\n}\n"
    )
    match = match_modules(read_module(text), read_module(text.replace("add", "maximum")))
    assert [match.made_by(x) for x in range(3)] == [Pass.PARAMETER, Pass.PARAMETER, Pass.ROOT]


def test_every_pass_says_what_it_found():
    assert [p.value for p in Pass] == list(range(len(Pass)))
    assert all(p.meaning for p in Pass)
