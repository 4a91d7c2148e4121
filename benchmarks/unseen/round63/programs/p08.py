"""Masked k-mer language model on amplicon reads, tiny encoder built from config."""
import itertools
from functools import partial

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
import torch_xla
from transformers import BertConfig, BertForMaskedLM, get_linear_schedule_with_warmup

K = 3
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
VOCAB = {t: i for i, t in enumerate(SPECIAL + ["".join(p) for p in itertools.product("ACGT", repeat=K)])}
PAD, CLS, SEP, MASK, UNK = range(5)
MAX_LEN = 96


class AmpliconReads(Dataset):
    """Reads sampled from a few references, with substitutions and quality trimming."""

    def __init__(self, n, seed, n_refs=6):
        rng = np.random.default_rng(seed)
        refs = ["".join(rng.choice(list("ACGT"), 400, p=rng.dirichlet([6] * 4))) for _ in range(n_refs)]
        self.reads = []
        for _ in range(n):
            ref = refs[rng.integers(n_refs)]
            length = int(np.clip(rng.normal(60, 18), 20, 94))
            start = rng.integers(0, len(ref) - length)
            read = list(ref[start:start + length])
            for pos in np.flatnonzero(rng.random(length) < 0.02):
                read[pos] = rng.choice(list("ACGTN"))
            self.reads.append("".join(read))

    def __len__(self):
        return len(self.reads)

    def __getitem__(self, i):
        return self.reads[i]


def tokenize(read):
    kmers = (read[i:i + K] for i in range(len(read) - K + 1))
    ids = [CLS] + [VOCAB.get(k, UNK) for k in kmers][:MAX_LEN - 2] + [SEP]
    return torch.tensor(ids)


def mask_spans(ids, gen, p=0.15):
    """Adjacent k-mers overlap, so whole spans of K tokens are hidden."""
    starts = torch.rand(ids.shape, generator=gen) < p / K
    chosen = starts.clone()
    for shift in range(1, K):
        chosen |= torch.roll(starts, shift, dims=1)
    chosen &= ids >= len(SPECIAL)
    labels = torch.where(chosen, ids, torch.full_like(ids, -100))
    return torch.where(chosen, torch.full_like(ids, MASK), ids), labels


def collate(reads, gen):
    ids = pad_sequence([tokenize(r) for r in reads], batch_first=True, padding_value=PAD)
    attention = (ids != PAD).long()
    inputs, labels = mask_spans(ids, gen)
    return {"input_ids": inputs, "attention_mask": attention, "labels": labels}


def build_model():
    cfg = BertConfig(
        vocab_size=len(VOCAB), hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=MAX_LEN, pad_token_id=PAD,
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0, attn_implementation="eager")
    return BertForMaskedLM(cfg)


def param_groups(model, wd):
    no_decay = ("bias", "LayerNorm.weight")
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": wd},
        {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    ]


def main():
    steps, batch = 20, 6
    torch.manual_seed(1234)
    gen = torch.Generator().manual_seed(1234)
    device = torch_xla.device()
    ds = AmpliconReads(steps * batch, seed=8)
    loader = DataLoader(ds, batch_size=batch, shuffle=True, drop_last=True, collate_fn=partial(collate, gen=gen))
    model = build_model().to(device).train()
    opt = torch.optim.AdamW(param_groups(model, 0.01), lr=1e-3)
    sched = get_linear_schedule_with_warmup(opt, num_warmup_steps=4, num_training_steps=steps)

    window = torch.zeros((), device=device)
    for step, enc in enumerate(loader, 1):
        enc = {k: v.to(device) for k, v in enc.items()}
        out = model(**enc)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
        window += out.loss.detach()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step:3d} | mlm loss {window.item() / 5:.3f} | lr {sched.get_last_lr()[0]:.1e}")
            window.zero_()


if __name__ == "__main__":
    main()
