import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_MELS, T, CLASSES, BS = 10, 40, 7, 8


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv1d(cin, cin, 5, stride=stride, padding=2, groups=cin)
        self.pw = nn.Conv1d(cin, cout, 1)
        self.ln = nn.LayerNorm(cout)

    def forward(self, x):
        y = self.pw(self.dw(x))
        y = self.ln(y.transpose(1, 2)).transpose(1, 2)
        return F.silu(y)


class KeywordSpotter(nn.Module):
    """log-mel -> separable convs -> masked average over frames -> class logits"""

    def __init__(self, hid=24):
        super().__init__()
        self.stem = ConvBlock(N_MELS, hid, 1)
        self.mid = ConvBlock(hid, hid, 2)
        self.top = ConvBlock(hid, hid, 1)
        self.out = nn.Linear(hid, CLASSES)

    def pool(self, h, lens):
        frames = torch.arange(h.shape[-1], device=h.device)
        keep = (frames[None, :] < lens[:, None]).to(h.dtype)
        s = (h * keep[:, None, :]).sum(-1)
        return s / keep.sum(-1, keepdim=True).clamp(min=1.0)

    def forward(self, mel, lens):
        h = self.stem(mel)
        h = self.mid(h)
        h = h + self.top(h)
        return self.out(self.pool(h, torch.div(lens + 1, 2, rounding_mode="floor")))


def compute_loss(logits, y, smoothing=0.1):
    logp = F.log_softmax(logits.float(), dim=-1)
    nll = -logp.gather(1, y[:, None]).squeeze(1)
    uniform = -logp.mean(-1)
    return ((1 - smoothing) * nll + smoothing * uniform).mean()


def synth(gen, n=BS):
    """tones whose pitch track depends on the class, with random duration"""
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    lens = torch.randint(T // 3, T + 1, (n,), generator=gen)
    frame = torch.arange(T).float()
    centre = (y[:, None] + 0.5 + torch.sin(frame[None] / T * math.pi * (1 + y[:, None] % 3)))
    bins = torch.arange(N_MELS).float()
    mel = torch.exp(-0.5 * (bins[None, :, None] - centre[:, None, :]) ** 2)
    mel = mel + 0.05 * torch.randn(mel.shape, generator=gen)
    mel = mel * (frame[None, None] < lens[:, None, None])
    return mel.to(torch.bfloat16), lens, y


def train(steps=4, lr=1e-3):
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    dev = torch_xla.device()
    model = KeywordSpotter().to(torch.bfloat16).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    torch_xla.sync()
    hist = []
    for i in range(steps):
        mel, lens, y = (t.to(dev) for t in synth(gen))
        with torch_xla.step():
            opt.zero_grad()
            logits = model(mel, lens)
            loss = compute_loss(logits, y)
            loss.backward()
            opt.step()
        hist.append(loss.item())
    return hist


if __name__ == "__main__":
    print(["%.4f" % v for v in train()])
