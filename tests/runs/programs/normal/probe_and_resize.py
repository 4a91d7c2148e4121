"""A head is trained, then all of it, then on larger images; each epoch ends with an evaluation.

The evaluation reads a number of each batch, the last of which is smaller.
"""

import copy

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).to("xla")
head = nn.Linear(8, 4).to("xla")
model = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
average = copy.deepcopy(model).eval().requires_grad_(False)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)


def epoch(size, optimizer):
    body.train(any(p.requires_grad for p in body.parameters()))
    for _ in range(8):
        x, y = torch.rand(4, 3, size, size).to("xla"), torch.randint(4, (4,)).to("xla")
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)
        torch_xla.sync()


@torch.no_grad()
def evaluate(size):
    right = 0
    for examples in (4, 2):
        x, y = torch.rand(examples, 3, size, size).to("xla"), torch.randint(4, (examples,))
        right += (average(x).argmax(1) == y.to("xla")).sum().item()
    return right


for trained, size, epochs in ((head, 12, 1), (model, 12, 2), (model, 16, 4)):
    body.requires_grad_(trained is model)
    optimizer = torch.optim.SGD(trained.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(epochs):
        epoch(size, optimizer)
        evaluate(size)
