"""Co-teaching for noisy labels: two peers pick small-loss examples for one another."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_CLASSES = 5
NOISE = 0.35
BATCH = 32
RAMP_STEPS = 45
TOTAL_STEPS = 80


def make_data(n=1200, seed=0):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(NUM_CLASSES, 3, 8, 8, generator=g)
    clean = torch.randint(0, NUM_CLASSES, (n,), generator=g)
    x = protos[clean] + 0.7 * torch.randn(n, 3, 8, 8, generator=g)
    flip = torch.rand(n, generator=g) < NOISE
    noisy = torch.where(flip, torch.randint(0, NUM_CLASSES, (n,), generator=g), clean)
    return x, noisy, clean


class SmallConv(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.c1 = nn.Conv2d(3, width, 3, padding=1)
        self.b1 = nn.BatchNorm2d(width)
        self.c2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.b2 = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width * 16, NUM_CLASSES)

    def forward(self, x):
        x = F.leaky_relu(self.b1(self.c1(x)), 0.01)
        x = F.leaky_relu(self.b2(self.c2(x)), 0.01)
        return self.fc(x.flatten(1))


def forget_rate(step):
    return NOISE * min(step / RAMP_STEPS, 1.0)


def coteaching_loss(logits_a, logits_b, y, rate):
    loss_a = F.cross_entropy(logits_a, y, reduction="none")
    loss_b = F.cross_entropy(logits_b, y, reduction="none")
    n_keep = int((1.0 - rate) * y.size(0))
    pick_a = torch.argsort(loss_a.detach())[:n_keep]
    pick_b = torch.argsort(loss_b.detach())[:n_keep]
    return loss_a[pick_b].mean(), loss_b[pick_a].mean()


@torch.no_grad()
def accuracy(net, x, y, device):
    net.eval()
    correct = torch.zeros((), device=device, dtype=torch.long)
    for i in range(0, 480, BATCH):
        pred = net(x[i : i + BATCH].to(device)).argmax(1)
        correct += (pred == y[i : i + BATCH].to(device)).sum()
        xm.mark_step()
    net.train()
    return correct.item() / 480


def main():
    torch.manual_seed(4)
    device = xm.xla_device()
    x, noisy, clean = make_data()
    net_a, net_b = SmallConv().to(device), SmallConv().to(device)
    opt_a = torch.optim.SGD(net_a.parameters(), lr=0.02, momentum=0.9)
    opt_b = torch.optim.SGD(net_b.parameters(), lr=0.02, momentum=0.9)
    gen = torch.Generator().manual_seed(9)

    for step in range(TOTAL_STEPS):
        idx = torch.randint(0, len(x), (BATCH,), generator=gen)
        xb, yb = x[idx].to(device), noisy[idx].to(device)
        la, lb = coteaching_loss(net_a(xb), net_b(xb), yb, forget_rate(step))
        opt_a.zero_grad()
        la.backward()
        opt_a.step()
        opt_b.zero_grad()
        lb.backward()
        opt_b.step()
        xm.mark_step()
        if (step + 1) % 40 == 0:
            print(
                "step %d  loss %.3f/%.3f  clean acc %.3f/%.3f"
                % (step + 1, la.item(), lb.item(), accuracy(net_a, x, clean, device), accuracy(net_b, x, clean, device))
            )


if __name__ == "__main__":
    main()
