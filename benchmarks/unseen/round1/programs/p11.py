import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(self.drop(self.f(x).flatten(1)))


@torch.no_grad()
def evaluate(model, batches, device):
    model.eval()
    hits = torch.zeros((), device=device)
    for x, y in batches:
        hits += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        xm.mark_step()
    return hits.item() / sum(len(y) for _, y in batches)


def train_epoch(model, opt, batches, device):
    model.train()
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
    return loss.item()


torch.manual_seed(0)
device = xm.xla_device()
model = Net().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
make = lambda n: [(torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))) for _ in range(n)]
train_set, val_set = make(4), make(2)
for epoch in range(3):
    loss = train_epoch(model, opt, train_set, device)
    acc = evaluate(model, val_set, device)
    print(f"epoch {epoch}: loss {loss:.3f} acc {acc:.3f}")
