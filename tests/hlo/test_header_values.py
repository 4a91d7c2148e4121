"""Header fields as values."""

from __future__ import annotations

import pytest
from hlo_helpers import FIXTURES

from xlagraph.errors import InputError
from xlagraph.hlo import load
from xlagraph.hlo.header_values import Alias, Donor, read_aliases, read_donors, read_entry_layout


def test_aliases_donors_and_layout_of_donated_arguments():
    module = load(str(FIXTURES / "corpus" / "jax_attention_donated.after.hlo.gz"))
    aliases = read_aliases(module.header_fields["input_output_alias"])
    assert aliases[0] == Alias((1,), 0, (), "may-alias")
    layout = read_entry_layout(module.header_fields["entry_computation_layout"])
    assert [shape.dimensions for shape in layout.parameters] == [(8, 8)] * 3 + [(4, 8)]
    assert layout.result.is_tuple
    assert layout.result.parts[0].without_layout() == "f32[]"


def test_nested_indices():
    assert read_aliases("{ {}: (0, {}), {1,2}: (3, {4,5}, must-alias) }") == (
        Alias((), 0, (), ""),
        Alias((1, 2), 3, (4, 5), "must-alias"),
    )
    assert read_donors("{ (0, {}), (12, {1}) }") == (Donor(0, ()), Donor(12, (1,)))
    assert read_donors("{}") == ()


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_aliases, "x", "expected '{'"),
        (read_aliases, "{ {0} }", "expected an alias"),
        (read_aliases, "{ {0}: (0, {})", "expected an alias"),
        (read_donors, "{ (99999999999, {}) }", "expected a donor"),
        (read_entry_layout, "{(f32[])}", "expected '->'"),
        (read_entry_layout, "{(f32[)->f32[]}", "expected a shape"),
    ],
)
def test_errors(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)
