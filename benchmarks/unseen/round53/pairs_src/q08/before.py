"""Pre-training of a small Llama-style language model on XLA (packed sequences)."""
import torch
import torch_xla
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = dict(
    vocab_size=320,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_act='silu',
    max_position_embeddings=64,
    tie_word_embeddings=True,
    use_cache=False,
    attn_implementation='eager',
)
TRAIN = dict(lr=5e-4, weight_decay=0.1, batch=4, length=24)


def build_model():
    return LlamaForCausalLM(LlamaConfig(**CONFIG))


def build_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=TRAIN['lr'], betas=(0.9, 0.95),
                             weight_decay=TRAIN['weight_decay'])


def get_batch():
    ids = torch.randint(3, CONFIG['vocab_size'], (TRAIN['batch'], TRAIN['length']))
    return {'input_ids': ids, 'labels': ids}


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build_model().to(device).train()
    optimizer = build_optimizer(model)
    torch_xla.sync()
    for step in range(steps):
        batch = {k: v.to(device) for k, v in get_batch().items()}
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == '__main__':
    main()
