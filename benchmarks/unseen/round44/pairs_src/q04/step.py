"""Bird-call tagging on log-mel patches: small conv trunk, attention pooling over
time, focal BCE over species.  Runs eight steps and keeps the HLO of the fifth
(a.hlo) and of the sixth (b.hlo)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SPECIES, MELS, FRAMES = 6, 12, 16


class CallTagger(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1, stride=(2, 1))
        self.gn = nn.GroupNorm(2, ch)
        self.frame = nn.Linear(ch * MELS // 2, 10)
        self.att = nn.Linear(10, SPECIES)
        self.cla = nn.Linear(10, SPECIES)

    def forward(self, mel):
        h = F.gelu(self.conv1(mel))
        h = F.gelu(self.gn(self.conv2(h)))
        h = h.permute(0, 3, 1, 2).flatten(2)
        h = torch.relu(self.frame(h))
        w = torch.softmax(torch.clamp(self.att(h), -8.0, 8.0), dim=1)
        return (w * self.cla(h)).sum(dim=1)


def focal_bce(logits, target, gamma=2.0, pos_weight=3.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    weight = target * pos_weight + (1 - target)
    return (weight * (1 - p_t).pow(gamma) * ce).mean()


def mixup(mel, target, lam):
    return (lam * mel + (1 - lam) * mel.flip(0),
            torch.maximum(target, target.flip(0)))


def main():
    dev = torch_xla.device()
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(43)
    model = CallTagger().to(dev)
    opt = torch.optim.RAdam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    torch_xla.sync()
    for step in range(1, 9):
        mel = torch.randn(4, 1, MELS, FRAMES, generator=gen).to(dev)
        target = (torch.rand(4, SPECIES, generator=gen) < 0.25).float().to(dev)
        lam = torch.rand(4, 1, 1, 1, generator=gen).to(dev)
        mel, target = mixup(mel, target, lam)
        loss = focal_bce(model(mel), target)
        loss.backward()
        opt.step()
        opt.zero_grad()
        live = [loss]
        for p in model.parameters():
            st = opt.state[p]
            live += [p, st["exp_avg"], st["exp_avg_sq"]]
        if step in (5, 6):
            with open({5: "a.hlo", 6: "b.hlo"}[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
