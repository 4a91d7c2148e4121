"""Tagging of clinical notes: convolutional encoder with a linear-chain CRF on top."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, TAGS, T, EMB, HID = 30, 5, 5, 10, 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.conv1 = nn.Conv1d(EMB, HID, 3, padding=1)
        self.conv2 = nn.Conv1d(HID, HID, 3, padding=2, dilation=2)
        self.proj = nn.Linear(HID, TAGS)

    def forward(self, tok):
        x = self.emb(tok).transpose(1, 2)
        h = F.relu(self.conv1(x))
        h = h + F.relu(self.conv2(h))
        return self.proj(h.transpose(1, 2))


class CRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(TAGS, TAGS) * 0.1)   # trans[i, j]: from i to j
        self.start = nn.Parameter(torch.zeros(TAGS))
        self.end = nn.Parameter(torch.zeros(TAGS))

    def log_partition(self, em, mask):
        alpha = self.start + em[:, 0]
        for t in range(1, T):
            # [B, to, from]
            scores = alpha.unsqueeze(1) + self.trans.t() + em[:, t].unsqueeze(2)
            new = torch.logsumexp(scores, dim=2)
            m = mask[:, t].unsqueeze(1)
            alpha = m * new + (1 - m) * alpha
        return torch.logsumexp(alpha + self.end, dim=1)

    def gold_score(self, em, tags, mask):
        score = self.start[tags[:, 0]] + em[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, T):
            step = self.trans[tags[:, t - 1], tags[:, t]]
            step = step + em[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
            score = score + step * mask[:, t]
        last = mask.sum(1).long() - 1
        last_tag = tags.gather(1, last.unsqueeze(1)).squeeze(1)
        return score + self.end[last_tag]

    def forward(self, em, tags, mask):
        nll = self.log_partition(em, mask) - self.gold_score(em, tags, mask)
        return nll.sum() / mask.sum()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.crf = CRF()

    def forward(self, tok, tags, mask):
        return self.crf(self.encoder(tok), tags, mask)


def main(out):
    torch.manual_seed(4)
    dev = torch_xla.device()
    model = Tagger().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    g = torch.Generator().manual_seed(9)
    for step in range(4):
        tok = torch.randint(0, VOCAB, (4, T), generator=g).to(dev)
        tags = torch.randint(0, TAGS, (4, T), generator=g).to(dev)
        lens = torch.randint(2, T + 1, (4, 1), generator=g)
        mask = (torch.arange(T).unsqueeze(0) < lens).float().to(dev)
        opt.zero_grad()
        loss = model(tok, tags, mask)
        loss.backward()
        opt.step()
        if step == 2:
            live = [loss]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["momentum_buffer"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), sum(p.double().abs().sum().item() for p in model.parameters()))


main(sys.argv[1])
