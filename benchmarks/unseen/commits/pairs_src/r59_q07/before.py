"""Card fraud detection: feature-token transformer over numeric and categorical columns."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM, CARDS, DIM, HEADS, BATCH = 7, (12, 5, 30), 16, 2, 32


class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(NUM, DIM) * 0.1)
        self.bias = nn.Parameter(torch.zeros(NUM, DIM))
        self.emb = nn.Embedding(sum(CARDS), DIM)
        self.cls = nn.Parameter(torch.randn(1, 1, DIM) * 0.02)
        self.register_buffer("offset", torch.tensor([0, *np.cumsum(CARDS)[:-1]]))

    def forward(self, num, cat):
        n = num.unsqueeze(-1) * self.weight + self.bias
        c = self.emb(cat + self.offset)
        return torch.cat([self.cls.expand(num.size(0), -1, -1), n, c], 1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2) * (DIM // HEADS) ** -0.5).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(b, t, DIM))
        u, g = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(u * F.relu(g))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.layer = Tokenizer(), Layer()
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, 1)

    def forward(self, num, cat):
        return self.head(F.relu(self.norm(self.layer(self.tok(num, cat))[:, 0]))).squeeze(-1)


class FraudLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, y):
        ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
        with torch.no_grad():
            p = torch.sigmoid(logits)
            p_t = p * y + (1 - p) * (1 - y)
            alpha_t = self.alpha * y + (1 - self.alpha) * (1 - y)
            weight = alpha_t * (1 - p_t) ** self.gamma
        return (weight * ce).mean()


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    model = Model().to(device)
    criterion = FraudLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, foreach=False)
    rng = np.random.default_rng(8)
    torch_xla.sync()
    for step in range(6):
        num = torch.from_numpy(rng.standard_normal((BATCH, NUM), dtype=np.float32)).to(device)
        cat = torch.from_numpy(np.stack([rng.integers(0, c, BATCH) for c in CARDS], 1)).to(device)
        y = torch.from_numpy((rng.random(BATCH) < 0.1).astype(np.float32)).to(device)
        opt.zero_grad()
        loss = criterion(model(num, cat), y)
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5, foreach=False)
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 6), flush=True)


if __name__ == "__main__":
    main()
