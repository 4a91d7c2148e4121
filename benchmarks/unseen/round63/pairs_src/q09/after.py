"""Llama-style decoder over symbolic-music tokens (pitch, duration and bar events in one vocabulary)."""
import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, LENGTH, BATCH = 72, 16, 4


def build():
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        tie_word_embeddings=False, use_cache=False, attention_dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, attn_implementation="eager")
    return LlamaForCausalLM(config)


def next_event_loss(logits, tokens, z_weight=1e-4):
    target = tokens[:, 1:].reshape(-1)
    logits = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
    nll = F.cross_entropy(logits, target, ignore_index=0)
    keep = (target != 0).float()
    z = torch.logsumexp(logits, -1).square()
    return nll + z_weight * (z * keep).sum() / keep.sum()


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=6e-4, betas=(0.9, 0.95))


def pieces(seed):
    rng = np.random.default_rng(seed)
    while True:
        t = rng.integers(3, VOCAB, (BATCH, LENGTH))
        t[:, 0] = 1
        for row, n in zip(t, rng.integers(10, LENGTH + 1, BATCH)):
            row[n:] = 0
        yield torch.from_numpy(t)


def train(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build().to(device).train()
    opt = make_optimizer(model)
    data = pieces(5)
    mean_loss = torch.zeros((), device=device)
    torch_xla.sync()
    for _ in range(steps):
        tokens = next(data).to(device)
        logits = model(input_ids=tokens, attention_mask=(tokens != 0).long()).logits
        loss = next_event_loss(logits, tokens)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        mean_loss.add_(loss.detach(), alpha=1.0 / steps)
        torch_xla.sync()
    return mean_loss.item()


if __name__ == "__main__":
    print("nll", train())
