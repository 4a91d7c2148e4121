"""Reading numbers aloud ("1987" -> "one thousand nine hundred ...") with a tiny BART.

Character-level tokenizer built on the spot, the collator and the schedule from
transformers, and a plain training loop around BartForConditionalGeneration.
"""
import numpy as np
import torch
import torch_xla.core.xla_model as xm
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from torch.utils.data import DataLoader, Dataset
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerFast,
    get_cosine_schedule_with_warmup,
    set_seed,
)

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
MAX_SOURCE, MAX_TARGET = 8, 64


def spell(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f" {ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ONES[n // 100]} hundred" + (f" {spell(n % 100)}" if n % 100 else "")
    return f"{spell(n // 1000)} thousand" + (f" {spell(n % 1000)}" if n % 1000 else "")


def build_tokenizer():
    chars = sorted(set("0123456789 abcdefghijklmnopqrstuvwxyz"))
    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    vocab.update({c: i + 4 for i, c in enumerate(chars)})
    core = Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<s>",
        eos_token="</s>", unk_token="<unk>")


class SpokenNumbers(Dataset):
    def __init__(self, n, tokenizer, seed):
        rng = np.random.default_rng(seed)
        numbers = np.exp(rng.uniform(0, np.log(99999), n)).astype(int)
        self.rows = [self.preprocess(int(v), tokenizer) for v in numbers]

    @staticmethod
    def preprocess(number, tokenizer):
        eos = tokenizer.eos_token
        row = tokenizer(str(number), padding="max_length", truncation=True,
                        max_length=MAX_SOURCE, return_token_type_ids=False)
        target = tokenizer(spell(number), truncation=True, max_length=MAX_TARGET - 1)
        row["labels"] = target["input_ids"] + [tokenizer.convert_tokens_to_ids(eos)]
        return dict(row)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def build_model(tokenizer):
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=MAX_TARGET,
        dropout=0.1,
        use_cache=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
    )
    return BartForConditionalGeneration(config)


def param_groups(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "norm" in name else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


def main():
    set_seed(42)
    device = xm.xla_device()

    tokenizer = build_tokenizer()
    model = build_model(tokenizer).to(device)
    collator = DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=-100, return_tensors="pt")
    train_loader = DataLoader(SpokenNumbers(96, tokenizer, seed=0), batch_size=6, shuffle=True,
                              drop_last=True, collate_fn=collator)

    epochs, log_every = 2, 8
    total_steps = epochs * len(train_loader)
    optimizer = torch.optim.SGD(param_groups(model, 1e-4), lr=0.2, momentum=0.9)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 4, total_steps + 4)
    model.train()

    step = 0
    for epoch in range(epochs):
        running = torch.zeros((), device=device)
        for batch in train_loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            out = model(**batch)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            running += out.loss.detach()
            xm.mark_step()
            step += 1

            if step % log_every == 0:
                print(f"epoch {epoch} step {step} loss {running.item() / log_every:.4f} "
                      f"lr {scheduler.get_last_lr()[0]:.3f}")
                running.zero_()


if __name__ == "__main__":
    main()
