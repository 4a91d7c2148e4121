import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

LANGUAGES = ["de", "en", "fi", "tr"]
N_TAGS = {"de": 12, "en": 17, "fi": 15, "tr": 14}
VOCAB, LENGTH, BATCH = 120, 12, 8


class CharCNN(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)

    def forward(self, ids):
        e = self.emb(ids)
        return e + torch.relu(self.conv(e.transpose(1, 2))).transpose(1, 2)


class MultilingualTagger(nn.Module):
    """Shared encoder, one tagging head and one adapter a language."""

    def __init__(self, dim=24):
        super().__init__()
        self.chars = CharCNN(VOCAB, dim)
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.adapters = nn.ModuleDict({l: nn.Sequential(nn.Linear(dim, 8), nn.ReLU(), nn.Linear(8, dim))
                                       for l in LANGUAGES})
        self.heads = nn.ModuleDict({l: nn.Linear(dim, N_TAGS[l]) for l in LANGUAGES})

    def forward(self, ids, lang):
        h = self.chars(ids)
        h = self.norm(h + self.attn(h, h, h, need_weights=False)[0])
        h = h + self.adapters[lang](h)
        return self.heads[lang](h)


class Treebank:
    def __init__(self, lang, sentences=64):
        g = torch.Generator().manual_seed(sum(map(ord, lang)))
        self.ids = torch.randint(1, VOCAB, (sentences, LENGTH), generator=g)
        shift = torch.randint(0, 10, (1,), generator=g)
        self.tags = (self.ids + shift) % N_TAGS[lang]
        self.rng = random.Random(lang)

    def draw(self, n):
        rows = self.rng.sample(range(len(self.ids)), n)
        return self.ids[rows], self.tags[rows]


class JointTrainer:
    def __init__(self, model, banks, device, lr=5e-3, weights=None):
        self.model, self.banks, self.device = model, banks, device
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.ce = nn.CrossEntropyLoss()
        self.weights = weights or {l: 1.0 / len(banks) for l in banks}
        self.stats = defaultdict(list)

    def round(self):
        order = list(self.banks)
        random.shuffle(order)
        total = 0.0
        per_lang = {}
        for lang in order:
            ids, tags = self.banks[lang].draw(BATCH)
            logits = self.model(ids.to(self.device), lang)
            loss = self.ce(logits.flatten(0, 1), tags.to(self.device).flatten())
            per_lang[lang] = loss.detach()
            total = total + self.weights[lang] * loss
        self.opt.zero_grad()
        total.backward()
        self.opt.step()
        xm.mark_step()
        return per_lang

    def train(self, rounds, report_every):
        for r in range(1, rounds + 1):
            per_lang = self.round()
            if r % report_every == 0:
                for lang in sorted(per_lang):
                    self.stats[lang].append(round(per_lang[lang].item(), 3))
                print("round", r, {k: v[-1] for k, v in self.stats.items()})


def main():
    random.seed(17)
    torch.manual_seed(17)
    device = xm.xla_device()
    model = MultilingualTagger().to(device)
    trainer = JointTrainer(model, {l: Treebank(l) for l in LANGUAGES}, device)
    trainer.train(rounds=12, report_every=6)
    print("done, final mean %.3f" % (sum(v[-1] for v in trainer.stats.values()) / len(LANGUAGES)))


if __name__ == "__main__":
    main()
