"""Posh's five applications as nearsh, bash over the mount, bash on the server and GNU parallel do them, on two lines.

The hosts are namespaces of this machine with a real sshd, and the line is a relay that delays packets and limits their rate (tests/near/rig). The
scripts are bench/near/apps/*.sh. What a script prints, its status, and the files that it leaves are the same bytes in every column, or the run ends
with an error.
"""

import json
import os
import shutil
import statistics
import subprocess

from . import near_data, plot
from .harness import FOLDER, ROOT, STATE, TARGET, first_line

RIG = ROOT / "tests" / "near" / "rig"
IN_FILE = ["in-file-awk", "in-file-grep", "in-file-sort"]
APPLICATIONS = ["log-grep", "ray-tracing", "port-scan", "thumbnails", "git", *IN_FILE, "overhead"]
LAB = ROOT / "bench" / "near" / "uml" / "lab"
FAR, CLOSE, GUEST = "20 ms, 600 Mb/s", "0.5 ms, 5 Gb/s", "20 ms, NFSv4.2 in User-mode Linux"
LINES = {FAR: ("20ms", "600mbit"), CLOSE: ("0.5ms", "5gbit"), GUEST: ("20ms", "600mbit")}
# On a short line little lies between the columns, and machines are not that steady.
ROUNDS = {FAR: 3, CLOSE: 5, GUEST: 3}
SCALES = {FAR: "far", CLOSE: "full", GUEST: "guest"}
MOUNT, SERVER, PARALLEL, NEARSH = "bash over the mount", "bash on the server", "GNU parallel", "nearsh"
COLUMNS = (MOUNT, SERVER, PARALLEL, NEARSH)
ABOUT = """One machine is the client, all servers and the line, so that servers compute no faster than it does, and five no faster than one.
`bash over the mount`: the script as it is, exports mounted by sshfs as sshfs does by itself. `bash on the server`: the same script, run there by ssh, the
export bound at the mount's path. `GNU parallel`: what one would write with `--sshlogin` (bench/near/apps/*.parallel.sh), where it applies to more than the
whole script. Before each run the server's files are put back and read once, so they are in its memory, and every export is mounted anew, so the client
has cached nothing. Moved: bytes of IP over the line, both ways. Times are medians
of three runs, on the shorter line of five, and what takes longer than two minutes is run once; a target's ratio is the median of the ratios of runs that followed
each other. `in-file`: one file of 1 GB on a server of two processors, on the slower line; the server's own
commands beside lanes of them.

In User-mode Linux client and server are kernels of their own with NFSv4.2 and netem between them, on small data. That shows what happens over real
NFS, and what it moves; no target is about its times: a guest's network carries some 300 Mb/s, and its system calls cost microseconds."""


def nearsh(report):
    """The program under test; None, said why, if it runs nothing elsewhere."""
    program = os.environ.get("NEARSH") or TARGET / "release" / "nearsh"
    if not os.access(program, os.X_OK):
        report.say(f"Left out: nearsh ({program} is not here).")
        return None
    if "agent" not in subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout:
        report.say(f"Left out: nearsh ({first_line([program, '--version'])} runs nothing elsewhere).")
        return None
    return str(program)


def columns_of(application, program):
    if application == "overhead":
        return [NEARSH]
    missing = {
        MOUNT: application in IN_FILE,
        SERVER: near_data.HOSTS.get(application, 1) > 1,
        PARALLEL: not (ROOT / "bench" / "near" / "apps" / f"{application}.parallel.sh").exists() or not shutil.which("parallel"),
        NEARSH: program is None,
    }
    return [column for column in COLUMNS if not missing.get(column)]


