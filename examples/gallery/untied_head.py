"""accelerate's prepare: moving the model to XLA unties GPT-2's head from its embedding.

Kind: accumulated-gradient
Needs: accelerate
Page: untied-head
"""

import torch
import torch_xla
from _mended import MENDED
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=1, n_head=2)
accelerator = Accelerator()
model = GPT2LMHeadModel(config)
if MENDED:
    model.to(accelerator.device)
    model.tie_weights()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(8):
    tokens = torch.randint(0, 100, (2, 16)).to(accelerator.device)
    loss = model(input_ids=tokens, labels=tokens).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
