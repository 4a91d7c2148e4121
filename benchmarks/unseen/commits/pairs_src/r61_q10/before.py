"""Action-chunking policy for bimanual manipulation, behaviour cloning (PyTorch/XLA)."""
import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

JOINTS, CHUNK, IMAGE = 6, 4, 16
DIM, HEADS = 16, 2


class VisionStem(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(8, dim, 3, stride=2, padding=1)

    def forward(self, image):
        x = F.relu(self.conv1(image))
        x = F.relu(self.conv2(x))
        return x.flatten(2).permute(0, 2, 1)


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, memory):
        b, n, _ = x.shape
        m = memory.shape[1]
        hd = self.dim // self.heads
        q = self.q(x).view(b, n, self.heads, hd)
        kv = self.kv(memory)
        k = kv[..., :self.dim].reshape(b, m, self.heads, hd)
        v = kv[..., self.dim:].reshape(b, m, self.heads, hd)
        score = torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(hd)
        weight = torch.softmax(score, dim=-1)
        y = torch.einsum("bhnm,bmhd->bnhd", weight, v).reshape(b, n, self.dim)
        return self.out(y)


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
        tokens = self.stem(image)
        state = self.proprio(joints).unsqueeze(1)
        memory = torch.cat([state, tokens], dim=1)
        x = self.queries.unsqueeze(0).expand(image.shape[0], -1, -1)
        x = x + self.attn(self.norm1(x), memory)
        h = self.fc1(self.norm2(x))
        h = h * torch.sigmoid(h)
        x = x + self.fc2(h)
        return self.action(x), self.gripper(x).squeeze(-1)


def bc_loss(action, gripper, target, closed, pad):
    valid = 1.0 - pad
    l1 = (action - target).abs() * valid.unsqueeze(-1)
    l1 = l1.sum() / (valid.sum() * JOINTS)
    prob = torch.sigmoid(gripper)
    bce = -(closed * torch.log(prob) + (1.0 - closed) * torch.log(1.0 - prob))
    bce = (bce * valid).sum() / valid.sum()
    return l1 + 0.1 * bce


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
