"""Streaming key-word spotter: selective state space layers, one chunk of frames."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MEL, DIM, STATE, CHUNK, WORDS, STREAMS, K = 10, 12, 4, 4, 5, 3, 4


class SelectiveLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.in_proj = nn.Linear(DIM, 2 * DIM)
        self.conv_w = nn.Parameter(torch.randn(DIM, K) * 0.3)
        self.bc_proj = nn.Linear(DIM, 2 * STATE, bias=False)
        self.dt_proj = nn.Linear(DIM, DIM)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, STATE + 1).float()).repeat(DIM, 1))
        self.skip = nn.Parameter(torch.ones(DIM))
        self.out_proj = nn.Linear(DIM, DIM)

    def step(self, x, tail, state):
        """One frame: x (B, D); tail (B, D, K-1) of the convolution; state (B, D, N)."""
        u, gate = self.in_proj(self.norm(x)).chunk(2, dim=-1)
        win = torch.cat([tail, u.unsqueeze(-1)], dim=-1)
        u = F.silu((win * self.conv_w).sum(-1))
        b, c = self.bc_proj(u).chunk(2, dim=-1)
        dt = F.softplus(self.dt_proj(u)).unsqueeze(-1)
        decay = torch.exp(-dt * torch.exp(self.log_a))
        state = decay * state + dt * u.unsqueeze(-1) * b.unsqueeze(1)
        state = state.to(torch.bfloat16)
        y = (state * c.unsqueeze(1)).sum(-1) + self.skip * u
        return x + self.out_proj(y * F.silu(gate)), win[..., 1:], state


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(MEL, DIM)
        self.layers = nn.ModuleList([SelectiveLayer() for _ in range(2)])
        self.head = nn.Linear(DIM, WORDS)

    def empty_cache(self, dev):
        return [
            [torch.zeros(STREAMS, DIM, K - 1, device=dev), torch.zeros(STREAMS, DIM, STATE, dtype=torch.bfloat16, device=dev)]
            for _ in self.layers
        ]

    def forward(self, frames, cache, smooth):
        probs = []
        for t in range(CHUNK):
            h = self.inp(frames[:, t])
            for layer, slot in zip(self.layers, cache):
                h, slot[0], slot[1] = layer.step(h, slot[0], slot[1])
            p = F.softmax(self.head(h), dim=-1)
            smooth = 0.8 * smooth + 0.2 * p
            probs.append(smooth)
        return torch.stack(probs, dim=1), smooth


def main(path):
    torch.manual_seed(9)
    dev = torch_xla.device()
    net = Spotter().to(dev).eval()
    cache = net.empty_cache(dev)
    smooth = torch.full((STREAMS, WORDS), 1.0 / WORDS, device=dev)
    for it in range(4):
        g = torch.Generator().manual_seed(it)
        frames = torch.randn(STREAMS, CHUNK, MEL, generator=g).to(dev)
        torch_xla.sync()
        with torch.no_grad():
            probs, smooth = net(frames, cache, smooth)
            score, word = probs.max(dim=1).values.max(dim=-1)
        live = [probs, smooth, score, word] + [v for slot in cache for v in slot]
        if it == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, word.tolist(), [round(s, 5) for s in score.tolist()])


if __name__ == "__main__":
    main(sys.argv[1])
