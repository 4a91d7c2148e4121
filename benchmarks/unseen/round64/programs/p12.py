"""LoRA adaptation of a small BERT for moderation of in-game chat (binary: toxic / fine)."""
import random

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, TaskType, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAveragePrecision
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
)

SEED = 5
MAX_LEN = 48
BATCH = 8
STEPS = 24
LOG_EVERY = 3

NEUTRAL = ("gg", "nice", "push", "mid", "top", "baron", "ward", "heal", "wait", "drop",
           "team", "go", "left", "flank", "zone", "loot", "revive", "rush", "thanks", "ok")
TOXIC = ("trash", "noob", "uninstall", "report", "feeder", "bot", "idiot", "garbage")


def build_tokenizer():
    vocab = {t: i for i, t in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]") + NEUTRAL + TOXIC)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", model_max_length=MAX_LEN)


def make_chat(n, rng):
    rows = []
    for _ in range(n):
        label = int(rng.random() < 0.35)
        words = [rng.choice(NEUTRAL) for _ in range(min(44, 2 + int(rng.expovariate(0.09))))]
        if label:
            for _ in range(rng.randint(1, 3)):
                words[rng.randrange(len(words))] = rng.choice(TOXIC)
        rows.append((" ".join(words), label))
    return rows


def encode(rows, tokenizer):
    feats = []
    for text, label in rows:
        item = tokenizer(text, truncation=True, max_length=MAX_LEN)
        feats.append({"input_ids": item["input_ids"],
                      "attention_mask": item["attention_mask"],
                      "labels": label})
    return feats


def build_model(tokenizer):
    cfg = BertConfig(
        vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=MAX_LEN, num_labels=2,
        pad_token_id=tokenizer.pad_token_id, attn_implementation="eager")
    base = BertForSequenceClassification(cfg)
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.05,
        target_modules=["query", "value"], modules_to_save=["classifier"])
    return get_peft_model(base, lora)


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    device = xm.xla_device()

    tokenizer = build_tokenizer()
    feats = encode(make_chat(STEPS * BATCH, rng), tokenizer)
    loader = DataLoader(
        feats, batch_size=BATCH, shuffle=True, drop_last=True,
        collate_fn=DataCollatorWithPadding(tokenizer, padding=True))

    model = build_model(tokenizer).to(device)
    model.print_trainable_parameters()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=5e-3, weight_decay=0.01)
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, STEPS)

    metrics = MetricCollection({
        "acc": BinaryAccuracy(validate_args=False),
        "ap": BinaryAveragePrecision(validate_args=False),
    }).to(device)
    mean_loss = MeanMetric(nan_strategy="disable").to(device)

    model.train()
    for step, batch in enumerate(loader, start=1):
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model(**batch)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

        probs = out.logits.detach().softmax(-1)[:, 1]
        metrics.update(probs, batch["labels"])
        mean_loss.update(out.loss.detach())
        xm.mark_step()

        if step % LOG_EVERY == 0:
            scores = {k: v.item() for k, v in metrics.compute().items()}
            print(f"{step:3d} loss {mean_loss.compute().item():.4f} "
                  f"acc {scores['acc']:.3f} ap {scores['ap']:.3f} "
                  f"lr {scheduler.get_last_lr()[0]:.1e}")
            mean_loss.reset()

    final = metrics.compute()
    print("done", {k: round(v.item(), 3) for k, v in final.items()})


if __name__ == "__main__":
    main()
