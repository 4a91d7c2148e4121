import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RevIN(nn.Module):
    """Reversible instance normalisation over the look-back window."""

    def __init__(self, n_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n_features))
        self.bias = nn.Parameter(torch.zeros(n_features))

    def norm(self, x):
        mean = x.mean(1, keepdim=True)
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps)
        return (x - mean) / std * self.weight + self.bias, (mean, std)

    def denorm(self, y, stats):
        mean, std = stats
        return (y - self.bias) / (self.weight + self.eps ** 2) * std + mean


class Attention(nn.Module):
    def __init__(self, d, h, dropout=0.1):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.reshape(b, n, self.h, d // self.h).transpose(1, 2) for t in (q, k, v))
        s = q @ k.transpose(-2, -1) / (d // self.h) ** 0.5
        a = self.drop(s.softmax(-1))
        return self.out((a @ v).transpose(1, 2).reshape(b, n, d))


class EncoderLayer(nn.Module):
    def __init__(self, d, h, dropout=0.1):
        super().__init__()
        self.attn = Attention(d, h, dropout)
        self.norm1 = nn.LayerNorm(d)
        self.norm2 = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * d, d))

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.ff(x))


class PatchTST(nn.Module):
    def __init__(self, n_features=4, seq_len=48, pred_len=12, patch=8, stride=4, d=16, h=2, depth=1):
        super().__init__()
        self.patch = patch
        n_patch = (seq_len - patch) // stride + 2
        self.revin = RevIN(n_features)
        start = torch.arange(n_patch) * stride
        index = (start[:, None] + torch.arange(patch)).clamp(max=seq_len - 1)
        self.register_buffer("index", index, persistent=False)
        self.embed = nn.Linear(patch, d)
        self.pos = nn.Parameter(torch.randn(n_patch, d) * 0.02)
        self.encoder = nn.Sequential(*[EncoderLayer(d, h) for _ in range(depth)])
        self.head = nn.Linear(n_patch * d, pred_len)

    def forward(self, x):
        b, t, c = x.shape
        x, stats = self.revin.norm(x)
        x = x.transpose(1, 2).reshape(b * c, t)
        x = x.index_select(1, self.index.flatten()).view(b * c, -1, self.patch)
        z = self.encoder(self.embed(x) + self.pos)
        y = self.head(z.flatten(1)).view(b, c, -1).transpose(1, 2)
        return self.revin.denorm(y, stats)


def build(device, lr=1e-3):
    model = PatchTST().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
    return model, opt


def train_step(model, opt, x, y):
    opt.zero_grad(set_to_none=True)
    pred = model(x)
    loss = F.smooth_l1_loss(pred, y)
    loss.backward()
    opt.step()
    with torch.no_grad():
        mae = (pred - y).abs().mean()
    return loss.detach(), mae


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model, opt = build(device)
    t = torch.arange(0, 1200, dtype=torch.float32)
    series = torch.stack([torch.sin(t / p) + 0.002 * t for p in (5, 9, 13, 24)], -1)
    series = series + 0.1 * torch.randn_like(series)
    torch_xla.sync()
    for step in range(6):
        start = torch.randint(0, 1100, (6,))
        win = torch.stack([series[s:s + 60] for s in start])
        loss, mae = train_step(model, opt, win[:, :48].to(device), win[:, 48:].to(device))
        torch_xla.sync()
    print(f"{loss.item():.4f} {mae.item():.4f}")


if __name__ == "__main__":
    main()
