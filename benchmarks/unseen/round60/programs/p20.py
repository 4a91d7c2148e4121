"""AdaLoRA tuning of a tiny RoBERTa for stance classification, with rank budget and a frozen body."""
import random

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassF1Score
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup

VOCAB, LEN, LABELS, PAD = 90, 20, 3, 1
STEPS = 30


def stance_data(n, seed):
    """A target word, and opinion words of three kinds near it; the majority kind is the stance."""
    rng = random.Random(seed)
    ids, labels = torch.full((n, LEN), PAD), torch.zeros(n, dtype=torch.long)
    for i in range(n):
        label = rng.randrange(LABELS)
        length = rng.randint(12, LEN)
        words = [rng.randrange(30, VOCAB) for _ in range(length)]
        for at in rng.sample(range(1, length), 5):
            kind = label if rng.random() < 0.75 else rng.randrange(LABELS)
            words[at] = 6 + 8 * kind + rng.randrange(8)
        words[0] = 0
        ids[i, :length] = torch.tensor(words)
        labels[i] = label
    return TensorDataset(ids, (ids != PAD).long(), labels)


def build_base():
    return RobertaForSequenceClassification(RobertaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=LEN + 4,
        type_vocab_size=1,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.05,
        pad_token_id=PAD,
        bos_token_id=0,
        eos_token_id=2,
        num_labels=LABELS,
        attn_implementation="eager",
    ))


def adapter_config():
    return AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        target_modules=["query", "key", "value"],
        init_r=16,
        target_r=4,
        lora_alpha=16,
        lora_dropout=0.0,
        tinit=3,
        tfinal=5,
        deltaT=1,
        beta1=0.85,
        beta2=0.85,
        orth_reg_weight=0.1,
        total_step=STEPS,
    )


def active_ranks(model):
    counts = {}
    for name, p in model.named_parameters():
        if "lora_E" in name:
            layer = name.split("layer.")[1].split(".")[0]
            counts[layer] = counts.get(layer, 0) + int((p.detach().cpu() != 0).sum())
    return counts


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    metric = MulticlassF1Score(num_classes=LABELS, average="macro", validate_args=False)
    for ids, mask, labels in loader:
        logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
        torch_xla.sync()
        metric.update(logits.cpu(), labels)
    model.train()
    return metric.compute().item()


def main():
    random.seed(14)
    torch.manual_seed(14)
    device = torch_xla.device()
    torch_xla.manual_seed(14)
    model = get_peft_model(build_base(), adapter_config()).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.2, momentum=0.9)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=STEPS)
    train = DataLoader(stance_data(160, 1), batch_size=16, shuffle=True, drop_last=True,
                       generator=torch.Generator().manual_seed(3))
    valid = DataLoader(stance_data(64, 2), batch_size=32)
    torch_xla.sync()

    global_step = 0
    model.train()
    while global_step < STEPS:
        for ids, mask, labels in train:
            out = model(input_ids=ids.to(device), attention_mask=mask.to(device), labels=labels.to(device))
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            scheduler.step()
            model.base_model.update_and_allocate(global_step)
            optimizer.zero_grad()
            torch_xla.sync()
            global_step += 1
            if global_step % 15 == 0:
                f1 = evaluate(model, valid, device)
                xm.master_print(f"step {global_step}  loss {out.loss.item():.3f}  f1 {f1:.3f}  ranks {active_ranks(model)}")


if __name__ == "__main__":
    main()
