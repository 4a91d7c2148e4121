"""transformers' generate: the dynamic cache is concatenated, so that every token has its graph.

Kind: input-shape
Needs: transformers
Page: generate-dynamic-cache
"""

import torch
from _mended import MENDED
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=100,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
model = LlamaForCausalLM(config).eval().to("xla")
prompt = torch.randint(3, 100, (1, 8)).to("xla")
model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    max_new_tokens=12,
    do_sample=False,
    cache_implementation="static" if MENDED else None,
)
