"""Frame-level phone classification on log-mel features with a small conformer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

N_MELS, N_PHONES, IGNORE = 24, 40, -100


class Utterances(Dataset):
    """Stands for a Kaldi-style data directory: (frames, mels) and one label for every frame."""

    def __init__(self, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(20, 60, (n,), generator=g).tolist()
        self.seed = seed

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10007 + i)
        t = self.lengths[i]
        return torch.randn(t, N_MELS, generator=g), torch.randint(0, N_PHONES, (t,), generator=g)


def collate(items, multiple=8):
    lengths = torch.tensor([f.size(0) for f, _ in items])
    t_max = int(-(-lengths.max() // multiple) * multiple)
    feats = torch.zeros(len(items), t_max, N_MELS)
    labels = torch.full((len(items), t_max), IGNORE)
    for b, (f, y) in enumerate(items):
        feats[b, : f.size(0)] = f
        labels[b, : y.size(0)] = y
    return feats, labels, lengths


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=7):
        super().__init__()
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        y, gate = self.pw1(x.transpose(1, 2)).chunk(2, dim=1)
        return self.pw2(F.silu(self.dw(y * gate.sigmoid()))).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm_att = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.conv = ConvModule(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm_att(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + bias).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, c))
        x = x + self.conv(x)
        return x + 0.5 * self.ff(x)


class Encoder(nn.Module):
    def __init__(self, dim=32, heads=2, layers=2, layerdrop=0.15):
        super().__init__()
        self.subsample = nn.Linear(N_MELS, dim)
        self.layers = nn.ModuleList(ConformerLayer(dim, heads) for _ in range(layers))
        self.layerdrop = layerdrop
        self.out = nn.Linear(dim, N_PHONES)

    def forward(self, feats, lengths):
        x = self.subsample(feats)
        pad = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        bias = torch.zeros_like(pad, dtype=x.dtype).masked_fill(pad, -1e4)[:, None, None]
        for layer in self.layers:
            if self.training and torch.rand(()) < self.layerdrop:
                continue
            x = layer(x, bias)
        return self.out(x)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    model = Encoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Utterances(64), batch_size=4, shuffle=True, collate_fn=collate)
    torch_xla.sync()
    history = []
    model.train()
    for epoch in range(1):
        for feats, labels, lengths in loader:
            feats, labels, lengths = feats.to(device), labels.to(device), lengths.to(device)
            logits = model(feats, lengths)
            loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            history.append(loss.detach())
    for i, loss in enumerate(history):
        xm.master_print(f"step {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
