"""Whose exit code it is: command lines with what may, and what must not, be told from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.record import checks, shell
from cyberos.record.checks import check_of
from cyberos.record.marks import marks
from cyberos.record.tools import bare
from cyberos.record.transcript import Command


def seen(text: str, code: int | None = 0, output: str = "", state: str = "done") -> list[tuple[str, str]]:
    found = marks(Command(text, exit_code=code, output=output, state=state))
    return [(mark.kind or "edit", mark.status) for mark in found]


def status(text: str, code: int | None = 0, output: str = "", state: str = "done") -> str:
    found = [status for kind, status in seen(text, code, output, state) if kind != "edit"]
    assert len(found) == 1, (text, found)
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        "pytest",
        "cd src && pytest -q",
        "cd src; pytest -q",
        "cd src\npytest -q",
        "FOO=1 BAR='a b' pytest -q",
        "env FOO=1 pytest",
        "timeout 60 uv run pytest -q",
        "uv run --with x python -m pytest tests/test_a.py::test_b",
        "poetry run python -m pytest",
        "python3.12 -m unittest discover -s tests",
        ".venv/bin/pytest -q 2>&1",
        "pytest -q > /tmp/out.txt 2>&1",
        "pytest && echo ok",
        "pytest || exit 1",
        "pytest || exit 1; echo fine",
        "set -e; pytest; echo done",
        "set -euo pipefail\npytest -q | tail -5",
        "bash -lc 'cd /x && pytest -q'",
        "bash -e -c 'pytest; echo done'",
        "(cd src && pytest)",
        "{ pytest; }",
        "pytest | tail; exit ${PIPESTATUS[0]}",
        "pytest -q > log.txt; rc=$?; tail log.txt; exit $rc",
        "echo start; pytest",
        "npm test",
        "npm run test:unit -- --run",
        "npm --prefix web test",
        "CI=1 yarn test --watchAll=false",
        "pnpm --filter app test",
        "pnpm vitest run",
        "npx jest src/a.test.ts",
        "bun test",
        "cargo test --all",
        "cargo +nightly nextest run",
        "go test ./...",
        "make -j4 check",
        "./gradlew test",
        "mvn -q verify",
        "dotnet test",
        "tox -e py312",
        "nox -s tests",
        "python manage.py test app",
        "bundle exec rspec",
        "docker compose exec -T web pytest -q",
        "./run_tests.sh",
        "bash scripts/test",
        "node --test",
        "coverage run -m pytest",
        "cat input | pytest -q",
    ],
)
def test_a_test_whose_exit_code_it_is_passes(text):
    assert seen(text)[-1] == ("test", "passed")
    assert seen(text, 1)[-1] == ("test", "failed")


@pytest.mark.parametrize(
    "text",
    [
        "pytest | tail -5",
        "pytest 2>&1 | tee out.log",
        "pytest || true",
        "pytest || :",
        "pytest || echo failed",
        "pytest; echo done",
        "pytest; true",
        "pytest\nls",
        "pytest; exit 0",
        "pytest &",
        "pytest & sleep 1",
        "true || pytest",
        "true || (echo; pytest)",
        "if pytest; then echo ok; fi",
        "for i in 1 2; do pytest; done",
        "while ! pytest; do sleep 1; done",
        "! pytest",
        "pytest() { true; }; pytest",
        "alias pytest=true; pytest",
        "trap 'exit 0' EXIT; pytest",
        "exit 0; pytest",
        "eval pytest",
        "bash -c 'pytest; true'",
        "bash -c 'pytest | cat'",
        "bash -c pytest | tail",
        "bash -c pytest || true",
        "pytest | tail; exit ${PIPESTATUS[1]}",
        "pytest -q; rc=0; exit $rc",
        "set +e; pytest; echo done",
        "set -e; pytest | tail",
        "set -e; pytest || true",
        "set -e; pytest && true; echo x",
        "flake8 --exit-zero",
        "npm test --if-present",
        "make -i test",
        "mvn -Dmaven.test.failure.ignore=true test",
        "pytest 'unclosed",
    ],
)
def test_an_exit_code_that_cannot_be_the_checks_verifies_nothing(text):
    assert all(found == "unknown" for kind, found in seen(text) if kind != "edit")


@pytest.mark.parametrize(
    "text",
    ["echo pytest", "which pytest", "grep -r pytest .", "pip install pytest", "cat tests/test_a.py", "pytest --version",
     "pytest --collect-only -q", "man make", "git commit -m 'pytest passes'", "[ -f pytest ]", "test -f x", "ls tests",
     "python test_a.py", "python -c 'print(1)'", "npm install", "npm ci", "ruff format .", "black .", "make -n test",
     "make clean", "cargo run", "go run .", "bun run dev", "npm start", "vitest --watch", "sudo apt install make"],
)  # fmt: skip
def test_what_is_no_check(text):
    assert [kind for kind, _ in seen(text) if kind != "edit"] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ruff check .", "lint"),
        ("ruff format --check .", "lint"),
        ("mypy", "lint"),
        ("npx eslint src --max-warnings 0", "lint"),
        ("npx tsc --noEmit", "build"),
        ("cargo clippy -- -D warnings", "lint"),
        ("cargo build --release", "build"),
        ("go vet ./...", "lint"),
        ("make", "build"),
        ("npm run build", "build"),
        ("npm run lint", "lint"),
        ("yarn typecheck", "lint"),
        ("black --check .", "lint"),
        ("pre-commit run --all-files", "lint"),
        ("./gradlew build -x test", "build"),
        ("mvn package -DskipTests", "build"),
        ("cargo test --no-run", "build"),
        ("cmake --build build", "build"),
        ("gcc -o a a.c", "build"),
    ],
)
def test_builds_and_lints_are_told_apart(text, kind):
    assert seen(text) == [(kind, "passed")]


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        ("pytest", 127, "bash: pytest: command not found"),
        ("pytest", 126, ""),
        ("timeout 5 pytest", 124, ""),
        ("pytest", 137, "Killed"),
        ("pytest", -9, ""),
        ("pytest", 5, "no tests ran in 0.01s"),
        ("pytest", 4, "ERROR: file or directory not found: x"),
        ("python -m pytest", 1, "/usr/bin/python: No module named pytest"),
        ("make test", 2, "make: *** No rule to make target 'test'.  Stop."),
        ("npm test", 1, 'npm error Missing script: "test"'),
        ("npm test", 1, "Error: no test specified"),
        ("cd nowhere && pytest", 1, "bash: cd: nowhere: No such file or directory"),
        ("pip install -e . && pytest", 1, "ERROR: no matching distribution"),
        ("pytest && git push", 1, "3 passed in 0.1s\nrejected"),
        ("pytest", 0, "FAILED (failures=1)"),
        ("pytest", 0, "== 1 failed, 2 passed in 0.1s =="),
        ("python -m unittest", 0, "Ran 0 tests in 0.000s\n\nOK"),
        ("npx jest --passWithNoTests", 0, "No tests found, exiting with code 0"),
        ("go test ./...", 0, "?   \texample.org/a\t[no test files]"),
        ("cargo test", 0, "running 0 tests\n\ntest result: ok. 0 passed; 0 failed"),
        ("pytest", None, "3 passed in 0.1s"),
    ],
)  # fmt: skip
def test_a_check_that_did_not_say_anything_is_unknown(text, code, output):
    assert status(text, code, output) == "unknown"


@pytest.mark.parametrize("state", ["running", "background", "interrupted", "refused"])
def test_a_check_without_an_end_is_unknown(state):
    assert status("pytest", 0, state=state) == "unknown"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("pytest -q | tail -3", "FAILED a.py::b\n1 failed, 2 passed in 0.12s"),
        ("cargo test | tail", "test result: FAILED. 1 passed; 1 failed;"),
        ("npm test || true", "Tests:       1 failed, 3 passed, 4 total"),
        ("go test ./... ; echo done", "--- FAIL: TestA (0.00s)\nFAIL\texample.org/a\t0.01s"),
        ("npx vitest run | cat", "\x1b[31m Tests \x1b[39m 2 failed | 3 passed (5)"),
        ("make test; true", "make: *** [Makefile:3: test] Error 1"),
    ],
)
def test_what_a_check_printed_may_say_that_it_failed(text, output):
    assert status(text, 0, output) == "failed"


def test_what_comes_behind_and_may_fail_leaves_a_failure_open():
    assert status("pytest && git commit -m x") == "passed"
    assert status("pytest && git commit -m x", 1) == "unknown"


def test_of_two_checks_of_a_line_the_code_is_both_when_it_is_0():
    assert seen("ruff check . && pytest") == [("lint", "passed"), ("test", "passed")]
    assert seen("ruff check .; pytest") == [("lint", "unknown"), ("test", "passed")]


@pytest.mark.parametrize(
    ("text", "is_edit"),
    [
        ("sed -i s/a/b/ x.py", True),
        ("sed -n 1,5p x.py", False),
        ("perl -pi -e s/a/b/ x.py", True),
        ("cat > x.py <<'EOF'\npytest\nEOF", True),
        ("cat <<'EOF' >> x.py\n$(x\nEOF\nls", True),
        ("echo x > /dev/null", False),
        ("ls > /tmp/out", False),
        ("ls 2>&1", False),
        ("tee x.py < y", True),
        ("git apply fix.patch", True),
        ("git checkout -- .", True),
        ("git checkout -b new", False),
        ("git stash", True),
        ("git stash list", False),
        ("git reset --hard", True),
        ("git status", False),
        ("git commit -am x", False),
        ("mv a b", True),
        ("rm -rf src/a", True),
        ("rm -rf __pycache__ /tmp/x", False),
        ("black .", True),
        ("ruff check --fix .", True),
        ("npx prettier --write .", True),
        ("cargo fmt", True),
        ("apply_patch <<'EOF'\n*** Begin Patch\nEOF", True),
        ("python - <<'EOF'\nopen('a', 'w').write('x')\nEOF", True),
        ("python -c \"print(open('a').read())\"", False),
        ("bash -lc 'sed -i s/a/b/ x.py'", True),
        ("find . -name '*.py' | xargs sed -i s/a/b/", True),
        ("cat x.py", False),
    ],
)
def test_what_changes_files(text, is_edit):
    assert (("edit", "") in seen(text)) is is_edit


def test_a_change_and_a_check_of_one_line_stand_in_order():
    assert seen("sed -i s/a/b/ x.py && pytest -q") == [("edit", ""), ("test", "passed")]
    assert seen("pytest -q && git checkout .") == [("test", "passed"), ("edit", "")]
    assert seen("ruff check --fix .") == [("edit", ""), ("lint", "passed")]
    assert seen("pytest -q | tee out.txt") == [("test", "unknown")]


def test_a_shell_around_a_command_is_taken_away():
    assert bare("/bin/bash -lc 'make test'") == "make test"
    assert bare("bash run.sh") == "bash run.sh"
    assert bare("bash -lc 'unclosed") == "bash -lc 'unclosed"


@given(st.text(alphabet="ab '\"\\$(){}|&;<>!\n\t#=`-", max_size=60))
def test_any_line_is_read(text):
    line = shell.parse(text)
    assert all(part.words or part.settings or part.writes for each in line.pipelines for part in each.parts)
    marks(Command(text, exit_code=0, state="done"))


@given(
    st.lists(
        st.sampled_from(
            ["uv", "run", "pytest", "-m", "python", "npm", "exec", "--", "make", "-i", "go", "test", "timeout"]
        ),
        max_size=9,
    )
)
def test_any_words_are_told(words):
    found = check_of(words)
    assert found is None or found.kind in (checks.TEST, checks.BUILD, checks.LINT)


def test_a_line_that_goes_deep_is_opaque_and_no_crash():
    text = "pytest"
    for _ in range(8):
        text = f"bash -c {__import__('shlex').quote(text)}"
    assert shell.parse(text).is_opaque
    assert shell.parse("(" * 5_000 + "pytest").pipelines[0].parts[0].words == ["pytest"]
