"""Tensors and modules among the collector's objects."""

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
