"""ULMFiT-like fine-tuning of a text classifier with gradual unfreezing and discriminative learning rates."""
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

VOCAB, SEQ, CLASSES = 60, 12, 4


class AttnBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        w = torch.softmax(q @ k.transpose(1, 2) * q.size(-1) ** -0.5, dim=-1)
        x = x + self.out(w @ v)
        return x + self.mlp(x)


class TextClassifier(nn.Module):
    def __init__(self, dim=24, depth=3):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(SEQ, dim))
        self.blocks = nn.ModuleList([AttnBlock(dim) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Dropout(0.1), nn.Linear(dim, CLASSES))

    def groups(self):
        return [self.head, *reversed(self.blocks), self.embed]

    def forward(self, ids):
        x = self.embed(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class GradualUnfreezing:
    """Opens one more parameter group per stage, earlier layers with a lower rate."""

    def __init__(self, model, base_lr=5e-3, decay=2.6):
        self.model, self.base_lr, self.decay = model, base_lr, decay
        model.requires_grad_(False)

    def stage(self, n_open):
        param_groups = []
        for depth, module in enumerate(self.model.groups()[:n_open]):
            module.requires_grad_(True)
            param_groups.append({"params": list(module.parameters()), "lr": self.base_lr / self.decay ** depth})
        return torch.optim.AdamW(param_groups, weight_decay=0.01)


def slanted_triangular(step, total, cut_frac=0.25, ratio=16):
    cut = max(1, int(total * cut_frac))
    p = step / cut if step < cut else 1 - (step - cut) / (total - cut)
    return (1 + p * (ratio - 1)) / ratio


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    ids = torch.randint(0, VOCAB, (n, SEQ), generator=g)
    keyed = torch.rand(n, SEQ, generator=g) < 0.4
    return torch.where(keyed, y[:, None] * 3 + torch.randint(0, 3, (n, SEQ), generator=g), ids), y


@torch.no_grad()
def evaluate(model, ids, y, device, bs=32):
    model.eval()
    correct = torch.zeros((), device=device)
    for i in range(0, len(y), bs):
        logits = model(ids[i:i + bs].to(device))
        correct += (logits.argmax(-1) == y[i:i + bs].to(device)).sum()
        torch_xla.sync()
    model.train()
    return correct.item() / len(y)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    model = TextClassifier().to(device)
    train_x, train_y = make_split(256, 0)
    val_x, val_y = make_split(64, 1)
    schedule = GradualUnfreezing(model)
    steps_per_stage, bs = 7, 32
    for stage, n_open in enumerate([1, 3, 5]):
        optimizer = schedule.stage(n_open)
        rates = [g["lr"] for g in optimizer.param_groups]
        for step in range(steps_per_stage):
            factor = slanted_triangular(step + 1, steps_per_stage + 1)
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * factor
            idx = torch.randint(0, len(train_y), (bs,))
            loss = F.cross_entropy(model(train_x[idx].to(device)), train_y[idx].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        acc = evaluate(model, val_x, val_y, device)
        print(f"stage {stage} open groups {n_open} loss {loss.item():.3f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
