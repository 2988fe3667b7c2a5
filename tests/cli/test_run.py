"""`cyberos run`: real commands in real processes, and what the vault holds afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cyberos.cli.run import spelled, verdict
from cyberos.core import frontmatter
from cyberos.core.lock import lock
from cyberos.record.process import Ended
from support import check, rows

TOKEN = "ghp_" + "0123456789abcdefghij0123456789abcdef"
CYBEROS = (sys.executable, "-m", "cyberos")


@pytest.fixture(autouse=True)
def heard():
    """Hear SIGINT as a terminal's processes do, also where the tests were begun in the background, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(root, *arguments, **options):
    return subprocess.Popen(
        [*CYBEROS, "--store", str(root), "run", "--task", "ship it", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def run(root, *arguments, stdin=b"", **options):
    """Give exit code, stdout and stderr of a run, as bytes."""
    child = start(root, *arguments, stdin=subprocess.PIPE, **options)
    out, err = child.communicate(stdin)
    return child.returncode, out, err


def episodes(root):
    found = sorted((root / "memories/episodes").rglob("*.md"), key=lambda file: file.stat().st_mtime_ns)
    return [frontmatter.parse(file.read_text(encoding="utf-8")).frontmatter for file in found]


def the_episode(root):
    check(root, is_settled=False)
    [found] = episodes(root)
    return found


def test_a_success_is_verified_by_its_exit_code(root):
    code, out, err = run(root, "--approach", "as planned", "--", "sh", "-c", "echo done")
    assert (code, out) == (0, b"done\n")
    assert err.startswith(b"logged memories/episodes/")
    found = the_episode(root)
    assert found.pop("duration_ms") >= 0
    assert found == {
        "kind": "episode",
        "task": "ship it",
        "approach": "as planned",
        "outcome": "success",
        "evidence": "exit_code",
        "evidence_ref": "sh -c 'echo done' -> exit 0",
    }


def test_without_an_approach_it_is_the_command(root):
    run(root, "--", "true", "a b")
    assert the_episode(root)["approach"] == "true 'a b'"


def test_options_of_the_command_are_its_own_even_without_the_dashes(root):
    code, out, _ = run(root, "sh", "-c", "echo --task $0", "--timeout")
    assert (code, out) == (0, b"--task --timeout\n")


def test_a_failure_keeps_the_last_lines_of_both_outputs(root):
    source = "for i in $(seq 1 100); do echo line $i; done; echo broken >&2; exit 3"
    code, out, err = run(root, "--", "sh", "-c", source)
    assert code == 3
    assert out == b"".join(b"line %d\n" % number for number in range(1, 101))
    assert err.startswith(b"broken\n")
    found = the_episode(root)
    assert found["outcome"] == "failure"
    assert found["error"].splitlines()[0] == "exit code 3"
    assert found["error"].splitlines()[-2:] == ["line 100", "broken"]
    assert "line 50\n" not in found["error"]


def test_every_byte_passes_both_ways(root):
    blob = bytes(range(256)) * 4096
    code, out, _ = run(root, "--", "cat", stdin=blob)
    assert (code, out == blob) == (0, True)


def test_the_error_is_readable_text_whatever_the_bytes(root):
    source = r"printf 'old\rnew\n\033[31mred\033[0m\n\377\000\007end'; exit 1"
    run(root, "--", "sh", "-c", source)
    assert the_episode(root)["error"] == "exit code 1\nnew\nred\n\ufffdend"


def test_an_output_larger_than_memory_would_bear_is_passed_on_and_not_kept(root):
    source = "import sys; [sys.stdout.write('x' * 1_000_000) for _ in range(200)]; sys.exit(1)"
    limit = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20,) * 2); os.execv(sys.argv[1], sys.argv[1:])"
    command = [*CYBEROS, "--store", str(root), "run", "--task", "t", "--", sys.executable, "-c", source]
    child = subprocess.Popen([sys.executable, "-c", limit, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    count = 0
    while blob := child.stdout.read(1 << 20):
        count += len(blob)
    child.stdout.close()
    assert (child.wait(), count) == (1, 200_000_000)
    assert len(the_episode(root)["error"]) < 2_100


def test_credentials_are_redacted_everywhere_and_a_row_says_so(root):
    source = f"echo {TOKEN}; exit 1"
    code, out, err = run(root, "--tag", TOKEN, "--", "sh", "-c", source)
    assert (code, out) == (1, TOKEN.encode() + b"\n"), "the output itself is not ours to change"
    assert b"a credential (github-token) was redacted from error" in err
    assert TOKEN not in json.dumps(the_episode(root))
    told = {row["payload"]["field"] for row in rows(root) if row["kind"] == "secret.redacted"}
    assert told == {"approach", "evidence_ref", "error", "tags/0"}
    assert TOKEN.encode() not in b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        (["no-such-command"], 127, "could not start: no-such-command: command not found"),
        (["./no/such"], 127, "could not start: ./no/such: command not found"),
        (["./plain"], 126, "could not start: ./plain: Permission denied"),
        (["./folder"], 126, "could not start: ./folder: Permission denied"),
        (["./data"], 126, "could not start: ./data: Exec format error"),
        (["./lost"], 126, "could not start: ./lost: its interpreter, or the current folder, is gone"),
    ],
)
def test_a_command_that_cannot_start_is_a_failure_and_logged(root, tmp_path, command, code, error):
    (tmp_path / "plain").write_text("echo x")
    (tmp_path / "folder").mkdir()
    for name, text in (("data", "no program"), ("lost", "#!/no/such/interpreter\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert run(root, "--", *command, cwd=tmp_path)[0] == code
    found = the_episode(root)
    assert (found["outcome"], found["error"]) == ("failure", error)
    assert "ended" not in found


@pytest.mark.parametrize(
    ("number", "ended"), [("KILL", None), ("SEGV", None), ("TERM", "abandoned"), ("INT", "abandoned")]
)
def test_a_command_that_a_signal_kills(root, number, ended):
    code, _, _ = run(root, "--", "sh", "-c", f"kill -{number} $$")
    assert code == 128 + getattr(signal, f"SIG{number}")
    found = the_episode(root)
    assert (found["outcome"], found["error"], found.get("ended")) == ("failure", f"killed by SIG{number}", ended)
    assert found["evidence_ref"].endswith(f"-> exit {code} (killed by SIG{number})")


def test_partial_codes_are_named(root):
    assert run(root, "--partial-on", "5", "--partial-on", "6", "--", "sh", "-c", "echo 2 skipped; exit 6")[0] == 6
    found = the_episode(root)
    assert (found["outcome"], found["error"]) == ("partial", "exit code 6\n2 skipped")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="asks /proc whether a process is there")
@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_time_out_ends_the_command_and_its_children(root, trap, monkeypatch):
    monkeypatch.setenv("CYBEROS_LOCK_WAIT", "1")
    source = f"{trap}sleep 300 & echo $!; sleep 300"
    hurry = "import cyberos.record.process as p; p.GRACE_S = 0.2; from cyberos.cli.main import main; import sys; sys.exit(main())"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            hurry,
            "--store",
            str(root),
            "run",
            "--task",
            "t",
            "--timeout",
            "0.3s",
            "--",
            "sh",
            "-c",
            source,
        ],
        capture_output=True,
    )
    assert done.returncode == 124
    child = int(done.stdout)
    for _ in range(100):
        if not is_alive(child):
            break
        time.sleep(0.02)
    assert not is_alive(child)
    assert the_episode(root)["error"].startswith("timed out after 0.3 s\n")
    assert the_episode(root)["outcome"] == "failure"


