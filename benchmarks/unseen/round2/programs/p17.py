import torch
import torch.nn as nn
import torch_xla


class SinusoidPosition(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("freq", 10000 ** (-torch.arange(0, d, 2) / d))

    def forward(self, x, offset):
        positions = torch.arange(offset, offset + x.shape[1], device=x.device)
        angle = positions[:, None] * self.freq
        return x + torch.cat([angle.sin(), angle.cos()], -1)


class StreamingTagger(nn.Module):
    def __init__(self, d=16, tags=5):
        super().__init__()
        self.inp, self.position = nn.Linear(10, d), SinusoidPosition(d)
        self.layer = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.0, batch_first=True)
        self.memory = nn.Linear(d, d)
        self.out = nn.Linear(d, tags)

    def forward(self, chunk, state, offset):
        x = self.position(self.inp(chunk), offset) + state[:, None]
        h = self.layer(x)
        return self.out(h), torch.tanh(self.memory(h[:, -1]))


@torch.no_grad()
def stream(model, audio, chunk=8):
    device = torch_xla.device()
    state = torch.zeros(audio.shape[0], 16).to(device)
    tags = []
    for offset in range(0, audio.shape[1], chunk):
        frames = audio[:, offset:offset + chunk].to(device)
        logits, state = model(frames, state, offset)
        best = logits.argmax(-1)
        torch_xla.sync()
        tags.append(best.cpu())
    return torch.cat(tags, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = StreamingTagger().to(torch_xla.device())
    print(stream(model, torch.randn(2, 80, 10)).shape)
