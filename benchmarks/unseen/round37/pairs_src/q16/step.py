"""Speaker embeddings: TDNN with statistics pooling, contrastive loss against a cross-batch memory."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MELS, CH, EMB, FRAMES = 8, 10, 6, 12
SPEAKERS, UTTERANCES = 3, 2  # per batch
MARGIN, TEMPERATURE = 0.1, 0.2


class TDNN(nn.Module):

    def __init__(self, c_in, c_out, context, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, context, dilation=dilation)
        self.norm = nn.GroupNorm(2, c_out)

    def forward(self, x):
        return self.norm(F.leaky_relu(self.conv(x), 0.1))


class SpeakerNet(nn.Module):

    def __init__(self):
        super().__init__()
        self.frames = nn.Sequential(TDNN(MELS, CH, 3, 1), TDNN(CH, CH, 3, 2))
        self.attend = nn.Conv1d(CH, CH, 1)
        self.embed = nn.Linear(2 * CH, EMB)

    def forward(self, mel):
        h = self.frames(mel - mel.mean(dim=2, keepdim=True))
        w = torch.softmax(self.attend(h), dim=2)
        mu = (w * h).sum(dim=2)
        var = (w * h * h).sum(dim=2) - mu * mu
        stats = torch.cat([mu, var.clamp(min=1e-5).sqrt()], dim=1)
        return F.normalize(self.embed(stats), dim=1)


class CrossBatchMemory:
    """First in, first out; starts empty."""

    def __init__(self, size):
        self.size = size
        self.feats = None
        self.labels = None

    def get(self, feats, labels):
        if self.feats is None:
            return feats, labels
        return torch.cat([feats, self.feats]), torch.cat([labels, self.labels])

    def put(self, feats, labels):
        feats = feats.detach()
        if self.feats is not None:
            feats = torch.cat([self.feats, feats])
            labels = torch.cat([self.labels, labels])
        if feats.size(0) > self.size:
            feats, labels = feats[-self.size:], labels[-self.size:]
        self.feats, self.labels = feats, labels


def contrastive(query, labels, keys, key_labels):
    sim = (query @ keys.t()) / TEMPERATURE
    same = labels.unsqueeze(1) == key_labels.unsqueeze(0)
    self_pair = torch.eye(query.size(0), keys.size(0), device=query.device, dtype=torch.bool)
    sim = torch.where(same, sim - MARGIN / TEMPERATURE, sim)
    sim = sim.masked_fill(self_pair, -1e4)
    log_prob = sim - torch.logsumexp(sim, dim=1, keepdim=True)
    positive = (same & ~self_pair).float()
    return -((log_prob * positive).sum(1) / positive.sum(1)).mean()


def utterances(gen, device):
    labels = torch.randperm(7, generator=gen)[:SPEAKERS].repeat_interleave(UTTERANCES)
    mel = torch.randn(SPEAKERS * UTTERANCES, MELS, FRAMES, generator=gen)
    return mel.to(device), labels.to(device)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--memory", type=int, default=30)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--dump", nargs="*", default=[], metavar="STEP:FILE")
    args = ap.parse_args()
    dumps = dict(d.split(":") for d in args.dump)

    torch.manual_seed(16)
    device = torch_xla.device()
    model = SpeakerNet().to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    memory = CrossBatchMemory(args.memory)
    gen = torch.Generator().manual_seed(6)
    torch_xla.sync()

    for step in range(args.steps):
        mel, labels = utterances(gen, device)
        emb = model(mel)
        loss = contrastive(emb, labels, *memory.get(emb, labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.put(emb, labels)
        if str(step) in dumps:
            live = [loss, emb, memory.feats, memory.labels]
            for p in model.parameters():
                st = optimizer.state[p]
                live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
            with open(dumps[str(step)], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
