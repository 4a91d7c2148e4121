"""Frame-level phone classifier; gradients are accumulated up to a frame budget per update."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HPARAMS = dict(
    mels=20,
    phones=16,
    width=32,
    max_frames=64,
    micro_batch=4,
    session=6,
    frames_per_update=400,
    updates=20,
    lr=0.05,
    log_interval=4,
)


class TDNNLayer(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dilation, padding=dilation)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.norm(h)


class TDNN(nn.Module):
    def __init__(self, hp):
        super().__init__()
        w = hp["width"]
        self.layers = nn.ModuleList([
            TDNNLayer(hp["mels"], w, 1),
            TDNNLayer(w, w, 2),
            TDNNLayer(w, w, 4),
        ])
        self.out = nn.Linear(w, hp["phones"])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Utterances:
    """Endless stream of padded micro batches, recording session by session."""

    def __init__(self, hp, seed=0):
        self.hp = hp
        self.gen = torch.Generator().manual_seed(seed)
        self.codebook = torch.randn(hp["phones"], hp["mels"], generator=self.gen)

    def __iter__(self):
        hp, g = self.hp, self.gen
        drawn = 0
        while True:
            if drawn % hp["session"] == 0:
                base = int(4 * 13 ** torch.rand(1, generator=g).item())
            drawn += 1
            lengths = base + torch.randint(0, 12, (hp["micro_batch"],), generator=g)
            labels = torch.randint(0, hp["phones"], (hp["micro_batch"], hp["max_frames"] // 4), generator=g)
            labels = labels.repeat_interleave(4, dim=1)
            feats = self.codebook[labels] + 0.3 * torch.randn(*labels.shape, hp["mels"], generator=g)
            pad = torch.arange(hp["max_frames"]).unsqueeze(0) >= lengths.unsqueeze(1)
            yield feats.masked_fill(pad.unsqueeze(-1), 0.0), labels.masked_fill(pad, -100), int(lengths.sum())


def accumulate(model, batches, budget, device):
    """Run forward and backward on micro batches until the budget is filled."""
    frames, total = 0, None
    while frames < budget:
        feats, labels, n = next(batches)
        logits = model(feats.to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.to(device).flatten(), ignore_index=-100, reduction="sum")
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
        frames += n
    return total, frames


def scale_grads(model, factor):
    for p in model.parameters():
        p.grad.mul_(factor)


def train(hp):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = TDNN(hp).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=hp["lr"], momentum=0.9)
    batches = iter(Utterances(hp))
    for update in range(hp["updates"]):
        optimizer.zero_grad(set_to_none=True)
        total, frames = accumulate(model, batches, hp["frames_per_update"], device)
        scale_grads(model, 1.0 / frames)
        optimizer.step()
        xm.mark_step()
        if (update + 1) % hp["log_interval"] == 0:
            print(f"update {update + 1} frames {frames} loss/frame {total.item() / frames:.4f}")


if __name__ == "__main__":
    train(HPARAMS)
