"""Fine-tuning a small text encoder, unfreezing it from the top in stages."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 17
VOCAB = 200
SEQ = 32
BATCH = 16
CLASSES = 4
STEPS = 64
STAGES = {0: "head", 10: "layers.1", 20: "layers.0"}


class Encoder(nn.Module):
    def __init__(self, dim=32, depth=2, heads=4):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.randn(1, SEQ, dim) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        h = self.tok(ids) + self.pos
        for layer in self.layers:
            h = layer(h)
        return self.norm(h)


class Classifier(nn.Module):
    def __init__(self, encoder, dim=32):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(3 * dim, dim), nn.ReLU(), nn.Dropout(0.1), nn.Linear(dim, CLASSES))

    def forward(self, ids):
        h = self.encoder(ids)
        pooled = torch.cat([h[:, -1], h.mean(dim=1), h.amax(dim=1)], dim=-1)
        return self.head(pooled)


def module_for(model, name):
    if name == "head":
        return model.head
    return model.encoder.get_submodule(name)


def unfreeze(model, optimizer, name, lr):
    params = list(module_for(model, name).parameters())
    for p in params:
        p.requires_grad_(True)
    optimizer.add_param_group({"params": params, "lr": lr})


def make_dataset(n, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    ids = torch.randint(CLASSES, VOCAB, (n, SEQ), generator=gen)
    marks = torch.rand(n, SEQ, generator=gen) < 0.2
    return torch.where(marks, y[:, None].expand_as(ids), ids), y


@torch.no_grad()
def evaluate(model, ids, y):
    model.eval()
    correct = torch.zeros((), device=ids.device)
    for i in range(0, ids.shape[0], BATCH):
        chunk, target = ids.narrow(0, i, BATCH), y.narrow(0, i, BATCH)
        correct += (model(chunk).argmax(-1) == target).sum()
    torch_xla.sync()
    model.train()
    return correct.item() / ids.shape[0]


def main():
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()

    train_ids, train_y = make_dataset(320, gen)
    val_ids, val_y = make_dataset(32, gen)
    val_ids, val_y = val_ids.to(device), val_y.to(device)

    model = Classifier(Encoder()).to(device)
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=4e-3, weight_decay=0.01)
    base_lr = 4e-3

    for step in range(STEPS):
        if step in STAGES and step > 0:
            base_lr /= 2.0
            unfreeze(model, optimizer, STAGES[step], base_lr)

        pick = torch.randint(0, train_ids.shape[0], (BATCH,), generator=gen)
        ids, y = train_ids[pick].to(device), train_y[pick].to(device)
        loss = F.cross_entropy(model(ids), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        torch_xla.sync()

        if (step + 1) % 16 == 0:
            acc = evaluate(model, val_ids, val_y)
            print(f"step {step + 1:3d} loss {loss.item():.3f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
