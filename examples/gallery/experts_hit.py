"""transformers' Mixtral: the loop over the experts that were hit reads them from the device.

Kind: input-shape
Needs: transformers
Page: experts-hit
"""

import torch
import torch_xla
from _mended import MENDED
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)
config = MixtralConfig(
    vocab_size=100,
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    num_local_experts=4,
    max_position_embeddings=32,
    experts_implementation="batched_mm" if MENDED else "eager",
)
model = MixtralForCausalLM(config).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    tokens = torch.randint(0, 100, (2, 8)).to("xla")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
