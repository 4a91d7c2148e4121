"""Two-species bird-call separation: learned 1-D filterbank, mask net, permutation-invariant SI-SNR. torch_xla."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEN, KERNEL, STRIDE, FILT, HID, SRC, BATCH = 64, 8, 4, 12, 10, 2, 4
EPS = 1e-8


class Block(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.inp = nn.Conv1d(HID, HID, 1)
        self.act = nn.PReLU()
        self.depth = nn.Conv1d(HID, HID, 3, padding=dilation, dilation=dilation, groups=HID)
        self.out = nn.Conv1d(HID, HID, 1)

    def forward(self, x):
        return x + self.out(self.depth(self.act(self.inp(x))))


class Separator(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Conv1d(1, FILT, KERNEL, stride=STRIDE, bias=False)
        self.bottleneck = nn.Conv1d(FILT, HID, 1)
        self.block1 = Block(1)
        self.block2 = Block(2)
        self.mask = nn.Conv1d(HID, SRC * FILT, 1)
        self.dec = nn.ConvTranspose1d(FILT, 1, KERNEL, stride=STRIDE, bias=False)

    def forward(self, mix):
        w = torch.relu(self.enc(mix.unsqueeze(1)))
        y = self.block2(self.block1(self.bottleneck(w)))
        m = torch.sigmoid(self.mask(y)).view(mix.shape[0], SRC, FILT, -1)
        est = (m * w.unsqueeze(1)).flatten(0, 1)
        return self.dec(est).view(mix.shape[0], SRC, -1)


def si_snr(est, ref):
    """(..., time) -> (...), in dB"""
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    s = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + EPS) * ref
    e = est - s
    return 10 * torch.log10(s.pow(2).sum(-1) / (e.pow(2).sum(-1) + EPS) + EPS)


def pit_loss(est, refs):
    pair = si_snr(est.unsqueeze(2), refs.unsqueeze(1))          # batch, est, ref
    straight = pair[:, 0, 0] + pair[:, 1, 1]
    crossed = pair[:, 0, 1] + pair[:, 1, 0]
    best = torch.maximum(straight, crossed) / SRC
    return -best.mean()


def train_step(model, opt, mix, refs):
    opt.zero_grad()
    loss = pit_loss(model(mix), refs)
    loss.backward()
    opt.step()
    return loss.detach()


def make_opt(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=1e-2)


def live(model, opt):
    ps = list(model.parameters())
    out = ps + [p.grad for p in ps]
    for p in ps:
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main(path):
    torch.manual_seed(4)
    dev = torch_xla.device()
    model = Separator().to(dev)
    opt = make_opt(model)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(9)
    for step in range(4):
        refs = torch.randn(BATCH, SRC, LEN, generator=gen)
        mix = refs.sum(1).to(dev)
        loss = train_step(model, opt, mix, refs.to(dev))
        if step == 3:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [loss]))
        torch_xla.sync()
        print(step, round(loss.item(), 6))


if __name__ == "__main__":
    main(sys.argv[1])