def measured(application, line, small, program):
    """What columns.py says of an application on a line, its runs by column."""
    delay, rate = LINES[line]
    # Any host will do where nothing runs on it.
    hosts = near_data.made("in-file" if application == "overhead" else application, "small" if small else SCALES[line])
    spec = {"application": application, "rounds": 1 if small else ROUNDS[line], "columns": columns_of(application, program), "nearsh": program}
    if line == GUEST:
        # A guest sees its own folder, whatever it sees of this checkout.
        folder = FOLDER / "near" / "uml"
        shutil.copytree(ROOT / "bench" / "near", folder / "near", dirs_exist_ok=True)
        spec |= {"columns": [column for column in spec["columns"] if column != PARALLEL], "nearsh": program and str(folder / "nearsh")}
        words = [LAB, folder, "--delay", delay, "--rate", rate, "--name", "host1", "--export", hosts["host1"]]
        inside = ["/usr/bin/python3", folder / "near" / "columns.py"]
    else:
        folder = FOLDER / "near" / "rig"
        words = [RIG, "up", folder, "--hosts", ",".join(hosts), "--delay", delay, "--rate", rate]
        words += [word for host, place in hosts.items() for word in ("--export", f"{host}={place}")]
        inside = ["python3", ROOT / "bench" / "near" / "columns.py"]
    words += ["--nearsh", program] if program else []
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result"
    result.unlink(missing_ok=True)
    subprocess.run([*words, "--", *inside, json.dumps(spec), result], check=True)
    told = json.loads(result.read_text())
    if application == "overhead":
        return told["line"], told["overhead"]
    by_column = {column: [run for run in told["runs"] if run["column"] == column] for column in spec["columns"]}
    same(application, told["runs"])
    return told["line"], by_column


def same(application, runs):
    """The results of all columns are one."""
    wanted = runs[0]
    for run in runs:
        if run["status"] != 0 or run["errors"] or run["result"] != wanted["result"]:
            told = "\n".join(f"{key}: {run[key]}" for key in ("status", "errors", "output"))
            raise RuntimeError(f"{application}: {run['column']} does not give what {wanted['column']} gives:\n{told}\nand that was:\n{wanted['output']}")


def size_told(application, line, small):
    size = near_data.size_of(application, "small" if small else SCALES[line])
    return f"{size:,} {'images' if application == 'thumbnails' else 'files'}" if size < 10**6 else f"{size // 10**6} MB" + (" a server" if application == "log-grep" else "")


