"""Seismic phase picking (noise / P / S) on three-component windows: a 1-d U-Net, continuous inference."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WIN, HOP = 64, 32


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1, dilation=1):
        super().__init__()
        pad = 3 * dilation
        self.conv = nn.Conv1d(c_in, c_out, 7, stride=stride, padding=pad, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(c_out)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(F.elu(self.norm(self.conv(x))))


class SqueezeExcite(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.fc1 = nn.Linear(ch, ch // 2)
        self.fc2 = nn.Linear(ch // 2, ch)

    def forward(self, x):
        s = torch.sigmoid(self.fc2(F.silu(self.fc1(x.mean(dim=-1)))))
        return x * s[..., None]


class PhaseNet(nn.Module):
    def __init__(self, widths=(4, 6, 8, 10)):
        super().__init__()
        self.stem = ConvBlock(3, widths[0])
        self.down = nn.ModuleList(
            nn.ModuleList([ConvBlock(a, b, stride=2), ConvBlock(b, b, dilation=2)])
            for a, b in zip(widths[:-1], widths[1:]))
        self.se = SqueezeExcite(widths[-1])
        self.up = nn.ModuleList(
            nn.ModuleList([nn.ConvTranspose1d(b, a, 4, stride=2, padding=1), ConvBlock(2 * a, a)])
            for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.head = nn.Conv1d(widths[0], 3, 1)

    def forward(self, x):
        x = x - x.mean(dim=-1, keepdim=True)
        x = x / (x.std(dim=-1, keepdim=True) + 1e-6)
        x = self.stem(x)
        skips = []
        for pool, block in self.down:
            skips.append(x)
            x = block(pool(x))
        x = self.se(x)
        for up, block in self.up:
            x = block(torch.cat([up(x), skips.pop()], dim=1))
        return self.head(x)


@torch.no_grad()
def pick(model, record, taper):
    """record: (3, samples); gives phase probabilities per sample, and the pick of each phase."""
    windows = record.unfold(-1, WIN, HOP).transpose(0, 1)
    prob = torch.softmax(model(windows), dim=1) * taper
    total = record.new_zeros(3, record.shape[1])
    norm = record.new_zeros(record.shape[1])
    for i in range(windows.shape[0]):
        span = slice(i * HOP, i * HOP + WIN)
        total[:, span] += prob[i]
        norm[span] += taper
    prob = total / norm.clamp_min(1e-3)
    smooth = F.avg_pool1d(prob[None], 5, stride=1, padding=2)[0]
    peak, at = smooth[1:].max(dim=-1)
    return smooth, peak, torch.where(peak > 0.3, at, torch.full_like(at, -1))


def load_model(device):
    torch.manual_seed(8)
    model = PhaseNet()
    for name, buf in model.named_buffers():  # stands for a checkpoint
        if name.endswith("running_mean"):
            buf.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buf.uniform_(0.5, 1.5)
    model.to(device)
    model.eval()
    return model


def main(dump=None, dump_at=2):
    device = torch_xla.device()
    model = load_model(device)
    taper = torch.hann_window(WIN).to(device)
    torch.manual_seed(9)
    records = [torch.randn(3, 160) for _ in range(3)]
    for i, record in enumerate(records, start=1):
        record = record.to(device)
        torch_xla.sync()
        prob, peak, at = pick(model, record, taper)
        if dump and i == dump_at:
            live = [prob, peak, at] + list(model.buffers())
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(peak.cpu().tolist(), at.cpu().tolist())


if __name__ == "__main__":
    main(dump=sys.argv[1] if len(sys.argv) > 1 else None)
