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
        (FUNCTION, "batch_of", [(2, "batch_of")]),
        (FUNCTION, "stack", []),
        (OBJECT, "stack", []),
    ],
)
def test_different_items_are_seen_in_what_puts_a_batch_together(text, given, found):
    assert distinct(text.format(given=given)) == found
