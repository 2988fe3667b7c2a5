"""What a CI job compares with: each service's variables, a real repository and the clone that such a job has."""

import re
import shlex
import subprocess

import pytest

from cyberos.doctor import ci
from cyberos.doctor.examination import examine
from doctor.test_git import BOTH, rewrite
from support import Repo, git

# what each service sets in a job for a pull request into `main`, as its documentation has it
PULL = {
    "GitHub Actions": {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main"},
    "GitLab CI": {"CI": "true", "GITLAB_CI": "true", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"},
    "Bitbucket Pipelines": {"CI": "true", "BITBUCKET_BUILD_NUMBER": "7", "BITBUCKET_PR_DESTINATION_BRANCH": "main"},
    "Azure Pipelines": {"TF_BUILD": "True", "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main"},
    "Jenkins": {"JENKINS_URL": "http://localhost:8080/", "CHANGE_TARGET": "main"},
    "Buildkite": {"CI": "true", "BUILDKITE": "true", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"},
    "Drone": {"CI": "true", "DRONE": "true", "DRONE_PULL_REQUEST": "12", "DRONE_TARGET_BRANCH": "main"},
    "Woodpecker": {"CI": "woodpecker", "CI_PIPELINE_NUMBER": "7", "CI_COMMIT_TARGET_BRANCH": "main"},
    "Travis CI": {"CI": "true", "TRAVIS": "true", "TRAVIS_PULL_REQUEST": "12", "TRAVIS_BRANCH": "main"},
    "AppVeyor": {
        "CI": "True",
        "APPVEYOR": "True",
        "APPVEYOR_PULL_REQUEST_NUMBER": "12",
        "APPVEYOR_REPO_BRANCH": "main",
    },
    "Cirrus CI": {"CI": "true", "CIRRUS_CI": "true", "CIRRUS_BASE_BRANCH": "main"},
    "AWS CodeBuild": {"CODEBUILD_BUILD_ID": "x:7", "CODEBUILD_WEBHOOK_BASE_REF": "refs/heads/main"},
}
# and in one for a push
PUSH = {
    "GitHub Actions": {"GITHUB_BASE_REF": ""},
    "Buildkite": {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": ""},
    "Drone": {"DRONE_PULL_REQUEST": ""},
    "Travis CI": {"TRAVIS_PULL_REQUEST": "false"},
    "AppVeyor": {"APPVEYOR_PULL_REQUEST_NUMBER": ""},
}


def found(repo):
    """Give the rules that the clone breaks, info aside."""
    report = examine(repo.root, anchor="auto", is_full=ci.runs_us())
    return {one.rule for one in report.findings if one.severity != "info"}


def sets(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def before(repo, tmp_path):
    """Give the clone of a repository whose `main` has logged; on the branch `work` the same was logged otherwise.

    Nothing below `work` tells that: only `main`, as it was before, does.
    """
    repo.log("early", 2)
    repo.commit("early")
    git(tmp_path, "clone", "-q", str(repo.top), "job")
    clone = Repo(tmp_path / "job")
    clone.git("checkout", "-q", "-b", "work", "--no-track")
    rewrite(clone, "wrote it", "stole it")
    clone.git("reset", "-q", "--soft", "HEAD~1")
    clone.git("branch", "-q", "-D", "main")
    clone.commit("as if it had always been so")
    return clone


def test_each_service_is_tested():
    assert {service.name for service in ci.SERVICES} == set(PULL)
    assert {service.name for service in ci.SERVICES if service.pull} < set(PUSH)


@pytest.mark.parametrize("service", PULL)
def test_the_target_branch_is_what_the_work_must_agree_with(before, monkeypatch, service):
    assert not ci.runs_us()
    assert found(before) == set()
    sets(monkeypatch, PULL[service])
    assert ci.runs_us()
    assert found(before) == BOTH
    before.git("reset", "-q", "--hard", "origin/main")
    assert found(before) == set()


@pytest.mark.parametrize("service", PULL)
def test_a_target_branch_that_was_not_fetched_is_never_silence(before, monkeypatch, service):
    sets(monkeypatch, PULL[service])
    before.git("update-ref", "-d", "refs/remotes/origin/main")
    before.git("update-ref", "-d", "refs/remotes/origin/HEAD")
    (blind,) = [one for one in examine(before.root, anchor="auto").findings if one.rule == "anchor-blind"]
    assert "the target branch main" in blind.message
    command = re.search("`(.*)`", blind.hint)[1]
    subprocess.run(shlex.split(command), cwd=before.top, check=True, capture_output=True)
    assert found(before) == BOTH


@pytest.mark.parametrize("service", PULL)
def test_the_hint_mends_a_shallow_checkout_of_one_branch(before, monkeypatch, tmp_path, service):
    before.git("reset", "-q", "--hard", "origin/main")
    before.log("the work")
    before.commit("the work")
    git(before.top, "branch", "main", "origin/main")
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=work", f"file://{before.top}", "shallow")
    job = Repo(tmp_path / "shallow")
    sets(monkeypatch, PULL[service])
    blind = [one for one in examine(job.root, anchor="auto").findings if one.rule == "anchor-blind"]
    assert len(blind) == 2
    for one in blind:
        command = re.search("`(.*?)`", one.hint)[1]
        subprocess.run(shlex.split(command), cwd=job.top, check=True, capture_output=True)
    assert found(job) == set()


@pytest.mark.parametrize("service", PUSH)
def test_a_job_for_a_push_has_no_target(before, monkeypatch, service):
    sets(monkeypatch, PULL[service] | PUSH[service])
    assert ci.runs_us()
    assert ci.target() is None
    assert found(before) == set()


def test_gitlab_names_a_commit_where_it_fetches_no_branch(before, monkeypatch):
    sets(monkeypatch, PULL["GitLab CI"] | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": before.git("rev-parse", "origin/main")})
    before.git("update-ref", "-d", "refs/remotes/origin/main")
    before.git("update-ref", "-d", "refs/remotes/origin/HEAD")
    assert found(before) == BOTH
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", "1" * 40)
    assert found(before) == {"anchor-blind"}


@pytest.mark.parametrize("name", ["-rf", "--output=x", "no such branch", "a;b", ""])
def test_a_branch_of_any_name_is_only_a_name(before, monkeypatch, name):
    sets(monkeypatch, PULL["GitHub Actions"] | {"GITHUB_BASE_REF": name})
    assert found(before) == ({"anchor-blind"} if name else set())


def test_outside_ci_a_variable_means_nothing(before, monkeypatch):
    for no in ("", "false", "0"):
        sets(monkeypatch, {"CI": no, "CHANGE_TARGET": "main", "GITHUB_BASE_REF": "main"})
        assert ci.target() is None
