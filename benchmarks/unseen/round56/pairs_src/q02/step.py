"""Small style-based GAN (non-saturating loss) on 16x16 textures."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Opt:
    z_dim = 16
    w_dim = 16
    ch = 12
    batch = 4
    lr = 2e-3
    r1_gamma = 10.0
    d_reg_interval = 4
    ema = 0.995


class ModConv(nn.Module):
    def __init__(self, cin, cout, w_dim, k=3, demod=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, k, k) * 0.2)
        self.affine = nn.Linear(w_dim, cin)
        self.affine.bias.data.fill_(1.0)
        self.bias = nn.Parameter(torch.zeros(cout))
        self.demod, self.pad = demod, k // 2

    def forward(self, x, w):
        s = self.affine(w)
        y = F.conv2d(x * s[:, :, None, None], self.weight, padding=self.pad)
        if self.demod:
            sq = (self.weight ** 2).sum((2, 3))
            d = torch.rsqrt((s ** 2) @ sq.t() + 1e-8)
            y = y * d[:, :, None, None]
        return y + self.bias[:, None, None]


class Generator(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(o.z_dim, o.w_dim), nn.LeakyReLU(0.2))
        self.const = nn.Parameter(torch.randn(1, o.ch, 8, 8))
        self.conv1 = ModConv(o.ch, o.ch, o.w_dim)
        self.to_rgb = ModConv(o.ch, 3, o.w_dim, k=1, demod=False)

    def forward(self, z):
        w = self.mapping(z)
        x = self.const.expand(z.shape[0], -1, -1, -1)
        x = F.leaky_relu(self.conv1(x, w), 0.2)
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return self.to_rgb(x, w)


class Discriminator(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.from_rgb = nn.Conv2d(3, o.ch, 1)
        self.conv1 = nn.Conv2d(o.ch, o.ch, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(o.ch, o.ch, 3, stride=2, padding=1, bias=False)
        self.out = nn.Linear(o.ch * 64, 1)

    def forward(self, x):
        x = F.leaky_relu(self.from_rgb(x), 0.2)
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.leaky_relu(self.conv2(x), 0.2)
        return self.out(x.flatten(1))


def d_loss(D, fake, real, step, o):
    real = real.detach().requires_grad_(step % o.d_reg_interval == 0)
    pred_real = D(real)
    loss = F.softplus(D(fake.detach())).mean() + F.softplus(-pred_real).mean()
    if real.requires_grad:
        grad, = torch.autograd.grad(pred_real.sum(), real, create_graph=True)
        r1 = grad.square().sum((1, 2, 3)).mean()
        loss = loss + r1 * (o.r1_gamma * 0.5 * o.d_reg_interval)
    return loss


@torch.no_grad()
def accumulate(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def main():
    torch.manual_seed(3)
    o = Opt()
    device = torch_xla.device()
    G, D, G_ema = Generator(o), Discriminator(o), Generator(o)
    G_ema.load_state_dict(G.state_dict())
    G, D, G_ema = G.to(device), D.to(device), G_ema.to(device).requires_grad_(False)
    g_opt = torch.optim.SGD(G.parameters(), lr=o.lr, momentum=0.5)
    d_opt = torch.optim.SGD(D.parameters(), lr=o.lr, momentum=0.5)
    for step in range(10):
        real = torch.randn(o.batch, 3, 16, 16).to(device)
        z = torch.randn(2, o.batch, o.z_dim).to(device)

        D.requires_grad_(True)
        with torch.no_grad():
            fake = G(z[0])
        d_opt.zero_grad(set_to_none=True)
        loss_d = d_loss(D, fake, real, step, o)
        loss_d.backward()
        d_opt.step()

        D.requires_grad_(False)
        g_opt.zero_grad(set_to_none=True)
        loss_g = F.softplus(-D(G(z[1]))).mean()
        loss_g.backward()
        g_opt.step()
        accumulate(G_ema, G, o.ema)
        torch_xla.sync()
    print(loss_d.item(), loss_g.item())


if __name__ == "__main__":
    main()