def test_a_child_that_outlives_the_command_does_not_hold_us(root):
    code, out, _ = run(root, "--", "sh", "-c", "sleep 30 & echo $!")
    os.kill(int(out), signal.SIGKILL)
    assert code == 0


def test_signals_are_handed_on_and_the_episode_is_logged(root):
    child = start(root, "--", "sh", "-c", "trap 'echo stopping; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate()
    assert (child.returncode, out) == (7, b"stopping\n")
    assert b"logged" in err
    assert the_episode(root)["evidence_ref"].endswith("-> exit 7")


def test_a_reader_that_goes_is_the_commands_own_broken_pipe(root):
    child = start(root, "--", "sh", "-c", "while echo y; do :; done", stderr=subprocess.DEVNULL)
    child.stdout.read(10)
    child.stdout.close()
    assert child.wait() in (1, 128 + signal.SIGPIPE)
    assert the_episode(root)["outcome"] == "failure"


def test_both_outputs_into_one_file_keep_their_order(root, tmp_path):
    source = "for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done"
    with open(tmp_path / "both", "wb") as both:
        child = start(root, "--", "sh", "-c", source, stdout=both, stderr=subprocess.STDOUT)
        assert child.wait() == 0
    lines = (tmp_path / "both").read_text().splitlines()
    assert lines[:-1] == [f"{name} {number}" for number in range(1, 9) for name in ("out", "err")]


IN_TERMINAL = """
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 34, 0, 0))
    os.execv(sys.executable, [sys.executable, "-m", "cyberos", *sys.argv[2:]])
shown = b""
while True:
    try:
        blob = os.read(terminal, 4096)
    except OSError:
        break
    if not blob:
        break
    shown += blob
    if sys.argv[1] and b"ready" in shown:
        os.write(terminal, sys.argv[1].encode())
        sys.argv[1] = ""
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown)
"""


def in_terminal(root, typed, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", IN_TERMINAL, typed, "--store", str(root), "run", "--task", "t", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    code, _, shown = done.stdout.partition(" ")
    return int(code), shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_on_a_terminal_the_command_sees_one_of_the_same_size(root):
    source = "import os; print(os.isatty(0), os.isatty(1), os.isatty(2), os.get_terminal_size(1)[:])"
    code, shown = in_terminal(root, "", "--", sys.executable, "-c", source)
    assert code == 0
    assert "True True True (34, 12)" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
@pytest.mark.parametrize("options", [[], ["--timeout", "50"]])
def test_what_is_typed_reaches_the_command(root, options):
    code, shown = in_terminal(root, "hello\n", *options, "--", "sh", "-c", "echo ready; read word; echo got $word")
    assert (code, "got hello" in shown) == (0, True)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
@pytest.mark.parametrize("options", [[], ["--timeout", "50"]])
def test_ctrl_c_reaches_the_command_once_and_the_run_is_abandoned(root, options):
    source = (
        "import signal, time, sys\n"
        "count = []\n"
        "signal.signal(signal.SIGINT, lambda *_: count.append(1))\n"
        "print('ready', flush=True)\n"
        "time.sleep(0.5)\n"
        "time.sleep(0.5)\n"
        "print('count', len(count), flush=True)\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL); signal.raise_signal(signal.SIGINT)\n"
    )
    code, shown = in_terminal(root, "\x03", *options, "--", sys.executable, "-c", source)
    assert code == 130
    assert "count 1" in shown
    assert the_episode(root)["ended"] == "abandoned"


# --- the vault ------------------------------------------------------------------------------------------------------


def test_without_a_vault_nothing_runs(tmp_path):
    code, _, err = run(tmp_path / "none", "--", "touch", str(tmp_path / "ran"))
    assert code == 2
    assert b"no vault" in err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("wrong", [["--approach", " "], ["--actor", "Not An Actor"], ["--timeout", "soon"]])
def test_what_could_not_be_logged_is_refused_before_anything_runs(root, tmp_path, wrong):
    code, _, _ = run(root, *wrong, "--", "touch", str(tmp_path / "ran"))
    assert code in (1, 2)
    assert not (tmp_path / "ran").exists()
    assert episodes(root) == []


def test_a_locked_vault_loses_neither_the_exit_code_nor_the_episode(root, monkeypatch):
    monkeypatch.setenv("CYBEROS_LOCK_WAIT", "0")
    with lock(str(root / ".cyberos/lock"), 1):
        code, out, err = run(root, "--", "sh", "-c", "echo done; exit 4")
    assert (code, out) == (4, b"done\n")
    assert b"not logged" in err
    line = err.splitlines()[-1]
    logged = subprocess.run(
        [*CYBEROS, "--store", str(root), "episode", "log", "--from-json", "-"], input=line, capture_output=True
    )
    assert (logged.returncode, the_episode(root)["evidence_ref"]) == (0, "sh -c 'echo done; exit 4' -> exit 4")


def test_a_vault_that_goes_meanwhile_does_not_lose_the_exit_code(root):
    code, _, err = run(root, "--", "rm", "-r", str(root / "audit"))
    assert code == 0
    assert b"not logged" in err


# --- what the end decides -------------------------------------------------------------------------------------------


def test_the_outcome_is_decided_by_the_code_alone():
    told = {code: verdict(("x",), Ended(code, f"exit code {code}", 5), (2,))["outcome"] for code in (0, 1, 2, 255)}
    assert told == {0: "success", 1: "failure", 2: "partial", 255: "failure"}


def test_a_long_command_is_cut_and_stays_on_one_line():
    assert spelled(("sh", "-c", "a\nb")) == "sh -c 'a b'"
    assert len(spelled(("x" * 1000,))) == 400
