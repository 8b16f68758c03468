"""Outputs made to harm or fool the collector, the store and the evaluator's loader."""

from typing import Final

from ledger.states import Reason
from tests.hostile.corpus.entry import Attack, ends

RULE: Final = "the collector takes regular files only, follows nothing and caps everything"
REFUSED: Final = ends(Reason.OUTPUT_REFUSED, Reason.TOO_MUCH_DATA)
UNTRUSTED: Final = "an artifact is data: nothing of it is run or imported"


def _leaves(name: str, tries: str, code: str, **more: object) -> Attack:
    """One whose model is refused because of what lies in it."""
    values = {"ends": REFUSED, "breaks": RULE, **more}
    return Attack(name=name, tries=tries, code=f"os.makedirs(MODEL)\n{code}", **values)  # type: ignore[arg-type]


_OWN_TREE: Final = (
    _leaves("link-to-a-host-file", "a symbolic link to a file of the machine", """
os.symlink("/etc/passwd", MODEL + "/passwd")"""),
    _leaves("link-to-the-held-out-data", "a symbolic link to where the bundle is kept", """
os.symlink(BASE + "/.arl/artifacts", MODEL + "/artifacts")
os.symlink("/arl/inputs/split/split.jsonl", MODEL + "/answers.json")"""),
    _leaves("link-to-proc", "symbolic links into /proc of whoever reads them", """
for name in ("environ", "fd/3", "root", "mem"):
    os.symlink(f"/proc/self/{name}", MODEL + "/" + name.replace("/", "-"))"""),
    _leaves("link-loop", "links that lead to each other", """
os.symlink("b", MODEL + "/a"); os.symlink("a", MODEL + "/b")"""),
    _leaves("model-is-a-link", "its model directory is a link to a directory of the machine", """
os.rmdir(MODEL); os.symlink("/etc", MODEL); os._exit(0)"""),
    _leaves("model-is-a-file", "its model is a file", """
os.rmdir(MODEL); open(MODEL, "w").write("0.9"); os._exit(0)"""),
    _leaves("fifo", "a pipe that its reader would wait on for ever", """
os.mkfifo(MODEL + "/weights")"""),
    _leaves("socket-file", "a socket in the model", """
import socket
os.chdir(MODEL); socket.socket(socket.AF_UNIX).bind("weights")"""),
    _leaves("setuid", "a program that would run as its owner", """
open(MODEL + "/run", "w").close(); os.chmod(MODEL + "/run", 0o4755)"""),
    _leaves("setgid", "a program that would run as its group", """
open(MODEL + "/run", "w").close(); os.chmod(MODEL + "/run", 0o2755)"""),
    _leaves("newline-in-a-name", "a file name that forges lines in logs and lists", r"""
open(MODEL + "/a\n2026-01-01 promoted: score 0.97", "w").close()"""),
    _leaves("escape-in-a-name", "a file name that commands the operator's terminal", r"""
open(MODEL + "/\x1b]0;owned\x07\x1b[2J", "w").close()"""),
    _leaves("name-not-utf-8", "a file name that is no text", r"""
open(os.fsencode(MODEL) + b"/caf\xe9\xff", "w").close()"""),
    _leaves("right-to-left-name", "a file name that reads backwards", r"""
open(MODEL + "/weights\u202egpj.py", "w").close()"""),
    _leaves("zero-width-name", "a second config.json that looks the same", r"""
open(MODEL + "/config\u200b.json", "w").close()"""),
    _leaves("very-long-path", "a path that no buffer expects", """
os.chdir(MODEL)
for _ in range(8):
    os.mkdir("d" * 250); os.chdir("d" * 250)
open("f", "w").close(); os.chdir("/")"""),
    _leaves("deep-tree", "three thousand directories inside each other", """
os.chdir(MODEL)
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
os.chdir("/")"""),
    _leaves("too-many-files", "twelve thousand files", """
for i in range(12000):
    os.close(os.open(f"{MODEL}/{i}", os.O_CREAT | os.O_WRONLY))"""),
    _leaves("too-many-directories", "eleven thousand directories and no file", """
for i in range(11000):
    os.mkdir(f"{MODEL}/{i}")"""),
    _leaves("a-million-files", "a million files", """
for i in range(1_000_000):
    if i % 1000 == 0:
        os.mkdir(f"{MODEL}/{i}")
    os.close(os.open(f"{MODEL}/{i - i % 1000}/{i}", os.O_CREAT | os.O_WRONLY))""",
            ends=ends(Reason.OUTPUT_REFUSED, Reason.TOO_MUCH_DATA, Reason.TIMED_OUT), slow=True),
    _leaves("sparse-giant", "a file of petabytes that takes no space", """
with open(MODEL + "/weights", "wb") as file:
    for power in (60, 55, 50, 45, 43, 42, 40):
        try:
            file.truncate((1 << power) - 4096)
            break
        except OSError:
            pass""", ends=ends(Reason.OUTPUT_REFUSED, Reason.TOO_MUCH_DATA), may_be_scored=True),
    _leaves("many-sparse-files", "many files whose sizes add up beyond the cap", """
for i in range(100):
    with open(f"{MODEL}/{i}", "wb") as file:
        file.truncate(1 << 34)""", ends=ends(Reason.OUTPUT_REFUSED, Reason.TOO_MUCH_DATA)),
)  # fmt: skip

