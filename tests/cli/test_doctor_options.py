"""Which options of `cyberos doctor` go together: those that do are honoured, the others are refused before any work."""

import pytest

from cyberos.cli.main import main
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from support import episode


@pytest.fixture
def bent(root, monkeypatch):
    """Give a vault with an episode that `--fix` can put right; go there."""
    path = root / log(Writer(root), episode("ship it"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.chdir(root)
    return path


def test_diff_exits_as_the_findings_say_unless_told_otherwise(bent, capsys):
    assert main(["doctor", "--diff"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("--- a/memories/episodes/")
    assert main(["doctor", "--diff", "--exit-zero"]) == 0
    assert capsys.readouterr().out == shown
    assert main(["doctor", "--diff", "--format", "text"]) == 1
    assert capsys.readouterr().out == shown
    assert main(["doctor", "--diff", "--fix"]) == 1
    assert capsys.readouterr().out == shown
    assert b"\r\n" in bent.read_bytes()


def test_diff_shows_what_the_chosen_rules_would_have_mended(bent, capsys):
    assert main(["doctor", "--diff", "--select", "text-encoding"]) == 1
    assert main(["doctor", "--diff", "--ignore", "text-encoding,memory-modified"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--diff", "--json"], "--diff"),
        (["--diff", "--format", "sarif"], "--diff"),
        (["--diff", "--format", "github"], "--diff"),
        (["--diff", "--statistics"], "--diff"),
        (["--diff", "--staged"], "--staged"),
        (["--fix", "--staged"], "--staged"),
        (["memories", "--staged"], "--staged"),
        (["--statistics", "--format", "junit"], "--statistics"),
        (["--statistics", "--format", "github"], "--statistics"),
        (["--explain", "memory-missing", "--format", "sarif"], "--explain"),
        (["--explain", "memory-missing", "--staged"], "--explain does not go with --staged"),
        (["--explain", "memory-missing", "--fix"], "--explain does not go with --fix"),
        (["--explain", "memory-missing", "--diff"], "--explain does not go with --diff"),
        (["--explain", "memory-missing", "--exit-zero"], "--explain does not go with --exit-zero"),
        (["--explain", "memory-missing", "--select", "memory-missing"], "--explain does not go with --select"),
        (["--explain", "memory-missing", "--statistics"], "--explain does not go with --statistics"),
        (["--explain", "memory-missing", "memories"], "--explain does not go with FILES"),
    ],
    ids=" ".join,
)
def test_options_that_mean_nothing_together_are_refused(bent, capsys, options, said):
    before = bent.read_bytes()
    assert main(["doctor", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert bent.read_bytes() == before


def test_the_vaults_own_format_is_no_word_against_diff(bent, capsys, root):
    (root / "cyberos.toml").write_text('output_format = "json"\n')
    assert main(["doctor", "--diff"]) == 1
    assert capsys.readouterr().out.startswith("--- a/memories/episodes/")


def test_fix_reports_in_any_format(bent, capsys):
    assert main(["doctor", "--fix", "--json"]) == 0
    assert '"errors": 0' in capsys.readouterr().out
