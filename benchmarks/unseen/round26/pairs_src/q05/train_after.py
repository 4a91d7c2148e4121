import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader


def make_batches(n_batches, batch, size, classes, seed=5):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n_batches):
        label = torch.randint(0, classes, (batch,), generator=g)
        img = torch.randn(batch, 3, size, size, generator=g)
        img[:, 0] += label[:, None, None].float() / classes
        out.append((img, label))
    return out


class ChannelsFirstNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, 1, 1))
        self.bias = nn.Parameter(torch.zeros(dim, 1, 1))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        return (x - mu) / torch.sqrt(var + self.eps) * self.weight + self.bias


class NextBlock(nn.Module):
    def __init__(self, dim, expand=2, init_scale=0.1):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, expand * dim)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(expand * dim, dim)
        self.layer_scale = nn.Parameter(torch.full((dim,), init_scale))

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.fc2(self.act(self.fc1(self.norm(y))))
        return x + (self.layer_scale * y).permute(0, 3, 1, 2)


class TinyNext(nn.Module):
    def __init__(self, classes, dims=(8, 12)):
        super().__init__()
        self.patchify = nn.Conv2d(3, dims[0], 2, stride=2)
        self.stage1 = NextBlock(dims[0])
        self.shrink_norm = ChannelsFirstNorm(dims[0])
        self.shrink = nn.Conv2d(dims[0], dims[1], 2, stride=2)
        self.stage2 = NextBlock(dims[1])
        self.head = nn.Linear(dims[1], classes)

    def forward(self, x):
        x = self.stage1(self.patchify(x))
        x = self.stage2(self.shrink(self.shrink_norm(x)))
        return self.head(x.mean(dim=(-2, -1)))


def top_k_correct(logits, label, k):
    top = logits.topk(k, dim=1).indices
    return (top == label.unsqueeze(1)).any(dim=1).float().sum()


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    classes = 6
    model = TinyNext(classes).to(device).train()
    opt = torch.optim.SGD(
        model.parameters(),
        lr=0.02,
        momentum=0.9,
        weight_decay=5e-4,
        nesterov=True,
    )
    loader = MpDeviceLoader(make_batches(5, 6, 16, classes), device)
    for step, (img, label) in enumerate(loader):
        logits = model(img)
        loss = F.cross_entropy(logits, label, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hit = top_k_correct(logits.detach(), label, 2)
        xm.add_step_closure(lambda s, l, h: print(s, round(l.item(), 4), int(h.item())),
                            args=(step, loss, hit))


if __name__ == "__main__":
    main()
