"""Instruction finetuning of a small causal LM, full-parameter but layer-sampled to save optimizer memory."""
import random

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, get_scheduler

IGNORE = -100
PAD, BOS, SEP, EOS = 0, 1, 2, 3
VOCAB = 96
BLOCK = 32


def make_example(rng):
    """Toy instructions: copy, reverse or sort a short span of symbols."""
    op = rng.randrange(3)
    span = [rng.randrange(10, VOCAB) for _ in range(rng.randint(4, 10))]
    out = {0: span, 1: span[::-1], 2: sorted(span)}[op]
    prompt = [BOS, 4 + op] + span + [SEP]
    return prompt, out + [EOS]


def encode(example):
    prompt, answer = example
    ids = (prompt + answer)[:BLOCK]
    labels = ([IGNORE] * len(prompt) + answer)[:BLOCK]
    pad = BLOCK - len(ids)
    return {
        "input_ids": torch.tensor(ids + [PAD] * pad),
        "attention_mask": torch.tensor([1] * len(ids) + [0] * pad),
        "labels": torch.tensor(labels + [IGNORE] * pad),
    }


def collate(examples):
    rows = [encode(e) for e in examples]
    return {k: torch.stack([r[k] for r in rows]) for k in rows[0]}


class LayerSampler:
    """Keeps embeddings and head trainable, and opens a few blocks at a time for `period` steps."""

    def __init__(self, model, n_active, period, lr, seed):
        self.model = model
        self.blocks = list(model.transformer.h)
        self.n_active, self.period, self.lr = n_active, period, lr
        self.rng = np.random.default_rng(seed)
        self.active = []
        self.optimizer = None
        for block in self.blocks:
            block.requires_grad_(False)

    def maybe_switch(self, step):
        if step % self.period:
            return
        for i in self.active:
            self.blocks[i].requires_grad_(False)
        self.active = sorted(
            self.rng.choice(len(self.blocks), self.n_active, replace=False).tolist())
        for i in self.active:
            self.blocks[i].requires_grad_(True)
        self.optimizer = self._build_optimizer()

    def _build_optimizer(self):
        params = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.AdamW(
            [{"params": [p for p in params if p.ndim > 1], "weight_decay": 0.05},
             {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0}],
            lr=self.lr, betas=(0.9, 0.98))

    def set_lr(self, lr):
        for group in self.optimizer.param_groups:
            group["lr"] = lr


@torch.no_grad()
def evaluate(model, batch):
    model.eval()
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    shift, labels = logits[:, :-1], batch["labels"][:, 1:]
    valid = labels != IGNORE
    hit = ((shift.argmax(-1) == labels) & valid).sum() / valid.sum()
    torch_xla.sync()
    model.train()
    return hit.item()


def lm_loss(logits, labels):
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]),
                           labels[:, 1:].reshape(-1), ignore_index=IGNORE)


def main():
    torch.manual_seed(21)
    rng = random.Random(21)
    device = torch_xla.device()
    xm.set_rng_state(21, device=str(device))
    steps, warmup, peak = 24, 4, 2e-3

    config = GPT2Config(vocab_size=VOCAB, n_positions=BLOCK, n_embd=32, n_layer=5, n_head=2,
                        resid_pdrop=0.05, embd_pdrop=0.05, attn_pdrop=0.0,
                        bos_token_id=BOS, eos_token_id=EOS, use_cache=False,
                        attn_implementation="eager")
    model = GPT2LMHeadModel(config).to(device)
    model.train()

    train = [make_example(rng) for _ in range(16 * steps)]
    held_out = {k: v.to(device) for k, v in collate([make_example(rng) for _ in range(32)]).items()}
    loader = DataLoader(train, batch_size=16, collate_fn=collate, drop_last=True)

    sampler = LayerSampler(model, n_active=2, period=4, lr=peak, seed=21)
    shadow = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)   # carries the lr curve
    schedule = get_scheduler("cosine", shadow, num_warmup_steps=warmup, num_training_steps=steps + 10)

    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        sampler.maybe_switch(step)
        sampler.set_lr(schedule.get_last_lr()[0] + 1e-5)
        out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        loss = lm_loss(out.logits, batch["labels"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        sampler.optimizer.step()
        model.zero_grad(set_to_none=True)
        shadow.step()
        schedule.step()
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            print(f"step {step + 1:3d} loss {loss.item():.4f} "
                  f"blocks {sampler.active} acc {evaluate(model, held_out):.3f}")


if __name__ == "__main__":
    main()
