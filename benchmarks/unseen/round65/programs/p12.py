"""Pretrain a tiny mixture-of-experts language model on synthetic MIDI-like event streams."""
from dataclasses import dataclass

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from transformers import MixtralConfig, MixtralForCausalLM, get_cosine_schedule_with_warmup, set_seed


@dataclass
class TrainConfig:
    vocab_size: int = 64
    context: int = 16
    batch_size: int = 4
    steps: int = 15
    lr: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    log_every: int = 5
    seed: int = 11


class EventStreams(Dataset):
    """Each stream loops over a motif of pitches with a few random ornaments."""

    NOTE_OFF = 1
    BAR = 2

    def __init__(self, cfg, n):
        g = torch.Generator().manual_seed(cfg.seed)
        self.rows = []
        for _ in range(n):
            k = int(torch.randint(3, 7, (1,), generator=g))
            motif = torch.randint(3, cfg.vocab_size, (k,), generator=g)
            line = motif.repeat(cfg.context // k + 1)[: cfg.context].clone()
            line[:: cfg.context // 4] = self.BAR
            orn = torch.rand(cfg.context, generator=g) < 0.1
            line[orn] = self.NOTE_OFF
            self.rows.append(line)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def build_model(cfg):
    config = MixtralConfig(
        vocab_size=cfg.vocab_size,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        num_local_experts=3,
        num_experts_per_tok=1,
        max_position_embeddings=cfg.context,
        use_cache=False,
        initializer_range=0.05,
        tie_word_embeddings=False,
        experts_implementation="eager",
        attn_implementation="eager",
    )
    return MixtralForCausalLM(config)


def param_groups(model, weight_decay):
    decay, rest = [], []
    for p in model.parameters():
        (decay if p.ndim >= 2 else rest).append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]


def main():
    cfg = TrainConfig()
    set_seed(cfg.seed)
    device = torch_xla.device()

    loader = DataLoader(
        EventStreams(cfg, cfg.batch_size * cfg.steps),
        batch_size=cfg.batch_size,
        shuffle=True,
        drop_last=True,
    )
    model = build_model(cfg).to(device)
    model.train()
    optimizer = torch.optim.SGD(param_groups(model, cfg.weight_decay), lr=cfg.lr, momentum=0.9)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 3, cfg.steps)

    for step, ids in enumerate(loader):
        ids = ids.to(device)
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        xm.mark_step()
        if (step + 1) % cfg.log_every == 0:
            print(f"step {step + 1}: loss {out.loss.item():.4f}")


if __name__ == "__main__":
    main()
