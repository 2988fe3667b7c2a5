"""Which commands test, build or lint, told by their words.

    pytest -q · python -m unittest · npm run test:unit · cargo test · make check · ./gradlew test     -> test
    make · npm run build · cargo build · tsc · gcc -c a.c                                              -> build
    ruff check . · mypy · eslint src · cargo clippy · black --check .                                  -> lint

Wrappers are looked through: `timeout 60 uv run pytest`. What only shows something (`pytest --version`) is no check, and
of one that cannot fail (`flake8 --exit-zero`) a pass says nothing.

Source: the manuals of the tools named here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TEST, BUILD, LINT = "test", "build", "lint"


class Check(NamedTuple):
    """What a command checks. `tool` names it; `can_fail` is False where its exit code is 0 whatever happens."""

    kind: str
    tool: str
    can_fail: bool = True


_KINDS = {
    TEST: """pytest py.test tox nox nosetests nose2 ward behave robot trial stestr jest vitest mocha ava karma tap
        jasmine rspec cucumber phpunit pest ctest bats busted gotestsum ginkgo playwright cypress wtr""",
    BUILD: """tsc vue-tsc gcc g++ cc c++ clang clang++ rustc javac kotlinc ghc ninja webpack rollup esbuild tsup
        msbuild xmake scons""",
    LINT: """flake8 pylint pyflakes pycodestyle pydocstyle mypy pyright basedpyright pytype ty bandit vulture eslint
        oxlint tslint standard xo stylelint svelte-check shellcheck hadolint yamllint markdownlint markdownlint-cli2
        golangci-lint staticcheck rubocop clang-tidy cppcheck ktlint swiftlint ansible-lint actionlint ruff black isort
        prettier biome pre-commit prek luacheck phpstan psalm detekt buf""",
}
_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names.split()}
# tool -> its subcommands; what is not named here is no check
_SUBCOMMANDS: dict[str, dict[str, str]] = {
    "cargo": {"test": TEST, "t": TEST, "nextest": TEST, "build": BUILD, "b": BUILD, "check": BUILD, "c": BUILD,
              "clippy": LINT, "doc": BUILD},
    "go": {"test": TEST, "build": BUILD, "vet": LINT, "install": BUILD},
    "deno": {"test": TEST, "lint": LINT, "check": BUILD, "compile": BUILD},
    "bun": {"test": TEST, "build": BUILD},
    "dotnet": {"test": TEST, "build": BUILD, "publish": BUILD},
    "swift": {"test": TEST, "build": BUILD},
    "zig": {"test": TEST, "build": BUILD},
    "flutter": {"test": TEST, "analyze": LINT, "build": BUILD},
    "dart": {"test": TEST, "analyze": LINT, "compile": BUILD},
    "mix": {"test": TEST, "compile": BUILD, "credo": LINT},
    "stack": {"test": TEST, "build": BUILD},
    "cabal": {"test": TEST, "build": BUILD},
    "sbt": {"test": TEST, "compile": BUILD},
    "lein": {"test": TEST, "compile": BUILD},
    "rails": {"test": TEST, "spec": TEST},
    "meson": {"test": TEST, "compile": BUILD},
    "bazel": {"test": TEST, "build": BUILD},
    "composer": {"test": TEST},
    "hatch": {"test": TEST, "build": BUILD},
    "terraform": {"validate": LINT},
    "vite": {"build": BUILD},
    "next": {"build": BUILD, "lint": LINT},
    "ng": {"test": TEST, "build": BUILD, "lint": LINT},
    "docker": {"build": BUILD},
}  # fmt: skip
_TARGETS = {"make", "gmake", "just", "task", "rake", "nmake", "invoke", "inv"}
_JAVA = {"mvn", "mvnw", "gradle", "gradlew"}
_PACKAGERS = {"npm", "yarn", "pnpm", "bun", "composer"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z|py\Z")
_NAMED = (
    (LINT, re.compile(r"lint|type-?check|types")),
    (TEST, re.compile(r"test|spec|e2e|check\Z|verify|coverage|\bci\b")),
    (BUILD, re.compile(r"build|compile|bundle|dist|\btsc\b")),
)
_SCRIPT = re.compile(r"(?:run[-_]?)?(?:all[-_]?|unit[-_]?|e2e[-_]?)?(?:tests?|specs?|check|ci)(?:\.(?:sh|bash))?\Z")

# wrappers: the command that they run stands behind them and their options
_PREFIXES = """
    env time timeout gtimeout nohup sudo nice ionice stdbuf xvfb-run command builtin unbuffer caffeinate npx bunx pnpx
    uvx pipx dotenv op doppler strace script catchsegv arch setarch chronic
