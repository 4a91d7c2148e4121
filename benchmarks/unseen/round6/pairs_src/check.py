"""python check.py PAIRS_DIR q01 ... : compares a.hlo and b.hlo by themselves.
Prints: header difference; multiset difference of lines without names and metadata;
and the frontier (instructions whose class is absent on the other side while all operands' classes are present).
Parameters are classed by (number) or, with -p, by (shape, sharding, n-th use in a walk from the root)."""
import re, sys, collections
INS = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = (.*)$")

def strip_meta(s):
    s = re.sub(r", metadata=\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\"|\{[^{}]*\})*\}", "", s)
    return s

def parse(path):
    comps, cur, header, entry = collections.OrderedDict(), None, None, None
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("HloModule"):
            header = line; continue
        m = re.match(r"^(ENTRY )?%?([\w.\-]+) (\(.*)?\{$", line)
        if m:
            cur = comps[m[2]] = []
            if m[1]: entry = m[2]
            continue
        if line.startswith("}"):
            cur = None; continue
        if cur is None: continue
        m = INS.match(strip_meta(line))
        if not m: 
            if line.strip(): print("?? unparsed", line[:200])
            continue
        cur.append((m[2], m[3], bool(m[1])))
    return header, comps, entry

def split(rest):
    # rest: shape opcode(operands), attrs
    if rest.startswith("("):
        d = 0
        for i, c in enumerate(rest):
            d += (c == "(") - (c == ")")
            if d == 0: break
        shape, r = rest[:i+1], rest[i+2:]
    else:
        shape, r = rest.split(" ", 1)
    op, r = r.split("(", 1)
    d = 1
    for i, c in enumerate(r):
        d += (c == "(") - (c == ")")
        if d == 0: break
    return shape, op, r[:i], r[i+1:]

def run(path, byuse):
    header, comps, entry = parse(path)
    done = {}
    lines = collections.Counter()
    table = {}
    def comp(c):
        if c in done: return done[c]
        names = {}
        root = None
        seenp = collections.Counter()
        ins = {n: r for n, r, _ in comps[c]}
        rootname = next(n for n, r, ro in comps[c] if ro)
        order, vis = [], set()
        def walk(n0):
            st = [(n0, False)]
            while st:
                n, fin = st.pop()
                if fin: order.append(n); continue
                if n in vis: continue
                vis.add(n)
                st.append((n, True))
                _, op, args, _ = split(ins[n])
                if op not in ("parameter", "constant", "iota"):
                    for x in reversed(re.findall(r"%?([\w.\-]+)", re.sub(r"/\*.*?\*/", "", args))):
                        if x in ins and x not in vis: st.append((x, False))
        walk(rootname)
        for n in ins: walk(n)
        for n in order:
            shape, op, args, attrs = split(ins[n])
            def called(m):
                return m[1] + "<" + str(comp(m[2])) + ">"
            attrs = re.sub(r"((?:to_apply|condition|body|calls|true_computation|false_computation|select|scatter)=)%?([\w.\-]+)", called, attrs)
            attrs = re.sub(r"(branch_computations=\{)([^}]*)", lambda m: m[1] + ",".join(str(comp(x.strip().lstrip("%"))) for x in m[2].split(",")), attrs)
            attrs = re.sub(r", (frontend_attributes|backend_config|origin)=\{.*", "", attrs)
            if op == "parameter":
                pid = args
                if byuse and c == entry:
                    k = (shape, attrs); pid = "use%d" % seenp[k]; seenp[k] += 1
                key = (op, shape, pid, attrs); ops = ()
                show = f"{shape} parameter({pid}){attrs}"
            elif op in ("constant", "iota"):
                key = (op, shape, args, attrs); ops = (); show = f"{shape} {op}({args}){attrs}"
            else:
                ns = [x for x in re.findall(r"%?([\w.\-]+)", re.sub(r"/\*.*?\*/", "", args)) if x in ins]
                ops = tuple(names[x] for x in ns)
                key = (op, shape, attrs) + ops
                show = f"{shape} {op}({', '.join(split(ins[x])[0] for x in ns)}){attrs}"
            h = hash(("h",) + key) & 0xffffffffffff
            names[n] = h
            table.setdefault(h, (c, n, show, ops))
            lines[re.sub(r"<\d+>", "<>", show)] += 1
        done[c] = names[rootname]
        return done[c]
    r = comp(entry)
    unused = [c for c in comps if c not in done]
    return header, r, lines, table, comps, unused

if __name__ == "__main__":
    sys.argv
    byuse = "-p" in sys.argv
    args = [x for x in sys.argv[1:] if x != "-p"]
    for q in args[1:]:
        ha, ra, la, ta, ca, ua = run(f"{args[0]}/{q}/a.hlo", byuse)
        hb, rb, lb, tb, cb, ub = run(f"{args[0]}/{q}/b.hlo", byuse)
        print("=====", q, "same root class" if ra == rb else "DIFFERENT", "unreached comps", ua, ub)
        strip = lambda h: re.sub(r"^HloModule \S+", "", h)
        if strip(ha) != strip(hb):
            pa, pb = re.split(r"(?<=[,)])(?= ?)", ha), re.split(r"(?<=[,)])", hb)
            import difflib
            d = [x for x in difflib.unified_diff(pa, pb, lineterm="", n=0)][2:]
            print(" header differs:", [x.strip() for x in d][:16])
        for name, x in (("a only", la - lb), ("b only", lb - la)):
            print(" ", name, sum(x.values()))
            for s, n in list(x.items())[:14]: print("     ", n, s[:260])
        for name, t, o in (("a frontier", ta, tb), ("b frontier", tb, ta)):
            f = [(h, v) for h, v in t.items() if h not in o and all(p in o for p in v[3])]
            print(" ", name, len(f))
            for h, (c, n, s, ops) in f[:14]:
                print("     ", c, n, "=", s[:220], "|", [t[p][1] for p in ops])
