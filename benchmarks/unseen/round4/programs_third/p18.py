"""Denoising pre-training of a tiny BART from scratch with accelerate, on random token sequences."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import random

import torch
import torch_xla
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

VOCAB, LENGTH, MASK = 80, 20, 4


class Denoising(Dataset):
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = [[0] + [5 + (r.randrange(7) + 3 * i) % (VOCAB - 5) for i in range(LENGTH - 2)] + [2] for _ in range(n)]
        self.rng = r

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        clean = self.rows[i]
        noisy = [MASK if 0 < j < LENGTH - 1 and self.rng.random() < 0.3 else t for j, t in enumerate(clean)]
        return {"input_ids": torch.tensor(noisy), "labels": torch.tensor(clean)}


def build_model():
    config = BartConfig(
        vocab_size=VOCAB, d_model=16, encoder_layers=3, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=32,
        encoder_layerdrop=0.3, dropout=0.1, attn_implementation="eager")
    return BartForConditionalGeneration(config)


def main(epochs=2, batch=4):
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=1)
    model = build_model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Denoising(28, 0), batch_size=batch, shuffle=True, drop_last=True)
    sched = get_linear_schedule_with_warmup(opt, 3, epochs * len(loader) + 5)
    model, opt, loader, sched = accelerator.prepare(model, opt, loader, sched)
    torch_xla.sync()
    for epoch in range(epochs):
        model.train()
        for batch_ in loader:
            with accelerator.accumulate(model):
                loss = model(**batch_).loss
                accelerator.backward(loss)
                opt.step()
                sched.step()
                opt.zero_grad()
        accelerator.print(f"epoch {epoch} loss {loss.item():.4f} on {accelerator.device}")


if __name__ == "__main__":
    main()
