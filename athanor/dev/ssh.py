"""An ssh server in a development pod, for editors: the image's own sshd, as the pod's user, for one public key."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import printable
from athanor.runs.job import exec_words, started_pod
from infra.errors import RefusalError

if TYPE_CHECKING:
    from pathlib import Path

    from athanor.runs.cluster import Cluster

PORT = 2222
"""Port in the pod, only on its loopback address, which kubectl port-forward reaches."""
_PLACE = "/tmp/athanor-ssh"  # noqa: S108 - in a pod of its own
_NO_SERVER = 69
_START_SECONDS = 60
_KINDS = ("ssh-", "ecdsa-", "sk-")
# Sources: OpenSSH 9.2, man pages of sshd and sshd_config. As in an MPI worker (workloads/mpi.py), a session has next to
# nothing of the container's environment, so it reads it from a file. sftp is a program by its path: the session's shell
# would not find the server's own.
_SCRIPT = """
place="$1" folder="$2"
server="$(command -v sshd || echo /usr/sbin/sshd)"
[ -x "$server" ] && command -v ssh-keygen >/dev/null || exit 69
set -e
umask 077
mkdir -p "$place"
cat > "$place/keys"
[ -s "$place/host" ] || ssh-keygen -q -t ed25519 -N '' -f "$place/host"
export -p > "$place/environment"
cat > "$place/session" <<END
. "$place/environment"
cd "$folder"
[ -z "\\$SSH_ORIGINAL_COMMAND" ] || { eval "\\$SSH_ORIGINAL_COMMAND"; exit; }
command -v bash >/dev/null && exec bash
exec sh
END
for each in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh; do
    [ -x "$each/sftp-server" ] && files="$each/sftp-server"
done
grep -qsx sshd "/proc/$(cat "$place/pid" 2>/dev/null)/comm" || "$server" -f none -p PORT -E "$place/log" \
    -oListenAddress=127.0.0.1 -oHostKey="$place/host" -oAuthorizedKeysFile="$place/keys" -oPidFile="$place/pid" \
    -oStrictModes=no -oUsePAM=no -oPasswordAuthentication=no -oKbdInteractiveAuthentication=no -oPermitRootLogin=no \
    -oX11Forwarding=no -oLogLevel=ERROR -oSubsystem="sftp ${files:-none}" -oForceCommand=". $place/session"
id -un
cat "$place/host.pub"
""".replace("PORT", str(PORT))


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server as its clients need to know it."""

    user: str
    host_key: str
    """Its kind and the key itself, as in a file of known hosts."""


def public_key(file: Path) -> str:
    """Return the line of a file with a public key.

    Raises:
        RefusalError: there is no such file, or it has no public key.
    """
    try:
        line = file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        fix = "create one with `ssh-keygen -t ed25519`, or name another"
        raise RefusalError("--ssh-key", str(file), f"cannot be read ({error.strerror})", fix) from None
    if "\n" in line or not line.startswith(_KINDS):
        fix = "name the file whose name ends with .pub; the private key stays on this machine"
        raise RefusalError("--ssh-key", str(file), "is not a public key of OpenSSH in one line", fix)
    return line


def start_server(cluster: Cluster, job_name: str, folder: str, key: str) -> Server:
    """Start the server in the pod of a job unless it runs; the key reaches it through standard input.

    Raises:
        RefusalError: the pod does not run, or its image has no server.
    """
    pod = started_pod(cluster, job_name)
    if pod is None:
        raise RefusalError("pod", job_name, "does not run any more", "run the command again")
    words = [*exec_words(cluster, pod), "sh", "-c", _SCRIPT, "ssh", _PLACE, folder]
    try:
        done = subprocess.run(
            words, input=f"{key}\n", capture_output=True, text=True, check=False, timeout=_START_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RefusalError("--ssh", job_name, f"did not start in {_START_SECONDS} s", "try again") from None
    if done.returncode == _NO_SERVER:
        image = pod["spec"]["containers"][0].get("image", "")
        fix = "install openssh-server in the image, take the platform's, or omit --ssh"
        raise RefusalError("--ssh", image, "is an image without sshd and ssh-keygen", fix)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) < 2:
        said = printable((done.stderr.strip().splitlines() or ["the server said nothing"])[-1])
        raise RefusalError("--ssh", job_name, f"did not start: {said}", "look at `athanor shell`, or omit --ssh")
    return Server(user=printable(lines[-2]), host_key=printable(" ".join(lines[-1].split()[:2])))


def write_entry(file: Path, host: str, server: Server, port: str, key_file: Path) -> None:
    """Write a host for ~/.ssh/config, and next to it the pod's key, by which the client knows it.

    Args:
        file: The entry's own, which `Include` or `ssh -F` names.
        host: Its name.
        server: What runs in the pod.
        port: On 127.0.0.1.
        key_file: The public key; the client looks for the private one next to it, or in its agent.
    """
    known = file.with_suffix(".known_hosts")
    known.write_text(f"{host} {server.host_key}\n", encoding="utf-8")
    lines = [
        f"Host {host}",
        "    HostName 127.0.0.1",
        f"    Port {port}",
        f"    User {server.user}",
        f'    IdentityFile "{key_file.with_suffix("") if key_file.suffix == ".pub" else key_file}"',
        f"    HostKeyAlias {host}",
        f'    UserKnownHostsFile "{known}"',
        "    StrictHostKeyChecking yes",
    ]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
