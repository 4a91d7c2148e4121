"""Streaming acoustic model (conformer encoder), trained on frame alignments."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MEL, DIM, HEADS, UNITS = 20, 32, 4, 40
FRAMES, BATCH = 32, 4


def subsequent_chunk_mask(size, chunk_size, num_left_chunks=-1, device="cpu"):
    ret = torch.zeros(size, size, device=device, dtype=torch.bool)
    for i in range(size):
        if num_left_chunks < 0:
            start = 0
        else:
            start = max((i // chunk_size - num_left_chunks) * chunk_size, 0)
        ending = min((i // chunk_size + 1) * chunk_size, size)
        ret[i, start:ending] = True
    return ret


def add_optional_chunk_mask(xs, masks, rng, max_chunk=5):
    size = xs.size(1)
    chunk_size = int(rng.integers(1, size))
    if chunk_size > size // 2 + 1:
        chunk_size = size
    else:
        chunk_size = chunk_size % max_chunk + 1
    chunk_masks = subsequent_chunk_mask(size, chunk_size, device=xs.device)
    return masks & chunk_masks.unsqueeze(0)


class Subsampling4(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 2, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, 2, padding=1)
        self.out = nn.Linear(8 * (MEL // 4), DIM)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x.unsqueeze(1)))))
        b, c, t, f = x.shape
        return self.out(x.transpose(1, 2).reshape(b, t, c * f))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.w1, self.w2 = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return self.w2(F.silu(self.w1(self.norm(x))))


class ConvModule(nn.Module):
    def __init__(self, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.pw1 = nn.Conv1d(DIM, 2 * DIM, 1)
        self.dw = nn.Conv1d(DIM, DIM, kernel, groups=DIM)
        self.pw2 = nn.Conv1d(DIM, DIM, 1)
        self.lorder = kernel - 1

    def forward(self, x):
        y, gate = self.pw1(self.norm(x).transpose(1, 2)).chunk(2, dim=1)
        y = y * torch.sigmoid(gate)
        y = self.dw(F.pad(y, (self.lorder, 0)))
        return self.pw2(F.silu(y)).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff, self.conv = FeedForward(), ConvModule()
        self.norm, self.norm_out = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def attend(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        s = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)
        s = s.masked_fill(~mask.unsqueeze(1), -1e4).softmax(-1)
        return self.proj((s @ v).transpose(1, 2).reshape(b, t, DIM))

    def forward(self, x, mask):
        x = x + self.attend(self.norm(x), mask)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff(x)
        return self.norm_out(x)


class AcousticModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layer, self.out = Subsampling4(), ConformerLayer(), nn.Linear(DIM, UNITS)

    def forward(self, feats, lengths, rng):
        x = self.embed(feats)
        pos = torch.arange(x.size(1), device=x.device)
        pad = (pos[None, :] < lengths[:, None]).unsqueeze(1)
        mask = add_optional_chunk_mask(x, pad, rng)
        return self.out(self.layer(x, mask)), pad.squeeze(1)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    model = AcousticModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    data, rng = np.random.default_rng(1), np.random.default_rng(2024)
    torch_xla.sync()
    for step in range(8):
        feats = torch.from_numpy(data.standard_normal((BATCH, FRAMES, MEL), dtype=np.float32))
        lengths = torch.from_numpy(data.integers(4, FRAMES // 4 + 1, BATCH))
        align = torch.from_numpy(data.integers(0, UNITS, (BATCH, FRAMES // 4)))
        feats, lengths, align = feats.to(device), lengths.to(device), align.to(device)
        opt.zero_grad()
        logits, valid = model(feats, lengths, rng)
        nll = F.cross_entropy(logits.transpose(1, 2), align, reduction="none", label_smoothing=0.1)
        loss = (nll * valid).sum() / valid.sum()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
