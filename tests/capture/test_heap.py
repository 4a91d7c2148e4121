"""Tensors and modules among the collector's objects."""

import gc
import sys
from importlib.util import find_spec

import pytest

from xlagraph.capture.tensors import heap

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the capture extra")


class Kind:
    pass


class Derived(Kind):
    pass


class Proxy:
    """Claims to be something else, as lazy proxies do that wake when they are asked."""

    @property
    def __class__(self):
        raise AssertionError("woken")


def test_objects_are_found_by_their_real_type():
    found = [Kind(), Derived(), Proxy()]
    kinds, exceptions = heap.find(Kind, LookupError)
    assert sorted(map(id, kinds)) == sorted(map(id, found[:2]))
    assert exceptions == []


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@needs_torch
def test_what_only_autograd_holds_outlives_its_graph_while_it_is_looked_at(torch, capfd):
    """Its Python object belongs to C++: freed by another thread, it was used all the same."""
    before = torch.ones(4, requires_grad=True) * 2
    number, graph = id(before), before.sin()
    del before
    (held,) = [one for one in heap.find(torch.Tensor)[0] if id(one) == number]
    del graph
    assert held.tolist() == [2.0] * 4
    assert "Deallocating" not in capfd.readouterr().err


@needs_torch
def test_tensors_that_stand_for_others_are_left_alone(torch):
    class Wrapper(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("asked")

    class Plain(torch.Tensor):
        pass

    made = [
        torch.ones(1),
        torch.nn.Parameter(torch.ones(1)),
        torch.ones(1).as_subclass(Plain),
        torch.Tensor._make_wrapper_subclass(Wrapper, (1,)),
    ]
    found = {id(one) for one in heap.find(torch.Tensor)[0]}
    assert [id(one) in found for one in made] == [True, True, True, False]


def test_nothing_is_collected_while_the_heap_is_listed():
    """What a collection calls would let other threads free what is in the list."""

    class Kind:
        pass

    witness = Kind()
    held = []

    def seen(_phase, _details):
        if sys._getframe(1).f_code.co_name == "_select":
            held.append(sys.getrefcount(witness))

    usual = sys.getrefcount(witness)
    thresholds = gc.get_threshold()
    gc.callbacks.append(seen)
    gc.set_threshold(1, 1, 1)
    try:
        found = heap.find(Kind)[0]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(seen)
    assert found == [witness]
    assert set(held) <= {usual}, "the list of all objects, or what is found, holds it once more"


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        heap.find(LookupError)
        assert gc.isenabled() == on
    finally:
        (gc.enable if was else gc.disable)()
