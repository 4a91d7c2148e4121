"""Which statements of a program run again as it trains, and which once before."""

from __future__ import annotations

import pytest

from xlagraph.capture.places.settings import settings_in

MAKER = """def make():
    src, dst = np.nonzero(np.triu(draw()))
    return torch.tensor(src)
"""
ONCE = """def main():
    edges = make()
    for epoch in range(9):
        step(edges.to(device))
main()
"""
SEEDS = """for seed in range(3):
    edges = make()
    net = Net()
    opt = torch.optim.Adam([{"params": net.parameters()}])
    for epoch in range(9):
        step(edges.to(device))
"""
RUNS = """def main(seed):
    edges = make()
    opt = SGD(net.parameters())
    for epoch in range(9):
        step(edges.to(device))
for seed in range(3):
    main(seed)
"""
SPLITS = """def main():
    for split in ("train", "test"):
        data[split] = make()
    data.to(device)
    edges = make().to(device)
main()
"""
EACH = """for epoch in range(9):
    edges = make().to(device)
    clip_grad_norm_(net.parameters(), 1.0)
"""
THROUGH = """def batch():
    return make().to(device)
def step():
    loss = net(batch())
    clip_grad_norm_(net.parameters(), 1.0)
while True:
    step()
"""
EPOCHS = """def train(opt):
    edges = make().to(device)
    for batch in loader:
        step(batch, edges)
def main():
    opt = SGD(net.parameters())
    for epoch in range(9):
        train(opt)
main()
"""
PREPARED = """def main():
    edges = [make().to(device) for _ in range(100)]
    for one in edges:
        step(one)
main()
"""
VALUE = """edges = DataLoader(range(9), collate_fn=make)
make()
"""
STREAM = """def batches():
    yield make().to(device)
stream = batches()
"""
ITEM = """class Items:
    def __getitem__(self, k):
        return make().to(device)
items = Items()
"""


def found(text, others=()):
    settings = settings_in(text.splitlines(), [one.splitlines() for one in others])
    return [one.line for one in settings if one.option == "distinct"]


@pytest.mark.parametrize("rest", [ONCE, SEEDS, RUNS, SPLITS])
def test_what_runs_once_before_the_steps_makes_no_size(rest):
    assert found(MAKER + rest) == []


@pytest.mark.parametrize("rest", [EACH, THROUGH, EPOCHS, PREPARED, VALUE, STREAM, ITEM])
def test_what_may_run_for_each_batch_does(rest):
    assert found(MAKER + rest) == [2]


def test_callers_stand_in_other_files_too():
    sent = MAKER + "def sent(): return make().to(device)\n"
    assert found(sent) == [2]  # nobody is seen to call it
    assert found(sent, ["from data import sent\nx = sent()\n"]) == []
    assert found(sent, ["from data import sent\nfor _ in range(9): x = sent()\n"]) == [2]


def test_a_loop_of_its_own_counts():
    text = "def make():\n    for one in parts:\n        yield from np.nonzero(one)\n"
    assert found(text + "for one in make():\n    one.to(device)\n") == [3]


def test_a_length_drawn_once_cuts_all_batches_alike():
    text = "def cut(x):\n    n = random.randint(2, 9)\n    return x[:n]\n"
    lines = [*text.splitlines(), "data = cut(data)", "for x in data: step(x)"]
    assert not [one for one in settings_in(lines) if one.option == "cut"]
    lines[-2:] = ["for x in data: step(cut(x))"]
    assert [one.line for one in settings_in(lines) if one.option == "cut"] == [2]


def test_what_is_written_to_a_part_of_something_longer_cuts_nothing():
    text = "def fill(x):\n    n = random.randint(2, 9)\n    x[:n] = {}\n    return x\n"
    for written, found in (("1", []), ("y[:n]", [2])):
        lines = [*text.format(written).splitlines(), "for x in data: step(fill(x))"]
        assert [one.line for one in settings_in(lines) if one.option == "cut"] == found
