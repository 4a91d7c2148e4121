"""Regenerates pairs/qNN/{a,b}.hlo: python make.py [qNN ...]"""
import os, subprocess, sys, glob, shutil, tempfile
HERE = os.path.dirname(os.path.abspath(__file__))
TORCH, JAX = sys.executable, os.environ.get("JAX_PYTHON", sys.executable)
DBG = {"XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
HOST8 = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "CPU_NUM_DEVICES": "8"}
CONF = {"q01": DBG, "q03": DBG, "q05": DBG, "q07": DBG, "q08": {**HOST8, **DBG}, "q09": {"CPU_NUM_DEVICES": "4"},
        "q11": {"DUMP": "1", **DBG}, "q13": {"DUMP": "1"}, "q14": {}}
JAXQ = {"q15", "q16", "q17", "q18", "q19", "q20"}
for i in range(1, 21):
    q = f"q{i:02d}"
    if len(sys.argv) > 1 and q not in sys.argv[1:]:
        continue
    for v, side in ((0, "a"), (1, "b")):
        out = os.path.join(HERE, "..", "pairs", q, side + ".hlo")
        os.makedirs(os.path.dirname(out), exist_ok=True)
        conf = dict(CONF.get(q, {}))
        if q == "q10" and v:
            conf.update(DBG)
        if q == "q14" and v:
            conf["DUMP"] = "1"
        dump = tempfile.mkdtemp() if conf.pop("DUMP", None) else None
        env = {**os.environ, "PJRT_DEVICE": "CPU", "JAX_PLATFORMS": "cpu", **conf, "VARIANT": str(v), "OUT": os.path.abspath(out), "VALS": os.path.join(tempfile.gettempdir(), f"{q}_{side}")}
        if dump:
            env["XLA_FLAGS"] = f"--xla_dump_to={dump} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=NONE"
        r = subprocess.run([JAX if q in JAXQ else TORCH, "step.py"], cwd=os.path.join(HERE, q), env=env, capture_output=True, text=True)
        if r.returncode:
            print(q, side, "FAILED", r.stderr[-1500:])
            continue
        if dump:
            fs = glob.glob(dump + "/*before_optimizations.txt")
            shutil.copy(max(fs, key=os.path.getsize), out)
            shutil.rmtree(dump)
        print(q, side, sum(" = " in l for l in open(out)), r.stdout.strip()[-300:], flush=True)