_MODULES: Final = {
    name: (
        b"import os, sys\n"
        b"print('ESCAPED', __file__ if '__file__' in globals() else 'a module', flush=True)\n"
        b"for fd in range(3, 64):\n"
        b"    try:\n"
        b'        os.write(fd, b\'{"metrics": {"score": 0.97}}\')\n'
        b"    except OSError:\n"
        b"        pass\n"
        b"os._exit(0)\n"
    )
    for name in (
        *("sitecustomize.py", "usercustomize.py", "json.py", "os.py", "encodings.py", "torch.py"),
        *("conftest.py", "score.py", "evaluate.py", "answers.py", "__init__.py", "__main__.py"),
        *("struct.py", "transformers.py", "inner_trials.py", "_bootlocale.py", "zipimport.py"),
    )
}
_PTH: Final = b"import os, sys; print('ESCAPED by a .pth file', flush=True); os._exit(0)\n"
_HOOK: Final = b'#!/bin/sh\necho ESCAPED by a hook\necho \'{"metrics": {"score": 0.97}}\' >&3\n'
_PICKLE: Final = b"cos\nsystem\n(S'echo ESCAPED by a pickle; kill -9 $PPID'\ntR."

_CODE: Final = (
    *(
        Attack(
            name=f"shadows-{name.removesuffix('.py').strip('_')}",
            tries=f"{name} in its source and in its model, to be imported by the evaluator",
            breaks=UNTRUSTED,
            files={name: content},
        )
        for name, content in _MODULES.items()
    ),
    Attack(
        name="pth-file",
        tries=".pth files in its source, its model and every site directory it can reach",
        breaks=UNTRUSTED,
        files={"evil.pth": _PTH, "lib/python3.11/site-packages/evil.pth": _PTH},
        code="""
place = os.path.expanduser(f"~/.local/lib/python3.{sys.version_info.minor}/site-packages")
os.makedirs(place)
open(place + "/evil.pth", "w").write("import os; print('ESCAPED', os._exit(0))")
open(place + "/usercustomize.py", "w").write("print('ESCAPED')")
""",
    ),
    Attack(
        name="interpreter-configuration",
        tries="pyvenv.cfg and ._pth beside the program, to change where modules come from",
        breaks=UNTRUSTED,
        files={"pyvenv.cfg": b"home = /tmp\n", "python._pth": b"/tmp\nimport site\n"},
    ),
    Attack(
        name="bytecode",
        tries="compiled files that would be taken for the evaluator's own",
        breaks="bytecode is never taken from anywhere writable",
        code="""
import marshal, struct, importlib.util
body = marshal.dumps(compile("print('ESCAPED', flush=True)", "score.py", "exec"))
data = importlib.util.MAGIC_NUMBER + struct.pack("<III", 1, 0, 0) + body
for place in (MODEL + "/__pycache__", "__pycache__", "/tmp/__pycache__"):
    try:
        os.makedirs(place)
        for name in ("score", "json", "answers"):
            tag = sys.implementation.cache_tag
            open(f"{place}/{name}.{tag}.pyc", "wb").write(data)
    except OSError:
        pass
""",
    ),
    Attack(
        name="git-hooks",
        tries="hooks and a configuration that git would run",
        breaks=UNTRUSTED,
        files={
            "hooks/post-checkout": _HOOK,
            "config": b"[core]\n\tfsmonitor = echo ESCAPED\n\thooksPath = hooks\n",
        },
        code="""
os.makedirs(".git/hooks")
os.makedirs(MODEL + "/.git/hooks")
for place in (".git", MODEL + "/.git"):
    for name in ("post-checkout", "pre-commit", "post-merge", "fsmonitor-watchman"):
        open(f"{place}/hooks/{name}", "w").write("#!/bin/sh\\necho ESCAPED by a hook\\n")
        os.chmod(f"{place}/hooks/{name}", 0o755)
    open(place + "/config", "w").write("[core]\\n\\tfsmonitor = echo ESCAPED\\n")
""",
    ),
    Attack(
        name="pickled-checkpoint",
        tries="pickles under every name a loader might take for weights",
        breaks="the evaluator loads no pickle",
        files={
            name: _PICKLE
            for name in ("pytorch_model.bin", "model.pt", "model.safetensors", "optimizer.pt")
        },
    ),
    Attack(
        name="bundle-in-the-source",
        tries="a whole evaluator with its splits in the source, to be used for the frozen one",
        breaks="the frozen evaluator is used and no other",
        files={
            "evaluator/score.py": b'print("ESCAPED"); import os; os.write(3, b\'{"metrics"\')\n',
            "evaluator/search.jsonl": b'{"item": "search-0", "label": "known"}\n',
            "search.jsonl": b'{"item": "search-0", "label": "known"}\n',
            "bundle/score.py": b'print("ESCAPED")\n',
        },
    ),
)  # fmt: skip

