"""usage: genfork.py (torch|jax) qNN ... : like gen.sh, but imports once and forks per script (metadata flags from the environment)"""
import os, sys, shutil, runpy, time, traceback
src = os.path.dirname(os.path.abspath(__file__))
os.environ["PJRT_DEVICE"] = "CPU"; os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.nice(5)
sys.path.insert(0, src)
if sys.argv[1] == "torch":
    import numpy, torch, torch.nn, torch._dynamo, torch_xla, torch_xla.core.xla_model, xdump
else:
    import numpy, jax, jax.numpy
print("imported", time.process_time(), flush=True)
for q in sys.argv[2:]:
    p = "/tmp/proj_" + q
    os.makedirs(p, exist_ok=True); os.makedirs(f"{src}/../pairs/{q}", exist_ok=True)
    for s in "ab":
        shutil.copy(f"{src}/{q}/{s}.py", p + "/train.py")
        t0 = time.time()
        pid = os.fork()
        if pid == 0:
            try:
                os.environ["HLO_OUT"] = f"{src}/../pairs/{q}/{s}.hlo"; os.environ["NPZ_OUT"] = f"{src}/values/{q}.{s}.npz"
                os.chdir(p)
                runpy.run_path(p + "/train.py", run_name="__main__")
                print(q, s, "ok cpu", round(time.process_time(), 1), "wall", round(time.time() - t0, 1), flush=True)
                os._exit(0)
            except BaseException:
                traceback.print_exc(); sys.stdout.flush(); sys.stderr.flush(); os._exit(1)
        os.waitpid(pid, 0)
