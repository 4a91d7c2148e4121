"""Two LoRA adapters on one frozen decoder (one per customer domain), trained in turn with gradient accumulation."""
from dataclasses import dataclass

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from torchmetrics.aggregation import MeanMetric
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup, set_seed


@dataclass
class Run:
    vocab: int = 96
    seq_len: int = 24
    micro_batch: int = 4
    accumulate: int = 3
    updates: int = 20
    eval_every: int = 5
    lr: float = 5e-3
    seed: int = 5


DOMAINS = ("legal", "support")


def make_stream(run, domain, seed):
    """A first-order Markov chain per domain; chunks have one length, as after packing."""
    table_rng = torch.Generator().manual_seed(100 + DOMAINS.index(domain))
    table = torch.softmax(2.5 * torch.randn(run.vocab, run.vocab, generator=table_rng), -1)
    g = torch.Generator().manual_seed(seed)
    while True:
        state = torch.randint(0, run.vocab, (run.micro_batch,), generator=g)
        tokens = [state]
        for _ in range(run.seq_len - 1):
            state = torch.multinomial(table[state], 1, generator=g).squeeze(1)
            tokens.append(state)
        yield torch.stack(tokens, 1)


def build(run, device):
    base = LlamaForCausalLM(LlamaConfig(
        vocab_size=run.vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, use_cache=False, attn_implementation="eager",
    ))
    spec = dict(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "o_proj"],
                task_type="CAUSAL_LM")
    model = get_peft_model(base, LoraConfig(**spec), adapter_name=DOMAINS[0])
    model.add_adapter(DOMAINS[1], LoraConfig(**spec))
    return model.to(device)


def adapter_params(model, domain):
    return [p for n, p in model.named_parameters() if f".{domain}." in n]


@torch.no_grad()
def evaluate(model, streams, domain, device, batches=2):
    model.eval()
    model.set_adapter(domain)
    nll = MeanMetric().to(device)
    for _ in range(batches):
        ids = next(streams[domain]).to(device)
        nll.update(model(input_ids=ids, labels=ids).loss)
        torch_xla.sync()
    model.train()
    return nll.compute().item()


def main():
    run = Run()
    set_seed(run.seed)
    device = torch_xla.device()
    model = build(run, device)
    model.train()

    train = {d: make_stream(run, d, seed=1) for d in DOMAINS}
    held_out = {d: make_stream(run, d, seed=2) for d in DOMAINS}
    optimizers, schedules = {}, {}
    for d in DOMAINS:
        optimizers[d] = torch.optim.AdamW(adapter_params(model, d), lr=run.lr, weight_decay=0.0)
        schedules[d] = get_linear_schedule_with_warmup(optimizers[d], 2, run.updates)

    for update in range(run.updates):
        domain = DOMAINS[update % len(DOMAINS)]
        model.set_adapter(domain)
        running = torch.zeros((), device=device)
        for micro in range(run.accumulate):
            ids = next(train[domain]).to(device)
            loss = model(input_ids=ids, labels=ids).loss / run.accumulate
            loss.backward()
            running += loss.detach()
            if micro < run.accumulate - 1:
                torch_xla.sync()
        torch.nn.utils.clip_grad_norm_(adapter_params(model, domain), 1.0)
        optimizers[domain].step()
        schedules[domain].step()
        optimizers[domain].zero_grad(set_to_none=True)
        torch_xla.sync()

        if (update + 1) % run.eval_every == 0:
            scores = {d: evaluate(model, held_out, d, device) for d in DOMAINS}
            text = "  ".join(f"{d} {v:.3f}" for d, v in scores.items())
            print(f"update {update + 1:3d}  {domain} loss {running.item():.3f}  held-out: {text}")


if __name__ == "__main__":
    main()