"""
_WRAPPERS = set(_PREFIXES.split())
_RUNNERS = {
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "pdm": ("run",), "rye": ("run",), "hatch": ("run",),
    "conda": ("run",), "mamba": ("run",), "micromamba": ("run",), "pixi": ("run",), "bundle": ("exec",),
    "npm": ("exec", "x"), "pnpm": ("exec", "dlx"), "yarn": ("exec", "dlx"), "bun": ("x",), "mise": ("exec", "x"),
    "direnv": ("exec",), "nix": ("develop", "shell"), "coverage": ("run",), "docker": ("exec", "run", "compose"),
    "docker-compose": ("exec", "run"), "podman": ("exec", "run"), "devbox": ("run",), "asdf": ("exec",),
}  # fmt: skip

_CONTAINERS = {"docker", "docker-compose", "podman"}
_AMOUNT = re.compile(r"[+-]?[\d.]+[smhdkKMG]?\Z")  # of time, of niceness

_SHOWS = {"--version", "-V", "--help", "-h", "--collect-only", "--co", "--listTests", "--list", "-list", "--dry-run"}
_SHOWS |= {"--fixtures", "--setup-plan", "--notest", "--print-config", "--show-settings", "--showConfig", "--watch"}
_SHOWS |= {"--just-print", "--recon", "--init", "--watchAll", "--ui", "--show-files", "--list-tests", "--env-info"}
_CANNOT_FAIL = {"--exit-zero", "--if-present", "--ignore-errors", "--fail-never", "-fn", "--no-fail", "--quit-zero"}
_CANNOT_FAIL |= {"-Dmaven.test.failure.ignore", "-Dmaven.test.failure.ignore=true", "--no-error", "--fail-under=0"}
_CANNOT_FAIL |= {"--suppress-tests-failed", "--no-exit-code", "--exit-0"}
_SKIPS_TESTS = ("-DskipTests", "-Dmaven.test.skip", "--no-run", "-DskipITs")


def check_of(words: list[str], depth: int = 0) -> Check | None:
    """Tell what a simple command checks, or None."""
    if not words or depth > 6:  # noqa: PLR2004 - no one wraps deeper
        return None
    name, rest = words[0].rsplit("/", 1)[-1].removesuffix(".exe").removesuffix(".cmd"), words[1:]
    options = {word for word in rest[: rest.index("--")] if word} if "--" in rest else set(rest)
    wrapped = _unwrapped(name, rest, depth)
    if wrapped is not None:
        return wrapped
    kind = _kind(name, rest)
    if kind is None or options & _SHOWS:
        return None
    if kind == TEST and any(word.startswith(_SKIPS_TESTS) for word in rest):
        kind = BUILD
    can_fail = not (set(rest) & _CANNOT_FAIL) and not (name in _TARGETS and "-i" in options)
    return Check(kind, name, can_fail)


def _unwrapped(name: str, rest: list[str], depth: int) -> Check | None:
    is_wrapper = name in _WRAPPERS or (name in _RUNNERS and any(word in _RUNNERS[name] for word in rest[:3]))
    if _PYTHON.match(name) and "-m" in rest:
        module = rest[rest.index("-m") + 1 :]
        if module[:1] == ["unittest"]:
            return None if set(module) & _SHOWS else Check(TEST, "unittest")
        if module[:1] == ["compileall"] or module[:1] == ["build"] or module[:1] == ["py_compile"]:
            return Check(BUILD, module[0])
        if module[:1] == ["doctest"]:
            return Check(TEST, "doctest")
        return check_of(module, depth + 1)
    if not is_wrapper:
        return None
    if name == "coverage" and "-m" in rest:
        return check_of(["python", *rest[rest.index("-m") :]], depth + 1)
    places = 1 if name in _CONTAINERS else 0  # the container or service that it is run in
    for place, word in enumerate(rest[:12]):
        if word.startswith("-") or "=" in word or _AMOUNT.match(word) or word in _RUNNERS.get(name, ()):
            continue
        found = check_of(rest[place:], depth + 1)
        if found is not None:
            return found
        if place == 0 or not rest[place - 1].startswith("-"):  # what follows an option may be its value
            if not places:
                return None
            places -= 1
    return None


def _kind(name: str, rest: list[str]) -> str | None:
    plain = [word for word in rest if not word.startswith(("-", "+")) and "=" not in word]
    if rest[:1] and rest[0].startswith("-") and len(plain) > 1 and name in {*_PACKAGERS, *_SUBCOMMANDS}:
        plain = plain[1:] if _kind(name, plain[:1]) is None else plain  # the value of an option: npm --prefix web test
    if name in _PACKAGERS:
        found = _of_package(name, plain)
        if found is not None or name not in _SUBCOMMANDS:
            return found
    if name in _SUBCOMMANDS:
        if name == "cargo" and plain[:1] == ["fmt"]:
            return LINT if "--check" in rest else None
        return _SUBCOMMANDS[name].get(plain[0]) if plain else None
    if name in _TARGETS:
        return None if {"-n", "-q", "-p", "-v"} & set(rest) else _of_targets(name, plain)
    if name in _JAVA:
        return _of_java(name, plain, rest)
    if name in _BY_NAME:
        return _of_tool(name, plain, rest)
    return _of_program(name, plain, rest)


def _of_program(name: str, plain: list[str], rest: list[str]) -> str | None:
    if _PYTHON.match(name) and plain:
        file = plain[0].rsplit("/", 1)[-1]
        is_test = file == "runtests.py" or (file in ("manage.py", "setup.py") and plain[1:2] == ["test"])
        return TEST if is_test else None
    if name in ("node", "php"):
        return TEST if "--test" in rest or plain[:2] == ["artisan", "test"] else None
    if name == "cmake":
        return BUILD if "--build" in rest else None
    return None


def _of_package(name: str, plain: list[str]) -> str | None:
    if not plain:
        return None
    verb = plain[0]
    if verb in ("test", "t", "tst"):
        return TEST
    if verb in ("run", "run-script", "workspace") and len(plain) > 1:
        return _named(plain[1] if verb != "workspace" else plain[-1])
    if name in ("yarn", "pnpm"):  # these run a script or a tool by its bare name
        return _named(verb) if verb in ("build", "lint", "typecheck", "check") or ":" in verb else _BY_NAME.get(verb)
    return None


def _of_targets(name: str, plain: list[str]) -> str | None:
    kinds = [_named(target) for target in plain]
    for kind in (TEST, LINT, BUILD):
        if kind in kinds:
            return kind
    if plain and {"install", "clean", "format", "fmt", "run", "dev", "serve", "deploy", "help"} & set(plain):
        return None
    return BUILD if name in ("make", "gmake", "nmake") else None


def _of_java(name: str, plain: list[str], rest: list[str]) -> str | None:
    goals = {goal.rsplit(":", 1)[-1] for goal in plain}
    is_gradle = name.startswith("gradle")
    if is_gradle and "-x" in rest and "test" in rest[rest.index("-x") : rest.index("-x") + 2]:
        return BUILD
    if any(goal.lower().endswith(("test", "tests")) for goal in goals) or goals & {"verify", "check"}:
        return TEST
    if goals & ({"build"} if is_gradle else {"package", "install", "deploy"}):
        return TEST  # both run the tests on their way
    return BUILD if goals & {"assemble", "classes", "compile", "compileJava", "compileKotlin", "jar"} else None


def _of_tool(name: str, plain: list[str], rest: list[str]) -> str | None:
    if name in ("ruff", "biome"):
        if plain[:1] == ["format"]:
            return LINT if {"--check", "--diff"} & set(rest) else None
        return LINT if plain[:1] and plain[0] in ("check", "lint", "ci") else None
    if name in ("black", "isort", "prettier"):
        return LINT if {"--check", "-c", "--check-only", "--list-different", "-l"} & set(rest) else None
    if name in ("pre-commit", "prek"):
        return LINT if plain[:1] == ["run"] else None
    if name in ("playwright", "cypress"):
        return TEST if plain[:1] and plain[0] in ("test", "run") else None
    if name in ("buf", "sqlfluff"):
        return LINT if plain[:1] and plain[0] == "lint" else None
    if name in ("tsc", "vitest") and "-w" in rest:
        return None
    return _BY_NAME[name]


def _named(name: str) -> str | None:
    """Tell what a script or target is for by its name."""
    low = name.lower()
    return next((kind for kind, pattern in _NAMED if pattern.search(low)), None)


def is_test_script(words: list[str]) -> bool:
    """Report whether a script is run that is a test by its name: `./run_tests.sh`, `bash scripts/test`."""
    if not words:
        return False
    is_by_shell = words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh") and len(words) > 1
    path = words[1] if is_by_shell else words[0]
    return ("/" in path or is_by_shell) and _SCRIPT.match(path.rsplit("/", 1)[-1]) is not None
