"""The tokens generated so far are joined with the next one in every step.

Kind: growing-input
Line: torch
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
embedding, head = nn.Embedding(32, 16).to("xla"), nn.Linear(16, 32).to("xla")
tokens = torch.zeros(1, 3, dtype=torch.long).to("xla")
torch_xla.sync()
with torch.no_grad():
    for _ in range(8):
        following = head(embedding(tokens).mean(1)).argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], dim=1)  # cause
        torch_xla.sync()
