"""Multi-label comment moderation: transformers encoder, torchmetrics for the log."""
import argparse
import logging

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MultilabelAUROC, MultilabelF1Score
from transformers import BertConfig, BertForSequenceClassification, get_cosine_schedule_with_warmup

logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
log = logging.getLogger("moderation")

LABELS = ("toxic", "insult", "spam")


class Comments(Dataset):
    """Token sequences in which each label raises the rate of a few marker words."""

    def __init__(self, size, max_len, vocab, seed):
        gen = torch.Generator().manual_seed(seed)
        markers = torch.arange(10, 10 + 5 * len(LABELS)).view(len(LABELS), 5)
        prior = torch.tensor([0.4, 0.3, 0.25])
        self.rows = []
        for _ in range(size):
            y = (torch.rand(len(LABELS), generator=gen) < prior)
            length = int(torch.randint(8, max_len + 1, (1,), generator=gen))
            ids = torch.randint(40, vocab, (max_len,), generator=gen)
            for j in range(len(LABELS)):
                if y[j]:
                    where = torch.randint(1, length, (2,), generator=gen)
                    which = torch.randint(0, 5, (2,), generator=gen)
                    ids[where] = markers[j, which]
            ids[0] = 1
            mask = (torch.arange(max_len) < length).long()
            self.rows.append({"input_ids": ids * mask, "attention_mask": mask,
                              "labels": y.float()})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def build_model(vocab, max_len):
    cfg = BertConfig(vocab_size=vocab, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=64, max_position_embeddings=max_len,
                     num_labels=len(LABELS), problem_type="multi_label_classification",
                     attn_implementation="eager")
    return BertForSequenceClassification(cfg)


def build_metrics(device):
    n = len(LABELS)
    quality = MetricCollection({
        "f1": MultilabelF1Score(num_labels=n, validate_args=False),
        "auroc": MultilabelAUROC(num_labels=n, average="macro", validate_args=False),
    }, compute_groups=False)
    return quality.to(device), MeanMetric(nan_strategy="disable").to(device)


def optimizer_for(model, lr, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "embeddings" in name else decay).append(p)
    return torch.optim.AdamW([{"params": decay, "weight_decay": weight_decay},
                              {"params": plain, "weight_decay": 0.0}], lr=lr)


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--max-len", type=int, default=24)
    ap.add_argument("--vocab", type=int, default=200)
    ap.add_argument("--log-every", type=int, default=4)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=41)
    return ap.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    device = xm.xla_device()

    data = Comments(14 * 16, args.max_len, args.vocab, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = build_model(args.vocab, args.max_len).to(device).train()
    opt = optimizer_for(model, args.lr, 0.01)
    total = args.epochs * len(loader)
    sched = get_cosine_schedule_with_warmup(opt, total // 10, total)
    quality, mean_loss = build_metrics(device)
    torch_xla.sync()

    step = 0
    for epoch in range(args.epochs):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            out = model(**batch)
            opt.zero_grad()
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()

            with torch.no_grad():
                quality.update(out.logits.sigmoid(), batch["labels"].int())
                mean_loss.update(out.loss.detach())
            torch_xla.sync()

            step += 1
            if step % args.log_every == 0:
                scores = {k: v.item() for k, v in quality.compute().items()}
                log.info("epoch %d step %3d  loss %.4f  f1 %.3f  auroc %.3f", epoch, step,
                         mean_loss.compute().item(), scores["f1"], scores["auroc"])
                mean_loss.reset()


if __name__ == "__main__":
    main()
