import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, Z = 8, 12


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, 16 * 4 * 4)
        self.bn0 = nn.BatchNorm2d(16)
        self.up1 = nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.up2 = nn.ConvTranspose2d(8, 3, 4, 2, 1)

    def forward(self, z):
        x = F.relu(self.bn0(self.fc(z).view(-1, 16, 4, 4)))
        x = F.relu(self.bn1(self.up1(x)))
        return torch.tanh(self.up2(x))


class Dnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 4, 2, 1)
        self.c2 = nn.Conv2d(8, 16, 4, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 4 * 4, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.bn(self.c2(x)), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


xdump.seed(5)
dev = xdump.device()
g, d = G().to(dev), Dnet().to(dev)
og = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
od = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
real = torch.rand(2, B, 3, 16, 16).mul(2).sub(1).to(dev)
zs = torch.randn(2, 2, B, Z).to(dev)
xdump.sync()


def step(i):
    # discriminator
    od.zero_grad()
    fake = g(zs[i, 0])
    d_real, d_fake = d(torch.cat([real[i], fake.detach()])).chunk(2)
    loss_d = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
    loss_d.backward()
    od.step()
    # generator
    og.zero_grad()
    loss_g = F.softplus(-d(g(zs[i, 1]))).mean()
    loss_g.backward()
    og.step()
    return loss_d, loss_g


step(0)
xdump.sync()
ld, lg = step(1)
live = {"loss_d": ld, "loss_g": lg}
for tag, m, o in (("g", g, og), ("d", d, od)):
    named = [(tag + "." + n, p) for n, p in m.named_parameters()]
    live.update(named)
    live.update((tag + "." + n, p) for n, p in m.named_buffers())
    live.update(xdump.state_of(o, named))
xdump.dump(live)
