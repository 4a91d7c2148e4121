"""Parameter-efficient adaptation of a small ESM-like protein encoder to signal-peptide detection (peft, AdaLoRA)."""
import argparse

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, TaskType, get_peft_model
from transformers import EsmConfig, EsmForSequenceClassification, get_cosine_schedule_with_warmup, set_seed

AMINO = "LAGVSERTIDPKQNFYMHWC"
SPECIALS = ["<cls>", "<pad>", "<eos>", "<unk>", "<mask>"]
VOCAB = {tok: i for i, tok in enumerate(SPECIALS + list(AMINO))}
HYDROPHOBIC = list("LAVIFM")


def secreted(rng, length):
    """n-region (charged), h-region (hydrophobic), c-region with a small-X-small cleavage site, then the mature chain."""
    n = rng.choice(list("KR"), rng.integers(1, 4))
    h = rng.choice(HYDROPHOBIC, rng.integers(8, 13))
    c = [rng.choice(list("AGS")), rng.choice(list(AMINO)), rng.choice(list("AGS"))]
    chain = ["M", *n, *h, *c]
    return chain + list(rng.choice(list(AMINO), length - len(chain)))


def cytosolic(rng, length):
    return ["M"] + list(rng.choice(list(AMINO), length - 1))


def make_set(n, length, rng):
    label = rng.integers(0, 2, n)
    chains = [secreted(rng, length) if y else cytosolic(rng, length) for y in label]
    ids = [[VOCAB["<cls>"]] + [VOCAB[a] for a in chain] + [VOCAB["<eos>"]] for chain in chains]
    return np.array(ids, dtype=np.int64), label.astype(np.int64)


def build(args):
    config = EsmConfig(
        vocab_size=len(VOCAB), mask_token_id=VOCAB["<mask>"], pad_token_id=VOCAB["<pad>"],
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=args.length + 8, position_embedding_type="rotary",
        token_dropout=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )
    base = EsmForSequenceClassification(config)
    peft_config = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        target_modules=["query", "key", "value"],
        init_r=8,
        target_r=2,
        lora_alpha=16,
        tinit=2,
        tfinal=3,
        deltaT=1,
        beta1=0.85,
        beta2=0.85,
        orth_reg_weight=0.1,
        total_step=args.steps,
    )
    return get_peft_model(base, peft_config)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--length", type=int, default=38)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--seed", type=int, default=29)
    args = ap.parse_args()

    set_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = torch_xla.device()
    ids, label = make_set(400, args.length, rng)
    held_ids, held_label = make_set(64, args.length, rng)

    model = build(args).to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=args.lr)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, args.steps)
    attention = torch.ones(args.batch, args.length + 2, dtype=torch.long, device=device)

    model.train()
    for step in range(args.steps):
        rows = rng.choice(len(ids), args.batch, replace=False)
        out = model(
            input_ids=torch.from_numpy(ids[rows]).to(device),
            attention_mask=attention,
            labels=torch.from_numpy(label[rows]).to(device),
        )
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        xm.optimizer_step(optimizer)
        schedule.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        torch_xla.sync()
        if step % 5 == 4:
            print(f"step {step + 1:3d}  loss {out.loss.item():.4f}")

    model.eval()
    hits = 0
    with torch.no_grad():
        for start in range(0, len(held_ids), args.batch):
            logits = model(
                input_ids=torch.from_numpy(held_ids[start:start + args.batch]).to(device), attention_mask=attention,
            ).logits
            torch_xla.sync()
            hits += (logits.argmax(-1).cpu().numpy() == held_label[start:start + args.batch]).sum()
    print(f"held-out accuracy {hits / len(held_ids):.3f}")


if __name__ == "__main__":
    main()
