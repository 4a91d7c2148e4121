import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_CLASSES = 5


class CosineHead(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, d))

    def forward(self, x):
        return F.linear(F.normalize(x), F.normalize(self.weight))


class ClassPrior:
    """Running class frequencies for logit adjustment."""

    def __init__(self, classes, device):
        self.counts = torch.ones(classes, device=device)

    def update(self, labels):
        seen = torch.bincount(labels)
        self.counts[:len(seen)] += seen

    def log_prior(self):
        return (self.counts / self.counts.sum()).log()


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    backbone = nn.Sequential(nn.Linear(12, 16), nn.ReLU()).to(device)
    head = CosineHead(16, NUM_CLASSES).to(device)
    prior = ClassPrior(NUM_CLASSES, device)
    opt = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1)
    tail = torch.distributions.Categorical(torch.tensor([0.5, 0.25, 0.15, 0.06, 0.04]))
    for i in range(11):
        x, y = torch.randn(6, 12).to(device), tail.sample((6,)).to(device)
        prior.update(y)
        logits = 8.0 * head(backbone(x)) + prior.log_prior()
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, loss.item())


main()
