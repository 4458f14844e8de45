# SPDX-License-Identifier: Apache-2.0
"""Running the program, and what every failure of it owes."""
import ctypes
import hashlib
import os
import subprocess

PROGRAM = os.environ.get("CLATTN", "")
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def start(*arguments, **options):
    """The program as a process of its own, in folder `cwd`."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdin", subprocess.DEVNULL)
    environment = dict(os.environ, **options.pop("env", {}))
    return subprocess.Popen([PROGRAM, *map(str, arguments)], env=environment, **options)


def run(*arguments, **options):
    process = start(*arguments, **options)
    stdout, stderr = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, (stdout or b"").decode(), (stderr or b"").decode())


def succeed(*arguments, **options):
    result = run(*arguments, **options)
    assert result.returncode == 0, result
    return result


def listing(folder):
    """Everything in a folder: names, kinds, contents."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            full = os.path.join(path, name)
            if os.path.islink(full):
                found[os.path.relpath(full, folder)] = "-> " + os.readlink(full)
            elif os.path.isfile(full):
                with open(full, "rb") as file:
                    found[os.path.relpath(full, folder)] = hashlib.sha256(file.read()).hexdigest()
            else:
                found[os.path.relpath(full, folder)] = "other"
    return found


def refuse(status, folder, *arguments, says=(), stdout_file=subprocess.PIPE, before_command=False, **options):
    """The program fails with `status` and one line that has all of `says`, and leaves `folder`, where it runs, as it was.
    before_command: what is wrong is met before the command is known."""
    before = listing(folder)
    options["stdout"] = stdout_file
    result = run(*arguments, cwd=folder, **options)
    assert result.returncode == status, result
    assert result.stdout == "", result
    assert result.stderr.endswith("\n") and len(result.stderr.splitlines()) == 1, result
    command = next((a for a in map(str, arguments) if a in ("devices", "sdpa", "mha", "init")), None)
    named = command and not before_command
    assert result.stderr.startswith(f"clattn: {command}: " if named else "clattn: "), result
    for text in [says] if isinstance(says, str) else says:
        assert text in result.stderr, (text, result)
    assert listing(folder) == before, (before, listing(folder), result)
    return result.stderr


def without_privileges():
    """In the process of the program: permission bits mean nothing to root, so it gives up the capabilities by which that is so
    (CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH). Another user might not reach the program."""
    if os.geteuid() == 0:
        PR_CAPBSET_DROP = 24
        for capability in (1, 2):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