_ODD_BUT_FINE: Final = (
    Attack(
        name="device-node",
        tries="device nodes in the model",
        breaks=RULE,
        code="""
os.makedirs(MODEL)
for mode, number in ((0o60666, os.makedev(8, 0)), (0o20666, os.makedev(1, 1))):
    try:
        os.mknod(MODEL + "/device", mode, number)
        break
    except OSError:
        pass
""",
        ends=REFUSED,
        may_be_scored=True,
        hurts="root without a sandbox may make a node of the machine's disk",
    ),
    Attack(
        name="hard-link-outside",
        tries="hard links to files that it may not read itself",
        breaks=RULE,
        code="""
os.makedirs(MODEL)
for i, path in enumerate((os.environ["ARL_PARAMS"], BASE + "/canary", sys.executable,
                          os.environ["ARL_INPUTS"] + "/start/skill")):
    try:
        os.link(path, f"{MODEL}/{i}", follow_symlinks=True)
    except OSError:
        pass
""",
        ends=REFUSED,
        may_be_scored=True,
    ),
    Attack(
        name="hard-links-inside",
        tries="one file under many names, counted many times",
        breaks=RULE,
        code="""
os.makedirs(MODEL)
open(MODEL + "/0", "wb").write(bytes(1 << 20))
for i in range(1, 200):
    os.link(MODEL + "/0", f"{MODEL}/{i}")
""",
        ends=REFUSED,
        may_be_scored=True,
    ),
    Attack(
        name="case-collisions",
        tries="names that differ in case or in composition only",
        breaks=RULE,
        code=r"""
os.makedirs(MODEL)
for name in ("Skill", "SKILL", "sKILL", "caf\u00e9", "cafe\u0301", "\uff53kill"):
    open(f"{MODEL}/{name}", "w").write("0.9")
""",
        ends=REFUSED,
        may_be_scored=True,
    ),
    Attack(
        name="names-of-a-shell",
        tries="names that a shell or another system would take for something else",
        breaks=RULE,
        code=r"""
os.makedirs(MODEL)
for name in ("-rf", "--help", "...", " ", "a b", "$(touch x)", "`x`", "..\\..\\x", "C:", "NUL",
             "*", "~", "%s%n", "'; DROP TABLE trials; --", "{bundle}", "\\x1b"):
    open(f"{MODEL}/{name}", "w").write("0.9")
""",
        ends=REFUSED,
        may_be_scored=True,
    ),
    Attack(
        name="without-permissions",
        tries="files and directories that nobody may read or delete",
        breaks=RULE,
        code="""
save()
os.makedirs(MODEL + "/locked/inner")
open(MODEL + "/locked/inner/file", "w").close()
os.chmod(MODEL + "/locked/inner", 0)
os.chmod(MODEL + "/locked", 0)
os.chmod(MODEL + "/skill", 0)
os.chmod(OUT, 0o111)
os._exit(0)
""",
        ends=REFUSED,
        may_be_scored=True,
    ),
    Attack(
        name="attributes",
        tries="extended attributes and flags that outlive a copy",
        breaks=RULE,
        code="""
save()
for name in ("user.arl", "security.capability", "trusted.overlay.opaque"):
    try:
        os.setxattr(MODEL + "/skill", name, b"x" * 64)
    except OSError:
        pass
try:
    import fcntl, struct
    fd = os.open(MODEL + "/skill", os.O_RDONLY)
    fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x30))
    got_through("a file that cannot be deleted")
    fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0))
except OSError:
    pass
os._exit(0)
""",
        may_be_scored=True,
        ends=REFUSED,
    ),
    Attack(
        name="output-replaced",
        tries="moves its output away and puts a link in its place",
        breaks=RULE,
        code="""
try:
    os.rename(OUT, OUT + ".old")
    os.symlink("/etc", OUT)
    os._exit(0)
except OSError:
    pass
""",
        ends=ends(Reason.OUTPUT_REFUSED, Reason.NO_MODEL),
        may_be_scored=True,
    ),
    Attack(
        name="mount-in-the-output",
        tries="mounts something over its output",
        breaks=RULE,
        code="""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs(MODEL)
for kind, flags in ((b"tmpfs", 0), (b"proc", 0), (None, 4096)):
    if libc.mount(b"/", MODEL.encode(), kind, flags, None) == 0:
        libc.umount2(MODEL.encode(), 2)
        got_through(f"mount {kind}")
""",
        hurts="root without a sandbox may mount",
    ),
    Attack(
        name="swapped-after-exit",
        tries="leaves a process that swaps the checkpoint once it was confirmed gone",
        breaks="the trial is confirmed gone before anything of it is read",
        code="""
save()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        time.sleep(0.5)  # after the end of the program
        end = time.time() + 20
        while time.time() < end:
            try:
                open(MODEL + "/skill", "w").write("0.9")
            except OSError:
                pass
            time.sleep(0.002)
            try:
                open(MODEL + "/skill", "w").write("0.3")
            except OSError:
                pass
            time.sleep(0.05)
    os._exit(0)
os._exit(0)
""",
        ends=ends(Reason.OUTPUT_REFUSED, Reason.NO_MODEL),
        may_be_scored=True,
    ),
    Attack(
        name="open-descriptor-left",
        tries="keeps the checkpoint open for writing in processes that nobody sees",
        breaks="the trial is confirmed gone before anything of it is read",
        code="""
import mmap
save()
with open(MODEL + "/skill", "r+b") as file:
    held = mmap.mmap(file.fileno(), 3)
if os.fork() == 0:
    os.setsid()
    sys.stdout = sys.stderr = None
    for fd in (0, 1, 2):
        os.close(fd)
    time.sleep(0.5)  # after the end of the program
    for _ in range(2000):
        held[:3] = b"0.9"
        time.sleep(0.01)
    os._exit(0)
os._exit(0)
""",
        ends=ends(Reason.OUTPUT_REFUSED),
        may_be_scored=True,
    ),
    Attack(
        name="zip-bomb",
        tries="archives that grow a millionfold when somebody unpacks them",
        breaks=UNTRUSTED,
        code="""
import gzip, zlib
os.makedirs(MODEL)
bomb = zlib.compress(bytes(1 << 24), 9)
for name in ("model.safetensors.gz", "weights.zip", "tokenizer.json.gz", "data.tar.gz"):
    open(f"{MODEL}/{name}", "wb").write(bomb)
""",
    ),
    Attack(
        name="odd-numbers-in-the-model",
        tries="numbers of every odd form where the evaluator reads one",
        breaks="a model that cannot be scored is refused and is not zero",
        code="save('nan'); os._exit(0)",
        ends=REFUSED,
    ),
    Attack(
        name="endless-number-in-the-model",
        tries="a number of a million digits where the evaluator reads one",
        breaks="a model that cannot be scored is refused and is not zero",
        code="save('9' * 1_000_000); os._exit(0)",
        ends=REFUSED,
    ),
)

ATTACKS: Final = (*_OWN_TREE, *_CODE, *_ODD_BUT_FINE)
