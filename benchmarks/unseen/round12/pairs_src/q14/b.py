"""Distil a two-layer sentence encoder into a smaller one (embedding + logit distillation)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, LEN, LABELS, PAD = 120, 12, 4, 0


class MixerLayer(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time = nn.Sequential(nn.Linear(length, 24), nn.GELU(), nn.Linear(24, length))
        self.chan = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class SentenceEncoder(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList(MixerLayer(dim, LEN) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, LABELS)

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        keep = (ids != PAD).unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(dim=1) / keep.sum(dim=1)
        return pooled, self.cls(pooled)


class Distiller:
    def __init__(self, teacher, student, t_dim, s_dim, device, temperature=3.0, alpha=0.7):
        self.teacher = teacher.to(device).eval().requires_grad_(False)
        self.student = student.to(device)
        self.bridge = nn.Linear(s_dim, t_dim).to(device)
        self.device, self.T, self.alpha = device, temperature, alpha
        params = list(self.student.parameters()) + list(self.bridge.parameters())
        self.opt = torch.optim.NAdam(params, lr=2e-3)

    def losses(self, ids, y):
        with torch.no_grad():
            t_emb, t_logits = self.teacher(ids)
        s_emb, s_logits = self.student(ids)
        t_logp, s_logp = F.log_softmax(t_logits / self.T, -1), F.log_softmax(s_logits / self.T, -1)
        soft = (t_logp.exp() * (t_logp - s_logp)).sum(-1).mean() * self.T ** 2
        hard = F.cross_entropy(s_logits, y)
        emb = 1 - F.cosine_similarity(self.bridge(s_emb), t_emb).mean()
        return self.alpha * soft + (1 - self.alpha) * hard + 0.5 * emb

    def step(self, ids, y):
        self.opt.zero_grad()
        loss = self.losses(ids.to(self.device), y.to(self.device))
        loss.backward()
        self.opt.step()
        xm.mark_step()
        return loss


def sentences(batch):
    y = torch.randint(0, LABELS, (batch,))
    ids = torch.randint(LABELS + 1, VOCAB, (batch, LEN))
    ids[:, 0] = y + 1
    lengths = torch.randint(4, LEN + 1, (batch, 1))
    ids[torch.arange(LEN)[None] >= lengths] = PAD
    return ids, y


def main():
    torch.manual_seed(21)
    d = Distiller(SentenceEncoder(32, 2), SentenceEncoder(16, 2), 32, 16, torch_xla.device())
    xm.mark_step()
    for i in range(12):
        loss = d.step(*sentences(16))
        if i % 4 == 0:
            print(f"{i}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
