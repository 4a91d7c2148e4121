"""Small unstable training programs; SCENARIO names some. Prints losses and counters as JSON.

They know nothing of xlagraph, so that the same program runs with and without capture.
"""

import json
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch_xla
import torch_xla.debug.metrics as met

STEPS = int(os.environ.get("STEPS", "6"))


def train(scenario):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)]
    model = torch.nn.Sequential(*layers).to("xla")
    momentum = 0.9 if scenario == "momentum" else 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)
    torch_xla.sync()
    history, losses = [], []
    for step in range(STEPS):
        last = scenario == "last_batch" and step % 3 == 2
        x = torch.ones(5 if last else 8, 16).to("xla")
        out = model(x)
        loss = out.pow(2).mean()
        if scenario == "running_loss":
            history.append(loss * 1.5)
            total = sum(history)  # noqa: F841 - the leak
        if scenario == "log_every_k" and step % 3 == 2:
            history.append((out.argmax(1) == 0).float().mean())
        if scenario == "early_item" and step % 3 == 2:
            loss.item()
        if scenario == "python_index":
            loss = loss + out[step % 4].sum() * 0.1
        if scenario == "lr_one":
            optimizer.param_groups[0]["lr"] = (0.02, 1.0, 0.5)[step % 3] * 0.1**step
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        losses.append(loss)
    return [loss.item() for loss in losses]


def main():
    names = ("UncachedCompile", "CachedCompile")
    for scenario in os.environ["SCENARIO"].split(","):
        losses = train(scenario)
        counters = {name: met.counter_value(name) or 0 for name in names}
        print(json.dumps({"losses": losses, **counters}))


if __name__ == "__main__":
    main()
