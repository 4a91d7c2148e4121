"""House-price regression with a residual MLP; fit() with validation every few epochs."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_NUM, CATS = 6, (5, 9, 4)


class ResidualBlock(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * 2)
        self.fc2 = nn.Linear(dim * 2, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.fc2(self.drop(F.relu(self.fc1(self.norm(x))))))


class TabResNet(nn.Module):
    def __init__(self, dim=32, blocks=3, drop=0.1):
        super().__init__()
        self.cat_emb = nn.ModuleList(nn.Embedding(c, 8) for c in CATS)
        self.first = nn.Linear(N_NUM + 8 * len(CATS), dim)
        self.blocks = nn.Sequential(*[ResidualBlock(dim, drop) for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, num, cat):
        parts = [num] + [e(cat[:, i]) for i, e in enumerate(self.cat_emb)]
        return self.head(self.blocks(self.first(torch.cat(parts, 1)))).squeeze(1)


class Regressor:
    def __init__(self, lr=1e-3, batch=32, epochs=4, eval_every=2):
        self.device = torch_xla.device()
        self.net = TabResNet().to(self.device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr, weight_decay=1e-4)
        self.batch, self.epochs, self.eval_every = batch, epochs, eval_every

    def _iter(self, data, shuffle):
        n = len(data[0])
        perm = torch.randperm(n) if shuffle else torch.arange(n)
        for i in range(0, n - self.batch + 1, self.batch):
            idx = perm[i:i + self.batch]
            yield [d[idx].to(self.device) for d in data]

    @torch.no_grad()
    def validate(self, data):
        self.net.eval()
        errs = []
        for num, cat, y in self._iter(data, shuffle=False):
            errs.append((self.net(num, cat) - y).square().mean())
            torch_xla.sync()
        return sum(e.item() for e in errs) / len(errs)

    def fit(self, train, valid):
        best = float("inf")
        self.net.train()
        for epoch in range(1, self.epochs + 1):
            total = 0.0
            for num, cat, y in self._iter(train, shuffle=True):
                self.opt.zero_grad()
                loss = F.mse_loss(self.net(num, cat), y)
                loss.backward()
                self.opt.step()
                torch_xla.sync()
                total += loss.item()
            msg = f"epoch {epoch} train {total:.4f}"
            if epoch % self.eval_every == 0:
                score = self.validate(valid)
                best = min(best, score)
                msg += f" valid {score:.4f} best {best:.4f}"
            print(msg)
        return best


def make_frame(n):
    num = torch.randn(n, N_NUM)
    cat = torch.stack([torch.randint(0, c, (n,)) for c in CATS], 1)
    y = num[:, 0] * 1.5 - num[:, 1] * num[:, 2] + cat[:, 0].float() * 0.3 + 0.1 * torch.randn(n)
    return num, cat, (y - y.mean()) / y.std()


if __name__ == "__main__":
    torch.manual_seed(2)
    Regressor().fit(make_frame(128), make_frame(64))
