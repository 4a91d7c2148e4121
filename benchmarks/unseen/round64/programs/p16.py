"""Transliteration of place names (Latin -> toy abjad) with a small M2M100-style seq2seq."""
import random
import time

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from transformers import M2M100Config, M2M100ForConditionalGeneration
from transformers.optimization import get_inverse_sqrt_schedule

PAD, BOS, EOS = 1, 0, 2
LATIN = "abcdefghijklmnoprstuvwyz"
VOWELS = set("aeiouy")
OFFSET = 4
SRC_LEN, TGT_LEN = 16, 14
VOCAB = OFFSET + 2 * len(LATIN)


def random_name(rng):
    parts = []
    for _ in range(rng.randint(2, 5)):
        parts.append(rng.choice([c for c in LATIN if c not in VOWELS]))
        parts.append(rng.choice(sorted(VOWELS)))
        if rng.random() < 0.2:
            parts.append(rng.choice("nrst"))
    return "".join(parts)[: SRC_LEN - 1]


def transliterate(name):
    out = []
    for i, ch in enumerate(name):
        if ch in VOWELS and i not in (0, len(name) - 1):
            continue
        out.append(OFFSET + len(LATIN) + LATIN.index(ch))
    return out[: TGT_LEN - 1]


class PlaceNames(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.names = [random_name(rng) for _ in range(n)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        name = self.names[i]
        src = [OFFSET + LATIN.index(c) for c in name] + [EOS]
        tgt = transliterate(name) + [EOS]
        return src, tgt


def collate(rows):
    src = torch.full((len(rows), SRC_LEN), PAD)
    labels = torch.full((len(rows), TGT_LEN), -100)
    for r, (s, t) in enumerate(rows):
        src[r, : len(s)] = torch.tensor(s)
        labels[r, : len(t)] = torch.tensor(t)
    return {"input_ids": src, "attention_mask": (src != PAD).long(), "labels": labels}


def build_model():
    config = M2M100Config(
        vocab_size=VOCAB,
        d_model=16,
        encoder_layers=4,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.2,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        max_position_embeddings=32,
        scale_embedding=True,
        use_cache=False,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        attn_implementation="eager",
    )
    return M2M100ForConditionalGeneration(config)


class Meter:
    def __init__(self, device):
        self.total = torch.zeros((), device=device)
        self.n = 0

    def add(self, value):
        self.total += value.detach()
        self.n += 1

    def pop(self):
        avg = self.total.item() / max(1, self.n)
        self.total.zero_()
        self.n = 0
        return avg


def main():
    seed, epochs, batch_size = 7, 2, 12
    random.seed(seed)
    torch.manual_seed(seed)
    device = xm.xla_device()

    loader = DataLoader(PlaceNames(144, seed), batch_size=batch_size, shuffle=True,
                        drop_last=True, collate_fn=collate)
    model = build_model().to(device)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = get_inverse_sqrt_schedule(optimizer, num_warmup_steps=8)
    meter = Meter(device)

    step, began = 0, time.time()
    for epoch in range(epochs):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            out = model(**batch)
            loss = torch.nn.functional.cross_entropy(
                out.logits.flatten(0, 1), batch["labels"].flatten(),
                ignore_index=-100, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=False)
            meter.add(loss)
            step += 1
            torch_xla.sync()
            if step % 6 == 0:
                rate = step / (time.time() - began)
                print(f"epoch {epoch} step {step} loss {meter.pop():.4f} {rate:.2f} it/s")


if __name__ == "__main__":
    main()
