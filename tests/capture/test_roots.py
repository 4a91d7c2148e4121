"""Models that stand side by side get names where those of their tensors are equal."""

from __future__ import annotations

import sys

import pytest

from xlagraph.capture.tensors.roots import Roots


class Model:
    def __init__(self, *names: str) -> None:
        self._names = names

    def named_parameters(self):
        return [(name, None) for name in self._names]

    def named_buffers(self):
        return []


class Main:
    """Stands for the program's main module."""


@pytest.fixture
def main(monkeypatch):
    module = Main()
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_a_model_alone_needs_no_name(main):
    main.model, main.loss = Model("weight"), Model()
    assert set(Roots().names([main.model, main.loss]).values()) == {""}


def test_alike_models_are_called_as_the_variables_that_hold_them(main):
    main.model, main.heads = Model("weight"), [Model("weight"), Model("bias")]
    main.named = {"ema": Model("weight")}
    models = [main.model, *main.heads, main.named["ema"]]
    names = Roots().names(models)
    assert [names[id(one)] for one in models] == ["model", "heads[0]", "", "named['ema']"]


@pytest.mark.usefixtures("main")
def test_without_a_variable_the_class_and_a_number_stand():
    models = [Model("weight"), Model("weight")]
    names = Roots().names(models)
    assert [names[id(one)] for one in models] == ["Model1", "Model2"]


def test_a_name_stays_when_another_model_comes(main):
    roots, main.model = Roots(), Model("weight")
    assert roots.names([main.model]) == {id(main.model): ""}
    main.ema = Model("weight")
    names = roots.names([main.model, main.ema])
    assert (names[id(main.model)], names[id(main.ema)]) == ("", "ema")


@pytest.mark.usefixtures("main")
def test_the_order_is_that_of_the_first_question():
    models = [Model("weight"), Model("weight"), Model("bias")]
    roots = Roots()
    first = list(roots.names(models))
    assert first == [id(one) for one in models]
    assert list(roots.names(models[::-1])) == first
    assert list(roots.names([models[2], models[0]])) == [first[0], first[2]]
