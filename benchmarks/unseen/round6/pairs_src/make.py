"""Make pairs: python make.py PAIRS_DIR TORCH_PYTHON JAX_PYTHON q01 q02 ...

qNN/train.py (or another single *.py) is a template: lines that end in '#A' are
only in program a, lines that end in '#B' only in program b; all others in both.
First line of a template: '# kind: torch|jax  mode: text|dump  [pattern: NAME]  [env: K=V,...]'.
mode text: the program writes the module's text to $OUT.
mode dump: the module is the last *before_optimizations.txt of XLA's dump.
"""
import glob, os, re, shutil, subprocess, sys, tempfile
pairs, tpy, jpy, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
here = os.path.dirname(os.path.abspath(__file__))
for q in names:
    src, = glob.glob(os.path.join(here, q, "*.py"))
    text = open(src).read()
    head = text.splitlines()[0]
    kind = re.search(r"kind: (\w+)", head)[1]
    mode = re.search(r"mode: (\w+)", head)[1]
    pat = re.search(r"pattern: (\S+)", head)
    envs = re.search(r"env: (\S+)", head)
    for v, other in (("a", "B"), ("b", "A")):
        lines = [l for l in text.splitlines() if not l.rstrip().endswith("#" + other)]
        lines = [re.sub(r"\s*#[AB]$", "", l) for l in lines][1:]
        wd = tempfile.mkdtemp()
        prog = os.path.join(wd, os.path.basename(src))
        open(prog, "w").write("\n".join(lines) + "\n")
        env = dict(os.environ, OUT=os.path.join(wd, "out.txt"), PJRT_DEVICE="CPU", OMP_NUM_THREADS="1")
        for kv in (envs[1].split(",") if envs else []):
            k, x = kv.split("=", 1); env[k] = x
        if mode == "dump":
            env["XLA_FLAGS"] = (env.get("XLA_FLAGS", "") + f" --xla_dump_to={wd}/dump --xla_dump_hlo_as_text").strip()
        py = tpy if kind == "torch" else jpy
        r = subprocess.run([py, "-W", "ignore", prog], cwd=wd, env=env, capture_output=True, text=True)
        if r.returncode:
            print(q, v, "FAILED", r.stderr[-3000:]); continue
        if mode == "dump":
            fs = sorted(glob.glob(f"{wd}/dump/*before_optimizations.txt"))
            fs = [f for f in fs if (pat[1] if pat else "") in f]
            out = open(fs[-1]).read()
        else:
            out = open(env["OUT"]).read()
        out = out.replace(wd, "/home/ann/train")
        for p in (tpy, jpy):
            out = out.replace(os.path.dirname(os.path.dirname(p)) + "/", "/home/ann/venv/")
        d = os.path.join(pairs, q); os.makedirs(d, exist_ok=True)
        open(os.path.join(d, v + ".hlo"), "w").write(out)
        bad = [p for p in re.findall(r'source_file="([^"]*)|"(/[^"]*)"', out) if not max(p).startswith("/home/ann/")]
        print(q, v, out.count(" = "), "instructions", "BAD PATHS %s" % bad[:3] if bad else "", r.stdout.strip()[-200:])
        shutil.rmtree(wd)
