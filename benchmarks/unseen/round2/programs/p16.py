import math
import torch
import torch.nn as nn
import torch_xla


class EpsNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(2, ch), nn.SiLU(), nn.Linear(ch, ch))
        self.a, self.b = nn.Conv2d(1, ch, 3, padding=1), nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        e = self.t(torch.stack([t.sin(), t.cos()], -1))
        return self.b(torch.nn.functional.silu(self.a(x) + e[:, :, None, None]))


def cosine_alphas(n):
    f = [math.cos((i / n + 0.01) / 1.01 * math.pi / 2) ** 2 for i in range(n + 1)]
    return [max(f[i + 1] / f[i], 0.02) for i in range(n)]


@torch.no_grad()
def sample(net, shape, steps, device):
    alphas, abar, p = cosine_alphas(steps), [], 1.0
    for a in alphas:
        p *= a
        abar.append(p)
    x = torch.randn(shape).to(device)
    for i in reversed(range(steps)):
        t = torch.full((shape[0],), i / steps).to(device)
        eps = net(x, t)
        x = (x - (1 - alphas[i]) / math.sqrt(1 - abar[i]) * eps) / math.sqrt(alphas[i])
        if i > 0:
            x = x + math.sqrt(1 - alphas[i]) * torch.randn(shape).to(device)
        torch_xla.sync()
    return x.clamp(-1, 1).cpu()


torch.manual_seed(0)
dev = torch_xla.device()
images = sample(EpsNet().to(dev).eval(), (2, 1, 8, 8), 10, dev)
print(images.shape, images.abs().mean().item())
