"""Fraud rings: account classifier on neighbour-aggregated features, scored with torchmetrics."""
import torch
import torch.nn as nn
import torch_xla
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

ACCOUNTS = 24
FEATURES = 8
STEPS = 36


class RingNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.own = nn.Linear(FEATURES, width)
        self.near = nn.Linear(FEATURES, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x, adj):
        h = torch.relu(self.own(x) + self.near(adj @ x))
        h = h + adj @ h
        return self.out(h).squeeze(-1)


def community(gen):
    """One block of accounts: ring members share devices and move money in circles."""
    label = (torch.rand(ACCOUNTS, generator=gen) < 0.3).float()
    label[0], label[1] = 1.0, 0.0
    link = torch.rand(ACCOUNTS, ACCOUNTS, generator=gen)
    same = label.unsqueeze(0) * label.unsqueeze(1)
    adj = ((link + 0.4 * same) > 0.85).float()
    adj = adj / adj.sum(dim=1, keepdim=True).clamp(min=1.0)
    x = torch.randn(ACCOUNTS, FEATURES, generator=gen)
    x[:, 0] += label
    return x, adj, label


def main():
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(13)
    device = torch_xla.device()
    net = RingNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    criterion = nn.BCEWithLogitsLoss()
    scores = MetricCollection({
        "acc": BinaryAccuracy(validate_args=False),
        "auroc": BinaryAUROC(validate_args=False),
    }).to(device)
    for step in range(1, STEPS + 1):
        x, adj, label = (t.to(device) for t in community(gen))
        opt.zero_grad()
        logits = net(x, adj)
        loss = criterion(logits, label)
        loss.backward()
        opt.step()
        scores.update(logits.detach(), label.long())
        torch_xla.sync()
        if step % 3 == 0:
            result = scores.compute()
            line = " ".join(f"{k} {v.item():.3f}" for k, v in result.items())
            print(f"{step} loss {loss.item():.3f} {line}")


if __name__ == "__main__":
    main()
