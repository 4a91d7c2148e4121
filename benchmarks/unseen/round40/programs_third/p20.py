"""Two LoRA adapters on one frozen causal LM, trained in alternation on two string
tasks, with a periodic comparison against the base model."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import random

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

PAD, SEP = 0, 1
SYMBOLS = range(2, 26)
ITEMS = 6
SEQ_LEN = 2 * ITEMS + 1
BATCH = 12
STEPS = 48
BLOCK = 4
EVAL_EVERY = 12


def reverse_task(items):
    return items[::-1]


def sort_task(items):
    return sorted(items)


TASKS = {"reverse": reverse_task, "sort": sort_task}


class TaskStream:
    def __init__(self, transform, seed):
        self.transform = transform
        self.rng = random.Random(seed)

    def batch(self, size):
        rows = []
        for _ in range(size):
            items = [self.rng.choice(SYMBOLS) for _ in range(ITEMS)]
            rows.append(items + [SEP] + self.transform(items))
        return torch.tensor(rows)


def build_base():
    config = LlamaConfig(
        vocab_size=26,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=PAD,
        bos_token_id=SEP,
        eos_token_id=SEP,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def attach_adapters(base):
    def lora(rank, modules):
        return LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.0,
            target_modules=modules,
            task_type="CAUSAL_LM",
        )

    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    model = get_peft_model(base, lora(8, attention), adapter_name="reverse")
    model.add_adapter("sort", lora(4, attention + ["up_proj", "down_proj"]))
    return model


def adapter_parameters(model, name):
    model.set_adapter(name)
    return [p for p in model.parameters() if p.requires_grad]


def answer_loss(model, tokens):
    logits = model(input_ids=tokens).logits[:, ITEMS:-1]
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, ITEMS + 1:].flatten())


def train_step(model, optimizer, tokens):
    model.train()
    optimizer.zero_grad()
    loss = answer_loss(model, tokens)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(
        [p for group in optimizer.param_groups for p in group["params"]], 1.0
    )
    xm.optimizer_step(optimizer)
    return loss.detach()


@torch.no_grad()
def compare(model, held_out):
    model.eval()
    scores = {}
    for name, tokens in held_out.items():
        model.set_adapter(name)
        tuned = answer_loss(model, tokens)
        torch_xla.sync()
        with model.disable_adapter():
            plain = answer_loss(model, tokens)
        torch_xla.sync()
        scores[name] = (tuned.item(), plain.item())
    return scores


def main():
    torch.manual_seed(33)
    device = torch_xla.device()
    model = attach_adapters(build_base()).to(device)
    optimizers = {
        name: torch.optim.AdamW(adapter_parameters(model, name), lr=1e-2, weight_decay=0.0)
        for name in TASKS
    }
    streams = {name: TaskStream(fn, seed) for seed, (name, fn) in enumerate(TASKS.items())}
    held_out = {name: stream.batch(2 * BATCH).to(device) for name, stream in streams.items()}
    names = list(TASKS)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        name = names[((step - 1) // BLOCK) % len(names)]
        model.set_adapter(name)
        tokens = streams[name].batch(BATCH).to(device)
        loss = train_step(model, optimizers[name], tokens)
        torch_xla.sync()

        if step % EVAL_EVERY == 0:
            for task, (tuned, plain) in compare(model, held_out).items():
                print(f"step {step} {task}: adapter {tuned:.3f} base {plain:.3f}")
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
