"""Two-speaker separation, tiny Conv-TasNet, SI-SDR with permutation invariant training."""
import itertools
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()
EPS = 1e-8


class GlobalLayerNorm(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ch))
        self.bias = nn.Parameter(torch.zeros(ch))

    def forward(self, x):
        mean = x.mean(dim=(1, 2), keepdim=True)
        var = ((x - mean) ** 2).mean(dim=(1, 2), keepdim=True)
        return self.weight[:, None] * (x - mean) / torch.sqrt(var + EPS) + self.bias[:, None]


class TemporalBlock(nn.Module):
    def __init__(self, ch, hid, dilation):
        super().__init__()
        self.inp = nn.Conv1d(ch, hid, 1)
        self.act = nn.PReLU()
        self.norm = GlobalLayerNorm(hid)
        self.dw = nn.Conv1d(hid, hid, 3, padding=dilation, dilation=dilation, groups=hid)
        self.out = nn.Conv1d(hid, ch, 1)

    def forward(self, x):
        return x + self.out(self.dw(self.norm(self.act(self.inp(x)))))


class TasNet(nn.Module):
    def __init__(self, n_src=2, ch=8, hid=12, n_blocks=1):
        super().__init__()
        self.n_src = n_src
        self.encoder = nn.Conv1d(1, ch, 8, stride=4, bias=False)
        self.blocks = nn.ModuleList([TemporalBlock(ch, hid, 2 ** i) for i in range(n_blocks)])
        self.mask = nn.Conv1d(ch, n_src * ch, 1)
        self.decoder = nn.ConvTranspose1d(ch, 1, 8, stride=4, bias=False)

    def forward(self, mix):
        w = F.relu(self.encoder(mix[:, None, :]))
        h = w
        for block in self.blocks:
            h = block(h)
        masks = torch.sigmoid(self.mask(h)).chunk(self.n_src, dim=1)
        outs = []
        for m in masks:
            outs.append(self.decoder(w * m))
        return torch.cat(outs, dim=1)


def si_sdr(est, ref):
    est = est - est.mean(dim=-1, keepdim=True)
    ref = ref - ref.mean(dim=-1, keepdim=True)
    scale = (est * ref).sum(-1, keepdim=True) / ((ref * ref).sum(-1, keepdim=True) + EPS)
    target = scale * ref
    noise = est - target
    ratio = target.pow(2).sum(-1) / (noise.pow(2).sum(-1) + EPS)
    return 10.0 * torch.log10(ratio + EPS)


def pit_loss(est, ref):
    n = ref.shape[1]
    scores = []
    for perm in itertools.permutations(range(n)):
        total = 0.0
        for e, r in enumerate(perm):
            total = total + si_sdr(est[:, e], ref[:, r])
        scores.append(total / n)
    best = torch.stack(scores, dim=1).max(dim=1).values
    return -best.mean()


def train_step(model, opt, mix, ref):
    opt.zero_grad()
    loss = pit_loss(model(mix), ref)
    loss.backward()
    opt.step()
    return loss.detach()


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path, steps=4):
    torch.manual_seed(5)
    model = TasNet().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    data = [torch.randn(3, 2, 64) for _ in range(steps)]
    torch_xla.sync()
    for i, ref in enumerate(data):
        ref = ref.to(dev)
        loss = train_step(model, opt, ref.sum(1), ref)
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item(), sum(p.detach().cpu().double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
