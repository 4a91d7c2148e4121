"""Action-chunking policy for bimanual manipulation, behaviour cloning (PyTorch/XLA)."""
import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

JOINTS, CHUNK, IMAGE = 6, 4, 16
DIM, HEADS = 16, 2


def to_tokens(feature_map):
    b, c, h, w = feature_map.shape
    return feature_map.permute(0, 2, 3, 1).reshape(b, h * w, c)


class VisionStem(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(8, dim, 3, stride=2, padding=1)

    def forward(self, image):
        x = self.conv1(image).relu()
        return to_tokens(self.conv2(x).relu())


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, memory):
        k, v = (self._split(t) for t in self.kv(memory).chunk(2, dim=-1))
        q = self._split(self.q(x)) * self.scale
        y = F.softmax(q @ k.mT, dim=-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = VisionStem(DIM)
        self.proprio = nn.Linear(JOINTS, DIM)
        self.queries = nn.Parameter(torch.randn(CHUNK, DIM) * 0.02)
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = CrossAttention(DIM, HEADS)
        self.norm2 = nn.LayerNorm(DIM)
        self.fc1 = nn.Linear(DIM, 2 * DIM)
        self.fc2 = nn.Linear(2 * DIM, DIM)
        self.action = nn.Linear(DIM, JOINTS)
        self.gripper = nn.Linear(DIM, 1)

    def forward(self, image, joints):
        memory = torch.cat([self.proprio(joints).unsqueeze(1), self.stem(image)], dim=1)
        x = self.queries.unsqueeze(0).expand(image.shape[0], -1, -1)
        x = x + self.attn(self.norm1(x), memory)
        x = x + self.fc2(F.silu(self.fc1(self.norm2(x))))
        return self.action(x), self.gripper(x).squeeze(-1)


def masked_mean(value, mask):
    return (value * mask).sum() / mask.sum()


def bc_loss(action, gripper, target, closed, pad):
    valid = 1.0 - pad
    l1 = F.l1_loss(action, target, reduction="none").mean(dim=-1)
    bce = F.binary_cross_entropy_with_logits(gripper, closed, reduction="none")
    return masked_mean(l1, valid) + 0.1 * masked_mean(bce, valid)


def demonstrations(steps, batch=3, seed=17):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        joints = rng.uniform(-1, 1, (batch, JOINTS))
        image = rng.normal(size=(batch, 3, IMAGE, IMAGE)) + joints[:, :3, None, None]
        target = joints[:, None] + np.cumsum(0.1 * rng.normal(size=(batch, CHUNK, JOINTS)), 1)
        closed = rng.integers(0, 2, (batch, CHUNK))
        pad = np.arange(CHUNK)[None] >= rng.integers(2, CHUNK + 1, (batch, 1))
        rows = (image, joints, target, closed, pad)
        yield [torch.from_numpy(r.astype(np.float32)) for r in rows]


def main(steps=6):
    torch.manual_seed(17)
    device = torch_xla.device()
    policy = Policy().to(device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.02, momentum=0.9)
    torch_xla.sync()
    losses = []
    for batch in demonstrations(steps):
        image, joints, target, closed, pad = [t.to(device) for t in batch]
        optimizer.zero_grad()
        action, gripper = policy(image, joints)
        loss = bc_loss(action, gripper, target, closed, pad)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.item())
        print(f"{losses[-1]:.7f}", flush=True)
    return policy, losses


if __name__ == "__main__":
    main()
