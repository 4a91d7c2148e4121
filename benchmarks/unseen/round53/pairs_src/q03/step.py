"""Greedy decoding with a small Qwen2 on XLA, one token per step."""
import torch
import torch_xla
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.cache_utils import DynamicCache


def build():
    torch.manual_seed(0)
    cfg = Qwen2Config(vocab_size=320, hidden_size=32, intermediate_size=64,
                      num_hidden_layers=4, num_attention_heads=4,
                      num_key_value_heads=2, max_position_embeddings=128,
                      attn_implementation='eager')
    return Qwen2ForCausalLM(cfg).eval()


@torch.no_grad()
def generate(model, prompt, new_tokens, device):
    cache = DynamicCache()
    ids = prompt.to(device)
    position = torch.arange(prompt.shape[1]).unsqueeze(0).to(device)
    done = torch.zeros(prompt.shape[0], dtype=torch.bool, device=device)
    torch_xla.sync()
    tokens = []
    for i in range(new_tokens):
        out = model(input_ids=ids, position_ids=position, past_key_values=cache,
                    cache_position=position[0], use_cache=True)
        logits = out.logits[:, -1, :].float()
        ids = logits.argmax(-1, keepdim=True)
        ids = torch.where(done.unsqueeze(1), torch.zeros_like(ids), ids)
        done = done | (ids.squeeze(1) == 2)
        position = position[:, -1:] + 1
        torch_xla.sync()
        tokens.append(ids.cpu())
    return torch.cat(tokens, dim=1)


def main():
    device = torch_xla.device()
    model = build().to(device)
    prompt = torch.randint(3, 320, (2, 12))
    print(generate(model, prompt, 8, device))


if __name__ == '__main__':
    main()
