import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()
gen = nn.Sequential(nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()).to(dev)
dis = nn.Sequential(nn.Conv2d(3, 24, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(24, 32, 3), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(128, 1)).to(dev)
gp, dp = list(gen.parameters()), list(dis.parameters())
sq = [torch.zeros_like(p) for p in gp + dp]
z, real = torch.randn(6, 16, 1, 1).to(dev), torch.rand(6, 3, 8, 8).to(dev)
torch_xla.sync()


def apply(params, grads, states, lr):
    with torch.no_grad():
        for p, g, s in zip(params, grads, states):
            s.mul_(0.99).add_(0.01 * g * g)
            d = lr * g / (s.sqrt() + 1e-6)
            if flag:
                p.data = p.data - d
            else:
                p.data.sub_(d)


def step():
    fake = gen(z)
    dl = F.relu(1 - dis(real)).mean() + F.relu(1 + dis(fake.detach())).mean()
    dg = torch.autograd.grad(dl, dp)
    gl = -dis(fake).mean()
    gg = torch.autograd.grad(gl, gp)
    apply(dp, dg, sq[len(gp):], 2e-4)
    apply(gp, gg, sq[:len(gp)], 1e-4)
    return dl.detach(), gl.detach()


losses = step()
torch_xla.sync()
