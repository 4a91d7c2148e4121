"""Layers that are known by name and run in another order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

LAYERS = 5


def chain(order: list[int], opcode: str = "tanh", *, twice: bool = False) -> str:
    """Layers of one shape run in this order; each is an output too, a little smaller.

    `twice`: what goes into a layer is turned around once for each use.
    """
    text = "HloModule step\n\nENTRY main {\n  x = f32[4,4] parameter(0)\n"
    last = "x"
    for number, k in enumerate(order):
        text += f"  w{k} = f32[4,4] parameter({number + 1})\n"
        turned = "turned"
        text += f"  turned{k} = f32[4,4] transpose(w{k}), dimensions={{1,0}}\n"
        if twice:
            turned = "again"
            text += f"  again{k} = f32[4,4] transpose(w{k}), dimensions={{1,0}}\n"
        text += f"  d{k} = f32[4,4] dot({last}, turned{k}), "
        text += "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        text += f"  h{k} = f32[4,4] {opcode}(d{k})\n  u{k} = f32[4,4] multiply({turned}{k}, h{k})\n"
        last = f"h{k}"
    outputs = ", ".join(f"u{k}" for k in range(LAYERS))
    types = ", ".join(["f32[4,4]"] * LAYERS)
    return text + f"  ROOT t = ({types}) tuple({outputs})\n}}\n"


def named(order: list[int]) -> Context:
    """The layers' weights by name, as inputs and as outputs."""
    weights = [Tensor(f"layers.{k}", "weight", Role.PARAMETER) for k in range(LAYERS)]
    inputs = {number + 1: weights[k] for number, k in enumerate(order)}
    return Context(parameters=inputs, outputs=dict(enumerate(weights)))


def explained(first: str, second: str, *contexts: Context):
    return explain_modules(read_module(first, "a"), read_module(second, "b"), *contexts)


@given(st.permutations(range(LAYERS)), st.permutations(range(LAYERS)), st.booleans())
def test_layers_in_another_order_are_told_by_name(first, second, twice):
    found = explained(chain(first), chain(second, twice=twice), named(first), named(second))
    moved = [x for x, y in zip(first, second, strict=True) if x != y]
    kinds = [str(cause.kind) for cause in found.causes]
    if moved:
        assert found.proved
        assert kinds == ["output-order"]
        title = str(found.causes[0].title)
        assert title.startswith(f"{len(moved)} tensors took each other's places")
        assert all(f"layers.{k}.weight" in title for k in moved)
    else:
        assert "output-order" not in kinds


def test_another_operation_beside_it_is_told_too():
    first, second = [0, 1, 2, 3, 4], [0, 3, 2, 1, 4]
    changed = chain(second).replace("tanh(d2)", "cosine(d2)")
    found = explained(chain(first), changed, named(first), named(second))
    titles = [str(cause.title) for cause in found.causes]
    assert any("took each other's places" in title for title in titles)
    assert any("cosine" in title for title in titles)


def test_a_layer_in_place_of_another_is_no_exchange():
    first = [0, 1, 2, 3, 4]
    other = named(first)
    strange = {**other.parameters, 3: Tensor("head", "weight", Role.PARAMETER)}
    second = Context(parameters=strange, outputs=other.outputs)
    found = explained(chain(first), chain(first), other, second)
    assert not any("took each other's places" in str(cause.title) for cause in found.causes)
