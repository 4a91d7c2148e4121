"""Pre-train a small Mixtral on symbolic folk melodies (pitch/duration event tokens)."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch_xla
from torch.utils.data import DataLoader, TensorDataset
from transformers import MixtralConfig, MixtralForCausalLM, get_cosine_schedule_with_warmup

BOS, EOS = 0, 1
PITCH0, N_PITCH = 2, 24
DUR0, N_DUR = PITCH0 + N_PITCH, 6
VOCAB = DUR0 + N_DUR
SCALE = (0, 2, 4, 5, 7, 9, 11)


@dataclass
class Config:
    block: int = 32
    batch: int = 4
    steps: int = 15
    lr: float = 3e-3
    warmup: int = 4
    clip: float = 1.0
    hidden: int = 24
    layers: int = 1
    experts: int = 4
    top_k: int = 2
    eval_every: int = 5
    seed: int = 2024


def melody(rng):
    key, pos, out = rng.integers(0, 5), 7, [BOS]
    for _ in range(rng.integers(10, 40)):
        pos = int(np.clip(pos + rng.integers(-2, 3), 0, 13))
        pitch = min(N_PITCH - 1, key + 12 * (pos // 7) + SCALE[pos % 7])
        out += [PITCH0 + int(pitch), DUR0 + int(rng.choice(N_DUR, p=(.1, .35, .25, .15, .1, .05)))]
    return out + [EOS]


def pack(n_blocks, block, seed):
    rng = np.random.default_rng(seed)
    stream = []
    while len(stream) < n_blocks * block:
        stream += melody(rng)
    return torch.tensor(stream[: n_blocks * block]).view(n_blocks, block)


def build_model(cfg):
    hf = MixtralConfig(
        vocab_size=VOCAB,
        hidden_size=cfg.hidden,
        intermediate_size=2 * cfg.hidden,
        num_hidden_layers=cfg.layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=cfg.hidden // 2,
        max_position_embeddings=cfg.block,
        num_local_experts=cfg.experts,
        num_experts_per_tok=cfg.top_k,
        output_router_logits=False,
        use_cache=False,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=None,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    return MixtralForCausalLM(hf)


def decay_groups(model, wd):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (decay if p.ndim >= 2 and "embed" not in name else plain).append(p)
    return [{"params": decay, "weight_decay": wd}, {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(model, blocks, device):
    model.eval()
    total = 0.0
    for x in blocks:
        x = x.to(device)
        total += model(input_ids=x, labels=x).loss.item()
    model.train()
    return total / len(blocks)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    device = torch_xla.device()

    train = pack(cfg.steps * cfg.batch, cfg.block, seed=1)
    held_out = pack(cfg.batch, cfg.block, seed=2).split(cfg.batch)
    loader = DataLoader(TensorDataset(train), batch_size=cfg.batch, shuffle=True, drop_last=True)

    model = build_model(cfg).to(device)
    model.train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=cfg.lr, betas=(0.9, 0.95))
    scheduler = get_cosine_schedule_with_warmup(optimizer, cfg.warmup, cfg.steps)

    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    for step, (x,) in enumerate(loader):
        x = x.to(device)
        out = model(input_ids=x, labels=x)
        out.loss.backward()
        gnorm = torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        torch_xla.sync()

        if step % 3 == 0:
            print(f"step {step:3d} loss {out.loss.item():.3f} "
                  f"|g| {gnorm.item():.2f}")
        if (step + 1) % cfg.eval_every == 0:
            val = evaluate(model, held_out, device)
            print(f"  eval loss {val:.3f} ppl {math.exp(val):.1f}")


if __name__ == "__main__":
    main()
