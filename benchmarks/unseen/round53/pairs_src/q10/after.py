"""Speech enhancement with a small temporal convolutional network, on XLA."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvUnit(nn.Module):
    """Convolution, ReLU, global layer norm."""

    def __init__(self, c_in, c_out, kernel=1, **kw):
        super().__init__()
        self.norm = nn.GroupNorm(1, c_out)
        self.conv = nn.Conv1d(c_in, c_out, kernel, bias=False, **kw)

    def forward(self, x):
        return self.norm(torch.relu(self.conv(x)))


class TCNBlock(nn.Module):

    def __init__(self, ch, hidden, dilation):
        super().__init__()
        self.skip = nn.Conv1d(hidden, ch, 1)
        self.res = nn.Conv1d(hidden, ch, 1)
        self.expand = ConvUnit(ch, hidden)
        self.depth = ConvUnit(hidden, hidden, 3, padding=dilation,
                              dilation=dilation, groups=hidden)

    def forward(self, x):
        h = self.depth(self.expand(x))
        skip = self.skip(h)
        return self.res(h) + x, skip


class Separator(nn.Module):

    def __init__(self, basis, ch, hidden, blocks):
        super().__init__()
        self.mask = nn.Conv1d(ch, basis, 1)
        self.blocks = nn.ModuleList(TCNBlock(ch, hidden, 2 ** i) for i in range(blocks))
        self.bottleneck = nn.Conv1d(basis, ch, 1)

    def forward(self, w):
        x = self.bottleneck(w)
        skips = []
        for blk in self.blocks:
            x, s = blk(x)
            skips.append(s)
        return torch.sigmoid(self.mask(sum(skips)))


class Enhancer(nn.Module):

    def __init__(self, basis=24, ch=16, hidden=24, win=16, blocks=2):
        super().__init__()
        self.decoder = nn.ConvTranspose1d(basis, 1, win, win // 2, bias=False)
        self.encoder = nn.Conv1d(1, basis, win, win // 2, bias=False)
        self.separator = Separator(basis, ch, hidden, blocks)

    def forward(self, wav):
        w = F.relu(self.encoder(wav[:, None]))
        return self.decoder(self.separator(w) * w)[:, 0]


def center(x):
    return x - x.mean(dim=1, keepdim=True)


def energy(x, keepdim=False):
    return x.square().sum(1, keepdim=keepdim)


def si_snr(est, ref, eps=1e-8):
    est, ref = center(est), center(ref)
    target = (ref * est).sum(1, keepdim=True) / (energy(ref, True) + eps) * ref
    residual = est - target
    return 10 * torch.log10(energy(target) / (energy(residual) + eps) + eps)


def criterion(est, clean):
    l1 = F.l1_loss(est, clean)
    snr = si_snr(est, clean).mean()
    return 0.5 * l1 - snr, snr, l1


def main(steps=6):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Enhancer().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    torch_xla.sync()
    g = torch.Generator().manual_seed(1)
    for step in range(steps):
        clean = torch.randn(4, 640, generator=g).to(device)
        noisy = clean + 0.3 * torch.randn(4, 640, generator=g).to(device)
        opt.zero_grad()
        est = model(noisy)
        loss, snr, l1 = criterion(est, clean)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item(), snr.item(), l1.item())


if __name__ == '__main__':
    main()
