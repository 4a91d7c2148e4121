import random

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import BertConfig, BertModel

PAD, CLS, MASK = 0, 1, 2
VOCAB = 96
SEQ = 16
BATCH = 4


def random_sentences(rng, n):
    rows = []
    for _ in range(n):
        start = rng.randrange(3, VOCAB)
        stride = rng.choice([1, 2, 3, 5])
        row = [CLS] + [3 + (start + stride * i) % (VOCAB - 3) for i in range(SEQ - 1)]
        rows.append(row)
    return torch.tensor(rows)


def corrupt(ids, rng, prob=0.2):
    """BERT style corruption; returns inputs, flat positions and their targets."""
    noisy = ids.clone()
    picked = torch.zeros_like(ids, dtype=torch.bool)
    for b in range(ids.size(0)):
        for t in range(1, ids.size(1)):
            if rng.random() < prob:
                picked[b, t] = True
                noisy[b, t] = MASK
    pos = picked.view(-1).nonzero(as_tuple=True)[0]
    return noisy, pos, ids.view(-1)[pos]


class MaskedLM(nn.Module):

    def __init__(self, hidden=32):
        super().__init__()
        conf = BertConfig(
            vocab_size=VOCAB,
            hidden_size=hidden,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=SEQ,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
        self.bert = BertModel(conf, add_pooling_layer=False)
        self.transform = nn.Linear(hidden, hidden)
        self.ln = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, ids, pos):
        h = self.bert(input_ids=ids).last_hidden_state
        # only the corrupted positions go through the vocabulary projection
        h = h.reshape(-1, h.size(-1)).index_select(0, pos)
        h = self.ln(nn.functional.gelu(self.transform(h)))
        return h @ self.bert.embeddings.word_embeddings.weight.t() + self.bias


def main():
    torch.manual_seed(0)
    rng = random.Random(11)
    dev = torch_xla.device()

    net = MaskedLM().to(dev)
    net.train()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    crit = nn.CrossEntropyLoss()

    running = torch.zeros((), device=dev)
    for step in range(6):
        ids = random_sentences(rng, BATCH)
        noisy, pos, target = corrupt(ids, rng)
        noisy, pos, target = noisy.to(dev), pos.to(dev), target.to(dev)

        opt.zero_grad()
        logits = net(noisy, pos)
        loss = crit(logits, target)
        loss.backward()
        opt.step()
        running = running * 0.9 + loss.detach() * 0.1
        xm.mark_step()

    print("running mlm loss", running.item())


if __name__ == "__main__":
    main()
