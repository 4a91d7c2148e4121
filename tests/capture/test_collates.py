"""What collate functions do that makes a batch as long as it happens to be."""

from __future__ import annotations

import pytest

from xlagraph.capture.places.settings import settings_in

OBJECT = """class Sampler:
    def __call__(self, seeds):
        nodes = np.unique(np.concatenate([seeds, self.near(seeds)]))
        return torch.from_numpy(self.x[nodes])
loader = DataLoader(graph, collate_fn={given})
"""
NAMED = OBJECT.replace("loader", "collate = Sampler(graph)\nloader")
FUNCTION = """def batch_of(items):
    kept = torch.nonzero(items[0])
    return kept
loader = DataLoader(graph, collate_fn={given})
"""


def distinct(text):
    return [
        (one.line, one.function) for one in settings_in(text.splitlines()) if one[2] == "distinct"
    ]


@pytest.mark.parametrize(
    ("text", "given", "found"),
    [
        (OBJECT, "Sampler(graph)", [(3, "__call__")]),
        (NAMED, "collate", [(3, "__call__")]),
        (FUNCTION, "batch_of", [(2, "batch_of")]),
        (FUNCTION, "stack", []),
        (OBJECT, "stack", []),
    ],
)
def test_different_items_are_seen_in_what_puts_a_batch_together(text, given, found):
    assert distinct(text.format(given=given)) == found


LISTS = """def collate(items):
    ids, owner, sums = [], [], []
    for k, item in enumerate(items):
        {each}
    {behind}
"""


def joined(each, behind="return torch.tensor(ids)"):
    text = LISTS.format(each=each, behind=behind).splitlines()
    return [one.line for one in settings_in(text) if one.option == "joined"]


@pytest.mark.parametrize(
    ("each", "behind"),
    [
        ("ids.extend(item.ids)", "return torch.tensor(ids)"),
        ("ids += [k] * len(item)", "return np.array(ids)"),
        ("for a, b in item.bonds: ids += [a, b]", "return torch.as_tensor(ids)"),
        ("for a in item: ids.append(a)", "return torch.tensor(ids, dtype=torch.long)"),
        ("pass", "return torch.tensor([one for item in items for one in item.ids])"),
    ],
)
def test_lists_that_get_as_much_as_each_item_has_are_joined(each, behind):
    assert joined(each, behind) == [5]


@pytest.mark.parametrize(
    ("each", "behind"),
    [
        ("ids.append(item.label)", "return torch.tensor(ids)"),  # one for each item
        ("ids += [item.x, item.y]", "return torch.tensor(ids)"),
        ("for name in FIELDS: ids.append(item[name])", "return torch.tensor(ids)"),
        ("ids.extend(item.ids)", "ids += [0] * (n - len(ids)); return torch.tensor(ids)"),
        ("ids.extend(item.ids)", "return torch.tensor(ids + [0] * (n - len(ids)))"),
        ("ids.extend(item.ids)", "return torch.tensor(sums)"),
        ("row = []; row.extend(item.ids)", "return torch.tensor(row)"),  # the last item's own
        ("pass", "return torch.tensor([a * b for a in items for b in SCALES])"),
    ],
)
def test_lists_of_rows_or_of_one_length_are_not(each, behind):
    assert joined(each, behind) == []


def test_other_functions_join_what_they_like():
    text = LISTS.format(each="ids.extend(item)", behind="return torch.tensor(ids)")
    text = text.replace("collate", "flatten").splitlines()
    assert not [one for one in settings_in(text) if one.option == "joined"]


PADS_ITSELF = """class Pad:
    def __call__(self, rows):
        longest = {longest}
        return torch.zeros(len(rows), longest)
loader = DataLoader(rows, collate_fn={given})
"""


@pytest.mark.parametrize(
    ("longest", "given", "lines"),
    [
        ("max(len(one) for one in rows)", "Pad()", [3]),
        ("max(map(len, rows))", "Pad()", [3]),
        ("max(one['x'].shape[0] for one in rows)", "Pad()", [3]),
        ("max([one.size(0) for one in rows])", "Pad()", [3]),
        ("max(len(one) for one in rows)", "stack", []),  # something else is called so
        ("max(one.weight for one in rows)", "Pad()", []),
        ("max(8, rows[0].shape[0])", "Pad()", []),
    ],
)
def test_an_object_that_pads_to_the_longest_itself(longest, given, lines):
    text = PADS_ITSELF.format(longest=longest, given=given).splitlines()
    assert [one.line for one in settings_in(text) if one.option == "padding"] == lines


def test_a_collator_that_joins_pads_nothing():
    """It gives one row with the items of a batch, one behind the other."""
    text = ["trainer = Trainer(model, data_collator=DataCollatorWithFlattening())"]
    assert [(one.option, one.value) for one in settings_in(text)] == [("joined", "-1")]
    padded = ["trainer = Trainer(model, data_collator=DataCollatorWithPadding(tokenizer))"]
    assert [one.option for one in settings_in(padded)] == ["padding"]
