"""Frame-wise bird-call detection: gated dilated TCN, focal loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.nn.utils.parametrizations import weight_norm

MELS, CH, SPECIES, FRAMES = 16, 12, 5, 32


class GatedBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(ch, 2 * ch, 3, dilation=dilation))
        self.mix = nn.Conv1d(ch, ch, 1)
        self.norm = nn.GroupNorm(3, ch)

    def forward(self, x):
        h = F.glu(self.conv(F.pad(x, (self.pad, 0))), dim=1)
        return self.norm(x + self.mix(h))


class CallDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(MELS, CH, 1)
        self.blocks = nn.ModuleList(GatedBlock(CH, d) for d in (1, 2, 4))
        self.head = nn.Conv1d(CH, SPECIES, 1)

    def forward(self, mel):
        h = torch.relu(self.stem(torch.log1p(mel)))
        for blk in self.blocks:
            h = blk(h)
        return self.head(h)


def focal_loss(logits, target, gamma=2.0, alpha=0.25):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    p_t = p * target + (1 - p) * (1 - target)
    a_t = alpha * target + (1 - alpha) * (1 - target)
    loss = a_t * (1 - p_t) ** gamma * ce
    return loss.mean()


def build_optimizer(model, lr=3e-3, weight_decay=0.05):
    decay, plain = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else plain).append(p)
    groups = [
        {"params": decay, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


def clips(gen, n=4):
    mel = torch.rand(n, MELS, FRAMES, generator=gen) * 4.0
    target = (torch.rand(n, SPECIES, FRAMES, generator=gen) < 0.1).float()
    return mel, target


def live(model, opt):
    out = []
    for p in model.parameters():
        out += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(8)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(9)
    model = CallDetector().to(dev)
    opt = build_optimizer(model)
    torch_xla.sync()
    for it in range(4):
        mel, target = (t.to(dev) for t in clips(gen))
        logits = model(mel)
        loss = focal_loss(logits, target)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if it == 2 and len(sys.argv) > 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [logits, loss])
            with open(sys.argv[1], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main()
