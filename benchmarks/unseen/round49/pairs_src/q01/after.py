"""Two-speaker speech separation, a small Conv-TasNet, SI-SNR with uPIT."""
import itertools
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_SRC = 2
WIN = 8
SAMPLES = 160


class GlobalLayerNorm(nn.Module):
    def __init__(self, channels, eps=1e-8):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1))
        self.eps = eps

    def forward(self, y):
        mu = y.mean(dim=(1, 2), keepdim=True)
        var = ((y - mu) ** 2).mean(dim=(1, 2), keepdim=True)
        return self.gamma * (y - mu) / torch.sqrt(var + self.eps) + self.beta


class TemporalBlock(nn.Module):
    def __init__(self, cin, chid, dilation):
        super().__init__()
        self.conv_in = nn.Conv1d(cin, chid, 1, bias=False)
        self.act1 = nn.PReLU()
        self.norm1 = GlobalLayerNorm(chid)
        self.dconv = nn.Conv1d(chid, chid, 3, padding=dilation, dilation=dilation,
                               groups=chid, bias=False)
        self.act2 = nn.PReLU()
        self.norm2 = GlobalLayerNorm(chid)
        self.conv_out = nn.Conv1d(chid, cin, 1, bias=False)

    def forward(self, x):
        y = self.norm1(self.act1(self.conv_in(x)))
        y = self.norm2(self.act2(self.dconv(y)))
        return x + self.conv_out(y)


class TasNet(nn.Module):
    def __init__(self, n_filters=12, bottleneck=8, hidden=16):
        super().__init__()
        self.encoder = nn.Conv1d(1, n_filters, WIN, stride=WIN // 2, padding=WIN // 2, bias=False)
        self.bottleneck = nn.Conv1d(n_filters, bottleneck, 1)
        self.tcn = nn.ModuleList([TemporalBlock(bottleneck, hidden, 2 ** i) for i in range(1)])
        self.mask = nn.Conv1d(bottleneck, n_filters * N_SRC, 1)
        self.decoder = nn.ConvTranspose1d(n_filters, 1, WIN, stride=WIN // 2, padding=WIN // 2,
                                          bias=False)

    def forward(self, mix):
        b = mix.shape[0]
        w = F.relu(self.encoder(mix.unsqueeze(1)))
        h = self.bottleneck(w)
        for block in self.tcn:
            h = block(h)
        m = F.relu(self.mask(h)).view(b, N_SRC, -1, w.shape[-1])
        s = (w.unsqueeze(1) * m).view(b * N_SRC, -1, w.shape[-1])
        return self.decoder(s).view(b, N_SRC, -1)


def si_snr(est, ref, eps=1e-8):
    """est, ref: [..., T] -> [...] in dB."""
    est = est - est.mean(dim=-1, keepdim=True)
    ref = ref - ref.mean(dim=-1, keepdim=True)
    dot = (est * ref).sum(dim=-1, keepdim=True)
    target = dot * ref / (ref.pow(2).sum(dim=-1, keepdim=True) + eps)
    noise = est - target
    ratio = target.pow(2).sum(dim=-1) / (noise.pow(2).sum(dim=-1) + eps)
    return 10 * torch.log10(ratio + eps)


def upit_loss(est, ref):
    snr = si_snr(est.unsqueeze(2), ref.unsqueeze(1))      # [batch, est, ref]
    per_perm = []
    for perm in itertools.permutations(range(N_SRC)):
        score = torch.stack([snr[:, p, i] for i, p in enumerate(perm)], dim=1)
        per_perm.append(-score.mean())
    losses = torch.stack(per_perm)                 # one loss per permutation
    return losses.min()


def main(path, dump_at=2):
    torch.manual_seed(7)
    dev = xm.xla_device()
    net = TasNet().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=5e-3, momentum=0.9, nesterov=True)
    gen = torch.Generator().manual_seed(3)
    for step in range(dump_at + 1):
        ref = torch.randn(4, N_SRC, SAMPLES, generator=gen)
        mix = ref.sum(1)
        ref, mix = ref.to(dev), mix.to(dev)
        opt.zero_grad(set_to_none=True)
        loss = upit_loss(net(mix), ref)
        loss.backward()
        opt.step()
        if step == dump_at:
            live = [loss]
            for p in net.parameters():
                live += [p, p.grad, opt.state[p]['momentum_buffer']]
            with open(path, 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == '__main__':
    main(sys.argv[1])
