"""Melody model with self-imitation: a tiny GPT-2 over scale degrees is trained on a
synthetic corpus and every few steps samples continuations, ranks them with a
consonance rule and mixes the best half back into the next update."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from transformers import GPT2Config, GPT2LMHeadModel, GenerationConfig, set_seed
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()

SEED = 55
VOCAB = 20
PROMPT, NEW = 6, 4
LENGTH = PROMPT + NEW
BATCH = 8
STEPS = 40
SAMPLE_EVERY = 5


def corpus_batch(gen):
    """Random walks on the scale with small intervals and a cadence at the end."""
    start = torch.randint(5, 15, (BATCH, 1), generator=gen)
    moves = torch.randint(-2, 3, (BATCH, LENGTH - 1), generator=gen)
    walk = torch.cat([start, start + moves.cumsum(1)], dim=1).clamp(1, VOCAB - 1)
    walk[:, -1] = (walk[:, -1] // 7 * 7).clamp(min=1)
    return walk


def consonance(melody):
    interval = (melody[:, 1:] - melody[:, :-1]).abs()
    smooth = (interval <= 2).float().mean(1)
    repeats = (interval == 0).float().mean(1)
    cadence = (melody[:, -1] % 7 == 0).float()
    return smooth - 0.5 * repeats + 0.3 * cadence


def build():
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=LENGTH + 2,
        n_embd=24,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return GPT2LMHeadModel(config)


class Imitator:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.config = GenerationConfig(
            do_sample=True,
            top_k=0,
            temperature=1.1,
            max_new_tokens=NEW,
            pad_token_id=0,
            eos_token_id=None,
        )

    @torch.no_grad()
    def collect(self, gen):
        self.model.eval()
        prompt = corpus_batch(gen)[:, :PROMPT].to(self.device)
        mask = torch.ones_like(prompt)
        out = self.model.generate(prompt, attention_mask=mask, generation_config=self.config)
        score = consonance(out)
        best = score.topk(BATCH // 2).indices
        kept = out[best]
        torch_xla.sync()
        self.model.train()
        return kept, score.mean().item()


def main():
    set_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()

    model = build().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    imitator = Imitator(model, device)
    elite = None
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        melody = corpus_batch(gen).to(device)
        if elite is not None:
            melody = torch.cat([melody[: BATCH // 2], elite])
            elite = None
        loss = model(input_ids=melody, labels=melody).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if step % SAMPLE_EVERY == 0:
            elite, quality = imitator.collect(gen)
            print(f"step {step:3d}  loss {loss.item():.3f}  consonance {quality:.3f}")


if __name__ == "__main__":
    main()
