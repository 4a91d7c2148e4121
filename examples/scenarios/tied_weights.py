"""Loading a checkpoint in step 4 unties the output layer from the embedding.

Kind: tied-weights
Line: torch/
"""

import torch
from _tiny import update
from torch import nn

torch.manual_seed(0)
embed, middle, head = nn.Linear(16, 8, bias=False), nn.Linear(8, 8), nn.Linear(8, 16, bias=False)
model = nn.ModuleDict({"embed": embed, "middle": middle, "head": head}).to("xla")
shared = nn.Parameter(embed.weight.detach().t().contiguous())
head.weight = shared
for step in range(8):
    if step == 4:
        head.weight = nn.Parameter(shared.detach().clone())
    parameters = [shared, *middle.parameters()]
    parameters += [] if head.weight is shared else [head.weight]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    x = torch.ones(8, 16).to("xla")
    update(head(middle(x @ shared)).pow(2).mean(), optimizer)
