"""Speech enhancement with a small temporal convolutional network, on XLA."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class TCNBlock(nn.Module):

    def __init__(self, ch, hidden, dilation):
        super().__init__()
        self.expand = nn.Conv1d(ch, hidden, 1, bias=False)
        self.norm1 = nn.GroupNorm(1, hidden)
        self.depth = nn.Conv1d(hidden, hidden, 3, padding=dilation,
                               dilation=dilation, groups=hidden, bias=False)
        self.norm2 = nn.GroupNorm(1, hidden)
        self.res = nn.Conv1d(hidden, ch, 1)
        self.skip = nn.Conv1d(hidden, ch, 1)

    def forward(self, x):
        h = self.norm1(F.relu(self.expand(x)))
        h = self.norm2(F.relu(self.depth(h)))
        return x + self.res(h), self.skip(h)


class Enhancer(nn.Module):

    def __init__(self, basis=24, ch=16, hidden=24, win=16, blocks=2):
        super().__init__()
        self.encoder = nn.Conv1d(1, basis, win, win // 2, bias=False)
        self.bottleneck = nn.Conv1d(basis, ch, 1)
        self.blocks = nn.ModuleList(TCNBlock(ch, hidden, 2 ** i) for i in range(blocks))
        self.mask = nn.Conv1d(ch, basis, 1)
        self.decoder = nn.ConvTranspose1d(basis, 1, win, win // 2, bias=False)

    def forward(self, wav):
        w = F.relu(self.encoder(wav.unsqueeze(1)))
        x = self.bottleneck(w)
        skips = 0
        for blk in self.blocks:
            x, s = blk(x)
            skips = skips + s
        m = torch.sigmoid(self.mask(skips))
        return self.decoder(w * m).squeeze(1)


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(dim=1, keepdim=True)
    ref = ref - ref.mean(dim=1, keepdim=True)
    proj = (est * ref).sum(1, keepdim=True) / (ref.pow(2).sum(1, keepdim=True) + eps) * ref
    noise = est - proj
    ratio = proj.pow(2).sum(1) / (noise.pow(2).sum(1) + eps)
    return 10 * torch.log10(ratio + eps)


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
        snr = si_snr(est, clean).mean()
        l1 = (est - clean).abs().mean()
        loss = -snr + 0.5 * l1
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item(), snr.item(), l1.item())


if __name__ == '__main__':
    main()
