# word-level language model with truncated BPTT
import time
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, EMB, HID, BS, BPTT = 60, 16, 24, 6, 5


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(VOCAB, EMB)
        self.cell1 = nn.LSTMCell(EMB, HID)
        self.cell2 = nn.LSTMCell(HID, HID)
        self.decoder = nn.Linear(HID, VOCAB)
        self.encoder.weight.data.uniform_(-0.1, 0.1)

    def init_hidden(self, bsz, device):
        return [tuple(torch.zeros(bsz, HID, device=device) for _ in range(2)) for _ in range(2)]

    def forward(self, tokens, hidden):
        h1, h2 = hidden
        outs = []
        for t in range(tokens.size(0)):
            h1 = self.cell1(self.encoder(tokens[t]), h1)
            h2 = self.cell2(h1[0], h2)
            outs.append(h2[0])
        return self.decoder(torch.stack(outs)), [h1, h2]


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return type(h)(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nb = data.size(0) // bsz
    return data[:nb * bsz].view(bsz, -1).t().contiguous()


def get_batch(source, i):
    return source[i:i + BPTT], source[i + 1:i + 1 + BPTT].reshape(-1)


def train_epoch(model, opt, criterion, data, device, epoch):
    model.train()
    total_loss = 0.
    start = time.time()
    hidden = model.init_hidden(BS, device)
    for batch, i in enumerate(range(0, data.size(0) - 1 - BPTT, BPTT)):
        tokens, targets = get_batch(data, i)
        tokens, targets = tokens.to(device), targets.to(device)
        opt.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(tokens, hidden)
        loss = criterion(output.view(-1, VOCAB), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        total_loss += loss.detach()
        xm.mark_step()
    print(f"| epoch {epoch} | {time.time() - start:.1f}s | loss {total_loss.item() / (batch + 1):.3f}")


if __name__ == "__main__":
    torch.manual_seed(1111)
    device = xm.xla_device()
    corpus = batchify(torch.randint(0, VOCAB, (BS * 22,)), BS)
    model = RNNModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(3):
        train_epoch(model, opt, nn.CrossEntropyLoss(), corpus, device, epoch)
