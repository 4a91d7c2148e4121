"""Seismic P/S phase picker: a small 1-D U-Net over three-component waveforms, trained with RAdam."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ConvUnit(nn.Module):
    def __init__(self, cin, cout, k=5, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, stride=stride, padding=k // 2, bias=False)
        self.norm = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Picker(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.stem = ConvUnit(3, ch)
        self.down = ConvUnit(ch, 2 * ch, stride=2)
        self.up = nn.ConvTranspose1d(2 * ch, ch, 4, stride=2, padding=1)
        self.merge = ConvUnit(2 * ch, ch)
        self.head = nn.Conv1d(ch, 3, 1)

    def forward(self, x):
        s = self.stem(x)
        d = self.down(s)
        u = self.up(d)
        return self.head(self.merge(torch.cat([u, s], dim=1)))


def pick_loss(logits, target):
    # target: (B, 3, T), gaussian-shaped labels for P, S and noise; rows sum to one
    logp = F.log_softmax(logits, dim=1)
    w = torch.tensor([1.0, 1.0, 0.25], device=logits.device).view(1, 3, 1)
    return -(w * target * logp).sum(1).mean()


def normalise(w):
    w = w - w.mean(dim=-1, keepdim=True)
    return w / (w.std(dim=-1, keepdim=True) + 1e-6)


def train_step(model, opt, wave, target):
    loss = pick_loss(model(normalise(wave)), target)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts.append(p)
        for v in opt.state[p].values():
            if torch.is_tensor(v) and v.device.type == "xla":
                ts.append(v)
    return ts


def main(out_a, out_b):
    torch.manual_seed(11)
    dev = xm.xla_device()
    model = Picker().to(dev)
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-4,
                            decoupled_weight_decay=True)
    torch_xla.sync()
    dump = {5: out_a, 6: out_b}
    for step in range(1, 7):
        wave = torch.randn(2, 3, 32).to(dev)
        target = torch.softmax(torch.randn(2, 3, 32), dim=1).to(dev)
        loss = train_step(model, opt, wave, target)
        if step in dump:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss]))
            open(dump[step], "w").write(text)
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
