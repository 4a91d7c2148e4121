import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class GRUClassifier(nn.Module):
    def __init__(self, d_in=6, hidden=12, classes=3):
        super().__init__()
        self.inp = nn.Linear(d_in, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.cell.hidden_size, device=x.device)
        for t in range(x.shape[1]):
            h = self.cell(F.relu(self.inp(x[:, t])), h)
        return self.out(self.drop(self.norm(h)))


def batches(n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(8, 4, 6, generator=g)
        yield x, x.sum(1)[:, :3].argmax(1)


def train_epoch(model, optim, data, device):
    for x, y in data:
        x, y = x.to(device), y.to(device)
        optim.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optim.step()
        torch_xla.sync()
        print("train %.4f" % loss.item())


@torch.no_grad()
def evaluate(model, data, device):
    model.eval()
    for x, y in data:
        hits = (model(x.to(device)).argmax(1) == y.to(device)).float().mean()
        torch_xla.sync()
        print("accuracy %.3f" % hits.item())


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    model = GRUClassifier().to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    evaluate(model, batches(1, seed=99), device)
    for epoch in range(2):
        train_epoch(model, optim, batches(3, seed=epoch), device)
        evaluate(model, batches(1, seed=99), device)


if __name__ == "__main__":
    main()
