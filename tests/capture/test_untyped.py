"""The program's calls that make a tensor, and take its dtype from the values they are given."""

from __future__ import annotations

import pytest

from xlagraph.capture.places.settings import settings_in


def untyped(line):
    text = f"def load(rows, table, names):\n {line}\n"
    return [one.value for one in settings_in(text.splitlines()) if one.option == "untyped"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("x = torch.tensor(rows)", "x"),
        ("return np.array([r.dose for r in rows])", ""),
        ("return {c: torch.from_numpy(table[c].to_numpy().copy()) for c in names}", ""),
        ("return {c: torch.tensor(table[c].to_numpy()) for c in names}", ""),
        ("x = table['age'].to_numpy(copy=True)", "x"),
        ("x = torch.from_numpy(table['age'].values)", "x"),
        ("return torch.from_numpy(table['age'].values.reshape(-1, 1))", ""),
    ],
)
def test_values_decide_about_the_dtype(line, name):
    assert untyped(line) == [name]


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.tensor(rows, dtype=torch.float32)",
        "x = torch.tensor(rows).float()",
        "x = torch.tensor(np.array(rows), dtype=torch.float32)",
        "x = torch.from_numpy(table['age'].to_numpy(dtype=np.float32))",
        "x = torch.tensor(table['age'].to_numpy(dtype=np.float32).copy())",
        "x = torch.from_numpy(table['age'].astype('float32').to_numpy())",
        "x = table['age'].to_numpy().astype(np.float32)",
        "x = torch.from_numpy(table['age'].to_numpy()).float()",
        "x = torch.from_numpy(table['age'].values.astype('float32'))",
        "x = torch.from_numpy(rows)",
        "x = list(table.values())",
        "x = torch.tensor([len(r) for r in rows])",
    ],
)
def test_a_dtype_that_is_stated_or_given_with_an_array(line):
    assert untyped(line) == []
