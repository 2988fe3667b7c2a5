"""`cyberos eval`: the figures, worked out by hand; bad probes; the control that an empty vault must fail."""

from __future__ import annotations

import json

import pytest

from cyberos.cli import probing, recall
from cyberos.cli.main import main
from cyberos.cli.probing import BadProbe, Judged, Probe
from cyberos.core.episode import log
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from support import episode, fact


def add(root, task, **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def write(folder, *probes):
    file = folder / "probes.jsonl"
    file.write_text("".join(json.dumps(probe) + "\n" for probe in probes), encoding="utf-8")
    return str(file)


def evaluated(root, capsys, *arguments):
    code = main(["--store", str(root), "eval", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def vault(tmp_path):
    root = tmp_path / "vault"
    init(root)
    add(root, "rotate the database credentials", tags=["rotation"])
    add(root, "shrink the docker image of the gateway", tags=["image"])
    add(root, "translate the onboarding mails into french", tags=["mail"])
    return root


def test_a_probe_that_is_found_and_one_that_is_not(vault, tmp_path, capsys):
    """Each figure follows from the two answers: one episode found first, one query that shares no word."""
    file = write(
        tmp_path,
        {"query": "rotate the database credentials", "relevant": ["rotation"], "kind": "same"},
        {"query": "kubernetes quotas", "relevant": ["mail"], "kind": "other"},
    )
    code, answer = evaluated(vault, capsys, file)
    same = {"probes": 1, "recall_at_3": 1.0, "mrr": 1.0, "hit": 1, "wrong": 0, "silent": 0}
    other = {"probes": 1, "recall_at_3": 0.0, "mrr": 0.0, "hit": 0, "wrong": 0, "silent": 1}
    both = {"probes": 2, "recall_at_3": 0.5, "mrr": 0.5, "hit": 1, "wrong": 0, "silent": 1}
    assert code == 0
    assert answer["figures"] == {"other": other, "same": same, "all": both}
    assert answer["control"] == {"probes": 2, "recall_at_3": 0.0, "answered": 0, "passed": True}
    assert (answer["probes"], answer["unknown"]) == (2, 0)


def test_a_path_names_an_episode_as_a_tag_does(vault, tmp_path, capsys):
    path = add(vault, "prune the old release branches")
    code, answer = evaluated(
        vault, capsys, write(tmp_path, {"query": "prune the release branches", "relevant": [path]})
    )
    assert (code, answer["figures"]["all"]["hit"]) == (0, 1)


def test_recall_counts_at_most_three_and_a_tag_stands_for_all_who_carry_it(vault, tmp_path, capsys):
    """Four episodes carry the tag, three come back: all that could. One of two gives a half."""
    for number in range(4):
        add(vault, "prune the old release branches", approach=f"way {number}", tags=["prune"])
    add(vault, "paint a shed", tags=["shed"])
    probes = [
        {"query": "prune the old release branches", "relevant": ["prune"], "kind": "four"},
        {"query": "shrink the docker image of the gateway", "relevant": ["image", "shed"], "kind": "two"},
    ]
    figures = evaluated(vault, capsys, write(tmp_path, *probes))[1]["figures"]
    assert (figures["four"]["recall_at_3"], figures["two"]["recall_at_3"]) == (1.0, 0.5)


def test_the_cut_off_decides_between_wrong_and_silent(vault, tmp_path, capsys):
    file = write(tmp_path, {"query": "shrink the docker image of the gateway", "relevant": ["mail"]})
    assert evaluated(vault, capsys, file)[1]["figures"]["all"]["wrong"] == 1
    answer = evaluated(vault, capsys, file, "--min-relevance", "1")[1]
    assert answer["figures"]["all"]["silent"] == 1
    assert answer["min_relevance"] == 1.0


def test_a_fact_is_no_answer(vault, tmp_path, capsys):
    """Only episodes are recalled, so a fact's path is unknown."""
    path, text = fact("the gateway listens on 8080", "gateway")
    Writer(vault, durability="none").put(path, text, actor="agent")
    probes = [{"query": "gateway", "relevant": [path]}, {"query": "shrink the image", "relevant": ["image"]}]
    answer = evaluated(vault, capsys, write(tmp_path, *probes))[1]
    assert (answer["unknown"], answer["figures"]["all"]["probes"]) == (1, 1)


def test_it_asks_what_recall_similar_asks(vault, tmp_path, capsys, monkeypatch):
    """Every question goes through the one `run`, with what the user gave; so any backend is measured."""
    asked = []
    original = recall.run

    def spied(store, args, *rest):
        asked.append((args.task, vars(args).get("backend")))
        return original(store, args, *rest)

    monkeypatch.setattr(recall, "run", spied)
    evaluated(vault, capsys, write(tmp_path, {"query": "docker image", "relevant": ["image"]}), "--backend", "whoosh")
    assert set(asked) == {("docker image", "whoosh")}


def test_an_empty_vault_fails(tmp_path, capsys):
    init(tmp_path / "vault")
    file = write(tmp_path, {"query": "docker image", "relevant": ["image"]})
    assert main(["--store", str(tmp_path / "vault"), "eval", file]) == 1
    assert "holds no episode" in capsys.readouterr().err


def test_an_engine_that_answers_from_an_empty_vault_fails(vault, tmp_path, capsys, monkeypatch):
    """The control is what shows that these perfect figures are none."""
    original = recall.run

    def cheat(store, args, *rest):
        answer = original(vault, args, *rest)
        return answer | {"matches": [{"path": path} for path in wanted]}

    wanted = [add(vault, "paint a shed", tags=["shed"])]
    monkeypatch.setattr(recall, "run", cheat)
    file = write(tmp_path, {"query": "zzz", "relevant": ["shed"]})
    code, answer = evaluated(vault, capsys, file)
    assert answer["figures"]["all"]["recall_at_3"] == 1.0
    assert (code, answer["control"]["passed"]) == (1, False)
    assert main(["--store", str(vault), "eval", file]) == 1
    assert "control FAILED" in capsys.readouterr().out


def test_probes_that_name_nothing_measure_nothing(vault, tmp_path, capsys):
    assert main(["--store", str(vault), "eval", write(tmp_path, {"query": "docker", "relevant": ["typo"]})]) == 1
    assert "no probe names an episode" in capsys.readouterr().err


def test_self_makes_probes_of_what_was_done_twice(vault, capsys):
    assert main(["--store", str(vault), "eval", "--self"]) == 1
    assert "no task of this vault stands in two episodes" in capsys.readouterr().err
    for approach in ("by hand", "with a script"):
        add(vault, "prune the old release branches", approach=approach)
    code, answer = evaluated(vault, capsys, "--self")
    assert (code, answer["probes"], answer["figures"]["all"]["recall_at_3"]) == (0, 1, 1.0)


def test_repeats_come_oftenest_first_and_bounded():
    episodes = [("a1", {"task": "a"}), ("b2", {"task": "b"}), ("b1", {"task": "b"}), ("c", {"task": "c"})]
    episodes += [("a2", {"task": "a"}), ("a3", {"task": "a"})]
    assert probing.repeats(episodes, 9) == [
        Probe("a", ("a1", "a2", "a3"), probing.REPEATS),
        Probe("b", ("b1", "b2"), probing.REPEATS),
    ]
    assert [probe.query for probe in probing.repeats(episodes, 1)] == ["a"]


def test_figures_are_means_and_counts():
    judged = [Judged("x", 1.0, 1.0, "hit"), Judged("x", 0.0, 0.25, "silent"), Judged("y", 0.5, 0.5, "wrong")]
    found = probing.figures(judged)
    assert list(found) == ["x", "y", "all"]
    assert found["x"] == {"probes": 2, "recall_at_3": 0.5, "mrr": 0.625, "hit": 1, "wrong": 0, "silent": 1}
    assert found["all"]["mrr"] == 0.583


GOOD = b'{"query": "q", "relevant": ["t"]}\n'
BAD = {
    "no json": (b"{query}", "not JSON"),
    "a list": (b"[1]", "no JSON object"),
    "no query": (b'{"relevant": ["t"]}', "`query`"),
    "a blank query": (b'{"query": " ", "relevant": ["t"]}', "`query`"),
    "no relevant": (b'{"query": "q"}', "`relevant`"),
    "an empty relevant": (b'{"query": "q", "relevant": []}', "`relevant`"),
    "a relevant that is no list": (b'{"query": "q", "relevant": "t"}', "`relevant`"),
    "a number among the relevant": (b'{"query": "q", "relevant": [1]}', "`relevant`"),
    "a kind that is no text": (b'{"query": "q", "relevant": ["t"], "kind": 1}', "`kind`"),
    "an unknown key": (b'{"query": "q", "relevant": ["t"], "relevent": []}', "'relevent'"),
    "a key twice": (b'{"query": "q", "query": "r", "relevant": ["t"]}', "not JSON"),
    "not utf-8": (b'{"query": "\xff"}', "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_probe_is_named_by_its_line(name):
    line, message = BAD[name]
    with pytest.raises(BadProbe, match="^mine:3: ") as caught:
        probing.parse(GOOD + b"\n" + line + b"\n" + GOOD, "mine")
    assert message in str(caught.value)


def test_blank_lines_a_mark_and_crlf_are_read():
    assert probing.parse(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n") + b"\n", "mine") == [Probe("q", ("t",))]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of them"),
        (["x.jsonl", "--self"], "one of them"),
        (["absent.jsonl"], "cannot read absent.jsonl"),
        (["--self", "--min-relevance", "2"], "a number from 0 to 1"),
        (["--self", "--backend", "grep"], "grep"),
    ],
)
def test_usage(vault, capsys, arguments, said):
    for approach in ("by hand", "with a script"):
        add(vault, "prune the old release branches", approach=approach)
    assert main(["--store", str(vault), "eval", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_file_of_probes_is_an_error(vault, tmp_path, capsys):
    assert main(["--store", str(vault), "eval", write(tmp_path)]) == 1
    assert "holds no probe" in capsys.readouterr().err


def test_the_table(vault, tmp_path, capsys):
    """One line a kind, the whole last, and the control in words."""
    file = write(tmp_path, {"query": "docker image of the gateway", "relevant": ["image"]})
    assert main(["--store", str(vault), "eval", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 probe, asked of ")
    assert lines[-1] == "control: an empty vault answers none of 1 probe"
    assert [line.split() for line in lines if line.startswith("all")] == [["all", "1", "1.000", "1.000", "1", "0", "0"]]
