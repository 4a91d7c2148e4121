"""Cross-modal retrieval: align sound clips and captions with an optimal transport loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()


class ClipEncoder(nn.Module):
    """Mel frames -> one vector."""

    def __init__(self, n_mels=20, dim=24):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, 32, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(32, 32, 3, stride=2, padding=1)
        self.proj = nn.Linear(32, dim)

    def forward(self, mel):
        h = F.relu(self.conv1(mel))
        h = F.relu(self.conv2(h))
        return F.normalize(self.proj(h.mean(dim=-1)), dim=-1)


class CaptionEncoder(nn.Module):
    def __init__(self, vocab=64, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, 32)
        self.mix = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        self.proj = nn.Linear(32, dim)

    def forward(self, ids):
        h = self.mix(self.emb(ids)).mean(dim=1)
        return F.normalize(self.proj(h), dim=-1)


@torch.no_grad()
def sinkhorn_plan(cost, eps=0.25, max_iter=12, thresh=2e-3):
    n, m = cost.shape
    mu = torch.full((n,), 1.0 / n, device=cost.device)
    nu = torch.full((m,), 1.0 / m, device=cost.device)
    kernel = torch.exp(-cost / eps)
    u, v = torch.ones_like(mu), torch.ones_like(nu)
    for _ in range(max_iter):
        u_prev = u
        u = mu / (kernel @ v)
        v = nu / (kernel.t() @ u)
        err = ((u - u_prev).abs() / u.abs()).max()
        if err < thresh:
            break
    return u[:, None] * kernel * v[None, :]


def ot_loss(a, b):
    cost = 1.0 - a @ b.t()
    plan = sinkhorn_plan(cost.detach())
    return (plan * cost).sum()


def nce_loss(a, b, scale):
    logits = scale.exp() * a @ b.t()
    target = torch.arange(a.shape[0], device=a.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def pairs(n_steps, batch, frames=40, length=10):
    g = torch.Generator().manual_seed(5)
    centers = torch.randn(8, 20, 1, generator=g)
    for i in range(n_steps):
        topic = torch.randint(0, 8, (batch,), generator=g)
        spread = 0.2 + 1.3 * torch.rand(1, generator=g)
        mel = centers[topic] * spread + 0.3 * torch.randn(batch, 20, frames, generator=g)
        ids = topic[:, None] * 8 + torch.randint(0, 8, (batch, length), generator=g)
        yield i, mel, ids


torch.manual_seed(0)
audio, text = ClipEncoder().to(device), CaptionEncoder().to(device)
scale = nn.Parameter(torch.tensor(2.0, device=device))
params = [*audio.parameters(), *text.parameters(), scale]
opt = torch.optim.SGD(params, lr=0.2, momentum=0.9)
torch_xla.sync()

history = []
for i, mel, ids in pairs(n_steps=24, batch=16):
    mel, ids = mel.to(device), ids.to(device)
    a, b = audio(mel), text(ids)
    align = ot_loss(a, b)
    nce = nce_loss(a, b, scale)
    loss = nce + 0.5 * align
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    if (i + 1) % 8 == 0:
        history.append((nce.item(), align.item()))
        print("step %d  nce %.4f  ot %.4f" % (i + 1, *history[-1]))
