import random

import torch.nn as nn


def mlp(d):
    return nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))


class Residual(nn.Module):
    def __init__(self, fn, dim, rate):
        super().__init__()
        self.fn, self.norm, self.rate = fn, nn.LayerNorm(dim), rate

    def forward(self, x):
        if self.training and random.random() < self.rate:
            return x
        y = self.fn(self.norm(x))
        return x + (y / (1 - self.rate) if self.training else y)


class TokenMix(nn.Module):
    def __init__(self, patches):
        super().__init__()
        self.mlp = mlp(patches)

    def forward(self, x):
        return self.mlp(x.transpose(1, 2)).transpose(1, 2)


class MixerStage(nn.Sequential):
    def __init__(self, patches, dim, rate):
        super().__init__(Residual(TokenMix(patches), dim, rate), Residual(mlp(dim), dim, rate))
