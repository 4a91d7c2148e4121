"""DeepFM for ad clicks: embeddings, pairwise interactions, a small tower."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CARD = [7, 11, 5, 9, 6]
DIM, BATCH, DENSE = 4, 12, 3


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(c, DIM) for c in CARD])
        self.first = nn.ModuleList([nn.Embedding(c, 1) for c in CARD])
        self.bias = nn.Parameter(torch.zeros(1))
        self.fc1 = nn.Linear(DIM * len(CARD) + DENSE, 16)
        self.fc2 = nn.Linear(16, 8)
        self.out = nn.Linear(8, 1)

    def second_order(self, v):
        """Rendle's identity: half of (square of the sum - sum of the squares)."""
        sq_of_sum = v.sum(dim=1).square()
        sum_of_sq = v.square().sum(dim=1)
        return 0.5 * (sq_of_sum - sum_of_sq).sum(-1)

    def forward(self, cat, dense):
        v = torch.stack([e(cat[:, k]) for k, e in enumerate(self.emb)], dim=1)
        first = torch.cat([e(cat[:, k]) for k, e in enumerate(self.first)], dim=1)
        lin = first.sum(dim=1) + self.bias
        pair = self.second_order(v)
        h = torch.cat([v.flatten(1), dense], dim=1)
        h = F.relu(self.fc1(h))
        h = F.relu(self.fc2(h))
        return lin + pair + self.out(h).squeeze(-1)


def loss_fn(logit, click):
    return F.binary_cross_entropy_with_logits(logit, click)


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    cat = torch.stack([torch.randint(0, c, (BATCH,), generator=g) for c in CARD], 1)
    dense = torch.randn(BATCH, DENSE, generator=g)
    click = (torch.rand(BATCH, generator=g) < 0.3).float()
    return cat, dense, click


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p.data)
        if p.grad is not None:
            out.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main(path):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = DeepFM().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for it in range(5):
        cat, dense, click = [t.to(dev) for t in batch(it)]
        torch_xla.sync()
        opt.zero_grad()
        logit = model(cat, dense)
        loss = loss_fn(logit, click)
        loss.backward()
        opt.step()
        if it == 3:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, logit)))
        torch_xla.sync()
        print(it, "%.7f" % loss.item())
    print("checksum %.7f" % sum(p.abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
