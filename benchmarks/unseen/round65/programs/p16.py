"""One shared T5-style backbone, two LoRA adapters (translate / summarize), trained in turns."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import T5Config, T5ForConditionalGeneration, set_seed

VOCAB = 90
SRC, TGT = 20, 10
BATCH = 6
STEPS = 36
TURN = 3
EVAL_EVERY = 6
TASKS = ("translate", "summarize")


def build_backbone():
    config = T5Config(
        vocab_size=VOCAB,
        d_model=24,
        d_kv=12,
        d_ff=48,
        num_layers=2,
        num_decoder_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        feed_forward_proj="gated-gelu",
        use_cache=False,
    )
    return T5ForConditionalGeneration(config)


def with_adapters(backbone):
    def lora(rank):
        return LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=["q", "v"])

    model = get_peft_model(backbone, lora(2), adapter_name=TASKS[0])
    model.add_adapter(TASKS[1], lora(4))
    return model


class TaskStream:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.table = torch.randperm(VOCAB - 1, generator=self.g) + 1

    def batch(self, task):
        src = torch.randint(1, VOCAB, (BATCH, SRC), generator=self.g)
        if task == "translate":
            tgt = self.table[src[:, :TGT] - 1]
        else:
            tgt = src[:, :: SRC // TGT].clone()
        return src, tgt


def adapter_params(model, task):
    return [p for n, p in model.named_parameters() if f".{task}." in n]


@torch.no_grad()
def evaluate(model, stream, device):
    model.eval()
    scores = {}
    for task in TASKS:
        model.set_adapter(task)
        src, tgt = (t.to(device) for t in stream.batch(task))
        logits = model(input_ids=src, labels=tgt).logits
        scores[task] = (logits.argmax(-1) == tgt).float().mean()
        with model.disable_adapter():
            base = model(input_ids=src, labels=tgt).loss
        scores[task + "/base"] = base
        xm.mark_step()
    model.train()
    return {k: round(v.item(), 4) for k, v in scores.items()}


def main():
    set_seed(17)
    device = torch_xla.device()
    model = with_adapters(build_backbone()).to(device)
    train, held_out = TaskStream(1), TaskStream(2)

    optimizers = {
        task: torch.optim.AdamW(adapter_params(model, task), lr=4e-3, weight_decay=0.0)
        for task in TASKS
    }
    schedules = {
        task: torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS // 2)
        for task, opt in optimizers.items()
    }
    losses = {task: torch.zeros((), device=device) for task in TASKS}

    model.train()
    for step in range(STEPS):
        task = TASKS[(step // TURN) % len(TASKS)]
        model.set_adapter(task)
        src, tgt = (t.to(device) for t in train.batch(task))
        loss = model(input_ids=src, labels=tgt).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapter_params(model, task), 1.0)
        optimizers[task].step()
        schedules[task].step()
        optimizers[task].zero_grad()
        losses[task] = 0.9 * losses[task] + 0.1 * loss.detach()
        xm.mark_step()
        if (step + 1) % EVAL_EVERY == 0:
            scores = evaluate(model, held_out, device)
            ema = {t: round(v.item(), 3) for t, v in losses.items()}
            print(step + 1, ema, scores)


if __name__ == "__main__":
    main()
