"""Text classifier fine-tuning with gradual unfreezing and discriminative learning rates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def make_split(n, vocab=200, length=20, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    tokens = torch.randint(classes * 10, vocab, (n, length), generator=g)
    hint = labels[:, None] * 10 + torch.randint(10, (n, 5), generator=g)
    where = torch.rand(n, length, generator=g).argsort(1)[:, :5]
    return TensorDataset(tokens.scatter(1, where, hint), labels)


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1) @ v
        x = x + self.out(att.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.ln2(x))


class Classifier(nn.Module):
    def __init__(self, vocab=200, dim=32, depth=3, classes=4, length=20):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, dim), nn.Parameter(torch.zeros(length, dim))
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))

    def groups(self):
        """From the output downwards."""
        return [self.head, self.blocks[2], nn.ModuleList([self.blocks[0], self.blocks[1], self.embed])]


class FineTuner:
    def __init__(self, model, train, val, device, lr=0.05, decay=2.6):
        self.model, self.train_set, self.val_set, self.device = model, train, val, device
        self.lr, self.decay = lr, decay

    def open_stage(self, stage):
        self.model.requires_grad_(False)
        params = []
        for depth, group in enumerate(self.model.groups()[:stage + 1]):
            group.requires_grad_(True)
            params.append({"params": list(group.parameters()), "lr": self.lr / self.decay ** depth})
        self.opt = torch.optim.SGD(params, lr=self.lr, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.95)

    def fit_stage(self, stage, epochs):
        self.open_stage(stage)
        for epoch in range(epochs):
            self.model.train()
            for tokens, labels in DataLoader(self.train_set, 32, shuffle=True, drop_last=True):
                loss = F.cross_entropy(self.model(tokens.to(self.device)), labels.to(self.device))
                self.opt.zero_grad()
                loss.backward()
                xm.optimizer_step(self.opt, barrier=True)
                self.sched.step()
            print(f"stage {stage} epoch {epoch}: loss {loss.item():.3f} val acc {self.validate():.3f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = 0
        for tokens, labels in DataLoader(self.val_set, 64):
            pred = self.model(tokens.to(self.device)).argmax(1)
            torch_xla.sync()
            hits += (pred.cpu() == labels).sum().item()
        return hits / len(self.val_set)


if __name__ == "__main__":
    torch.manual_seed(4)
    device = torch_xla.device()
    tuner = FineTuner(Classifier().to(device), make_split(192), make_split(128, seed=1), device)
    for stage in range(3):
        tuner.fit_stage(stage, epochs=2)
