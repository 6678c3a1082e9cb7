"""Running other programs: nothing they say is lost, and a failure shows its end."""

import signal
import subprocess
import sys

import pytest

from tests.fixtures.recorded_stack import REPOSITORY
from tests.processes import until_ended
from tests.tables import each_row
from tools.process import TAIL_CHARACTERS, CommandError, ProgramTimeoutError, run


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@each_row(
    ("code", "output"),
    [
        ("print('out'); print('err', file=sys.stderr)", "out\n"),
        # Without input, a program never waits for the terminal.
        ("print(repr(sys.stdin.read()))", "''\n"),
        # Bytes that are not text do not end the run.
        ("sys.stdout.buffer.write(b'a\\xffb')", "a\ufffdb"),
    ],
)
def test_the_standard_output_is_returned(code, output):
    assert run(_python(f"import sys; {code}")) == output


def test_variables_are_added_to_this_processs_own(monkeypatch):
    monkeypatch.setenv("INHERITED", "a")
    code = "import os; print(os.environ['INHERITED'] + os.environ['ADDED'])"
    assert run(_python(code), env={"ADDED": "b"}) == "ab\n"


def test_input_and_folder_are_given(tmp_path):
    code = "import os, sys; print(os.getcwd(), sys.stdin.read())"
    assert run(_python(code), cwd=tmp_path, stdin="words") == f"{tmp_path} words\n"


def test_a_failure_reports_command_status_and_the_end_of_its_output():
    code = "import sys; print('start' + 5000 * 'x' + 'END'); print('why', file=sys.stderr); sys.exit(3)"
    with pytest.raises(CommandError) as caught:
        run(_python(code))
    error = caught.value
    assert error.status == 3
    assert "status 3" in str(error)
    assert "why" in str(error)
    assert "END" in str(error)
    assert "start" in error.output
    assert len(str(error)) < TAIL_CHARACTERS + 500


def test_a_log_holds_everything_in_order(tmp_path):
    log = tmp_path / "logs" / "program.log"
    run(_python("print('first')"), log=log)
    with pytest.raises(CommandError, match="whole log"):
        run(_python("import sys; sys.exit('second')"), log=log)
    text = log.read_text()
    assert text.index("first") < text.index("[status 0]") < text.index("second") < text.index("[status 1]")
    assert text.count("$ ") == 2


def test_a_program_that_hangs_is_killed():
    with pytest.raises(ProgramTimeoutError, match=r"did not end within 0\.2 s"):
        run(_python("import threading; threading.Event().wait()"), timeout_seconds=0.2)


def test_no_shell_reads_the_words():
    assert run([sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id); a b"]) == "$(id); a b\n"


_PARENT = """
import os, signal, subprocess, sys
child = '''
import signal, subprocess, sys
from tools.process import end_with
end_with(int(sys.argv[1]))
compiler = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
print(compiler.pid, flush=True)
signal.pause()
'''
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which a run of the tests by nohup has ignored
subprocess.Popen([sys.executable, "-c", child, str(os.getpid())], start_new_session=True)
signal.pause()
"""


@each_row("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_make_up_leaves_no_compiler(how):
    with subprocess.Popen([sys.executable, "-c", _PARENT], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        compiler = int(parent.stdout.readline())
        parent.send_signal(how)
    until_ended(compiler)


def test_a_process_whose_parent_is_gone_already_does_not_begin():
    program = "import os; from tools.process import end_with; end_with(os.getppid() + 1)"
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=False).returncode == 1
