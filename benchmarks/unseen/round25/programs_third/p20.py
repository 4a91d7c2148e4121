"""LoRA adaptation of a small GPT-2 on synthetic command logs, length buckets, gradient accumulation."""
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup

BUCKETS = (16, 32, 48)
VOCAB, PAD = 90, 0
BATCH, ACCUM, UPDATES = 4, 2, 40
EVAL_EVERY = 10


def synth_line(rng):
    n = int(rng.integers(6, BUCKETS[-1] + 1))
    step = int(rng.integers(1, 6))
    start = int(rng.integers(1, VOCAB))
    return [(start + step * i) % (VOCAB - 1) + 1 for i in range(n)]


class BucketIterator:
    """Groups lines by the smallest bucket that holds them and yields full batches only."""

    def __init__(self, lines, batch, seed):
        self.rng = random.Random(seed)
        self.batch = batch
        self.by_bucket = {b: [] for b in BUCKETS}
        for line in lines:
            self.by_bucket[next(b for b in BUCKETS if len(line) <= b)].append(line)

    def epoch(self):
        chunks = []
        for size, lines in self.by_bucket.items():
            lines = list(lines)
            self.rng.shuffle(lines)
            for i in range(0, len(lines) - self.batch + 1, self.batch):
                chunks.append((size, lines[i:i + self.batch]))
        self.rng.shuffle(chunks)
        for size, lines in chunks:
            yield self.collate(size, lines)

    def forever(self):
        while True:
            yield from self.epoch()

    @staticmethod
    def collate(size, lines):
        ids = np.full((len(lines), size), PAD, dtype=np.int64)
        mask = np.zeros_like(ids)
        for r, line in enumerate(lines):
            ids[r, :len(line)] = line
            mask[r, :len(line)] = 1
        labels = np.where(mask == 1, ids, -100)
        return {k: torch.from_numpy(v) for k, v in
                dict(input_ids=ids, attention_mask=mask, labels=labels).items()}


def build_model():
    cfg = GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=2,
                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                     bos_token_id=1, eos_token_id=2, attn_implementation="eager")
    base = GPT2LMHeadModel(cfg)
    base.config.use_cache = False
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["c_attn"],
                      fan_in_fan_out=True, task_type="CAUSAL_LM")
    return get_peft_model(base, lora)


def evaluate(model, batches, device):
    model.eval()
    losses = []
    for b in batches:
        with torch.no_grad():
            out = model(**{k: v.to(device) for k, v in b.items()})
        torch_xla.sync()
        losses.append(out.loss)
    model.train()
    return float(np.mean([l.item() for l in losses]))


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    train = BucketIterator([synth_line(rng) for _ in range(240)], BATCH, seed=1)
    held_out = list(BucketIterator([synth_line(rng) for _ in range(48)], BATCH, seed=2).epoch())
    model = build_model().to(device)
    model.print_trainable_parameters()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=5e-3)
    sched = get_cosine_schedule_with_warmup(opt, 4, UPDATES + 10)
    stream = train.forever()
    for p in params:
        p.grad = torch.zeros_like(p)
    torch_xla.sync()
    for update in range(1, UPDATES + 1):
        for _ in range(ACCUM):
            batch = {k: v.to(device) for k, v in next(stream).items()}
            loss = model(**batch).loss / ACCUM
            loss.backward()
            torch_xla.sync()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=False)
        torch_xla.sync()
        if update % EVAL_EVERY == 0:
            print(f"update {update} train {loss.item() * ACCUM:.3f} held-out {evaluate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
