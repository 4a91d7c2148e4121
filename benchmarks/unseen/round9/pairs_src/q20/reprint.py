"""Print an HLO module again: other names and ids, other order of unrelated instructions and computations."""
import random
import re
import sys

TOK = re.compile(r"[A-Za-z_][\w.\-]*")


def cut(line):
    i = line.find(", metadata={")
    return (line, "") if i < 0 else (line[:i], line[i:])


def main(src, dst, seed):
    rng = random.Random(seed)
    head, comps, cur = [], [], None
    for line in open(src).read().splitlines():
        if cur is not None:
            if line == "}":
                cur = None
            elif line.strip():
                cur["body"].append(line)
        elif re.match(r"^(ENTRY )?%?[\w.\-]+ (\(.*\) -> .* )?\{$", line):
            cur = {"head": line, "name": line.replace("ENTRY ", "").split()[0].lstrip("%"), "body": []}
            comps.append(cur)
        else:
            head.append(line)
    while head and not head[-1]:
        head.pop()
    names, nid = {}, 1000
    for c in rng.sample(comps, len(comps)):
        names[c["name"]] = f"computation.{nid}"
        nid += rng.randint(1, 3)
        for line in rng.sample(c["body"], len(c["body"])):
            name = line.replace("ROOT ", "").split()[0].lstrip("%")
            assert "." in name and name not in names, name
            op = re.search(r" ([a-z][\w\-]*)\(", cut(line)[0].split(" = ", 1)[1]).group(1)
            names[name] = f"{op}.{nid}"
            nid += rng.randint(1, 3)
    def rename(text):
        return TOK.sub(lambda m: names.get(m.group(0), m.group(0)), text)
    for c in comps:
        todo = {}
        for line in c["body"]:
            code, meta = cut(line)
            lhs, rhs = code.split(" = ", 1)
            name = lhs.replace("ROOT ", "").strip().lstrip("%")
            todo[name] = (code, meta, rhs)
        deps = {n: {t for t in TOK.findall(rhs) if t in todo} for n, (_, _, rhs) in todo.items()}
        out, done = [], set()
        while todo:
            ready = [n for n in todo if deps[n] <= done]
            n = rng.choice(ready)
            code, meta, _ = todo.pop(n)
            done.add(n)
            out.append(rename(code) + meta)
        c["out"] = out
    inner = {c["name"]: {t for l in c["body"] for t in TOK.findall(cut(l)[0]) if t in {d["name"] for d in comps}} for c in comps}
    order, done, left = [], set(), list(comps)
    while left:
        c = rng.choice([c for c in left if inner[c["name"]] <= done])
        left.remove(c)
        done.add(c["name"])
        order.append(c)
    with open(dst, "w") as f:
        f.write("\n".join(head) + "\n\n")
        for c in order:
            f.write(rename(c["head"]) + "\n" + "\n".join(c["out"]) + "\n}\n\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
