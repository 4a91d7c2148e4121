"""PointNet segmentation of lidar sweeps with cross-entropy + Lovasz-softmax."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_CLASSES = 5
IGNORE = 255


class Sweeps:
    """Ground, walls, poles, cars, vegetation. Far or occluded points are unlabelled."""

    def __init__(self, points, seed):
        self.points = points
        self.rng = np.random.default_rng(seed)

    def sweep(self):
        rng, n = self.rng, self.points
        labels = rng.choice(NUM_CLASSES, size=n, p=[0.4, 0.2, 0.08, 0.12, 0.2])
        xyz = rng.uniform(-10, 10, size=(n, 3))
        xyz[:, 2] = rng.uniform(0, 3, size=n)
        xyz[labels == 0, 2] = rng.normal(0, 0.05, size=(labels == 0).sum())
        xyz[labels == 1, 0] = np.sign(xyz[labels == 1, 0]) * 8
        xyz[labels == 2, 1] = 4.0
        xyz[labels == 3, 2] = rng.uniform(0, 1.4, size=(labels == 3).sum())
        intensity = 0.2 * labels + rng.normal(0, 0.1, size=n)
        rng_far = np.hypot(xyz[:, 0], xyz[:, 1])
        hidden = rng.random(n) < np.clip((rng_far - 6) / 12, 0, 0.6)
        labels = np.where(hidden, IGNORE, labels)
        feats = np.concatenate([xyz / 10.0, intensity[:, None]], axis=1)
        return feats.T.astype(np.float32), labels.astype(np.int64)

    def batch(self, size):
        feats, labels = zip(*(self.sweep() for _ in range(size)))
        return torch.from_numpy(np.stack(feats)), torch.from_numpy(np.stack(labels))


def conv_bn(cin, cout):
    return nn.Sequential(nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU(inplace=True))


class PointNetSeg(nn.Module):
    def __init__(self, cin=4, width=32):
        super().__init__()
        self.local = nn.Sequential(conv_bn(cin, width), conv_bn(width, width))
        self.context = nn.Sequential(conv_bn(width, 2 * width), conv_bn(2 * width, 4 * width))
        self.head = nn.Sequential(conv_bn(5 * width, 2 * width), conv_bn(2 * width, width),
                                  nn.Conv1d(width, NUM_CLASSES, 1))

    def forward(self, x):
        local = self.local(x)
        pooled = self.context(local).amax(dim=2, keepdim=True)
        return self.head(torch.cat([local, pooled.expand(-1, -1, x.shape[2])], dim=1))


def lovasz_grad(gt_sorted):
    gts = gt_sorted.sum()
    intersection = gts - gt_sorted.cumsum(0)
    union = gts + (1.0 - gt_sorted).cumsum(0)
    jaccard = 1.0 - intersection / union.clamp(min=1e-6)
    return torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])


def flatten_probas(probas, labels, ignore):
    probas = probas.permute(0, 2, 1).reshape(-1, NUM_CLASSES)
    labels = labels.reshape(-1)
    valid = labels != ignore
    return probas[valid], labels[valid]


def lovasz_softmax(probas, labels, ignore):
    vprobas, vlabels = flatten_probas(probas, labels, ignore)
    losses = []
    for c in range(NUM_CLASSES):
        fg = (vlabels == c).float()
        errors = (fg - vprobas[:, c]).abs()
        errors_sorted, perm = torch.sort(errors, 0, descending=True)
        losses.append(torch.dot(errors_sorted, lovasz_grad(fg[perm])))
    return torch.stack(losses).mean()


class BNMomentumScheduler:
    def __init__(self, model, initial=0.5, decay=0.93, floor=0.01):
        self.layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.initial, self.decay, self.floor = initial, decay, floor
        self.it = 0
        self.apply()

    def apply(self):
        momentum = max(self.initial * self.decay ** self.it, self.floor)
        for m in self.layers:
            m.momentum = momentum

    def step(self):
        self.it += 1
        self.apply()


@torch.no_grad()
def evaluate(model, data, device, batches=3):
    model.eval()
    conf = torch.zeros(NUM_CLASSES, NUM_CLASSES, device=device)
    for _ in range(batches):
        x, y = (t.to(device) for t in data.batch(4))
        pred = F.one_hot(model(x).argmax(1), NUM_CLASSES).float()
        gold = F.one_hot(y.clamp(max=NUM_CLASSES - 1), NUM_CLASSES).float() * (y != IGNORE).unsqueeze(-1)
        conf += torch.einsum("bnc,bnd->cd", gold, pred)
        torch_xla.sync()
    conf = conf.cpu()
    inter = conf.diag()
    return (inter / (conf.sum(0) + conf.sum(1) - inter).clamp(min=1)).mean().item()


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    train, valid = Sweeps(256, seed=5), Sweeps(256, seed=6)
    model = PointNetSeg().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    lr_sched = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=18, power=0.9)
    bn_sched = BNMomentumScheduler(model)

    for step in range(1, 19):
        model.train()
        x, y = (t.to(device) for t in train.batch(4))
        logits = model(x)
        ce = F.cross_entropy(logits, y, ignore_index=IGNORE)
        lovasz = lovasz_softmax(logits.softmax(1), y, IGNORE)
        loss = ce + 0.5 * lovasz
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lr_sched.step()
        bn_sched.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step:3d}  ce {ce.item():.4f}  lovasz {lovasz.item():.4f}")
            print(f"          mIoU {evaluate(model, valid, device):.4f}")


if __name__ == "__main__":
    main()
