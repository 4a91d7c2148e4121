"""Native-versus-foreign gene classifier on codons: tiny BERT from a config, accelerate loop, torchmetrics."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC
from transformers import BertConfig, BertForSequenceClassification, get_cosine_schedule_with_warmup

BASES = "ACGT"
CODONS = [a + b + c for a in BASES for b in BASES for c in BASES]
STOPS = {"TAA", "TAG", "TGA"}
PAD, BOS, EOS = 0, 1, 2
VOCAB = {c: i + 3 for i, c in enumerate(CODONS)}
WINDOW = 24


def organism(rng):
    """Codon usage table plus a weak dependence of each codon on the one before."""
    usage = rng.dirichlet(np.ones(len(CODONS)) * 0.4)
    for s in STOPS:
        usage[CODONS.index(s)] = 0
    pair = rng.gamma(0.5, 1.0, (len(CODONS), len(CODONS)))
    trans = usage[None] * (0.3 + pair)
    return trans / trans.sum(1, keepdims=True)


def gene(trans, rng):
    n = int(rng.integers(30, 80))
    seq = [CODONS.index("ATG")]
    for _ in range(n):
        seq.append(int(rng.choice(len(CODONS), p=trans[seq[-1]])))
    seq.append(CODONS.index(sorted(STOPS)[int(rng.integers(0, 3))]))
    return [CODONS[i] for i in seq]


class Genes(Dataset):
    """Fragments of one length; half of them come from another organism's codon table."""

    def __init__(self, n, seed, tables):
        rng = np.random.default_rng(seed)
        self.y = torch.from_numpy(rng.integers(0, 2, n))
        rows = []
        for y in self.y.tolist():
            ids = []
            while len(ids) < WINDOW:
                ids += [BOS] + [VOCAB[c] for c in gene(tables[y], rng)] + [EOS]
            rows.append(ids[:WINDOW])
        self.x = torch.tensor(rows)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "labels": self.y[i]}


def build_model():
    config = BertConfig(
        vocab_size=len(CODONS) + 3,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=WINDOW,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.0,
        num_labels=2,
        pad_token_id=PAD,
        attn_implementation="eager",
    )
    return BertForSequenceClassification(config)


class Progress:
    """Running training metrics, printed now and then and kept for the learning curve."""

    def __init__(self, device, every=2):
        self.every = every
        self.loss = MeanMetric().to(device)
        self.scores = MetricCollection({
            "acc": BinaryAccuracy(validate_args=False),
            "auroc": BinaryAUROC(validate_args=False),
        }).to(device)
        self.curve = []

    def __call__(self, step, loss, logits, labels):
        prob = logits.softmax(-1)[:, 1]
        self.loss.update(loss)
        self.scores.update(prob, labels)
        if step % self.every:
            return
        row = {"loss": self.loss.compute(), **self.scores.compute()}
        self.curve.append(row)
        if step % (4 * self.every) == 0:
            print(f"step {step:3d} " + " ".join(f"{k} {v.item():.4f}" for k, v in row.items()))

    def reset(self):
        self.loss.reset()
        self.scores.reset()


def main(steps=24, batch=16):
    set_seed(19)
    accelerator = Accelerator()
    rng = np.random.default_rng(19)
    tables = [organism(rng), organism(rng)]
    loader = DataLoader(Genes(batch * steps, 19, tables), batch_size=batch, shuffle=True, drop_last=True)
    model = build_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    sched = get_cosine_schedule_with_warmup(opt, 3, steps)
    model, opt, loader, sched = accelerator.prepare(model, opt, loader, sched)
    progress = Progress(accelerator.device)

    model.train()
    for step, b in enumerate(loader, 1):
        out = model(**b)
        accelerator.backward(out.loss)
        opt.step()
        sched.step()
        opt.zero_grad()
        progress(step, out.loss.detach(), out.logits.detach(), b["labels"])
        torch_xla.sync()
    progress.reset()
    last = progress.curve[-1]
    print(f"done on {accelerator.device}: auroc {last['auroc'].item():.4f}, lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
