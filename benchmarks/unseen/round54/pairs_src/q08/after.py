"""Audio tagging with an attention pooling head; clip-level tags and scene."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def conv_block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(),
        nn.AvgPool2d(2),
    )


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)

    def forward(self, x):
        v = self.split(self.value(x))
        k = self.split(self.key(x))
        q = self.split(self.query(x)) * (x.size(-1) // self.heads) ** -0.5
        weights = F.softmax(torch.matmul(q, k.mT), dim=-1)
        mixed = torch.matmul(weights, v)
        return self.out(mixed.permute(0, 2, 1, 3).flatten(2))


class Heads(nn.ModuleDict):
    def forward(self, x):
        return {name: head(x) for name, head in self.items()}


class Tagger(nn.Module):
    def __init__(self, mels=16, dim=32, heads=4, tags=8, scenes=4):
        super().__init__()
        self.heads = Heads({"scene": nn.Linear(dim, scenes), "tags": nn.Linear(dim, tags)})
        self.attention = SelfAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(16 * mels // 4, dim)
        self.frontend = nn.Sequential(conv_block(1, 8), conv_block(8, 16))

    def forward(self, mel):
        x = self.frontend(mel[:, None])
        x = self.proj(x.permute(0, 2, 1, 3).flatten(2))
        x = self.attention(self.norm(x)) + x
        return self.heads(x.mean(dim=1))


LOSSES = {
    "scene": (0.5, lambda out, y: F.nll_loss(F.log_softmax(out, dim=-1), y)),
    "tags": (1.0, F.binary_cross_entropy_with_logits),
}


def compute_losses(outputs, targets):
    parts = {name: fn(outputs[name], targets[name]) for name, (_, fn) in LOSSES.items()}
    return LOSSES["scene"][0] * parts["scene"] + parts["tags"], parts


def clips(gen, batch=6, frames=32, mels=16, tags=8, scenes=4):
    mel = torch.randn(batch, frames, mels, generator=gen)
    tag = (torch.rand(batch, tags, generator=gen) < 0.25).float()
    return mel, {"tags": tag, "scene": torch.randint(0, scenes, (batch,), generator=gen)}


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    device = torch_xla.device()
    model = Tagger().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for step in range(5):
        mel, targets = clips(gen)
        targets = {name: y.to(device) for name, y in targets.items()}
        loss, parts = compute_losses(model(mel.to(device)), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, f"{loss.item():.6f}", *(f"{k} {v.item():.6f}" for k, v in parts.items()))


if __name__ == "__main__":
    main()
