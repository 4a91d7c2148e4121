import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

from p03_metrics import Accuracy, RankingScore


class ClickModel(nn.Module):
    def __init__(self, fields=4, vocab=50, dim=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(nn.Linear(fields * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.mlp(self.emb(x).flatten(1)).squeeze(-1)


class Experiment:
    def __init__(self):
        self.device = torch_xla.device()
        self.model = ClickModel().to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.metrics = {"acc": Accuracy(self.device), "rank": RankingScore()}

    def train_step(self, x, y):
        logits = self.model(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        report = {"loss": loss.detach()}
        for name, metric in self.metrics.items():
            report[name] = metric(logits.detach(), y)
        return report


def main():
    torch.manual_seed(0)
    exp = Experiment()
    for step in range(9):
        x = torch.randint(0, 50, (16, 4))
        y = (x.sum(1) % 2).float()
        report = exp.train_step(x.to(exp.device), y.to(exp.device))
        torch_xla.sync()
        if step % 3 == 0:
            print(step, {k: round(v.item(), 3) for k, v in report.items()})


if __name__ == "__main__":
    main()