def run(report, small, wanted=()):
    unknown = set(wanted) - set(APPLICATIONS)
    if unknown:
        raise SystemExit(f"bench: near: unknown: {', '.join(sorted(unknown))}; expected {', '.join(APPLICATIONS)}")
    missing = [name for name in ("sshfs", "jq", "mogrify", "convert", "git") if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        report.say(f"Left out: {'not here: ' + ', '.join(missing) if missing else 'it needs root'}.")
        return
    report.say(ABOUT)
    program = nearsh(report)
    versions = {"sshfs": ["sshfs", "--version"], "bash": ["bash", "--version"], "parallel": ["parallel", "--version"], "ssh": ["ssh", "-V"]}
    report.say("With: " + "; ".join(first_line(words) for name, words in versions.items() if shutil.which(name)) + ".")
    chosen = [application for application in APPLICATIONS if not wanted or application in wanted]
    results = {}
    lines = dict.fromkeys(LINES)
    if not (STATE / "uml").exists() or not os.access("/usr/bin/python3", os.X_OK):
        report.say(f"Left out: {GUEST} (./x uml, and a /usr/bin/python3).")
        del lines[GUEST]
    for line in lines:
        some = [application for application in chosen if is_on(line, application)]
        if not some:
            continue
        for application in some:
            told, results[application, line] = measured(application, line, small, program)
            print(f"  {line}: {told}", flush=True)
            results[application, line, "told"] = told
        report.say(f"\n### {line}\n")
        report.say(f"As measured: {results[some[0], line, 'told']}.")
        show(report, [application for application in some if application != "overhead"], results, line, small)
    conclude(report, chosen, results)
    drawn = [(application, line) for application in chosen for line in lines if (application, line) in results and application != "overhead"]
    groups = [(f"{application}, {line}", {column: median(runs) for column, runs in results[application, line].items()}) for application, line in drawn]
    if groups:
        report.picture("near", plot.bars("The same scripts, near the data and far from it", "seconds (logarithmic, left is faster); one machine is client, servers and line", groups, COLUMNS), "seconds")


def is_on(line, application):
    """A guest is one host, and lanes in a file are the same on every line."""
    if application in IN_FILE or application == "overhead":
        return line == FAR
    return line != GUEST or near_data.HOSTS.get(application, 1) == 1


def median(runs, what="seconds"):
    return statistics.median(run[what] for run in runs)


def beside(one, two):
    """How many times as long one takes as two."""
    if len(one) != len(two):
        return median(one) / median(two)
    return statistics.median(a["seconds"] / b["seconds"] for a, b in zip(one, two))


def plan_times(runs):
    """Milliseconds of planning and setting up on an open connection: the first run may have to make one."""
    return [time for run in runs[1:] or runs for time in run["planned"]]


def show(report, chosen, results, line, small):
    if not chosen:
        return
    times, moved, plans = [], [], []
    for application in chosen:
        cells = results[application, line]
        what = [application, size_told(application, line, small)]
        seconds = {column: median(runs) for column, runs in cells.items()}
        best = next((column for column in (NEARSH, PARALLEL, SERVER) if column in cells), MOUNT)
        ratio = f"{seconds[MOUNT] / seconds[best]:.1f} ({best})" if MOUNT in cells else "-"
        times.append([*what, *(f"{seconds[column]:.2f}" if column in cells else "-" for column in COLUMNS), ratio])
        moved.append([*what, *(f"{median(cells[column], 'moved') / 1e6:.1f}" if column in cells else "-" for column in COLUMNS)])
        planned = plan_times(cells.get(NEARSH, []))
        plans.append([*what, str(len(planned)), f"{statistics.median(planned):.1f}" if planned else "-", f"{max(planned):.1f}" if planned else "-"])
    report.table(["seconds", "data", *COLUMNS, "times bash over the mount"], times)
    report.table(["MB moved", "data", *COLUMNS], moved)
    report.table(["plan and set-up (ms)", "data", "pipelines elsewhere", "median", "most"], plans)


def conclude(report, chosen, results):
    """The targets of nearsh."""
    rows = []
    for line in (FAR, CLOSE):
        for application in (application for application in chosen if (application, line) in results):
            if application == "overhead":
                added = results[application, line]
                rows.append(["a script of which nothing runs elsewhere, added", "<= 5 ms", f"{added['script']:.2f} ms", added["script"] <= 5])
                rows.append(["each of its commands, added", "<= 1 ms", f"{added['command']:.2f} ms", added["command"] <= 1])
                continue
            cells = results[application, line]
            if NEARSH not in cells:
                continue
            planned = plan_times(cells[NEARSH])
            if planned:
                most = statistics.median(planned)
                rows.append([f"{application}, {line}: plan and set-up of a pipeline, median", "<= 10 ms", f"{most:.1f} ms", most <= 10])
            if application in IN_FILE:
                ratio = beside(cells[SERVER], cells[NEARSH])
                rows.append([f"{application}: the server's one to nearsh's lanes", ">= 1.70", f"{ratio:.2f}", ratio >= 1.7])
                continue
            if line == FAR and SERVER in cells:
                ratio = beside(cells[NEARSH], cells[SERVER])
                rows.append([f"{application}, {line}: nearsh to the server", "<= 1.20", f"{ratio:.2f}", ratio <= 1.2])
            if line == FAR and application == "log-grep":
                ratio = beside(cells[MOUNT], cells[NEARSH])
                rows.append([f"{application}, {line}: the mount to nearsh", ">= 12.7", f"{ratio:.1f}", ratio >= 12.7])
            ratio = beside(cells[NEARSH], cells[MOUNT])
            rows.append([f"{application}, {line}: nearsh to the mount", "<= 1.05", f"{ratio:.2f}", ratio <= 1.05])
    if rows:
        report.targets(rows)
