"""Non-saturating GAN on font glyphs (24x24), discriminator/generator in one step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(7)
Z, R1_GAMMA, D_REG_INTERVAL = 16, 2.0, 4


def upsample2x(x):
    b, c, h, w = x.shape
    return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)


class Generator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(Z, 24), nn.LeakyReLU(0.2), nn.Linear(24, 24))
        self.const = nn.Parameter(torch.randn(1, ch, 6, 6))
        self.style1, self.style2 = nn.Linear(24, ch), nn.Linear(24, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.rgb = nn.Conv2d(ch, 1, 1)

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        w = self.mapping(z)
        x = self.const.expand(z.shape[0], -1, -1, -1)
        for style, conv in ((self.style1, self.conv1), (self.style2, self.conv2)):
            x = upsample2x(x)
            x = F.leaky_relu(conv(x * (1 + style(w))[:, :, None, None]), 0.2)
        return torch.tanh(self.rgb(x))


class Discriminator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.conv0 = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.conv1 = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.fc = nn.Linear(ch * 36, 1)

    def forward(self, x):
        x = F.leaky_relu(self.conv0(x), 0.2)
        x = F.leaky_relu(self.conv1(x), 0.2).flatten(1)
        return self.fc(x).squeeze(1)


def set_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def d_step(G, D, opt, real, z, reg):
    set_grad(D, True)
    with torch.no_grad():
        fake = G(z)
    real = real.requires_grad_(reg)
    d_real = D(real)
    loss = F.softplus(D(fake)).mean() + F.softplus(-d_real).mean()
    if reg:
        (g,) = torch.autograd.grad(d_real.sum(), real, create_graph=True)
        loss = loss + g.square().sum((1, 2, 3)).mean() * (R1_GAMMA / 2 * D_REG_INTERVAL)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def g_step(G, D, opt, z):
    set_grad(D, False)
    loss = F.softplus(-D(G(z))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main(total=10, bs=8):
    dev = torch_xla.device()
    G, D = Generator().to(dev), Discriminator().to(dev)
    g_opt = torch.optim.RMSprop(G.parameters(), lr=1e-3, alpha=0.99)
    d_opt = torch.optim.RMSprop(D.parameters(), lr=1e-3, alpha=0.99)
    glyphs = (torch.rand(64, 1, 24, 24) > 0.6).float() * 2 - 1
    torch_xla.sync()
    for it in range(1, total + 1):
        idx = torch.randint(64, (bs,))
        real = glyphs[idx].to(dev)
        z1, z2 = torch.randn(bs, Z).to(dev), torch.randn(bs, Z).to(dev)
        ld = d_step(G, D, d_opt, real, z1, reg=it % D_REG_INTERVAL == 0)
        lg = g_step(G, D, g_opt, z2)
        torch_xla.sync()
        if it % 5 == 0:
            print(it, ld.item(), lg.item(), flush=True)


if __name__ == "__main__":
    main()
