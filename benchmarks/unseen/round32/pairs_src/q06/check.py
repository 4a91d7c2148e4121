"""Equal weights in both versions, several training steps, compare losses and parameters."""
import torch
import torch_xla
import train_after
import train_before

torch.manual_seed(0)
device = torch_xla.device()
a, b = train_before.FTTransformer(), train_after.FTTransformer()


def split_params(m):
    out = {
        "embed.table.weight": torch.cat([e.weight for e in m.tok.cats]),
        "embed.scale": m.tok.num_w, "embed.shift": m.tok.num_b, "embed.cls": m.tok.cls,
        "norm.weight": m.norm.weight, "norm.bias": m.norm.bias,
        "head.weight": m.head.weight, "head.bias": m.head.bias,
    }
    for i, layer in enumerate(m.layers):
        for kind in ("weight", "bias"):
            q, k, v = getattr(layer.qkv, kind).chunk(3)
            val, gate = getattr(layer.fc_in, kind).chunk(2)
            out.update({
                f"attn.{i}.query.{kind}": q, f"attn.{i}.key.{kind}": k, f"attn.{i}.value.{kind}": v,
                f"attn.{i}.proj.{kind}": getattr(layer.proj, kind),
                f"ffn.{i}.value.{kind}": val, f"ffn.{i}.gate.{kind}": gate,
                f"ffn.{i}.out.{kind}": getattr(layer.fc_out, kind),
                f"attn_norm.{i}.{kind}": getattr(layer.norm_a, kind),
                f"ffn_norm.{i}.{kind}": getattr(layer.norm_f, kind),
            })
    return {k: v.detach().cpu().clone() for k, v in out.items()}


missing = b.load_state_dict(split_params(a), strict=False)
assert missing.missing_keys == ["embed.offset"] and not missing.unexpected_keys, missing
a, b = a.to(device), b.to(device)
la, lb = train_before.train(a, device, 5), train_after.train(b, device, 5)
pa, pb = split_params(a), {k: v.detach().cpu() for k, v in b.state_dict().items()}
print(la, lb)
print("largest difference of losses", max(abs(x - y) for x, y in zip(la, lb)))
print("largest difference of parameters", max((pa[k] - pb[k]).abs().max().item() for k in pa))
