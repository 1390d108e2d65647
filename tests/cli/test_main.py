"""The frame of the command line: its help, its errors, its exit codes."""

import json
import subprocess
import sys

import pytest

import onward as package
from onward.cli.main import _COMMANDS
from onward.cli.main import main as command_line  # noqa: F401 - imported before its modules are looked at


def in_a_process(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


def test_help_names_every_command_and_imports_none_of_their_needs():
    ran = in_a_process(
        "import json, sys\nfrom onward.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: print(json.dumps(sorted(sys.modules)))"
    )
    *shown, modules = ran.stdout.splitlines()
    assert all(any(line.split()[:1] == [name] for line in shown) for name in _COMMANDS)
    slow = {
        "asyncio",
        "importlib.metadata",
        "msgspec",
        "onward.app",
        "onward.clients.sync.client",
        "psycopg",
        "sqlite3",
    }
    assert slow.isdisjoint(json.loads(modules))


def test_the_help_of_a_command_is_the_one_that_the_overview_shows(onward):
    for name, (_, text) in _COMMANDS.items():
        shown = onward(name, "--help")
        assert shown.code == 0
        assert text.split()[0] in shown.out


def test_an_unknown_command_is_told_its_nearest_neighbour(onward):
    ran = onward("worke")
    assert ran.code == 2
    assert 'there is no command "worke". Did you mean "worker"?' in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "app:app"], "To run jobs: onward worker app:app"),
        (["start"], "To run jobs: onward worker APP"),
        (["retry", "x"], "To run dead jobs again: onward dead replay GROUP|JOB --reason …"),
        (["jobs"], "It is not on the command line yet: app.client.jobs.list()"),
        (["cancel", "x"], "It is not on the command line yet: app.client.jobs.cancel(id, reason=…)"),
        (["prun"], "onward --help lists them."),
    ],
)
def test_a_word_of_other_queues_is_told_what_to_do_and_never_to_remove_anything(onward, words, told):
    ran = onward(*words)
    assert ran.code == 2
    assert f'there is no command "{words[0]}". {told}' in " ".join(ran.err.split())


def test_the_package_can_be_run_as_a_module():
    ran = subprocess.run(
        [sys.executable, "-m", "onward", "version"], capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith(f"onward {package.__version__} (Python 3.")


def test_the_version_is_an_option_too(onward):
    assert onward("--version") == onward("version")


def test_a_missing_extra_is_one_line_with_the_command_that_installs_it():
    ran = in_a_process(
        "import sys\nsys.modules.update(psycopg=None, psycopg_pool=None)\nfrom onward.cli.main import main\n"
        "main(['migrate', '--url', 'postgresql://db/app'])"
    )
    assert ran.returncode == 2
    [line] = ran.stderr.splitlines()
    assert line.startswith("error ON-SET-002: ")
    assert 'pip install "' in line


def test_an_interrupted_command_ends_with_130_and_says_nothing(onward, folder):
    (folder / "app.py").write_text("raise KeyboardInterrupt")
    assert onward("worker", "app:app") == (130, "", "\n")


def test_output_that_nobody_reads_is_no_error(folder):
    ran = subprocess.run(
        f'"{sys.executable}" -m onward migrate --plan --url sqlite:///x.db | head -1',
        shell=True, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert ran.stdout.startswith("-- migration 0001")
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
