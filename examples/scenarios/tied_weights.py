"""Loading a checkpoint in step 4 unties the output layer from the embedding.

Kind: tied-weights
"""

import torch
from _tiny import update
from torch import nn

torch.manual_seed(0)
embedding = nn.Parameter(torch.randn(16, 16).to("xla"))
head = embedding
for step in range(8):
    if step == 4:
        head = nn.Parameter(embedding.detach().cpu().to("xla"))
    weights = [embedding] if head is embedding else [embedding, head]
    optimizer = torch.optim.SGD(weights, lr=0.05)
    hidden = torch.ones(8, 16).to("xla") @ embedding
    update((hidden.tanh() @ head).pow(2).mean(), optimizer)  # cause
