"""Pre-training of a small GPT-2 on symbolic melodies with accelerate: accumulation, cosine schedule, shifted positions."""
import math
import random

import torch
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup

PITCHES, DURATIONS, BAR, PAD = 36, 6, 1, 0
VOCAB = 2 + PITCHES + DURATIONS
BLOCK, MAX_POSITIONS = 32, 256


class Melodies(Dataset):
    """Random walks on a scale; every event is a (pitch, duration) pair, bars come every four events."""

    SCALE = [0, 2, 4, 5, 7, 9, 11]

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [self.compose(rng) for _ in range(n)]

    def compose(self, rng):
        key, degree, ids = rng.randrange(12), rng.randrange(7), [BAR]
        while len(ids) < BLOCK:
            for _ in range(4):
                degree = max(0, min(13, degree + rng.choice([-2, -1, -1, 0, 1, 1, 2])))
                pitch = (key + 12 * (degree // 7) + self.SCALE[degree % 7]) % PITCHES
                ids += [2 + pitch, 2 + PITCHES + rng.choice([1, 1, 2, 2, 3, 5])]
            ids.append(BAR)
        return torch.tensor(ids[:BLOCK])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids = self.rows[i]
        return {"input_ids": ids, "pitch_mask": (ids >= 2) & (ids < 2 + PITCHES)}


def build_model():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB,
        n_positions=MAX_POSITIONS,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_inner=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=BAR,
        eos_token_id=BAR,
        use_cache=False,
        attn_implementation="eager",
    ))


def position_ids_for(batch, length, device, shift=0):
    position_ids = torch.arange(shift, shift + length, dtype=torch.long, device=device)
    return position_ids.unsqueeze(0).expand(batch, -1)


def weighted_nll(logits, ids, pitch_mask, pitch_weight):
    nll = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    weight = 1.0 + (pitch_weight - 1.0) * pitch_mask[:, 1:].float()
    return (nll * weight).sum() / weight.sum()


def grouped_parameters(model, weight_decay):
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    losses = []
    for batch in loader:
        ids = batch["input_ids"]
        out = model(input_ids=ids, position_ids=position_ids_for(*ids.shape, ids.device))
        losses.append(weighted_nll(out.logits, ids, batch["pitch_mask"], 1.0))
        torch_xla.sync()
    model.train()
    return math.exp(sum(v.item() for v in losses) / len(losses))


def main():
    set_seed(77)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = build_model()
    optimizer = torch.optim.AdamW(grouped_parameters(model, 0.05), lr=5e-3, betas=(0.9, 0.95))
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=12)
    train = DataLoader(Melodies(96, seed=1), batch_size=8, shuffle=True, drop_last=True)
    valid = DataLoader(Melodies(16, seed=2), batch_size=8)
    model, optimizer, scheduler, train, valid = accelerator.prepare(model, optimizer, scheduler, train, valid)
    model.train()

    micro = 0
    for epoch in range(2):
        running = []
        for batch in train:
            ids = batch["input_ids"]
            with accelerator.accumulate(model):
                shift = random.randint(0, MAX_POSITIONS - BLOCK)
                positions = position_ids_for(*ids.shape, ids.device, shift)
                logits = model(input_ids=ids, position_ids=positions).logits
                loss = weighted_nll(logits, ids, batch["pitch_mask"], pitch_weight=1.5)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            torch_xla.sync()
            running.append(loss.detach())
            micro += 1
        train_loss = torch.stack(running).mean().item()
        print(f"epoch {epoch}  micro steps {micro}  loss {train_loss:.3f}  ppl {evaluate(model, valid):.2f}")


if __name__ == "__main__":
    main()
