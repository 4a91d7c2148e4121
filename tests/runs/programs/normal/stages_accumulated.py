"""Two stages, of which the second trains more; two micro-batches make an update."""

import torch
import torch_xla

net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to("xla")
net[0].requires_grad_(False)
for _stage in range(2):
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for _ in range(20):
        for _ in range(2):
            x, y = torch.randn(4, 8).to("xla"), torch.randint(0, 3, (4,)).to("xla")
            loss = torch.nn.functional.cross_entropy(net(x), y) / 2
            loss.backward()
            torch_xla.sync()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
    net.requires_grad_(True)
