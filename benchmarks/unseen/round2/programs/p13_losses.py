import torch
import torch.nn as nn
import torch.nn.functional as F


class SemiHardTriplet(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, emb, labels):
        dist = 1 - emb @ emb.t()
        same = labels[:, None] == labels[None, :]
        eye = torch.eye(len(labels), dtype=torch.bool, device=emb.device)
        positive, negative = same & ~eye, ~same
        ap, an = dist[:, :, None], dist[:, None, :]
        valid = positive[:, :, None] & negative[:, None, :]
        gap = ap - an + self.margin
        semi = valid & (gap > 0) & (gap < self.margin)
        picked = gap.masked_select(semi)
        return F.relu(picked).sum() / (picked.numel() + 1)
