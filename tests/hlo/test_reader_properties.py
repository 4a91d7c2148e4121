"""What holds for every module: both ways agree, dialects agree, XLA agrees, errors are ours."""

from __future__ import annotations

from hlo_helpers import assert_equal_graphs, shape_of_graph, xla_shape_of_graph
from hlo_strategies import DIALECTS, Dialect, broken_modules, computations, modules, write
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.errors import InputError
from xlagraph.graph import Module
from xlagraph.hlo import read_module
from xlagraph.hlo.printer import SHORT, print_module
from xlagraph.hlo.verify import verify


@given(modules())
def test_fast_and_general_way_agree(text):
    module = read_module(text)
    verify(module)
    assert_equal_graphs(module, read_module(text, plain=False))


@given(computations(), DIALECTS)
def test_dialects_of_one_module_read_to_one_graph(made, dialect):
    left, right = read_module(write(made, Dialect())), read_module(write(made, dialect))
    assert_equal_graphs(left, right, texts=False)
    assert print_module(left, SHORT) == print_module(right, SHORT)


@given(modules())
def test_what_is_printed_reads_equal(text):
    module = read_module(text)
    assert_equal_graphs(module, read_module(print_module(module)))


@given(modules())
def test_xla_reads_the_same(text):
    module = read_module(text)
    wanted = shape_of_graph(module)
    assert xla_shape_of_graph(text) == wanted
    assert xla_shape_of_graph(print_module(module)) == wanted
    assert xla_shape_of_graph(print_module(module, SHORT)) == wanted


def outcome(text: str, *, plain: bool) -> Module | InputError:
    try:
        return read_module(text, plain=plain)
    except InputError as error:
        return error


@given(broken_modules())
def test_broken_text_raises_our_error_or_reads_equal_both_ways(text):
    fast, general = outcome(text, plain=True), outcome(text, plain=False)
    if isinstance(fast, InputError):
        assert str(fast) == str(general)
    else:
        assert_equal_graphs(fast, general)
        assert_equal_graphs(fast, read_module(print_module(fast)))


@given(st.sampled_from(["", "HloModule m\n", "HloModule m\nENTRY e {\n"]), st.text(max_size=200))
def test_any_text_raises_nothing_but_our_error(head, text):
    assert str(outcome(head + text, plain=True))
