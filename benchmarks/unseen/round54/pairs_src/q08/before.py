"""Audio tagging with an attention pooling head; clip-level tags and scene."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(c_out)

    def forward(self, x):
        return F.avg_pool2d(F.relu(self.bn(self.conv(x))), 2)


class Tagger(nn.Module):
    def __init__(self, mels=16, dim=32, heads=4, tags=8, scenes=4):
        super().__init__()
        self.heads = heads
        self.block1 = ConvBlock(1, 8)
        self.block2 = ConvBlock(8, 16)
        self.proj = nn.Linear(16 * mels // 4, dim)
        self.norm = nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.tags = nn.Linear(dim, tags)
        self.scene = nn.Linear(dim, scenes)

    def forward(self, mel):
        x = self.block2(self.block1(mel.unsqueeze(1)))
        b, c, t, f = x.shape
        x = x.transpose(1, 2).reshape(b, t, c * f)
        x = self.proj(x)
        h = self.norm(x)
        d = h.size(-1) // self.heads
        q = self.query(h).view(b, t, self.heads, d).transpose(1, 2)
        k = self.key(h).view(b, t, self.heads, d).transpose(1, 2)
        v = self.value(h).view(b, t, self.heads, d).transpose(1, 2)
        att = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(d), dim=-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, self.heads * d))
        clip = x.mean(dim=1)
        return self.tags(clip), self.scene(clip)


def clips(gen, batch=6, frames=32, mels=16, tags=8, scenes=4):
    return (torch.randn(batch, frames, mels, generator=gen),
            (torch.rand(batch, tags, generator=gen) < 0.25).float(),
            torch.randint(0, scenes, (batch,), generator=gen))


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    device = torch_xla.device()
    model = Tagger().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for step in range(5):
        mel, tags, scene = (t.to(device) for t in clips(gen))
        tag_logits, scene_logits = model(mel)
        tag_loss = F.binary_cross_entropy_with_logits(tag_logits, tags)
        scene_loss = F.cross_entropy(scene_logits, scene)
        loss = tag_loss + 0.5 * scene_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, f"{loss.item():.6f}", f"{tag_loss.item():.6f}", f"{scene_loss.item():.6f}")


if __name__ == "__main__":
    main()
