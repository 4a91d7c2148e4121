"""Wide & deep click model on a small synthetic log (DLRM-like)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

CARD = [50, 12, 7, 300, 31]
N_DENSE = 9


class WideDeep(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, dim) for c in CARD)
        self.bottom = nn.Sequential(nn.Linear(N_DENSE, 32), nn.ReLU(), nn.Linear(32, dim))
        k = len(CARD) + 1
        self.top = nn.Sequential(nn.Linear(dim + k * (k - 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("tri", torch.triu_indices(k, k, 1), persistent=False)

    def forward(self, dense, cat):
        d = self.bottom(dense)
        e = [t(cat[:, i]) for i, t in enumerate(self.tables)]
        z = torch.stack([d] + e, 1)
        inter = torch.bmm(z, z.transpose(1, 2))[:, self.tri[0], self.tri[1]]
        return self.top(torch.cat([d, inter], 1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=241)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--drop-last", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(1)
    dev = torch_xla.device()
    dense = torch.randn(args.rows, N_DENSE)
    cat = torch.stack([torch.randint(0, c, (args.rows,)) for c in CARD], 1)
    y = (dense[:, 0] + 0.3 * dense[:, 3] > 0.2).float()
    dl = DataLoader(TensorDataset(dense, cat, y), batch_size=args.bs, shuffle=True,
                    drop_last=args.drop_last)

    net = WideDeep().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.03)
    for ep in range(args.epochs):
        seen = []
        for d, c, t in dl:
            opt.zero_grad()
            out = net(d.to(dev), c.to(dev))
            loss = F.binary_cross_entropy_with_logits(out, t.to(dev))
            loss.backward()
            opt.step()
            torch_xla.sync()
            seen.append(loss.detach())
        print(ep, sum(s.item() for s in seen) / len(seen))


if __name__ == "__main__":
    main()
