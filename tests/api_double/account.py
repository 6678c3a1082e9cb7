"""Everything that exists in the pretended account, and how it changes with time."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.api_double.cluster_side import NoCluster
from tests.api_double.protocol import ApiError
from tests.api_double.signatures import Credential
from tools.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.api_double.cluster_side import ClusterSide

ACCOUNT_ID = "1012345678901234"
ACCESS_KEY_ID = "LTAIathanordouble"
ACCESS_KEY_SECRET = "not-a-secret"  # noqa: S105 - opens nothing but the double
SETTLING_READS = 1
"""One shows every passing state; each more costs a caller that polls seconds."""

Record: TypeAlias = dict[str, Any]
"""One object, as the API would return it, plus what the double itself notes under names that start with "_"."""
Reference: TypeAlias = tuple[str, str]
"""An object by kind and id."""

_ID_PREFIXES = {
    "vpc": "vpc-bp1",
    "route_table": "vtb-bp1",
    "vrouter": "vrt-bp1",
    "vswitch": "vsw-bp1",
    "nat_gateway": "ngw-bp1",
    "snat_table": "stb-bp1",
    "forward_table": "ftb-bp1",
    "snat_entry": "snat-bp1",
    "eip": "eip-bp1",
    "security_group": "sg-bp1",
    "security_group_rule": "sgr-bp1",
    "deployment_set": "ds-bp1",
    "instance": "i-bp1",
    "disk": "d-bp1",
    "network_interface": "eni-bp1",
    "load_balancer": "lb-bp1",
    "scaling_group": "asg-bp1",
    "file_system": "0",
    "protocol_service": "ptc-",
    "export": "exp-",
    "mount_target": "",
    "access_rule": "",
    "role": "",
    "session": "",
    "cluster": "c",
    "node_pool": "np",
    "task": "T-",
}
_HEX_LENGTHS = {
    "cluster": 32,
    "node_pool": 32,
    "task": 24,
    "file_system": 9,
    "protocol_service": 16,
    "export": 16,
    "mount_target": 5,
}
"""Ids that are hexadecimal; the others have 18 digits and letters."""
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class _Tables:
    """What is kept in the file."""

    records: dict[str, dict[str, Record]] = field(default_factory=dict[str, dict[str, Record]])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    sessions: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])


class Account:
    """The account's objects by kind and id, kept in a file where one is named.

    A record may be in a passing state: `begin` sets fields now and others after it has been read some times, so that
    nothing needs to wait for a clock. A record may use others (`uses`): who is used can be asked, and so not deleted.
    Handlers run under `lock`, one at a time; a record they hold may be changed in place.

    Args:
        file: where the objects are kept over restarts; None keeps them in memory.
        settling_reads: how often an object is seen in a passing state ("Pending", "Deleting") before it leaves it.
    """

    def __init__(self, file: Path | None = None, *, settling_reads: int = SETTLING_READS) -> None:
        self.lock = threading.RLock()
        self.id = ACCOUNT_ID
        self.kubernetes: ClusterSide = NoCluster()
        """The Kubernetes side of clusters and node pools."""
        self.standing_still: set[str] = set()
        """Kinds of objects that do not leave their passing states."""
        self.applied_for: set[str] = {"pre_user_data"}
        """Features that the account may use because it applied for them in the Quota Center."""
        self._file = file
        self._settling_reads = settling_reads
        self._saved = ""
        self._tables = _Tables()
        if file is not None and file.exists():
            self._saved = file.read_text(encoding="utf-8")
            self._tables = _Tables(**json.loads(self._saved))

    def save(self) -> None:
        """Write what has changed since the last time; a kill at any moment leaves the old content or the new."""
        if self._file is None:
            return
        text = json.dumps(vars(self._tables))
        if text != self._saved:
            write_atomically(self._file, text)
            self._saved = text

    def new_id(self, kind: str) -> str:
        """Return an id that looks like the cloud's and was never given before."""
        count = self._tables.counters[kind] = self._tables.counters.get(kind, 0) + 1
        digest = hashlib.sha256(f"{kind}/{count}".encode()).hexdigest()
        prefix = _ID_PREFIXES[kind]
        if kind in _HEX_LENGTHS:
            return prefix + digest[: _HEX_LENGTHS[kind]]
        number, text = int(digest, 16), ""
        for _ in range(18):
            number, place = divmod(number, 36)
            text += _BASE36[place]
        return prefix + text

    # -- keys ------------------------------------------------------------------------------------------------------

    def credential(self, access_key_id: str) -> Credential | None:
        """Return what belongs to an access key, or None where there is no such key."""
        if access_key_id == ACCESS_KEY_ID:
            return Credential(ACCESS_KEY_SECRET)
        session = self._tables.sessions.get(access_key_id)
        return Credential(*session) if session else None

    def add_session(self, access_key_id: str, credential: Credential) -> None:
        """Let a temporary access key be used."""
        self._tables.sessions[access_key_id] = list(credential)

    def end_session(self, access_key_id: str) -> None:
        """Let a temporary access key be one that has expired."""
        session = self._tables.sessions.get(access_key_id)
        if session:
            self._tables.sessions[access_key_id] = list(Credential(*session)._replace(expired=True))

    # -- objects ---------------------------------------------------------------------------------------------------

    def add(self, kind: str, identifier: str, record: Record, *, uses: Iterable[Reference] = ()) -> Record:
        """Keep an object and return it; what it uses cannot be deleted before it."""
        record["_uses"] = [list(reference) for reference in uses]
        self._tables.records.setdefault(kind, {})[identifier] = record
        return record

    def find(self, kind: str, identifier: str) -> Record | None:
        """Return an object as it is, or None; no time passes for it."""
        return self._tables.records.get(kind, {}).get(identifier)

    def all(self, kind: str) -> dict[str, Record]:
        """Return all objects of a kind by id; no time passes for them."""
        return dict(self._tables.records.get(kind, {}))

    def read(self, kind: str, identifier: str) -> Record | None:
        """Return a copy of an object as it is seen now, or None; counts as a read, which a passing state ends after."""
        record = self.find(kind, identifier)
        if record is None or not self._step(kind, identifier, record):
            return None
        return public(record)

    def read_all(self, kind: str, matches: Callable[[Record], bool] = lambda _: True) -> list[Record]:
        """Return copies of the objects that match, in the order of their creation; counts as a read of each."""
        return [
            public(record)
            for identifier, record in self.all(kind).items()
            if matches(record) and self._step(kind, identifier, record)
        ]

    def remove(self, kind: str, identifier: str) -> None:
        """Forget an object."""
        self._tables.records.get(kind, {}).pop(identifier, None)

    def begin(
        self,
        kind: str,
        identifier: str,
        now: Mapping[str, Any],
        then: Mapping[str, Any] | None,
    ) -> None:
        """Put an object into a passing state: fields now, and after some reads others, or None for its end."""
        record = self._tables.records[kind][identifier]
        record.update(now)
        record["_then"] = {"reads": self._settling_reads, "fields": None if then is None else dict(then)}

    def _step(self, kind: str, identifier: str, record: Record) -> bool:
        """Let one read pass for an object; tell whether it still exists."""
        pending: dict[str, Any] | None = record.get("_then")
        if pending is None or kind in self.standing_still:
            return True
        if pending["reads"] > 0:
            pending["reads"] -= 1
            return True
        del record["_then"]
        if pending["fields"] is None:
            self.remove(kind, identifier)
            return False
        record.update(pending["fields"])
        return True

    # -- who uses what ---------------------------------------------------------------------------------------------

    def use(self, kind: str, identifier: str, references: Iterable[Reference]) -> None:
        """Replace the list of what an object uses."""
        self._tables.records[kind][identifier]["_uses"] = [list(reference) for reference in references]

    def users(self, kind: str, identifier: str) -> list[Reference]:
        """Return the objects that use this one; for those that are being deleted it counts as a read."""
        candidates = [
            (user_kind, user, record)
            for user_kind, records in self._tables.records.items()
            for user, record in records.items()
            if [kind, identifier] in record["_uses"]
        ]
        return [
            (user_kind, user)
            for user_kind, user, record in candidates
            if "_then" not in record or record["_then"]["fields"] is not None or self._step(user_kind, user, record)
        ]

    # -- repeated calls --------------------------------------------------------------------------------------------

    def answer_once(self, token: str, operation: str, content: object, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
        """Return the answer of the first call with a client token, or make it.

        Raises:
            ApiError: IdempotentParameterMismatch, where the token was used for a call that was another one.
        """
        if not token:
            return make()
        digest = hashlib.sha256(json.dumps([operation, content], sort_keys=True).encode()).hexdigest()
        known = self._tables.answers.get(token)
        if known is None:
            answer = make()
            self._tables.answers[token] = {"digest": digest, "answer": copy.deepcopy(answer)}
            return answer
        if known["digest"] != digest:
            raise ApiError(
                400,
                "IdempotentParameterMismatch",
                f"The client token {token!r} was already used for a request with other parameters.",
            )
        return copy.deepcopy(known["answer"])

    # -- looking in from outside -----------------------------------------------------------------------------------

    def inventory(self) -> dict[str, list[str]]:
        """Return the ids of what exists, by kind; kinds without any are left out."""
        identifiers: defaultdict[str, list[str]] = defaultdict(list)
        for kind, records in self._tables.records.items():
            for identifier in records:
                identifiers[kind].append(identifier)
        return dict(identifiers)


def public(record: Record) -> Record:
    """Return a copy of an object without what only the double knows."""
    return {name: copy.deepcopy(value) for name, value in record.items() if not name.startswith("_")}


def timestamp() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def request_id() -> str:
    """Return an id of one call, as every answer carries."""
    return str(uuid.uuid4()).upper()
