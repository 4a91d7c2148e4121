import sys, json, runpy, os
prog, out = sys.argv[1], sys.argv[2]
import torch, torch_xla, torch_xla.debug.metrics as met
def n():
    d = met.metric_data("CompileTime"); return d[0] if d else 0
per=[]; last=[0]
X=torch_xla._XLAC; orig=X._xla_step_marker
def marker(*a,**k):
    r=orig(*a,**k); c=n(); per.append(c-last[0]); last[0]=c; return r
X._xla_step_marker=marker
sys.argv=[prog]
err=None
try: runpy.run_path(prog, run_name="__main__")
except BaseException as e:
    import traceback; traceback.print_exc(); err=repr(e)
tot=n()
json.dump({"per_sync":per,"after_last_sync":tot-last[0],"total":tot,"error":err},open(out,"w"))
print("COUNT",os.path.basename(prog),"per",per,"after",tot-last[0],"total",tot,flush=True)
os._exit(0)
