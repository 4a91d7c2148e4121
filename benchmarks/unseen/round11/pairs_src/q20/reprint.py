"""Print an HLO module again: instructions in another valid order, new names, without metadata."""
import random, re, sys
src, dst, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
rnd = random.Random(seed)
lines = open(src).read().split("\n")
out, i, names, ctr = [], 0, {}, [5000]
def fresh(n):
    if n not in names:
        ctr[0] += rnd.randint(1, 3)
        base = re.sub(r"\.\d+$", "", n).lstrip("%")
        names[n] = "%" + ("arg" if re.fullmatch(r"p\d+", base) else base) + f".{ctr[0]}"
    return names[n]
while i < len(lines):
    l = lines[i]
    if l.startswith(("%", "ENTRY")) and l.rstrip().endswith("{"):
        body = []; i += 1
        while lines[i] != "}":
            body.append(re.sub(r", metadata=\{[^}]*\}", "", lines[i])); i += 1
        defs = {}
        for b in body:
            defs[re.match(r"\s*(?:ROOT )?(%[\w.\-]+) =", b).group(1)] = b
        deps = {n: {d for d in re.findall(r"%[\w.\-]+", b.split(" = ", 1)[1]) if d in defs} for n, b in defs.items()}
        done, order, todo = set(), [], list(defs)
        while todo:
            n = rnd.choice([t for t in todo if deps[t] <= done])
            order.append(n); done.add(n); todo.remove(n)
        out.append(l); out += [defs[n] for n in order]; out.append("}")
    else:
        out.append(l)
    i += 1
text = "\n".join(out)
res = []
for l in text.split("\n"):
    if l.startswith(("%", "ENTRY")) and l.rstrip().endswith("{"):
        l = re.sub(r"([\w.\-]+): (?=\w+\[)", lambda m: fresh("%" + m.group(1))[1:] + ": ", l)
    l = re.sub(r"%[\w.\-]+", lambda m: fresh(m.group(0)), l)
    res.append(l)
text = "\n".join(res)
text = re.sub(r"^HloModule [\w.]+", "HloModule SyncTensorsGraph.77", text)
open(dst, "w").write(text)
