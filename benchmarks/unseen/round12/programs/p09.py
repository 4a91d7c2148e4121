"""Fine-tuning a small residual net on skin-lesion-like images in three stages."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STAGES = [
    {"name": "head", "train": ["head"], "size": 16, "steps": 8, "lr": 1e-2},
    {"name": "top", "train": ["head", "layer3"], "size": 16, "steps": 8, "lr": 5e-3},
    {"name": "full", "train": ["head", "layer3", "layer2", "layer1", "stem"], "size": 24,
     "steps": 10, "lr": 1e-3},
]
BATCH = 16
NUM_CLASSES = 3


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.na = nn.GroupNorm(4, cout)
        self.b = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.nb = nn.GroupNorm(4, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)))
        return F.relu(self.nb(self.b(y)) + self.skip(x))


class LesionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.layer1 = Residual(8, 8, 1)
        self.layer2 = Residual(8, 16, 2)
        self.layer3 = Residual(16, 32, 2)
        self.head = nn.Linear(32, NUM_CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.stem(x)))))
        return self.head(x.mean((2, 3)))


def images(n, size, gen):
    y = torch.randint(0, NUM_CLASSES, (n,), generator=gen)
    grid = torch.linspace(-1, 1, size)
    r = (grid[:, None] ** 2 + grid[None, :] ** 2).sqrt()
    edge = 0.3 + 0.2 * y.float()[:, None, None]
    base = torch.sigmoid((edge - r) * 12)
    x = base[:, None] * torch.rand(n, 3, 1, 1, generator=gen)
    return x + 0.1 * torch.randn(n, 3, size, size, generator=gen), y


def select(model, prefixes):
    chosen = []
    for name, p in model.named_parameters():
        on = name.split(".")[0] in prefixes
        p.requires_grad_(on)
        if on:
            chosen.append(p)
    return chosen


def evaluate(model, size, device, gen, rounds=3):
    model.eval()
    right = []
    with torch.no_grad():
        for _ in range(rounds):
            x, y = images(BATCH, size, gen)
            pred = model(x.to(device)).argmax(1)
            right.append((pred == y.to(device)).float().mean())
            torch_xla.sync()
    model.train()
    return sum(r.item() for r in right) / rounds


def run_stage(model, stage, device, gen):
    params = select(model, stage["train"])
    opt = torch.optim.SGD(params, lr=stage["lr"], momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, stage["steps"] + 1)
    for step in range(stage["steps"]):
        x, y = images(BATCH, stage["size"], gen)
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        sched.step()
        if step % 4 == 3:
            print(f"  {stage['name']:>4} {step}: {loss.item():.4f}")
    return evaluate(model, stage["size"], device, gen)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(9)
    device = xm.xla_device()
    model = LesionNet().to(device)
    for stage in STAGES:
        acc = run_stage(model, stage, device, gen)
        print(f"stage {stage['name']}: accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
