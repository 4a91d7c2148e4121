"""Distilling a small convolutional teacher into a smaller student on variable-length text, in length buckets."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (12, 20, 28)
TOKENS_PER_BATCH = 480
VOCAB = 48
PAD = 0


def grammar_text(rng):
    """Second-order toy grammar, length skewed to the short side."""
    n = min(BUCKETS[-1], 5 + int(rng.expovariate(1 / 9)))
    a, b = rng.randrange(1, VOCAB), rng.randrange(1, VOCAB)
    seq = [a, b]
    while len(seq) < n:
        nxt = (seq[-1] + 3 * seq[-2] + rng.choice([0, 0, 0, 1, 5])) % (VOCAB - 1) + 1
        seq.append(nxt)
    return seq


class BucketBatcher:
    """Fills one bin per bucket and emits a bin when it holds its row count; leftovers stay for later."""

    def __init__(self, texts):
        self.texts = texts
        self.rows = {b: TOKENS_PER_BATCH // b for b in BUCKETS}

    def __iter__(self):
        bins = {b: [] for b in BUCKETS}
        for t in self.texts:
            b = next(b for b in BUCKETS if len(t) <= b)
            bins[b].append(t)
            if len(bins[b]) == self.rows[b]:
                yield self.collate(bins[b], b)
                bins[b] = []

    @staticmethod
    def collate(texts, length):
        out = torch.full((len(texts), length), PAD, dtype=torch.long)
        for i, t in enumerate(texts):
            out[i, :len(t)] = torch.tensor(t)
        return out


class ConvLM(nn.Module):
    """Causal gated convolutions; depth and width differ between teacher and student."""

    def __init__(self, dim, depth):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.convs = nn.ModuleList(nn.Conv1d(dim, 2 * dim, 3) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        h = self.emb(ids)
        for conv, norm in zip(self.convs, self.norms):
            z = conv(F.pad(norm(h).transpose(1, 2), (2, 0))).transpose(1, 2)
            a, g = z.chunk(2, -1)
            h = h + torch.tanh(a) * torch.sigmoid(g)
        return self.head(h)


def token_ce(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def distill_loss(student, teacher, ids, temperature, mix):
    mask = (ids[:, 1:] != PAD).float()
    s = F.log_softmax(student[:, :-1] / temperature, -1)
    t = F.softmax(teacher[:, :-1] / temperature, -1)
    kl = (F.kl_div(s, t, reduction="none").sum(-1) * mask).sum() / mask.sum()
    return mix * kl * temperature ** 2 + (1 - mix) * token_ce(student, ids)


def anneal(start, end, step, total):
    return start + (end - start) * min(1.0, step / total)


class Trainer:
    def __init__(self, device, steps):
        self.device, self.steps = device, steps
        self.teacher = ConvLM(24, 2).to(device)
        self.student = ConvLM(12, 1).to(device)
        self.t_opt = torch.optim.Adam(self.teacher.parameters(), lr=5e-3)
        self.s_opt = torch.optim.Adam(self.student.parameters(), lr=5e-3)

    def fit_teacher(self, batches):
        for ids in batches:
            ids = ids.to(self.device)
            loss = token_ce(self.teacher(ids), ids)
            self.t_opt.zero_grad()
            loss.backward()
            self.t_opt.step()
            torch_xla.sync()
        self.teacher.eval().requires_grad_(False)
        return loss.item()

    def student_step(self, ids, step):
        ids = ids.to(self.device)
        temperature = anneal(4.0, 1.5, step, self.steps)
        mix = anneal(0.9, 0.5, step, self.steps)
        for g in self.s_opt.param_groups:
            g["lr"] = 5e-3 * min((step + 1) / 10, 1.0) * (1 - 0.7 * step / self.steps)
        with torch.no_grad():
            soft = self.teacher(ids)
        loss = distill_loss(self.student(ids), soft, ids, temperature, mix)
        self.s_opt.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
        self.s_opt.step()
        torch_xla.sync()
        return loss.detach(), grad_norm

    def prime(self):
        """One student step per bucket on blank rows, twice over, before anything is timed."""
        keep = {k: v.detach().cpu() for k, v in self.student.state_dict().items()}
        for _ in range(2):
            for b in BUCKETS:
                self.student_step(torch.ones(TOKENS_PER_BATCH // b, b, dtype=torch.long), 3)
        self.student.load_state_dict(keep)
        for state in self.s_opt.state.values():
            for v in state.values():
                v.zero_()
        torch_xla.sync()


def main():
    torch.manual_seed(71)
    rng = random.Random(71)
    device = torch_xla.device()
    xm.set_rng_state(71)
    trainer = Trainer(device, steps=50)
    teacher_loss = trainer.fit_teacher(BucketBatcher([grammar_text(rng) for _ in range(500)]))
    print(f"teacher loss {teacher_loss:.3f}")
    trainer.prime()

    history = []
    batches = iter(BucketBatcher([grammar_text(rng) for _ in range(4000)]))
    for step in range(50):
        ids = next(batches)
        loss, norm = trainer.student_step(ids, step)
        history.append((loss, norm, ids.shape[1]))
        if (step + 1) % 10 == 0:
            recent = history[-10:]
            mean = sum(l.item() for l, _, _ in recent) / len(recent)
            print(f"step {step + 1:3d} kd {mean:.4f} norm {norm.item():.3f} lengths {[b for _, _, b in recent]}")


if __name__ == "__main__":
    main()
