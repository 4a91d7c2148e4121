"""SwAV-style clustering pretraining on two crops of small images."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH = 6
FEAT = 16
N_PROTO = 10
QUEUE_LEN = 12
ITERS_PER_EPOCH = 3
EPOCHS = 4
EPOCH_QUEUE_STARTS = 2
FREEZE_PROTOTYPES_NITERS = 5
TEMPERATURE = 0.1
EPSILON = 0.05
SINKHORN_ITERS = 3


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


class SwAVNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block1 = Block(8, 12, 2)
        self.block2 = Block(12, 16, 2)
        self.projection = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, FEAT))
        self.prototypes = nn.Linear(FEAT, N_PROTO, bias=False)

    def forward(self, crops):
        x = torch.cat(crops)
        x = self.block2(self.block1(F.relu(self.stem(x)))).mean((2, 3))
        emb = F.normalize(self.projection(x), dim=1)
        return emb, self.prototypes(emb)


@torch.no_grad()
def sinkhorn(scores):
    q = torch.exp(scores / EPSILON).t()
    k, b = q.shape
    q = q / q.sum()
    for _ in range(SINKHORN_ITERS):
        q = q / q.sum(dim=1, keepdim=True) / k
        q = q / q.sum(dim=0, keepdim=True) / b
    return (q * b).t()


def swav_loss(model, emb, scores, queue):
    loss = 0.0
    for crop in range(2):
        with torch.no_grad():
            out = scores[BATCH * crop:BATCH * (crop + 1)].detach()
            if queue is not None:
                out = torch.cat([queue[crop] @ model.prototypes.weight.t(), out])
                queue[crop] = torch.cat([emb[BATCH * crop:BATCH * (crop + 1)], queue[crop, :-BATCH]])
            assign = sinkhorn(out)[-BATCH:]
        other = scores[BATCH * (1 - crop):BATCH * (2 - crop)] / TEMPERATURE
        loss = loss - (assign * F.log_softmax(other, dim=1)).sum(1).mean()
    return loss / 2


def train_epoch(model, opt, loader, epoch, queue, device):
    if epoch >= EPOCH_QUEUE_STARTS and queue is None:
        queue = torch.zeros(2, QUEUE_LEN, FEAT, device=device)
        torch_xla.sync()
    for it, crops in enumerate(loader):
        iteration = epoch * ITERS_PER_EPOCH + it
        crops = [c.to(device) for c in crops]
        with torch.no_grad():
            w = F.normalize(model.prototypes.weight, dim=1, p=2)
            model.prototypes.weight.copy_(w)
        emb, scores = model(crops)
        loss = swav_loss(model, emb.detach(), scores, queue)
        opt.zero_grad()
        loss.backward()
        if iteration < FREEZE_PROTOTYPES_NITERS:
            for name, p in model.named_parameters():
                if "prototypes" in name:
                    p.grad = None
        opt.step()
        torch_xla.sync()
    return queue, loss


def make_loader(gen):
    for _ in range(ITERS_PER_EPOCH):
        base = torch.randn(BATCH, 3, 16, 16, generator=gen)
        yield [base.flip(3) + 0.1 * torch.randn(base.shape, generator=gen), base * 0.8]


def main():
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()
    model = SwAVNet().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-6)
    queue = None
    for epoch in range(EPOCHS):
        queue, loss = train_epoch(model, opt, make_loader(gen), epoch, queue, device)
    print(loss.item())


if __name__ == "__main__":
    main()
