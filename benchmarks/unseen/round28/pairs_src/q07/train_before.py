"""Click model: sparse fields + dense features, factorization machine with a deep tower."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FIELDS = [11, 7, 23, 5]
DENSE = 6
K = 8


class DeepFM(nn.Module):
    def __init__(self, fields=FIELDS, dense=DENSE, k=K, hidden=24):
        super().__init__()
        self.linear = nn.ModuleList(nn.Embedding(n, 1) for n in fields)
        self.factors = nn.ModuleList(nn.Embedding(n, k) for n in fields)
        self.dense_w = nn.Linear(dense, 1)
        self.dense_k = nn.Linear(dense, k)
        self.fc1 = nn.Linear(k * (len(fields) + 1), hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def first_order(self, cats, dense):
        out = self.dense_w(dense).squeeze(-1)
        for i, emb in enumerate(self.linear):
            out = out + emb(cats[:, i]).squeeze(-1)
        return out

    def second_order(self, v):
        s = v.sum(1)
        return 0.5 * (s * s - (v * v).sum(1)).sum(-1)

    def deep(self, v):
        h = v.reshape(v.size(0), -1)
        h = F.relu(self.fc1(h))
        h = F.relu(self.fc2(h))
        return self.fc3(h).squeeze(-1)

    def forward(self, cats, dense):
        vs = [emb(cats[:, i]) for i, emb in enumerate(self.factors)]
        vs.append(self.dense_k(dense))
        v = torch.stack(vs, 1)
        return self.first_order(cats, dense) + self.second_order(v) + self.deep(v)


def clicks(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    cats = torch.stack([torch.randint(0, m, (n,), generator=g) for m in FIELDS], 1)
    dense = torch.randn(n, DENSE, generator=g)
    y = ((cats.sum(1) % 3 == 0) ^ (dense[:, 0] > 0.5)).float()
    return cats, dense, y


def init(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            p.copy_(0.2 * torch.randn(p.shape, generator=g))


def bce(x, t):
    loss = torch.clamp(x, min=0) - x * t + torch.log1p(torch.exp(-x.abs()))
    return loss.mean()


def main(steps=4, bs=32):
    device = torch_xla.device()
    model = DeepFM()
    init(model, 17)
    model = model.to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03, eps=1e-8, foreach=False)
    for st in opt.state.values():
        st["sum"] = st["sum"].to(device)
    xm.mark_step()
    cats, dense, y = clicks(bs * steps)
    for i in range(steps):
        sl = slice(i * bs, (i + 1) * bs)
        c, d, t = cats[sl].to(device), dense[sl].to(device), y[sl].to(device)
        logit = model(c, d)
        loss = bce(logit, t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = ((logit > 0) == (t > 0.5)).float().mean()
        xm.mark_step()
        print(f"{i} loss {loss.item():.9f} acc {acc.item():.3f}")
    total = sum(p.double().abs().sum().item() for p in model.cpu().parameters())
    print(f"checksum {total:.9f}")


if __name__ == "__main__":
    main()
