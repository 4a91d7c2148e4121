"""Node classification: masked-attribute pre-training, head warm-up, full fine-tuning with averaged weights."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel
import torch_xla
import torch_xla.core.xla_model as xm


def planted_graph(n=96, k=3, feats=16, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, size=n)
    same = y[:, None] == y[None]
    a = rng.random((n, n)) < np.where(same, 0.12, 0.02)
    a = np.triu(a, 1)
    a = (a | a.T).astype(np.float32) + np.eye(n, dtype=np.float32)
    d = 1.0 / np.sqrt(a.sum(1))
    adj = d[:, None] * a * d[None]
    x = rng.normal(size=(k, feats))[y] + 1.5 * rng.normal(size=(n, feats))
    return [torch.tensor(v) for v in (adj.astype(np.float32), x.astype(np.float32), y.astype(np.int64))]


class GCN(nn.Module):
    def __init__(self, inp, hidden):
        super().__init__()
        self.l1 = nn.Linear(inp, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(0.3)

    def forward(self, adj, x):
        h = F.relu(self.l1(adj @ x))
        return F.relu(self.l2(adj @ self.drop(h)))


class Model(nn.Module):
    def __init__(self, inp, hidden, classes):
        super().__init__()
        self.gnn = GCN(inp, hidden)
        self.decoder = nn.Linear(hidden, inp)
        self.cls = nn.Linear(hidden, classes)

    def forward(self, adj, x):
        return self.cls(self.gnn(adj, x))

    def reconstruct(self, adj, x, keep):
        return self.decoder(self.gnn(adj, x * keep[:, None]))


def pretrain(model, adj, x, steps, rng, device):
    params = list(model.gnn.parameters()) + list(model.decoder.parameters())
    opt = torch.optim.Adam(params, lr=1e-2)
    for i in range(steps):
        keep = torch.from_numpy((rng.random(x.shape[0]) > 0.25).astype(np.float32)).to(device)
        rec = model.reconstruct(adj, x, keep)
        miss = 1 - keep
        loss = ((rec - x).pow(2).mean(1) * miss).sum() / miss.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(f"pretrain {loss.item():.4f}")


def evaluate(net, adj, x, y, mask):
    net.eval()
    with torch.no_grad():
        ok = (net(adj, x).argmax(1) == y).float()
        acc = (ok * mask).sum() / mask.sum()
    torch_xla.sync()
    net.train()
    return acc.item()


def supervised(model, opt, adj, x, y, train_mask, val_mask, steps, tag, averaged=None):
    for i in range(steps):
        logits = model(adj, x)
        ce = F.cross_entropy(logits, y, reduction="none")
        loss = (ce * train_mask).sum() / train_mask.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if averaged is not None:
            with torch.no_grad():
                for pa, p in zip(averaged.module.parameters(), model.parameters()):
                    pa.lerp_(p, 0.05)
        torch_xla.sync()
        if i % 10 == 9:
            acc = evaluate(model, adj, x, y, val_mask)
            print(f"{tag} {i + 1}: loss {loss.item():.4f} val {acc:.3f}")


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = xm.xla_device()
    adj, x, y = [t.to(device) for t in planted_graph()]
    split = rng.random(y.shape[0]) < 0.4
    train_mask = torch.from_numpy(split.astype(np.float32)).to(device)
    val_mask = torch.from_numpy((~split).astype(np.float32)).to(device)
    model = Model(x.shape[1], 24, 3).to(device)

    pretrain(model, adj, x, 30, rng, device)

    for p in model.gnn.parameters():
        p.requires_grad_(False)
    opt = torch.optim.SGD(model.cls.parameters(), lr=0.2)
    supervised(model, opt, adj, x, y, train_mask, val_mask, 20, "probe")

    for p in model.gnn.parameters():
        p.requires_grad_(True)
    model.decoder.requires_grad_(False)
    averaged = AveragedModel(model)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    supervised(model, opt, adj, x, y, train_mask, val_mask, 80, "tune", averaged)
    print(f"averaged weights: val {evaluate(averaged.module, adj, x, y, val_mask):.3f}")


if __name__ == "__main__":
    main()
