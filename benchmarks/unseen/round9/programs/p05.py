"""Image classifier trained with progressive resizing (small images first)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SCHEDULE = [
    {"size": 16, "steps": 9, "lr": 0.05},
    {"size": 24, "steps": 9, "lr": 0.03},
    {"size": 32, "steps": 9, "lr": 0.01},
]
FULL = 32
CLASSES = 6
BATCH = 16


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 12)
        self.stage1 = conv_bn(12, 20, stride=2)
        self.stage2 = conv_bn(20, 32, stride=2)
        self.fc = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = self.stage2(self.stage1(self.stem(x)))
        return self.fc(x.mean(dim=(2, 3)))


class Stripes:
    """Class is the stripe frequency; orientation and colour are random."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self):
        y = torch.randint(0, CLASSES, (BATCH,), generator=self.gen)
        theta = torch.rand(BATCH, 1, 1, generator=self.gen) * 3.14
        yy, xx = torch.meshgrid(torch.arange(FULL) / FULL, torch.arange(FULL) / FULL, indexing="ij")
        u = xx * theta.cos() + yy * theta.sin()
        wave = torch.sin(u * (y.view(-1, 1, 1) + 1) * 6.28)
        colour = torch.rand(BATCH, 3, 1, 1, generator=self.gen)
        return wave.unsqueeze(1) * colour + 0.1 * torch.randn(BATCH, 3, FULL, FULL, generator=self.gen), y


def resize(x, size):
    if size == x.shape[-1]:
        return x
    return F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)


def train_step(model, optimizer, x, y):
    model.train()
    loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def evaluate(model, data, size, device, batches=3):
    model.eval()
    correct = 0
    for _ in range(batches):
        x, y = data.batch()
        pred = model(resize(x, size).to(device)).argmax(1)
        torch_xla.sync()
        correct += (pred.cpu() == y).sum().item()
    return correct / (batches * BATCH)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = SmallNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    train_data, val_data = Stripes(1), Stripes(2)

    for number, stage in enumerate(SCHEDULE):
        for group in optimizer.param_groups:
            group["lr"] = stage["lr"]
        for step in range(stage["steps"]):
            x, y = train_data.batch()
            loss = train_step(model, optimizer, resize(x, stage["size"]).to(device), y.to(device))
            if step % 4 == 0:
                print(f"stage {number} size {stage['size']} step {step} loss {loss.item():.4f}")
        acc = evaluate(model, val_data, stage["size"], device)
        print(f"stage {number} done, val acc {acc:.3f}")


if __name__ == "__main__":
    main()
