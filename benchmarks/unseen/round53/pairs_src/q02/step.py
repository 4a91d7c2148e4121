"""Fine-tuning of a wav2vec 2.0 style encoder on keyword spotting (XLA)."""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(dim=32, heads=4, ffn=64, layers=2, classes=12, layerdrop=0.1,
           freeze_finetune_updates=4, lr=1e-2, batch=4, samples=1600)


class ConvFeatureExtractor(nn.Module):

    def __init__(self, dim):
        super().__init__()
        spec = [(1, 16, 10, 5), (16, 16, 8, 4), (16, dim, 4, 2)]
        self.convs = nn.ModuleList(
            nn.Conv1d(i, o, k, s, bias=False) for i, o, k, s in spec)
        self.gn = nn.GroupNorm(4, 16)

    def forward(self, wav):
        x = wav.unsqueeze(1)
        for i, conv in enumerate(self.convs):
            x = conv(x)
            if i == 0:
                x = self.gn(x)
            x = F.gelu(x)
        return x.transpose(1, 2)


class EncoderLayer(nn.Module):

    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.ln2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn, bias=False)
        self.fc2 = nn.Linear(ffn, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(
            b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Encoder(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.layerdrop = cfg['layerdrop']
        self.layers = nn.ModuleList(
            EncoderLayer(cfg['dim'], cfg['heads'], cfg['ffn'])
            for _ in range(cfg['layers']))
        self.norm = nn.LayerNorm(cfg['dim'])

    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand([]) < self.layerdrop:
                continue
            x = layer(x)
        return self.norm(x)


class KeywordModel(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.freeze_finetune_updates = cfg['freeze_finetune_updates']
        self.features = ConvFeatureExtractor(cfg['dim'])
        self.encoder = Encoder(cfg)
        self.head = nn.Linear(cfg['dim'], cfg['classes'])
        self.num_updates = 0

    def set_num_updates(self, n):
        self.num_updates = n

    def forward(self, wav):
        ft = self.freeze_finetune_updates <= self.num_updates
        with contextlib.ExitStack() if ft else torch.no_grad():
            x = self.features(wav)
        x = self.encoder(x)
        return self.head(x.mean(dim=1))


def train(cfg, steps=8):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = KeywordModel(cfg).to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=cfg['lr'], momentum=0.9)
    torch_xla.sync()
    for step in range(steps):
        model.set_num_updates(step)
        wav = torch.randn(cfg['batch'], cfg['samples']).to(device)
        label = torch.randint(0, cfg['classes'], (cfg['batch'],)).to(device)
        opt.zero_grad(set_to_none=True)
        logits = model(wav)
        loss = F.cross_entropy(logits, label)
        loss.backward()
        opt.step()
        hits = (logits.argmax(-1) == label).sum()
        torch_xla.sync()
        print(step, round(loss.item(), 4), hits.item(),
              [p.grad is not None for p in (model.features.convs[0].weight,
               *(l.fc1.weight for l in model.encoder.layers))])


if __name__ == '__main__':
    train(CFG)
