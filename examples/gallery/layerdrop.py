"""transformers' BART: LayerDrop leaves layers out in Python, so that each choice is a graph.

Kind: skipped-block
Needs: transformers
Page: layerdrop
"""

import torch
import torch_xla
from _mended import MENDED
from transformers import BartConfig
from transformers.models.bart.modeling_bart import BartEncoder

torch.manual_seed(0)
config = BartConfig(
    vocab_size=100,
    d_model=32,
    encoder_layers=3,
    encoder_attention_heads=2,
    encoder_ffn_dim=64,
    encoder_layerdrop=0.0 if MENDED else 0.3,
    max_position_embeddings=32,
)
model = BartEncoder(config).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(12):
    tokens = torch.randint(3, 100, (2, 16)).to("xla")
    model(input_ids=tokens).last_hidden_state.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
