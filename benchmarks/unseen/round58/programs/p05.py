"""Patch-based 3D segmentation of synthetic anisotropic volumes (nnU-Net flavour):
two acquisition protocols, deep supervision, gradient accumulation, Dice + CE."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 17
CLASSES = 3
ACCUM = 2
MICRO_STEPS = 48
VALIDATE_EVERY = 16
PATCHES = {"axial": (8, 24, 24), "iso": (16, 16, 16)}


def synth_volume(protocol, rng):
    """Organ ellipsoid with a small lesion inside; spacing depends on the scanner."""
    shape = (14, 40, 40) if protocol == "axial" else (28, 28, 28)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij"))
    c = rng.uniform(-0.2, 0.2, 3)[:, None, None, None]
    radius = rng.uniform(0.45, 0.7, 3)[:, None, None, None]
    organ = (((grid - c) / radius) ** 2).sum(0) < 1
    off = c + rng.uniform(-0.2, 0.2, 3)[:, None, None, None]
    lesion = (((grid - off) / 0.22) ** 2).sum(0) < 1
    label = organ.astype(np.int64)
    label[organ & lesion] = 2
    image = np.choose(label, [0.0, 0.7, 1.4]) + rng.normal(0, 0.35, shape)
    image = (image - image.mean()) / image.std()
    return image.astype(np.float32), label


class PatchSampler:
    def __init__(self, protocol, n, seed, foreground=0.6):
        self.rng = np.random.default_rng(seed)
        self.patch = PATCHES[protocol]
        self.foreground = foreground
        self.cases = [synth_volume(protocol, self.rng) for _ in range(n)]

    def crop(self):
        image, label = self.cases[self.rng.integers(len(self.cases))]
        if self.rng.random() < self.foreground:
            where = np.argwhere(label == 2)
            centre = where[self.rng.integers(len(where))] if len(where) else None
        else:
            centre = None
        start = []
        for axis, (size, p) in enumerate(zip(image.shape, self.patch)):
            s = self.rng.integers(0, size - p + 1) if centre is None else centre[axis] - p // 2
            start.append(int(np.clip(s, 0, size - p)))
        sl = tuple(slice(s, s + p) for s, p in zip(start, self.patch))
        image, label = image[sl], label[sl]
        for axis in range(1, 3):
            if self.rng.random() < 0.5:
                image, label = np.flip(image, axis), np.flip(label, axis)
        return image.copy(), label.copy()

    def batch(self, n=2):
        crops = [self.crop() for _ in range(n)]
        x = torch.from_numpy(np.stack([c[0] for c in crops]))[:, None]
        y = torch.from_numpy(np.stack([c[1] for c in crops]))
        return x, y


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, stride, 1, bias=False),
                         nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01))


class UNet3D(nn.Module):
    def __init__(self, w=4):
        super().__init__()
        self.enc1 = conv(1, w)
        self.enc2 = conv(w, 2 * w, 2)
        self.enc3 = conv(2 * w, 4 * w, 2)
        self.up2 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2)
        self.up1 = nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.dec2 = conv(4 * w, 2 * w)
        self.dec1 = conv(2 * w, w)
        self.head2 = nn.Conv3d(2 * w, CLASSES, 1)
        self.head1 = nn.Conv3d(w, CLASSES, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(a)
        c = self.enc3(b)
        d2 = self.dec2(torch.cat([self.up2(c), b], 1))
        d1 = self.dec1(torch.cat([self.up1(d2), a], 1))
        if self.training:
            return self.head1(d1), self.head2(d2)
        return self.head1(d1)


def seg_loss(logits, target):
    onehot = F.one_hot(target, CLASSES).movedim(-1, 1).float()
    prob = logits.softmax(1)
    dims = (0, 2, 3, 4)
    dice = (2 * (prob * onehot).sum(dims) + 1) / (prob.sum(dims) + onehot.sum(dims) + 1)
    return F.cross_entropy(logits, target) + 1 - dice[1:].mean()


@torch.no_grad()
def validate(model, samplers, device, batches=2):
    model.eval()
    inter = torch.zeros(CLASSES, device=device)
    denom = torch.zeros(CLASSES, device=device)
    for sampler in samplers.values():
        for _ in range(batches):
            x, y = (t.to(device) for t in sampler.batch())
            pred = F.one_hot(model(x).argmax(1), CLASSES).float().flatten(0, 3)
            gold = F.one_hot(y, CLASSES).float().flatten(0, 3)
            inter += 2 * (pred * gold).sum(0)
            denom += pred.sum(0) + gold.sum(0)
            torch_xla.sync()
    model.train()
    return (inter / denom.clamp(min=1)).cpu().tolist()


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    train = {p: PatchSampler(p, 6, SEED + i) for i, p in enumerate(PATCHES)}
    valid = {p: PatchSampler(p, 2, 100 + i) for i, p in enumerate(PATCHES)}
    picker = np.random.default_rng(SEED)

    model = UNet3D().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95, nesterov=True)
    total = MICRO_STEPS // ACCUM
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total, power=0.9)

    for micro in range(1, MICRO_STEPS + 1):
        protocol = picker.choice(list(PATCHES))
        x, y = (t.to(device) for t in train[protocol].batch())
        full, half = model(x)
        loss = seg_loss(full, y) + 0.5 * seg_loss(half, y[:, ::2, ::2, ::2])
        (loss / ACCUM).backward()
        if micro % ACCUM == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 12.0)
            opt.step()
            sched.step()
            opt.zero_grad()
        torch_xla.sync()
        if micro % VALIDATE_EVERY == 0:
            _, organ, lesion = validate(model, valid, device)
            print(f"micro {micro} loss {loss.item():.3f} dice organ {organ:.3f} lesion {lesion:.3f}")


if __name__ == "__main__":
    main()
